// Package console writes records as lines of text, for a look at a stream.
package console

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"sync"

	"github.com/weirstream/weir/codec"
	"github.com/weirstream/weir/connector"
)

// Sink writes each record to w as a line "label:subtask> value", the value in
// the form of fmt's %v, the subtask counted from 0; with an empty label
// "subtask> value". A batch is one Write; lines of the sink's subtasks do not
// mix. If w is shared with other writers it must be safe for concurrent use.
// Delivery is at-least-once.
func Sink[T any](w io.Writer, label string) connector.Sink[T, connector.NoCommit] {
	return &sink[T]{w: w, label: label}
}

type sink[T any] struct {
	mu    sync.Mutex
	w     io.Writer
	label string
}

func (s *sink[T]) Delivery() connector.Delivery { return connector.AtLeastOnce }

func (s *sink[T]) CommittableCodec() codec.Codec[connector.NoCommit] {
	return connector.NoCommitCodec{}
}

func (s *sink[T]) NewCommitter(connector.CommitterContext) (connector.Committer[connector.NoCommit], error) {
	return nil, nil
}

func (s *sink[T]) NewWriter(ctx connector.SinkContext) (connector.Writer[T, connector.NoCommit], error) {
	prefix := strconv.Itoa(ctx.Subtask()) + "> "
	if s.label != "" {
		prefix = s.label + ":" + prefix
	}
	return &writer[T]{sink: s, prefix: prefix}, nil
}

type writer[T any] struct {
	sink   *sink[T]
	prefix string
	buf    []byte
}

func (w *writer[T]) Write(vals []T, _ []int64) error {
	w.buf = w.buf[:0]
	for _, v := range vals {
		w.buf = append(w.buf, w.prefix...)
		w.buf = fmt.Append(w.buf, v)
		w.buf = append(w.buf, '\n')
	}
	w.sink.mu.Lock()
	defer w.sink.mu.Unlock()
	if _, err := w.sink.w.Write(w.buf); err != nil {
		return fmt.Errorf("console sink: %w", err)
	}
	return nil
}

func (w *writer[T]) Flush(context.Context) error                   { return nil }
func (w *writer[T]) PreCommit(int64) ([]connector.NoCommit, error) { return nil, nil }
func (w *writer[T]) Committed(int64) error                         { return nil }
func (w *writer[T]) Close() error                                  { return nil }
