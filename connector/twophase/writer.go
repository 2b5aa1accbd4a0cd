package twophase

import (
	"context"
	"time"

	"github.com/weirstream/weir/connector"
	"github.com/weirstream/weir/internal/killpoint"
)

// abortTimeout bounds the abort of the open transaction at the end.
const abortTimeout = 10 * time.Second

// writer drives a participant: a transaction from the first record after a
// barrier to the next barrier.
type writer[T, C any] struct {
	ctx         connector.SinkContext
	participant Participant[T, C]
	slots       slots

	open bool
	name Name
	txn  C
}

func (w *writer[T, C]) Write(vals []T, times []int64) error {
	if len(vals) == 0 {
		return nil
	}
	if !w.open {
		if err := w.begin(); err != nil {
			return err
		}
	}
	return w.participant.Write(w.txn, vals, times)
}

func (w *writer[T, C]) begin() error {
	w.name = Name{
		Lineage:  w.ctx.Lineage(),
		Attempt:  w.ctx.Attempt(),
		Operator: w.ctx.Operator(),
		Subtask:  w.ctx.Subtask(),
		Slot:     w.slots.take(),
	}
	killpoint.Reach("transaction.begin")
	txn, err := w.participant.Begin(w.ctx.Context(), w.name)
	if err != nil {
		return err
	}
	w.open, w.txn = true, txn
	killpoint.Reach("transaction.begun")
	return nil
}

func (w *writer[T, C]) Flush(ctx context.Context) error {
	if !w.open {
		return nil
	}
	killpoint.Reach("precommit.flush")
	err := w.participant.Flush(ctx, w.txn)
	killpoint.Reach("precommit.flushed")
	return err
}

func (w *writer[T, C]) PreCommit(checkpoint int64) ([]Committable[C], error) {
	if !w.open {
		return nil, nil
	}
	txn, ok, err := w.participant.PreCommit(w.ctx.Context(), w.txn)
	if err != nil {
		return nil, err
	}
	killpoint.Reach("precommit.done")
	w.open = false
	if !ok {
		w.slots.free(w.name.Slot)
		return nil, nil
	}
	w.slots.pend(w.name.Slot, checkpoint)
	return []Committable[C]{{Attempt: w.ctx.Attempt(), Checkpoint: checkpoint, Txn: txn}}, nil
}

func (w *writer[T, C]) Committed(checkpoint int64) error {
	w.slots.committed(checkpoint)
	return nil
}

func (w *writer[T, C]) Close() error {
	if w.open {
		w.open = false
		// The attempt's context may have ended already.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(w.ctx.Context()), abortTimeout)
		defer cancel()
		if err := w.participant.Abort(ctx, w.txn); err != nil {
			w.ctx.Logger().Warn("open transaction was not aborted; the next start or the transaction's timeout will do it",
				"transaction", w.name.String(), "error", err)
		}
	}
	return w.participant.Close()
}

// minSlots keeps a slot from being used again right after its commit.
const minSlots = 3

// slots hands out the slots of one subtask. A slot whose transaction is in a
// checkpoint is used again only when a later completed checkpoint no longer
// lists it: until then a restore may commit it once more.
type slots struct {
	pooled  bool
	made    int
	idle    []int // in order of release
	pending []pendingSlot
}

type pendingSlot struct {
	slot       int
	checkpoint int64
}

func (s *slots) take() int {
	if len(s.idle) > 0 && s.made >= minSlots {
		slot := s.idle[0]
		s.idle = s.idle[1:]
		return slot
	}
	s.made++
	return s.made - 1
}

func (s *slots) free(slot int) {
	if s.pooled {
		s.idle = append(s.idle, slot)
	}
}

func (s *slots) pend(slot int, checkpoint int64) {
	if s.pooled {
		s.pending = append(s.pending, pendingSlot{slot, checkpoint})
	}
}

func (s *slots) committed(checkpoint int64) {
	kept := s.pending[:0]
	for _, p := range s.pending {
		if p.checkpoint <= checkpoint {
			s.free(p.slot)
		} else {
			kept = append(kept, p)
		}
	}
	s.pending = kept
}
