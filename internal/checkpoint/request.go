package checkpoint

import (
	"path"

	"github.com/weirstream/weir/internal/snapshot"
)

// A request is carried out once: a supervisor repeats the flags of a command,
// and must not go back each time, whatever was asked for by hand in between.
// Who means it once more says which time it is: --rewind=2.

// carriedOut returns the attempt that has done what is requested, 0 if none
// has. names is the snapshot at the request's path, nil if it was not looked
// at. --fresh counts anew once the job has finished.
func (h *history) carriedOut(req RestoreRequest, names *Ref) (attempt int64) {
	if outcome := h.final[h.running].Outcome; req.Fresh && (outcome == Finished || outcome == Canceled) {
		return 0
	}
	for _, r := range h.restored {
		if r.Explicit && r.Request != nil && r.Request.flags() == req.flags() && r.went(req.Path, names) {
			attempt = max(attempt, r.Attempt)
		}
	}
	return attempt
}

// flags are the request without its place.
func (r RestoreRequest) flags() RestoreRequest {
	r.Path = ""
	return r
}

// went reports whether a restored record went to the place: by its path,
// however it was spelled, or since the same snapshot lay there.
func (r Record) went(place string, names *Ref) bool {
	return directoryOf(r.Request.Path) == directoryOf(place) || names != nil && r.Snapshot != nil && r.Snapshot.same(*names)
}

func directoryOf(place string) string {
	if path.Base(place) == snapshot.MetadataName {
		place = path.Dir(place)
	}
	return place
}

// again is the request, numbered so that it is not carried out yet.
func (h *history) again(req RestoreRequest, names *Ref) RestoreRequest {
	for h.carriedOut(req, names) != 0 {
		if req.Path != "" && !req.Rewind {
			req.Rewind = true
			continue
		}
		req.Nth = max(req.Nth, 1) + 1
	}
	return req
}

// restoreFlags are the flags that make a start begin from a snapshot, even if
// one did before.
func (o *StartOptions) restoreFlags(h *history, r Ref, rewind bool) string {
	return h.again(RestoreRequest{Path: o.userPath(r), Rewind: rewind}, &r).String()
}

// wayTo returns the flags that make a start begin from a snapshot, and what that
// costs. The error says why no flags do.
func (v *view) wayTo(s *found) (flags, cost string, err error) {
	rewind := false
	if _, err = v.explicit(s, rewind); err != nil {
		rewind = true
		cost, err = v.explicit(s, rewind)
	}
	if err != nil {
		return "", "", err
	}
	return v.opts.restoreFlags(v.history, s.ref, rewind), cost, nil
}

// done tells that what is requested was carried out before.
func (s *start) done(attempt int64, names *Ref) {
	s.Logger.Warn("going on as without flags: what the flags ask for was done by an earlier attempt, and is done once, for a supervisor repeats them",
		"flags", s.req.String(), "attempt", attempt, "to do it once more", s.view.again(s.req, names).String())
}
