// Package twophase is the base of sinks over systems with transactions that
// can be prepared: what is written between two checkpoints is one transaction
// per subtask, pre-committed at the barrier and committed once the checkpoint
// is complete.
//
// The author writes a Protocol: begin, write, flush, pre-commit and abort for
// the subtasks (Participant); commit, recover-and-commit and
// recover-and-abort for the job (Coordinator).
package twophase

import (
	"context"
	"fmt"

	"github.com/weirstream/weir/codec"
	"github.com/weirstream/weir/connector"
)

// Protocol describes a sink with transactions: records of type T, handles of
// type C. A handle is a plain value that says all that another process needs
// in order to commit or abort the transaction.
type Protocol[T, C any] interface {
	// HandleCodec encodes handles for checkpoints.
	HandleCodec() codec.Codec[C]
	// NewParticipant makes the writing side of one subtask. It may check that
	// the external system is there and set up as needed.
	NewParticipant(ctx connector.SinkContext) (Participant[T, C], error)
	// NewCoordinator makes the committing side.
	NewCoordinator(ctx connector.CommitterContext) (Coordinator[C], error)
}

// Participant writes the transactions of one subtask, one after the other.
// Its methods run on the stage's goroutine. An error of any of them fails the
// task: the job restarts from its last checkpoint.
type Participant[T, C any] interface {
	// Begin begins a transaction under a name that no other transaction of any
	// attempt has, but for finished ones with a pooled slot (see Pooled). It is
	// called when there is a first record to write.
	Begin(ctx context.Context, name Name) (C, error)
	// Write writes a batch into the transaction. Neither slice may be kept.
	Write(txn C, vals []T, times []int64) error
	// Flush waits until everything written has arrived.
	Flush(ctx context.Context, txn C) error
	// PreCommit, called after Flush, makes the transaction ready: from now on
	// it can be committed by any process that has the handle returned, and
	// survives this one. It returns false if the transaction is empty after
	// all, and then has ended it.
	PreCommit(ctx context.Context, txn C) (C, bool, error)
	// Abort gives up a transaction that was not pre-committed. It is called
	// when the sink closes; an error is only logged.
	Abort(ctx context.Context, txn C) error
	// Close releases everything, and leaves pre-committed transactions alone.
	Close() error
}

// Inspector is what a Coordinator may be besides: see connector.Inspector.
type Inspector[C any] interface {
	// Inspect returns connector.ErrTransactionLost or ErrTransactionUnknown if
	// RecoverAndCommit surely would. It changes nothing.
	Inspect(ctx context.Context, txn C) error
}

// Coordinator ends transactions. Its methods run on one goroutine. It retries
// by itself what may pass, until ctx ends; any other error is fatal.
type Coordinator[C any] interface {
	// Commit commits a transaction that this attempt pre-committed. It may be
	// called again for the same one.
	Commit(ctx context.Context, txn C) error
	// RecoverAndCommit commits one that an earlier attempt pre-committed, and
	// may have committed. An outcome that is not known to be a commit is
	// connector.ErrTransactionLost or connector.ErrTransactionUnknown.
	RecoverAndCommit(ctx context.Context, txn C) error
	// Open lists the transactions of these lineages that have not ended,
	// completely: those it cannot list for sure are an error. Others may be in
	// the list.
	Open(ctx context.Context, lineages []string) ([]Open[C], error)
	// RecoverAndAbort aborts a transaction that Open listed, exactly that one,
	// if it is still open.
	RecoverAndAbort(ctx context.Context, txn C) error
	// Close releases everything. It ends no transaction.
	Close() error
}

// Open is a transaction that has not ended.
type Open[C any] struct {
	Name Name
	Txn  C
}

// Committable is a pre-committed transaction in a checkpoint.
type Committable[C any] struct {
	// Attempt is the attempt that pre-committed it.
	Attempt int64
	// Checkpoint is the first checkpoint that lists it.
	Checkpoint int64
	Txn        C
}

// String is that of the handle.
func (c Committable[C]) String() string { return fmt.Sprint(c.Txn) }

type options struct{ pooled bool }

// Option changes a sink.
type Option func(*options)

// Pooled has slots of finished transactions used again, for systems where a
// name costs something. By default each transaction of an attempt has a slot
// of its own. At least three slots are used in turn.
func Pooled() Option { return func(o *options) { o.pooled = true } }

// Sink makes an exactly-once sink of a protocol.
func Sink[T, C any](p Protocol[T, C], opts ...Option) connector.Sink[T, Committable[C]] {
	s := sink[T, C]{protocol: p}
	for _, opt := range opts {
		opt(&s.options)
	}
	return s
}

type sink[T, C any] struct {
	protocol Protocol[T, C]
	options  options
}

func (s sink[T, C]) Delivery() connector.Delivery { return connector.ExactlyOnce }

func (s sink[T, C]) CommittableCodec() codec.Codec[Committable[C]] {
	return committableCodec[C]{s.protocol.HandleCodec()}
}

func (s sink[T, C]) NewWriter(ctx connector.SinkContext) (connector.Writer[T, Committable[C]], error) {
	p, err := s.protocol.NewParticipant(ctx)
	if err != nil {
		return nil, err
	}
	return &writer[T, C]{ctx: ctx, participant: p, slots: slots{pooled: s.options.pooled}}, nil
}

func (s sink[T, C]) NewCommitter(ctx connector.CommitterContext) (connector.Committer[Committable[C]], error) {
	c, err := s.protocol.NewCoordinator(ctx)
	if err != nil {
		return nil, err
	}
	return &committer[C]{ctx: ctx, coordinator: c}, nil
}
