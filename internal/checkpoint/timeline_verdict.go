package checkpoint

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// end says how an attempt ended.
func (h *history) end(n int64) (text string, at *time.Time) {
	if r, ok := h.final[n]; ok {
		t := timeOf(r.Time)
		switch {
		case r.Kind == StoppingRecord:
			return fmt.Sprintf("was ending: its final snapshot %s stands, not all of its commits are known to have returned", r.Snapshot), &t
		case r.Outcome == Canceled:
			return "canceled, its checkpoints were deleted", &t
		}
		return string(r.Outcome), &t
	}
	_, chose := h.restored[n]
	next := h.after(n)
	switch {
	case next == 0 && !chose:
		return "has chosen nothing yet, was refused, or died before", nil
	case next == 0:
		return "runs, or ended without a word", nil
	case !chose:
		return fmt.Sprintf("chose nothing, was refused, or died before attempt %d came", next), nil
	}
	a, b := h.claims[n], h.claims[next]
	if a.Host == b.Host && a.PID == b.PID && a.Process == b.Process {
		return fmt.Sprintf("failed, and was restarted in the process as attempt %d", next), nil
	}
	return fmt.Sprintf("ended without a word before attempt %d", next), nil
}

// after is the next attempt that claimed, 0 for none.
func (h *history) after(n int64) (next int64) {
	for m := range h.claims {
		if m > n && (next == 0 || m < next) {
			next = m
		}
	}
	return next
}

// whyVoid says why a snapshot is not alive.
func (h *history) whyVoid(f *found) string {
	s := f.ref
	if h.running == 0 {
		return "no start is on record that can have written it"
	}
	if h.misses(f.meta) {
		return fmt.Sprintf("the ledger knows nothing of attempt %d, which wrote it: records at its end are missing", s.Attempt)
	}
	if !h.owns(s) {
		return fmt.Sprintf("it was written by another job or into another directory (lineage %s)", s.Lineage)
	}
	if attempt := h.begunAnew(s.Attempt); attempt != 0 {
		return fmt.Sprintf("a start with --fresh has begun another lineage (%s) since", h.claims[attempt].Lineage)
	}
	for attempt := h.running; attempt != 0; {
		from := h.restored[attempt].Snapshot
		switch {
		case from == nil:
			return fmt.Sprintf("attempt %d began from nothing", attempt)
		case from.Attempt < s.Attempt || from.Attempt == s.Attempt && from.ID < s.ID:
			return fmt.Sprintf("attempt %d began from %s, before it", attempt, from)
		case !h.owns(*from) || from.Attempt >= attempt:
			return fmt.Sprintf("attempt %d began from %s, which does not stem from it", attempt, from)
		}
		attempt = from.Attempt
	}
	return "the newest attempt does not stem from it"
}

// begunAnew is the newest start with --fresh after an attempt, on the chain of
// what the newest attempt began from, 0 for none.
func (h *history) begunAnew(after int64) int64 {
	for attempt := h.running; attempt > after; {
		r := h.restored[attempt]
		switch {
		case r.Snapshot != nil && r.Snapshot.Attempt < attempt:
			attempt = r.Snapshot.Attempt
		case r.Snapshot == nil && r.Explicit && r.Request != nil && r.Request.Fresh:
			return attempt
		default: // from nothing, by itself: perhaps after a start with --fresh that did not get far
			attempt--
		}
	}
	return 0
}

// next is what a start without flags would do.
func (s *start) next(ctx context.Context, broken error) (NextStart, error) {
	if broken != nil { // part of the picture, not a failure to look
		s.barred = true
		next, err := refusal(s.refuseLedger(broken))
		next.Ledger = true
		return next, err
	}
	if err := s.checkLedger(ctx); err != nil {
		s.barred = s.view.running != 0 // without any start -s is a way out
		next, err := refusal(err)
		next.Ledger = true
		return next, err
	}
	if err := s.checkCopy(ctx); err != nil {
		s.barred = true
		next, err := refusal(err)
		next.Ledger = true
		return next, err
	}
	if err := s.view.ended(); err != nil && s.view.final[s.view.running].Outcome == Canceled {
		return NextStart{Does: WasCanceled, Why: err.Error()}, nil
	}
	from, err := s.goOn(ctx)
	all := s.view.continuation()
	switch {
	case err != nil && !errors.Is(err, ErrFinished) && !errors.Is(err, ErrRefused) && len(all) > 0 && all[0].ref.External:
		return NextStart{Does: CannotBeTold, From: &all[0].ref, Why: err.Error()}, nil
	case err != nil:
		return refusal(err)
	case from.found == nil:
		return NextStart{Does: BeginsFromNothing}, nil
	}
	return NextStart{Does: GoesOn, From: &from.ref}, nil
}

func refusal(err error) (NextStart, error) {
	switch {
	case errors.Is(err, ErrFinished):
		return NextStart{Does: HasFinished, Why: err.Error()}, nil
	case errors.Is(err, ErrRefused):
		return NextStart{Does: IsRefused, Why: whyRefused(err)}, nil
	}
	return NextStart{}, err
}

// whyRefused is a refusal without saying that it is one.
// whyRefused is the error without what a list says anyway: the job, and that it
// is refused.
func whyRefused(err error) string {
	if _, why, ok := strings.Cut(err.Error(), ErrRefused.Error()+": "); ok {
		return why
	}
	return err.Error()
}

// snapshots lists the snapshots in the job's directory, and those elsewhere
// that the ledger names, by id.
func (s *start) snapshots(ctx context.Context, next *Ref) ([]TimelineSnapshot, error) {
	var out []TimelineSnapshot
	for i := range s.view.found {
		f := &s.view.found[i]
		t := s.verdict(f, next)
		t.Bytes = sum(s.dirs[f.ref.ID])
		if f.meta != nil {
			t.Bytes += f.meta.SharedBytes()
			if err := s.inspect(ctx, origin{found: f, blobs: s.Blobs, dir: f.ref.Path}, &t); err != nil {
				return nil, err
			}
		}
		out = append(out, t)
	}
	for _, ref := range s.view.external(out) {
		from, err := s.loadExternal(ctx, ref.Path, &ref)
		if err != nil {
			out = append(out, TimelineSnapshot{Ref: ref, Alive: s.view.alive(ref), Damage: err.Error(), Refused: err.Error()})
			continue
		}
		t := s.verdict(from.found, next)
		for _, f := range from.meta.Files {
			t.Bytes += f.Size
		}
		if err := s.inspect(ctx, from, &t); err != nil {
			return nil, err
		}
		out = append(out, t)
	}
	slices.SortStableFunc(out, func(a, b TimelineSnapshot) int { return cmp.Compare(a.ID, b.ID) })
	return out, nil
}

// external are the snapshots elsewhere that records name, but for those that
// are here as well, and whole.
func (v *view) external(here []TimelineSnapshot) []Ref {
	var out []Ref
	add := func(r *Ref) {
		whole := func(s TimelineSnapshot) bool { return s.Damage == "" && s.same(*r) }
		if r != nil && r.External && !slices.ContainsFunc(out, r.same) && !slices.ContainsFunc(here, whole) {
			out = append(out, *r)
		}
	}
	for _, n := range sortedKeys(v.claims) {
		add(v.restored[n].Snapshot)
		add(v.final[n].Snapshot)
	}
	return out
}

// inspect looks at the data files.
func (s *start) inspect(ctx context.Context, from origin, t *TimelineSnapshot) error {
	err := complete(ctx, from.blobs, from.dir, from.meta)
	if err == nil {
		err = s.verify(ctx, from)
	}
	if err == nil {
		return nil
	}
	if !corrupt(err) {
		return err
	}
	t.Damage, t.Refused = err.Error(), "it is damaged"
	t.Restore, t.Cost, t.Next = "", "", false
	return nil
}

// verdict says what a snapshot is good for, as far as its _metadata tells.
func (s *start) verdict(f *found, next *Ref) TimelineSnapshot {
	t := TimelineSnapshot{Ref: f.ref, Committed: f.committed}
	if f.meta == nil {
		t.Damage, t.Refused = f.err.Error(), "it cannot be read"
		return t
	}
	m := f.meta
	t.Kind, t.Completed, t.Deletes = m.Kind, timeOf(m.Completed), m.Deletes
	open := s.view.unproven(f)
	for _, op := range m.Operators {
		t.Committables += len(op.Committables)
		for _, c := range open[op.ID] {
			t.Open = append(t.Open, OpenCommittable{op.ID, op.CommittableFormat, c.Checkpoint, c.Subtask, c.Data})
		}
	}
	if t.Alive = s.view.alive(f.ref); !t.Alive {
		t.Void = s.view.whyVoid(f)
	}
	if t.Next = next != nil && next.same(f.ref); t.Next {
		return t
	}
	if s.barred {
		t.Refused = "the ledger is refused"
		return t
	}
	var err error
	if t.Restore, t.Cost, err = s.view.wayTo(f); err != nil {
		t.Refused = whyRefused(err)
	}
	return t
}
