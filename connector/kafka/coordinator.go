package kafka

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/weirstream/weir/connector"
	"github.com/weirstream/weir/connector/twophase"
)

// coordinator commits what checkpoints hold, and aborts what no snapshot
// needs.
type coordinator struct {
	ctx    connector.CommitterContext
	config *sinkConfig
	ender  *ender
}

func newCoordinator(ctx connector.CommitterContext, c *sinkConfig) (*coordinator, error) {
	return &coordinator{ctx: ctx, config: c, ender: newEnder(&c.client)}, nil
}

// Commit is RecoverAndCommit: one path for the usual case and for recovery.
func (c *coordinator) Commit(ctx context.Context, t Transaction) error {
	return c.RecoverAndCommit(ctx, t)
}

func (c *coordinator) RecoverAndCommit(ctx context.Context, t Transaction) error {
	return c.ender.commit(ctx, t, func(age time.Duration, err error) {
		c.ctx.Logger().Warn("a transaction waits for its commit: the brokers do not answer it; where they abort it after its timeout its data is lost",
			"transaction", t.ID, "age", age, "kafka.TransactionTimeout", t.Timeout, "error", err)
	})
}

// Inspect implements twophase.Inspector.
func (c *coordinator) Inspect(ctx context.Context, t Transaction) error {
	ctx, cancel := c.config.bound(ctx)
	defer cancel()
	return c.ender.inspect(ctx, t)
}

// Open lists the lineages' open transactions, under whatever prefix.
func (c *coordinator) Open(ctx context.Context, lineages []string) ([]twophase.Open[Transaction], error) {
	ctx, cancel := c.config.bound(ctx)
	defer cancel()
	found, err := c.ender.find(ctx, []string{"Ongoing"}, func(_ string, name twophase.Name) bool { return slices.Contains(lineages, name.Lineage) })
	if err != nil {
		return nil, fmt.Errorf("kafka sink: %w", err)
	}
	var open []twophase.Open[Transaction]
	for _, t := range found {
		if t.State == "Ongoing" {
			open = append(open, twophase.Open[Transaction]{Name: t.Name, Txn: t.Transaction})
		}
	}
	return open, nil
}

// RecoverAndAbort aborts a listed transaction, bounded in time: the brokers
// may take a while, but not for ever.
func (c *coordinator) RecoverAndAbort(ctx context.Context, t Transaction) error {
	ctx, cancel := c.config.bound(ctx)
	defer cancel()
	if err := c.ender.abort(ctx, t); err != nil {
		return err
	}
	if t.EndTxn >= endTxnV2 {
		return nil
	}
	if err := c.fence(ctx, t.ID); err != nil {
		c.ctx.Logger().Warn("the writer of an aborted transaction could not be fenced; if it still runs it may hold up readers, until its transaction times out",
			"transaction", t.ID, "error", err)
	}
	return nil
}

// fence takes the id of a transaction that was swept, so that its writer, if it
// still runs, cannot begin another one. The abort alone does that where the
// epoch grows with each transaction. It takes nothing that is needed: the id is
// of an earlier attempt, what that attempt's snapshot lists has its outcome by
// now, and an id with a transaction to sweep says nothing of the ones before.
func (c *coordinator) fence(ctx context.Context, id string) error {
	cl, err := c.ender.client(endTxnV1)
	if err != nil {
		return err
	}
	req := kmsg.NewPtrInitProducerIDRequest()
	req.TransactionalID, req.TransactionTimeoutMillis = &id, int32(c.config.timeout.Milliseconds())
	// Not the identity known: whoever held it could then take the id back.
	req.ProducerID, req.ProducerEpoch = noIdentity.id, noIdentity.epoch
	return c.ender.insist(ctx, func(ctx context.Context) error {
		resp, err := req.RequestWith(ctx, cl)
		if err != nil {
			return err
		}
		return kerr.ErrorForCode(resp.ErrorCode)
	})
}

func (c *coordinator) Close() error {
	c.ender.close()
	return nil
}
