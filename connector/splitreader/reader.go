package splitreader

import "github.com/weirstream/weir/connector"

// Reader is a connector.Reader over SplitReaders. Sources embed it and override
// what they need.
type Reader[T any, S Split[S]] struct{ *core[T, T, S, S] }

// New makes a reader with one SplitReader for all splits, which it owns from
// Start on.
func New[T any, S Split[S]](ctx connector.ReaderContext, r SplitReader[T, S], opts ...Option) *Reader[T, S] {
	open := func() (SplitReader[T, S], error) { return r, nil }
	own := NewWith(ctx, open, OneFetcher[S](), opts...)
	own.fetchers.own = r
	return own
}

// NewWith makes a reader with as many SplitReaders as the model asks for. open
// makes one; it is called on the goroutine that will fetch, and may block.
func NewWith[T any, S Split[S]](ctx connector.ReaderContext, open func() (SplitReader[T, S], error), m Model[S], opts ...Option) *Reader[T, S] {
	return &Reader[T, S]{newCore[T, T, S, S](ctx, open, m, positions[T, S]{}, opts)}
}

// positions emits records as they were fetched; a split is its own state.
type positions[T any, S Split[S]] struct{}

func (positions[T, S]) initial(s S) S          { return s }
func (positions[T, S]) split(_ string, s *S) S { return *s }

func (positions[T, S]) emit(b *Batch[T], s *S, out *connector.Output[T]) (done bool, err error) {
	from, to, n := b.emitted, b.cut(out.Room()), len(b.Vals)
	switch {
	case to == from:
	case to-from == n && len(out.Vals) == 0: // all of it: no need to copy
		out.SetSplit(b.Split)
		b.Vals, out.Vals = out.Vals, b.Vals
		b.Times, out.Times = out.Times, b.Times
	default:
		out.SetSplit(b.Split)
		out.Vals = append(out.Vals, b.Vals[from:to]...)
		out.Times = append(out.Times, b.Times[from:to]...)
	}
	if b.emitted = to; to < n {
		*s = (*s).At(b.Ends[to-1], b.Epoch)
		return false, nil
	}
	*s = (*s).At(b.End, b.Epoch)
	return true, nil
}
