package pane

import (
	"sort"
	"unsafe"

	"github.com/weirstream/weir/internal/memory"
	"github.com/weirstream/weir/window"
)

// Len is the number of slices of the current key.
func (s *Store[Acc]) Len() int {
	if !s.field.Has(s.cur.P) {
		return 0
	}
	return int(s.headOf(s.cur.P).count)
}

// Window returns the accumulator of a window, merged from its slices in order
// of time. It may be read only. ok is false if the window holds no record.
func (s *Store[Acc]) Window(span window.Span) (acc *Acc, ok bool, err error) {
	p, a := s.cur.P, s.cur.Arena
	if !s.field.Has(p) {
		return nil, false, nil
	}
	base, n := s.slices(p, a)
	i, _ := s.search(base, n, span.Start)
	if i == n || *startOf(s.slice(base, i)) >= span.End {
		return nil, false, nil
	}
	if i+1 == n || *startOf(s.slice(base, i+1)) >= span.End {
		return s.read(s.slice(base, i), a), true, nil
	}
	s.reset()
	for ; i < n && *startOf(s.slice(base, i)) < span.End; i++ {
		if err := s.merge(&s.merged, s.read(s.slice(base, i), a)); err != nil {
			return nil, false, err
		}
	}
	return &s.merged, true, nil
}

// reset makes merged the accumulator of no record.
func (s *Store[Acc]) reset() {
	if s.flat {
		b := bytesOf(&s.merged)
		*b = (*b)[:0]
	} else {
		var zero Acc
		s.merged = zero
	}
	s.init(&s.merged)
}

// read returns the accumulator of a slice, to be read.
func (s *Store[Acc]) read(r unsafe.Pointer, a *memory.Arena) *Acc {
	if s.flat {
		b := textOf(r).bytes(a)
		*bytesOf(&s.other) = b[:len(b):len(b)]
		return &s.other
	}
	return (*Acc)(unsafe.Add(r, startSize))
}

// Each calls fn with the start and the accumulator of each slice of the
// current key that starts in span, in ascending order. fn must not change them
// or the entry; its error ends the iteration and is returned.
func (s *Store[Acc]) Each(span window.Span, fn func(start int64, acc *Acc) error) error {
	p, a := s.cur.P, s.cur.Arena
	if !s.field.Has(p) {
		return nil
	}
	base, n := s.slices(p, a)
	for i, _ := s.search(base, n, span.Start); i < n; i++ {
		r := s.slice(base, i)
		if *startOf(r) >= span.End {
			break
		}
		if err := fn(*startOf(r), s.read(r, a)); err != nil {
			return err
		}
	}
	return nil
}

// NextEnd is the earliest end, above after, of a window that holds a record of
// the current key; ok is false if there is none. Its cost does not depend on
// how far the end is from after.
func (s *Store[Acc]) NextEnd(after int64) (end int64, ok bool) {
	p := s.cur.P
	if !s.field.Has(p) {
		return 0, false
	}
	base, n := s.slices(p, s.cur.Arena)
	i := 0
	if n > maxInline {
		i = sort.Search(n, func(i int) bool {
			last, ok := s.windows.LastEnd(*startOf(s.slice(base, i)))
			return ok && last > after
		})
	}
	for ; i < n; i++ {
		if end, ok = s.windows.EndAfter(*startOf(s.slice(base, i)), after); ok {
			return end, true
		}
	}
	return 0, false
}

// NextExpiry is the watermark at which Expire will drop the oldest slice of
// the current key; ok is false if the key has none.
func (s *Store[Acc]) NextExpiry() (watermark int64, ok bool) {
	p := s.cur.P
	if !s.field.Has(p) {
		return 0, false
	}
	base, _ := s.slices(p, s.cur.Arena)
	end, ok := s.windows.LastEnd(*startOf(base))
	return window.Span{End: end}.Expiry(s.lateness), ok
}

// Expire drops the slices of the current key whose windows have all expired at
// the watermark, and clears the field when none is left.
func (s *Store[Acc]) Expire(watermark int64) {
	p, a := s.cur.P, s.cur.Arena
	if !s.field.Has(p) {
		return
	}
	base, n := s.slices(p, a)
	k := 0
	for ; k < n && s.windows.Late(*startOf(s.slice(base, k)), watermark, s.lateness); k++ {
	}
	switch {
	case k == n:
		s.clear(p, a)
	case k > 0:
		s.release(base, k, a)
		s.dropFirst(p, a, k)
	}
}

// release frees the bytes of the first n slices.
func (s *Store[Acc]) release(base unsafe.Pointer, n int, a *memory.Arena) {
	if !s.flat {
		return
	}
	for i := range n {
		a.Free(textOf(s.slice(base, i)).block)
	}
}
