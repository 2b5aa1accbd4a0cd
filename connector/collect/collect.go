// Package collect is a sink that keeps records in memory, for tests.
package collect

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/weirstream/weir/codec"
	"github.com/weirstream/weir/connector"
)

// Sink collects records. It lives as long as the process and outlasts the
// attempts of the jobs that write to it, as an external system would. Its
// methods may be called from any goroutine while jobs run. It implements
// connector.Sink.
type Sink[T any] struct {
	delivery connector.Delivery

	mu        sync.Mutex
	records   []Record[T]
	prepared  map[string][]Record[T]
	committed map[string]bool
	grown     chan struct{}
}

// Record is a collected record: its value, event time in milliseconds
// (connector.NoTimestamp for none) and the subtask that wrote it.
type Record[T any] struct {
	Value   T
	Time    int64
	Subtask int
}

// Committable names a transaction of an exactly-once sink.
type Committable struct{ ID string }

// New makes a sink whose records are visible at once: at-least-once, records
// written since the last checkpoint come again after a failure.
func New[T any]() *Sink[T] { return newSink[T](connector.AtLeastOnce) }

// NewExactlyOnce makes a sink whose records are visible once the checkpoint
// that covers them is complete and committed. It needs checkpoints.
func NewExactlyOnce[T any]() *Sink[T] { return newSink[T](connector.ExactlyOnce) }

func newSink[T any](d connector.Delivery) *Sink[T] {
	return &Sink[T]{
		delivery:  d,
		prepared:  map[string][]Record[T]{},
		committed: map[string]bool{},
		grown:     make(chan struct{}),
	}
}

// Records returns the visible records, in the order of becoming visible.
func (s *Sink[T]) Records() []Record[T] {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.records)
}

// Values returns the values of Records.
func (s *Sink[T]) Values() []T {
	s.mu.Lock()
	defer s.mu.Unlock()
	vals := make([]T, len(s.records))
	for i, r := range s.records {
		vals[i] = r.Value
	}
	return vals
}

// Len is the number of visible records.
func (s *Sink[T]) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.records)
}

// Prepared is the number of transactions that are prepared and neither
// committed nor aborted.
func (s *Sink[T]) Prepared() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.prepared)
}

// Wait blocks until at least n records are visible; otherwise it ends with the
// error of ctx.
func (s *Sink[T]) Wait(ctx context.Context, n int) error {
	for {
		s.mu.Lock()
		have, grown := len(s.records), s.grown
		s.mu.Unlock()
		if have >= n {
			return nil
		}
		select {
		case <-grown:
		case <-ctx.Done():
			return fmt.Errorf("%d of %d records are visible: %w", have, n, ctx.Err())
		}
	}
}

// publish makes records visible. The caller holds mu.
func (s *Sink[T]) publish(records []Record[T]) {
	s.records = append(s.records, records...)
	close(s.grown)
	s.grown = make(chan struct{})
}

// Delivery is AtLeastOnce or ExactlyOnce, as made.
func (s *Sink[T]) Delivery() connector.Delivery { return s.delivery }

// CommittableCodec encodes committables.
func (s *Sink[T]) CommittableCodec() codec.Codec[Committable] { return committableCodec{} }

// NewWriter makes the writer of one subtask.
func (s *Sink[T]) NewWriter(ctx connector.SinkContext) (connector.Writer[T, Committable], error) {
	if s.delivery != connector.ExactlyOnce {
		return &directWriter[T]{sink: s, subtask: ctx.Subtask()}, nil
	}
	return &writer[T]{
		sink:    s,
		subtask: ctx.Subtask(),
		prefix:  fmt.Sprintf("%s/%d/%s/%d/", escaped(ctx.Lineage()), ctx.Attempt(), ctx.Operator(), ctx.Subtask()),
	}, nil
}

// NewCommitter makes the committer of an exactly-once sink.
func (s *Sink[T]) NewCommitter(ctx connector.CommitterContext) (connector.Committer[Committable], error) {
	if s.delivery != connector.ExactlyOnce {
		return nil, nil
	}
	c := &committer[T]{sink: s, earlier: map[string]int64{}, operator: ctx.Operator()}
	for _, f := range ctx.FormerLineages() {
		c.earlier[escaped(f.Lineage)] = f.LastAttempt
	}
	c.earlier[escaped(ctx.Lineage())] = ctx.Attempt() - 1
	return c, nil
}

func escaped(lineage string) string { return strings.ReplaceAll(lineage, "/", "_") }

type committableCodec struct{}

func (committableCodec) Append(dst []byte, c Committable) ([]byte, error) {
	return append(dst, c.ID...), nil
}

func (committableCodec) Decode(src []byte) (Committable, error) {
	if len(src) == 0 {
		return Committable{}, fmt.Errorf("collect: a committable without an id")
	}
	return Committable{ID: string(src)}, nil
}

func (committableCodec) Format() codec.Format {
	return codec.Format{ID: "weir.collect.committable", Version: 1}
}
