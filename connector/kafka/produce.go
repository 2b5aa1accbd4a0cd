package kafka

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/weirstream/weir/connector"
	"github.com/weirstream/weir/connector/twophase"
)

// produced follows what becomes of records that were handed to a client: the
// client itself goes on after a record that failed, the sink must not.
type produced struct {
	anybody bool // may have written: the identity may change

	// ctx is that of the records and of the wait for them. It ends when a broker
	// refuses to talk.
	ctx  context.Context
	stop context.CancelFunc

	mu       sync.Mutex
	err      error
	acked    bool
	identity identity
}

// open makes the client whose records p follows.
func (p *produced) open(ctx context.Context, c *sinkConfig, opts ...kgo.Opt) (*kgo.Client, error) {
	p.ctx, p.stop = context.WithCancel(ctx)
	cl, err := c.openWith(producerOptions(), append(opts, kgo.WithHooks(&refusals{tell: p.refused})))
	if err != nil {
		p.stop()
	}
	return cl, err
}

// refused notes that a broker does not talk to the client.
func (p *produced) refused(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err == nil {
		p.err = fmt.Errorf("kafka sink: %w", err)
	}
	p.stop()
}

// identity is a producer's id and epoch.
type identity struct {
	id    int64
	epoch int16
}

// done notes what became of a record. Records that arrived in the name of the
// one before need not be noted.
func (p *produced) done(r *kgo.Record, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := identity{r.ProducerID, r.ProducerEpoch}
	switch {
	case p.err != nil:
	case err != nil:
		p.err = fmt.Errorf("kafka sink: a record for topic %s was not written: %w", r.Topic, final(err))
	case p.acked && now != p.identity && !p.anybody:
		p.err = errIdentity(p.identity, now)
	default:
		p.acked, p.identity = true, now
	}
}

func errIdentity(was, is identity) error {
	return fmt.Errorf("kafka sink: the producer was initialised anew (id %d epoch %d, before %d epoch %d): records written before may be gone",
		is.id, is.epoch, was.id, was.epoch)
}

// failure returns the first error.
func (p *produced) failure() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

// producedBy returns the identity that wrote the records acknowledged.
func (p *produced) producedBy() (identity, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.identity, p.acked
}

// produce hands a chunk to the client, which blocks while its buffer is full.
// The chunk then belongs to its promise.
func produce(cl *kgo.Client, c *chunk, p *produced) {
	records, promise := c.records, c.promise
	if len(records) == 0 {
		c.home.put(c)
		return
	}
	c.to = p
	c.left.Store(int64(len(records)))
	for i := range records {
		cl.Produce(p.ctx, &records[i], promise)
	}
}

// flush waits until everything produced has arrived.
func flush(ctx context.Context, cl *kgo.Client, p *produced) error {
	ctx, cancel := until(ctx, p.ctx)
	defer cancel()
	if err := cl.Flush(ctx); err != nil {
		if first := p.failure(); first != nil {
			return first
		}
		return fmt.Errorf("kafka sink: flush: %w", final(err))
	}
	return p.failure()
}

// closeTimeout bounds the flush of a sink without guarantee at its end.
const closeTimeout = 10 * time.Second

// writer writes outside of transactions.
type writer[T any] struct {
	ctx      connector.SinkContext
	delivery connector.Delivery
	client   *kgo.Client
	encode   encode[T]
	chunks   chunks
	produced produced
}

func newWriter[T any](ctx connector.SinkContext, c *sinkConfig, e encode[T]) (*writer[T], error) {
	w := &writer[T]{ctx: ctx, delivery: c.delivery, encode: e}
	w.produced.anybody = true // outside of transactions a new producer id is harmless
	var err error
	if w.client, err = w.produced.open(ctx.Context(), c); err != nil {
		return nil, err
	}
	if err := c.checkTopic(ctx.Context(), w.client); err != nil {
		w.produced.stop()
		w.client.Close()
		return nil, err
	}
	return w, nil
}

func (w *writer[T]) Write(vals []T, times []int64) error {
	if err := w.produced.failure(); err != nil {
		return err
	}
	c, skipped, err := encodeBatch(&w.chunks, w.encode, vals, times)
	if err != nil {
		return err
	}
	if skipped > 0 {
		w.ctx.Count("recordsSkipped", int64(skipped))
	}
	produce(w.client, c, &w.produced)
	return nil
}

func (w *writer[T]) Flush(ctx context.Context) error {
	if w.delivery == connector.None {
		return w.produced.failure()
	}
	return flush(ctx, w.client, &w.produced)
}

func (w *writer[T]) PreCommit(int64) ([]twophase.Committable[Transaction], error) {
	return nil, w.produced.failure()
}

func (w *writer[T]) Committed(int64) error { return nil }

// Close waits a little for what is under way where no flush did.
func (w *writer[T]) Close() error {
	defer w.produced.stop()
	defer w.client.Close()
	if w.delivery != connector.None || w.ctx.Context().Err() != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(w.ctx.Context(), closeTimeout)
	defer cancel()
	return flush(ctx, w.client, &w.produced)
}
