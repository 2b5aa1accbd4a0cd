package stream

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/weirstream/weir/codec"
	"github.com/weirstream/weir/connector"
	"github.com/weirstream/weir/connector/console"
	"github.com/weirstream/weir/internal/graph"
	"github.com/weirstream/weir/internal/stage"
)

// To writes the records of s to a sink.
func To[T, C any](s Stream[T], id string, sink connector.Sink[T, C], opts ...Option) {
	n := apply(s.job, &graph.Node{
		ID: id, Kind: "sink", Role: graph.Sink, Stateful: true,
		Inputs: edges(s), Body: sinkBody[T, C]{sink},
		Options: map[string]string{"delivery": sink.Delivery().String()},
	}, opts)
	s.job.add(n)
}

// Print writes each record to standard output, with the label and the subtask
// in front.
func Print[T any](s Stream[T], label string, opts ...Option) {
	n := apply(s.job, &graph.Node{
		Kind: "print", Role: graph.Sink, Inputs: edges(s),
		Body: sinkBody[T, connector.NoCommit]{console.Sink[T](os.Stdout, label)},
	}, opts)
	s.job.add(n)
}

type sinkBody[T, C any] struct{ sink connector.Sink[T, C] }

func (b sinkBody[T, C]) NewOperator() stage.Operator  { return &sinkOp[T, C]{sink: b.sink} }
func (b sinkBody[T, C]) Delivery() connector.Delivery { return b.sink.Delivery() }

func (b sinkBody[T, C]) NewCommitter(c connector.CommitterContext) (stage.Committer, error) {
	inner, err := b.sink.NewCommitter(c)
	if err != nil || inner == nil {
		return nil, err
	}
	return &committer[C]{inner: inner, codec: b.sink.CommittableCodec()}, nil
}

func (b sinkBody[T, C]) CommittableFormat() codec.Format {
	if c := b.sink.CommittableCodec(); c != nil {
		return c.Format()
	}
	return codec.Format{}
}

// DescribeCommittable implements stage.CommittableDescriber.
func (b sinkBody[T, C]) DescribeCommittable(data []byte) (string, error) {
	c, err := b.sink.CommittableCodec().Decode(data)
	if err != nil {
		return "", err
	}
	return fmt.Sprint(c), nil
}

// committer decodes committables for a typed committer.
type committer[C any] struct {
	inner connector.Committer[C]
	codec codec.Codec[C]
}

func (c *committer[C]) Commit(ctx context.Context, data [][]byte) error {
	cs, err := c.decode(data)
	if err != nil {
		return err
	}
	return c.inner.Commit(ctx, cs)
}

func (c *committer[C]) decode(data [][]byte) ([]C, error) {
	cs := make([]C, len(data))
	for i, d := range data {
		v, err := c.codec.Decode(d)
		if err != nil {
			return nil, fmt.Errorf("committable: %w", err)
		}
		cs[i] = v
	}
	return cs, nil
}

// Inspect implements stage.Inspector.
func (c *committer[C]) Inspect(ctx context.Context, data [][]byte) error {
	inspector, ok := c.inner.(connector.Inspector[C])
	if !ok {
		return nil
	}
	cs, err := c.decode(data)
	if err != nil {
		return err
	}
	return inspector.Inspect(ctx, cs)
}

func (c *committer[C]) Sweep(ctx context.Context, stillNewest func() error) error {
	return c.inner.Sweep(ctx, stillNewest)
}

func (c *committer[C]) Close() error { return c.inner.Close() }

// sinkOp drives a sink's writer.
type sinkOp[T, C any] struct {
	base
	sink   connector.Sink[T, C]
	writer connector.Writer[T, C]
	codec  codec.Codec[C]
}

func (o *sinkOp[T, C]) Input() any { return o }

func (o *sinkOp[T, C]) Open(c *stage.Context) error {
	if err := o.base.Open(c); err != nil {
		return err
	}
	o.runs = anyCode
	w, err := o.sink.NewWriter(sinkContext{c})
	if err != nil {
		return o.fail(err)
	}
	o.runs = noCode
	o.writer, o.codec = w, o.sink.CommittableCodec()
	return nil
}

func (o *sinkOp[T, C]) Receive(b *stage.Rows[T]) error {
	o.count(len(b.Vals))
	o.runs = anyCode
	if err := o.writer.Write(b.Vals, b.Times); err != nil {
		return o.fail(err)
	}
	o.runs = noCode
	o.ctx.Metrics.RecordsOut.Add(int64(len(b.Vals)))
	return nil
}

func (o *sinkOp[T, C]) PrepareSnapshot(*stage.Barrier) error { return o.flushWriter() }

func (o *sinkOp[T, C]) flushWriter() error {
	if o.sink.Delivery() == connector.None {
		return nil
	}
	return o.run(func() error { return o.writer.Flush(o.ctx.Context) })
}

func (o *sinkOp[T, C]) Snapshot(b *stage.Barrier) (stage.Part, error) {
	o.runs = anyCode
	cs, err := o.writer.PreCommit(b.ID)
	if err != nil {
		return stage.Part{}, o.fail(err)
	}
	o.runs = noCode
	if len(cs) == 0 && o.sink.Delivery() != connector.ExactlyOnce {
		return stage.Part{}, nil
	}
	f := o.codec.Format()
	p := stage.Part{CommittableFormat: &f} // without committables it tells of the sink
	for _, c := range cs {
		d, err := o.codec.Append(nil, c)
		if err != nil {
			return stage.Part{}, o.fail(err)
		}
		p.Committables = append(p.Committables, d)
	}
	return p, nil
}

func (o *sinkOp[T, C]) Committed(id int64) error {
	return o.run(func() error { return o.writer.Committed(id) })
}

func (o *sinkOp[T, C]) EndInput() error {
	return o.run(func() error { return o.writer.Flush(o.ctx.Context) })
}

func (o *sinkOp[T, C]) Close() error {
	if o.writer == nil {
		return nil
	}
	if err := o.writer.Close(); err != nil {
		return o.fail(err)
	}
	return nil
}

// sinkContext is a connector.SinkContext over an operator's context.
type sinkContext struct{ c *stage.Context }

func (s sinkContext) Context() context.Context { return s.c.Context }
func (s sinkContext) Logger() *slog.Logger     { return s.c.Logger }
func (s sinkContext) Job() string              { return s.c.Job }
func (s sinkContext) Lineage() string          { return s.c.Lineage }
func (s sinkContext) Attempt() int64           { return s.c.Attempt }
func (s sinkContext) Operator() string         { return s.c.Operator }
func (s sinkContext) Subtask() int             { return s.c.Subtask }
func (s sinkContext) Parallelism() int         { return s.c.Parallelism }
func (s sinkContext) CheckpointInterval() time.Duration {
	return time.Duration(s.c.CheckpointInterval) * time.Millisecond
}
func (s sinkContext) CheckpointTimeout() time.Duration {
	return time.Duration(s.c.CheckpointTimeout) * time.Millisecond
}
func (s sinkContext) Count(name string, n int64) { s.c.Metrics.Counter(name).Add(n) }
