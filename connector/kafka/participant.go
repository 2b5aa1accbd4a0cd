package kafka

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/weirstream/weir/connector"
	"github.com/weirstream/weir/connector/twophase"
	"github.com/weirstream/weir/internal/killpoint"
)

// participant writes the transactions of one subtask. Each has a client of its
// own: initialising it gives a new epoch, whatever the protocol's version, and
// closing it ends nothing.
type participant[T any] struct {
	ctx    connector.SinkContext
	config *sinkConfig
	encode encode[T]
	chunks chunks
	ender  *ender
	live   *live // the transaction being written
}

// live is a transaction being written.
type live struct {
	client   *kgo.Client // nil before the first record
	opened   time.Time
	produced produced
	topics   map[string]struct{}
	last     string // of topics
	reminded bool
}

func newParticipant[T any](ctx connector.SinkContext, c *sinkConfig, e encode[T]) (*participant[T], error) {
	p := &participant[T]{ctx: ctx, config: c, encode: e, ender: newEnder(&c.client)}
	if err := p.check(); err != nil {
		p.ender.close()
		return nil, err
	}
	return p, nil
}

// check finds out at the start what would fail, or lose data, later.
func (p *participant[T]) check() error {
	if p.ctx.CheckpointInterval() <= 0 {
		return invalid("kafka sink: exactly-once needs checkpoints: set a checkpoint interval, or choose kafka.AtLeastOnce")
	}
	if p.ctx.Lineage() == "" {
		return invalid("kafka sink: exactly-once needs the lineage of the job")
	}
	cl, err := p.ender.client(endTxnV2)
	if err != nil {
		return err
	}
	if err := p.config.checkTopic(p.ctx.Context(), cl); err != nil {
		return err
	}
	if err := p.checkTimeout(cl); err != nil {
		return err
	}
	if least := p.ctx.CheckpointInterval() + p.ctx.CheckpointTimeout(); p.config.timeout < least && p.ctx.Subtask() == 0 {
		p.ctx.Logger().Warn("the transaction timeout is shorter than checkpoint interval and checkpoint timeout together: a slow checkpoint loses data",
			"kafka.TransactionTimeout", p.config.timeout, "checkpoint interval", p.ctx.CheckpointInterval(), "checkpoint timeout", p.ctx.CheckpointTimeout())
	}
	return nil
}

const maxTimeoutKey = "transaction.max.timeout.ms"

// TransactionTimeoutError says that the brokers do not allow transactions as
// long as the sink asks for.
type TransactionTimeoutError struct {
	// Timeout is the sink's, Maximum the brokers', zero if they do not tell.
	Timeout, Maximum time.Duration
}

// Is makes it fatal: one of the two settings has to change.
func (e *TransactionTimeoutError) Is(target error) bool { return target == connector.ErrFatal }

// Error names both, and what to do.
func (e *TransactionTimeoutError) Error() string {
	maximum := "unknown"
	if e.Maximum > 0 {
		maximum = e.Maximum.String()
	}
	return fmt.Sprintf("kafka sink: transaction timeout exceeds broker maximum: kafka.TransactionTimeout is %v, the brokers' %s is %s; lower the one or raise the other",
		e.Timeout, maxTimeoutKey, maximum)
}

// checkTimeout compares the timeout with the maximum, where the brokers tell.
// Where they do not, the first transaction finds out.
func (p *participant[T]) checkTimeout(cl *kgo.Client) error {
	ctx, cancel := p.config.bound(p.ctx.Context())
	defer cancel()
	adm := kadm.NewClient(cl)
	brokers, err := adm.ListBrokers(ctx)
	if err != nil || len(brokers) == 0 {
		return nil
	}
	configs, err := adm.DescribeBrokerConfigs(ctx, brokers[0].NodeID)
	if err != nil {
		return nil // perhaps not allowed to ask
	}
	for _, rc := range configs {
		for _, entry := range rc.Configs {
			if entry.Key != maxTimeoutKey {
				continue
			}
			ms, err := strconv.ParseInt(entry.MaybeValue(), 10, 64)
			if maximum := time.Duration(ms) * time.Millisecond; err == nil && p.config.timeout > maximum {
				return &TransactionTimeoutError{p.config.timeout, maximum}
			}
		}
	}
	return nil
}

// Begin sends nothing: a client that begins a transaction initialises its id,
// and elements may come to no record.
func (p *participant[T]) Begin(_ context.Context, name twophase.Name) (Transaction, error) {
	id := transactionalID(p.config.prefix, name)
	p.live = &live{opened: time.Now(), topics: map[string]struct{}{}}
	return Transaction{ID: id, Opened: p.live.opened, Timeout: p.config.timeout}, nil
}

// open makes the client of a transaction.
func (p *participant[T]) open(id string) error {
	cl, err := p.live.produced.open(p.ctx.Context(), p.config,
		kgo.TransactionalID(id),
		kgo.TransactionTimeout(p.config.timeout),
	)
	if err != nil {
		return err
	}
	p.live.client, p.live.opened = cl, time.Now()
	killpoint.Reach("kafka.open")
	if err := cl.BeginTransaction(); err != nil {
		return fmt.Errorf("kafka sink: begin transaction %s: %w", id, p.explain(final(err)))
	}
	killpoint.Reach("kafka.opened")
	return nil
}

func (p *participant[T]) Write(txn Transaction, vals []T, times []int64) error {
	l := p.live
	if err := p.explain(l.produced.failure()); err != nil {
		return err
	}
	c, skipped, err := encodeBatch(&p.chunks, p.encode, vals, times)
	if err != nil {
		return err
	}
	if skipped > 0 {
		p.ctx.Count("recordsSkipped", int64(skipped))
	}
	if len(c.records) == 0 {
		p.chunks.put(c)
		return nil
	}
	if l.client == nil {
		if err := p.open(txn.ID); err != nil {
			return err
		}
	}
	p.remind(txn)
	for i := range c.records {
		if t := c.records[i].Topic; t != l.last {
			l.topics[t], l.last = struct{}{}, t
		}
	}
	produce(l.client, c, &l.produced)
	return nil
}

// remind warns of a transaction that no checkpoint takes over, before it is too
// late.
func (p *participant[T]) remind(txn Transaction) {
	l := p.live
	if age := time.Since(l.opened); !l.reminded && age > p.config.timeout/2 {
		l.reminded = true
		p.ctx.Logger().Warn("a transaction has been open for more than half of its timeout, and no checkpoint has come; after the timeout the job fails and repeats what it holds",
			"transaction", txn.ID, "age", age, "kafka.TransactionTimeout", p.config.timeout)
	}
}

// explain names the settings behind an answer of the brokers.
func (p *participant[T]) explain(err error) error {
	if errors.Is(err, kerr.InvalidTransactionTimeout) {
		return &TransactionTimeoutError{Timeout: p.config.timeout}
	}
	return err
}

func (p *participant[T]) Flush(ctx context.Context, _ Transaction) error {
	if p.live.client == nil {
		return nil
	}
	return p.explain(flush(ctx, p.live.client, &p.live.produced))
}

// PreCommit sends nothing that ends the transaction: that all records have
// arrived is all that a commit from anywhere needs.
func (p *participant[T]) PreCommit(ctx context.Context, txn Transaction) (Transaction, bool, error) {
	l := p.live
	if l.client == nil {
		p.release()
		return Transaction{}, false, nil
	}
	if err := p.Flush(ctx, txn); err != nil {
		return Transaction{}, false, err
	}
	wrote, _ := l.produced.producedBy()
	id, epoch, err := l.client.ProducerID(ctx)
	if err != nil {
		return Transaction{}, false, fmt.Errorf("kafka sink: producer of transaction %s: %w", txn.ID, final(err))
	}
	if now := (identity{id, epoch}); now != wrote {
		return Transaction{}, false, errIdentity(wrote, now)
	}
	if txn.EndTxn, err = p.ender.version(ctx); err != nil {
		return Transaction{}, false, fmt.Errorf("kafka sink: pre-commit: %w", err)
	}
	txn.ProducerID, txn.Epoch, txn.Opened = id, epoch, l.opened
	txn.Topics = slices.Sorted(maps.Keys(l.topics))
	if p.config.witness {
		if err := p.ender.witness(ctx, txn); err != nil {
			return Transaction{}, false, err
		}
	}
	p.release()
	return txn, true, nil
}

// identityTimeout bounds the wait for an identity that is not known yet: the
// brokers are away, and the transaction most likely not begun.
const identityTimeout = time.Second

// Abort ends a transaction that was not pre-committed, after its client can no
// longer add to it.
func (p *participant[T]) Abort(ctx context.Context, txn Transaction) error {
	wrote, known := p.writtenBy(ctx)
	p.release()
	if !known {
		return nil
	}
	version, err := p.ender.version(ctx)
	if err != nil {
		return err
	}
	txn.ProducerID, txn.Epoch, txn.EndTxn = wrote.id, wrote.epoch, version
	return p.ender.abort(ctx, txn)
}

// writtenBy is who wrote the open transaction. Where no record was acknowledged
// yet, some may be on their way.
func (p *participant[T]) writtenBy(ctx context.Context) (wrote identity, known bool) {
	if wrote, known = p.live.produced.producedBy(); known || p.live.client == nil {
		return wrote, known
	}
	ctx, cancel := context.WithTimeout(ctx, identityTimeout)
	defer cancel()
	id, epoch, err := p.live.client.ProducerID(ctx)
	return identity{id, epoch}, err == nil && id >= 0
}

func (p *participant[T]) release() {
	if p.live.client != nil {
		p.live.client.Close()
		p.live.produced.stop()
	}
	p.live = nil
}

func (p *participant[T]) Close() error {
	if p.live != nil {
		p.release()
	}
	p.ender.close()
	return nil
}
