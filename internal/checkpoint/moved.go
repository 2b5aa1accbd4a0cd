package checkpoint

import (
	"context"
	"fmt"
	"slices"

	"github.com/weirstream/weir/internal/snapshot"
	"github.com/weirstream/weir/internal/stage"
)

// Once a start to another place is on record the job stands there, whatever
// becomes of the start. So what can be known before is asked before; and what
// fails after it says where the job stands.

// prepare has the job look at what was chosen, and the sinks at what a request
// would have them commit.
func (s *start) prepare(ctx context.Context, a *Attempt) error {
	if s.Prepare == nil {
		return nil
	}
	committers, err := s.Prepare(ctx, a)
	if err != nil {
		return err
	}
	if err := a.lacksNone(committers); err != nil || !a.from.explicit {
		return err
	}
	return a.inspect(ctx, committers)
}

// lacksNone refuses a job without a sink whose committables are not committed.
func (a *Attempt) lacksNone(committers map[string]stage.Committer) error {
	for _, op := range sortedKeys(a.open) {
		if committers[op] == nil {
			return refuse("job %s in %s: snapshot %s holds %s, not known to be committed, and the job has no such sink that commits any more: their output would never be published. "+
				"Start the job with the sink once and suspend it, which costs nothing (if that start finds them lost, it takes --accept-loss %d); then take the sink out. If it cannot be started, %s", a.begun.Job, a.begun.Blobs, a.from.ref,
				a.begun.describe(map[string][]snapshot.Committable{op: a.open[op]}), a.from.ref.ID, a.begun.byHand())
		}
	}
	return nil
}

// inspect returns a LossError if sinks know that committables are lost, and
// that was not accepted.
func (a *Attempt) inspect(ctx context.Context, committers map[string]stage.Committer) error {
	var losses []Loss
	var causes []error
	for _, op := range sortedKeys(a.open) {
		inspector, ok := committers[op].(stage.Inspector)
		if !ok {
			continue
		}
		err := inspector.Inspect(ctx, payloads(a.open[op]))
		lost, settled := lossesOf(op, a.open[op], err)
		if !settled {
			return fmt.Errorf("ask sink %s for what snapshot %s holds: %w", op, a.RestoredDir, err)
		}
		losses, causes = append(losses, lost...), append(causes, err)
	}
	return a.notAccepted(ctx, losses, causes)
}

// left finds out what the job has left, if it is at a place that a request has
// chosen: in this start, or in the attempt moved, since which none has got any
// further.
func (s *start) left(from origin) (left *candidate, moved int64) {
	v := *s.view
	if moved = s.claim.Attempt; !from.explicit {
		if moved = v.chosen(from.found); moved == 0 {
			return nil, 0
		}
		v.history = s.ledger.before(moved)
	}
	all := v.continuation()
	if len(all) == 0 || from.found != nil && all[0].ref.same(from.ref) {
		return nil, 0
	}
	return &all[0], moved
}

// chosen returns the attempt that went to a snapshot (nil for nothing) because
// a request said so, if all attempts that began since have begun from the same
// one, 0 if not.
func (h *history) chosen(at *found) int64 {
	for _, n := range slices.Backward(sortedKeys(h.restored)) {
		r := h.restored[n]
		switch {
		case (r.Snapshot == nil) != (at == nil), at != nil && !r.Snapshot.same(at.ref):
			return 0
		case r.Explicit:
			return n
		}
	}
	return 0
}

// before returns what the ledger said before an attempt.
func (l *ledger) before(attempt int64) *history {
	l.mu.Lock()
	defer l.mu.Unlock()
	h := newHistory(slices.DeleteFunc(slices.Clone(l.records), func(r Record) bool { return r.Attempt >= attempt }))
	h.without = l.without
	return h
}

// Standing adds to the error of an attempt where the job stands since, if a
// request has moved it there, in this attempt or an earlier one, and none has
// completed a snapshot since; this one's own are for the caller to know.
func (a *Attempt) Standing(err error) error {
	if err == nil || a.left == nil || fenced(err) {
		return err
	}
	at := "nothing"
	if a.from.found != nil {
		at = a.from.ref.String()
	}
	since := "this start"
	if a.moved != a.Number {
		since = fmt.Sprintf("attempt %d", a.moved)
	}
	return fmt.Errorf("%w\nthe job stands at %s since %s: the same command goes on from there, and no longer from %s. %s", err, at, since, a.left.ref, a.wayBack())
}

// view is what the start has seen, with the ledger as it is since.
func (a *Attempt) view() *view {
	v := *a.begun.view
	v.history = a.ledger.history()
	return &v
}

// wayBack says how to return to what the job would have gone on from.
func (a *Attempt) wayBack() string {
	if a.left.found == nil || a.left.found.meta == nil {
		return "weir checkpoints shows what can be begun from"
	}
	flags, _, err := a.view().wayTo(a.left.found)
	if err != nil {
		return "There is no way back to that: " + whyRefused(err)
	}
	return "To return: " + flags
}
