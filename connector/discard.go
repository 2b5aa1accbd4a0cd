package connector

import (
	"context"
	"errors"

	"github.com/weirstream/weir/codec"
)

// Discard is a sink that drops every record. It promises nothing and holds
// nothing.
func Discard[T any]() Sink[T, NoCommit] { return discard[T]{} }

type discard[T any] struct{}

func (discard[T]) Delivery() Delivery                                         { return None }
func (discard[T]) CommittableCodec() codec.Codec[NoCommit]                    { return NoCommitCodec{} }
func (discard[T]) NewWriter(SinkContext) (Writer[T, NoCommit], error)         { return discard[T]{}, nil }
func (discard[T]) NewCommitter(CommitterContext) (Committer[NoCommit], error) { return nil, nil }

func (discard[T]) Write([]T, []int64) error            { return nil }
func (discard[T]) Flush(context.Context) error         { return nil }
func (discard[T]) PreCommit(int64) ([]NoCommit, error) { return nil, nil }
func (discard[T]) Committed(int64) error               { return nil }
func (discard[T]) Close() error                        { return nil }

// NoCommitCodec is the codec of NoCommit, for sinks without committables:
// zero bytes.
type NoCommitCodec struct{}

// Append appends nothing.
func (NoCommitCodec) Append(dst []byte, _ NoCommit) ([]byte, error) { return dst, nil }

// Decode accepts only zero bytes.
func (NoCommitCodec) Decode(src []byte) (NoCommit, error) {
	if len(src) != 0 {
		return NoCommit{}, errors.New("a committable of a sink that has none")
	}
	return NoCommit{}, nil
}

// Format identifies the encoding.
func (NoCommitCodec) Format() codec.Format { return codec.Format{ID: "none", Version: 1} }
