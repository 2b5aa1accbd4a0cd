package checkpoint

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"

	"github.com/weirstream/weir/connector"
	"github.com/weirstream/weir/internal/snapshot"
	"github.com/weirstream/weir/internal/stage"
)

// LossOutcome is what became of a committable that is not known to be
// committed.
type LossOutcome string

const (
	// Lost: the external system has aborted it.
	Lost LossOutcome = "lost"
	// Unknown: nobody can tell.
	Unknown LossOutcome = "unknown"
)

// Loss is a committable of a snapshot that cannot be committed any more.
type Loss struct {
	Operator string `json:"operator"`
	// Checkpoint is the first one that lists it, Subtask who wrote it.
	Checkpoint int64       `json:"checkpoint"`
	Subtask    int         `json:"subtask"`
	Outcome    LossOutcome `json:"outcome"`
	// Digest tells the committable from others: the first 16 hex digits of the
	// SHA-256 of its bytes.
	Digest string `json:"digest"`
	// Reason is what the sink said.
	Reason string `json:"reason,omitempty"`
}

// lossKey identifies a committable.
type lossKey struct {
	operator   string
	checkpoint int64
	subtask    int
	digest     string
}

func (l Loss) key() lossKey { return lossKey{l.Operator, l.Checkpoint, l.Subtask, l.Digest} }

func keyOf(op string, c snapshot.Committable) lossKey {
	sum := sha256.Sum256(c.Data)
	return lossKey{op, c.Checkpoint, c.Subtask, hex.EncodeToString(sum[:8])}
}

// LossError says that committables of the snapshot that a start has chosen
// cannot be committed any more: a decision is wanted.
type LossError struct {
	// Snapshot holds them.
	Snapshot Ref
	Losses   []Loss

	text  string
	cause error
}

// Error names the snapshot, each transaction, the input behind them, and the
// choices with what each costs.
func (e *LossError) Error() string { return ErrRefused.Error() + ": " + e.text }

// Unwrap returns ErrRefused and what the sinks said.
func (e *LossError) Unwrap() []error { return []error{ErrRefused, e.cause} }

// commitRestored commits the restored committables of all sinks. Those that
// are lost for good are given up if that was asked for, and are an error
// otherwise.
func (a *Attempt) commitRestored(ctx context.Context, committers map[string]stage.Committer) error {
	var losses []Loss
	var causes []error
	for _, op := range sortedKeys(a.open) {
		err := committers[op].Commit(ctx, payloads(a.open[op]))
		lost, settled := lossesOf(op, a.open[op], err)
		if !settled {
			return fmt.Errorf("commit what snapshot %s holds of sink %s: %w", a.RestoredDir, op, err)
		}
		losses, causes = append(losses, lost...), append(causes, err)
		a.log.Info("restored committables committed", "sink", op, "count", len(a.open[op])-len(lost))
	}
	if err := a.notAccepted(ctx, losses, causes); err != nil || len(losses) == 0 {
		return err
	}
	return a.giveUp(ctx, losses)
}

// notAccepted returns a LossError unless there are no losses, or the start was
// told to accept those of its snapshot.
func (a *Attempt) notAccepted(ctx context.Context, losses []Loss, causes []error) error {
	if len(losses) == 0 || a.begun.AcceptLoss == a.Restored.ID {
		return nil
	}
	return &LossError{Snapshot: a.from.ref, Losses: losses, text: a.report(ctx, losses).text(), cause: errors.Join(causes...)}
}

// giveUp records that the losses are accepted.
func (a *Attempt) giveUp(ctx context.Context, losses []Loss) error {
	report := a.report(ctx, losses)
	err := a.ledger.append(ctx, Record{
		Version: RecordVersion, Kind: AcceptedLossRecord, Attempt: a.Number, Time: a.now(),
		Host: a.begun.Host, PID: a.begun.PID, Snapshot: &a.from.ref, Losses: losses, Note: report.note(),
	})
	if err != nil {
		return err
	}
	a.log.Warn("going on without output that is lost, as --accept-loss says; it is on record in the ledger",
		"snapshot", a.from.ref.String(), "committables", len(losses), "cost", report.note())
	for _, l := range losses {
		a.log.Warn("given up", "sink", l.Operator, "subtask", l.Subtask, "checkpoint", l.Checkpoint, "outcome", l.Outcome, "reason", l.Reason)
	}
	return nil
}

// lossesOf takes the committables that are settled as not committed from what
// a committer answered. It returns false if the error says something else,
// which may pass.
func lossesOf(op string, cs []snapshot.Committable, err error) (losses []Loss, settled bool) {
	if err == nil {
		return nil, true
	}
	failed, all := commitErrors(err)
	switch {
	case all:
	case len(failed) > 0 || !settles(err):
		return nil, false
	default: // the committer does not say which: any of them may be meant
		for _, c := range cs {
			losses = append(losses, newLoss(op, c, Unknown, err))
		}
		return losses, true
	}
	for _, f := range failed {
		o := outcomeOf(f)
		if o == "" || f.Index < 0 || f.Index >= len(cs) {
			return nil, false
		}
		losses = append(losses, newLoss(op, cs[f.Index], o, f))
	}
	return losses, true
}

func newLoss(op string, c snapshot.Committable, o LossOutcome, reason error) Loss {
	return Loss{
		Operator: op, Checkpoint: c.Checkpoint, Subtask: c.Subtask, Outcome: o,
		Digest: keyOf(op, c).digest, Reason: reason.Error(),
	}
}

func outcomeOf(err error) LossOutcome {
	switch {
	case errors.Is(err, connector.ErrTransactionUnknown):
		return Unknown
	case errors.Is(err, connector.ErrTransactionLost):
		return Lost
	}
	return ""
}

// settles reports whether err speaks of an outcome, and so does each that it
// joins: beside a loss there may be another failure, which may pass. One that
// names the outcome itself may wrap its cause as well.
func settles(err error) bool {
	if one, ok := err.(*connector.CommitError); ok { //nolint:errorlint // the tree is walked by hand
		return outcomeOf(one) != ""
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		parts := joined.Unwrap()
		return slices.Contains(parts, connector.ErrTransactionLost) || slices.Contains(parts, connector.ErrTransactionUnknown) ||
			!slices.ContainsFunc(parts, func(part error) bool { return !settles(part) })
	}
	if inner := errors.Unwrap(err); inner != nil {
		return settles(inner)
	}
	return outcomeOf(err) != ""
}

// commitErrors lists the CommitErrors that err consists of; all is false if it
// holds others beside them.
func commitErrors(err error) (found []*connector.CommitError, all bool) {
	switch e := err.(type) { //nolint:errorlint // the tree is walked by hand
	case *connector.CommitError:
		return []*connector.CommitError{e}, true
	case interface{ Unwrap() []error }:
		all = true
		for _, inner := range e.Unwrap() {
			f, ok := commitErrors(inner)
			found, all = append(found, f...), all && ok
		}
		return found, all && len(found) > 0
	}
	if inner := errors.Unwrap(err); inner != nil {
		return commitErrors(inner)
	}
	return nil, false
}
