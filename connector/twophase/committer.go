package twophase

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/weirstream/weir/codec"
	"github.com/weirstream/weir/connector"
	"github.com/weirstream/weir/internal/killpoint"
)

// committer drives a coordinator.
type committer[C any] struct {
	ctx         connector.CommitterContext
	coordinator Coordinator[C]
}

func (c *committer[C]) Commit(ctx context.Context, committables []Committable[C]) error {
	var failed []error
	for i, t := range committables {
		commit := c.coordinator.Commit
		if t.Attempt != c.ctx.Attempt() {
			commit = c.coordinator.RecoverAndCommit
		}
		killpoint.Reach("commit.send")
		if err := commit(ctx, t.Txn); err != nil {
			err = fmt.Errorf("commit of checkpoint %d, written by attempt %d: %w", t.Checkpoint, t.Attempt, err)
			failed = append(failed, &connector.CommitError{Index: i, Err: err})
			if !settled(err) {
				break
			}
		}
		killpoint.Reach("commit.sent")
	}
	return errors.Join(failed...)
}

// Inspect implements connector.Inspector.
func (c *committer[C]) Inspect(ctx context.Context, committables []Committable[C]) error {
	inspector, ok := c.coordinator.(Inspector[C])
	if !ok {
		return nil
	}
	var failed []error
	for i, t := range committables {
		err := inspector.Inspect(ctx, t.Txn)
		if err == nil {
			continue
		}
		failed = append(failed, &connector.CommitError{Index: i, Err: fmt.Errorf("checkpoint %d, written by attempt %d: %w", t.Checkpoint, t.Attempt, err)})
		if !settled(err) {
			break
		}
	}
	return errors.Join(failed...)
}

// settled reports whether err says what became of a transaction: the others
// are committed all the same.
func settled(err error) bool {
	return errors.Is(err, connector.ErrTransactionLost) || errors.Is(err, connector.ErrTransactionUnknown)
}

func (c *committer[C]) Sweep(ctx context.Context, stillNewest func() error) error {
	killpoint.Reach("sweep.list")
	lineages := []string{c.ctx.Lineage()}
	for _, f := range c.ctx.FormerLineages() {
		lineages = append(lineages, f.Lineage)
	}
	open, err := c.coordinator.Open(ctx, lineages)
	if err != nil {
		return fmt.Errorf("list open transactions: %w", err)
	}
	killpoint.Reach("sweep.listed")
	if err := stillNewest(); err != nil {
		return err
	}
	killpoint.Reach("sweep.reread")
	for _, t := range open {
		if !c.earlier(t.Name) {
			continue
		}
		killpoint.Reach("sweep.abort")
		if err := c.coordinator.RecoverAndAbort(ctx, t.Txn); err != nil {
			return fmt.Errorf("abort transaction %s of attempt %d: %w", t.Name, t.Name.Attempt, err)
		}
		killpoint.Reach("sweep.aborted")
		c.ctx.Logger().Info("aborted a transaction that an earlier attempt left open", "transaction", t.Name.String())
		c.ctx.Count("transactionsAborted", 1)
	}
	return nil
}

// earlier reports whether an earlier attempt of this job, and no other one, has
// opened the transaction.
func (c *committer[C]) earlier(n Name) bool {
	if n.Lineage == c.ctx.Lineage() {
		return n.Attempt < c.ctx.Attempt()
	}
	return slices.ContainsFunc(c.ctx.FormerLineages(), func(f connector.FormerLineage) bool {
		return n.Lineage == f.Lineage && n.Attempt <= f.LastAttempt
	})
}

func (c *committer[C]) Close() error { return c.coordinator.Close() }

// committableCodec puts attempt and checkpoint before the handle.
type committableCodec[C any] struct{ handle codec.Codec[C] }

func (c committableCodec[C]) Append(dst []byte, v Committable[C]) ([]byte, error) {
	dst = binary.AppendVarint(dst, v.Attempt)
	dst = binary.AppendVarint(dst, v.Checkpoint)
	return c.handle.Append(dst, v.Txn)
}

func (c committableCodec[C]) Decode(src []byte) (v Committable[C], err error) {
	var a, b int
	if v.Attempt, a = binary.Varint(src); a > 0 {
		v.Checkpoint, b = binary.Varint(src[a:])
	}
	if a <= 0 || b <= 0 {
		return Committable[C]{}, errors.New("committable: attempt and checkpoint cannot be read")
	}
	v.Txn, err = c.handle.Decode(src[a+b:])
	return v, err
}

func (c committableCodec[C]) Format() codec.Format {
	f := c.handle.Format()
	return codec.Format{ID: "weir.twophase+" + f.ID, Version: f.Version, Schema: f.Schema}
}
