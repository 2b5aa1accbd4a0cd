package checkpoint

import (
	"context"
	"fmt"

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

// Standing adds to the error of an attempt where the job stands since, if a
// request has moved it there and the attempt has completed no snapshot.
func (a *Attempt) Standing(err error) error {
	if err == nil || a.left == nil || fenced(err) {
		return err
	}
	at := "nothing"
	if a.from.found != nil {
		at = a.from.ref.String()
	}
	return fmt.Errorf("%w\nthe job stands at %s since this start: the same command goes on from there, and no longer from %s. %s", err, at, a.left.ref, a.wayBack())
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
