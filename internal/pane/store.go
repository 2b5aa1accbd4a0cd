// Package pane keeps the contents of windows as slices of time within the
// entry of a key.
//
// A record touches the accumulator of exactly one slice, however many windows
// cover it; a window that fires merges its slices. The slices of a key lie in
// its entry, in ascending order of time: in line while they are few, else in an
// arena block that grows with their number. The field in the entry is
//
//	offset 0  uint32  handle of the block, 0 if the slices are in line
//	offset 4  uint32  number of slices
//	offset 8  slices in line
//
// and a slice is its start (int64, milliseconds) followed by the accumulator
// or, if that is a []byte, by the handle and the length of its bytes.
package pane

import (
	"errors"
	"fmt"
	"reflect"
	"time"
	"unsafe"

	"github.com/weirstream/weir/codec"
	"github.com/weirstream/weir/internal/entry"
	"github.com/weirstream/weir/internal/fixed"
	"github.com/weirstream/weir/internal/memory"
	"github.com/weirstream/weir/window"
)

const (
	headSize  = 8
	startSize = 8
	// maxInline is how many slices lie in line at most, and inlineBytes how
	// many bytes they take.
	maxInline   = 4
	inlineBytes = 96
)

// Config describes the windows of an operator. All fields but Lateness are
// needed.
type Config[Acc any] struct {
	// Name of the state.
	Name    string
	Windows window.Assigner
	// Lateness is for how long after its end a window is kept.
	Lateness time.Duration
	// Kind, Init and Merge are those of the agg.Aggregator.
	Kind  string
	Init  func(acc *Acc)
	Merge func(acc, other *Acc) error
	// Convert returns how stored accumulators of another form become those of
	// Acc, and the size of stored ones, 0 if it varies; same tells that an
	// aggregate of this kind has stored them. nil if there is no other form.
	Convert func(stored codec.Format, same bool) (size int, conv entry.Conversion, err error)
}

// Store is the windows of one operator in one subtask. Its methods work on the
// entry of the current key and are called by the owner of the cursor only.
//
// A pointer to an accumulator that a method returns is valid until the next
// call of a method.
type Store[Acc any] struct {
	windows  window.Assigner
	lateness int64
	init     func(*Acc)
	merge    func(acc, other *Acc) error
	convert  func(stored codec.Format, same bool) (int, entry.Conversion, error)
	kind     string
	// flat accumulators are a []byte; the others have a layout.
	flat   bool
	layout *fixed.Layout
	// size is that of a slice, inline how many lie in line.
	size   uintptr
	inline int
	field  *entry.Field
	cur    *entry.Cursor
	// off is the field's place in the entry; bit is its presence bit, 0 if the
	// accumulators are flat.
	off uintptr
	bit uint32
	// span is the slice that was located last.
	span window.Span

	// open is the flat slice whose bytes acc holds, spare memory for the first
	// bytes of one. other and merged are scratch of Window.
	open               *text
	acc, other, merged Acc
	spare              []byte
}

// head is the first word of the field.
type head struct {
	block memory.Handle
	count uint32
}

// text is where the bytes of a flat accumulator are.
type text struct {
	block memory.Handle
	len   uint32
}

// New returns the store; it works once the field is planned and Bind called.
// Acc must be free of pointers, or []byte.
func New[Acc any](c Config[Acc]) (*Store[Acc], error) {
	s := &Store[Acc]{windows: c.Windows, lateness: c.Lateness.Milliseconds(), init: c.Init, merge: c.Merge, convert: c.Convert, kind: c.Kind}
	if err := errors.Join(c.Windows.Err(), checkLateness(c.Lateness)); err != nil {
		return nil, err
	}
	schema := "bytes"
	if t := reflect.TypeFor[Acc](); t == reflect.TypeFor[[]byte]() {
		s.flat, s.size = true, startSize+unsafe.Sizeof(text{})
	} else {
		l, err := fixed.Of(t)
		if err != nil {
			return nil, fmt.Errorf("accumulator: %w; keep it in a []byte", err)
		}
		schema = l.String()
		s.layout, s.size = l, startSize+(t.Size()+7)&^7
	}
	s.inline = inline(c.Windows, s.lateness, s.size)
	s.field = &entry.Field{
		Name: c.Name, Kind: entry.Slices,
		Format: codec.Format{ID: "slices", Version: 1, Schema: schema},
		Detail: c.Kind + " in " + c.Windows.String(),
		Size:   headSize + uintptr(s.inline)*s.size,
		Append: s.appendField, Load: s.load, Clear: s.clear, Touch: s.touch,
	}
	if c.Convert != nil {
		s.field.Convert = s.conversion
	}
	return s, nil
}

func checkLateness(d time.Duration) error {
	if d < 0 || d%time.Millisecond != 0 {
		return fmt.Errorf("allowed lateness %v: it must be a whole number of milliseconds, not negative", d)
	}
	return nil
}

// inline is how many slices are worth a place in the entry: what is alive at
// once while event time advances steadily, as far as it fits.
func inline(w window.Assigner, lateness int64, size uintptr) int {
	perSlide := int64(1)
	if w.Size() > w.Slide() && w.Size()%w.Slide() != 0 {
		perSlide = 2
	}
	slides := min((w.Size()+w.Slide()-1)/w.Slide()+(lateness+w.Slide()-1)/w.Slide(), maxInline)
	return min(int(slides*perSlide)+1, maxInline, inlineBytes/int(size))
}

// Field is the state to be planned and kept by the backend.
func (s *Store[Acc]) Field() *entry.Field { return s.field }

// Bind sets the cursor, once the field is planned.
func (s *Store[Acc]) Bind(cur *entry.Cursor) {
	s.cur, s.off = cur, s.field.Off
	if !s.flat {
		s.bit = s.field.Bit
	}
}

// Locate returns the start of the slice of ts; ok is as for
// window.Assigner.Slice.
func (s *Store[Acc]) Locate(ts int64) (start int64, ok bool) {
	if s.span.Start <= ts && ts < s.span.End {
		return s.span.Start, true
	}
	return s.locate(ts)
}

func (s *Store[Acc]) locate(ts int64) (int64, bool) {
	span, ok := s.windows.Slice(ts)
	if ok {
		s.span = span
	}
	return span.Start, ok
}

// At returns the accumulator of the slice that starts at start, to be changed;
// it is that of no record if the slice is new. Keep must follow the change.
func (s *Store[Acc]) At(start int64) *Acc {
	// The common case: the newest slice, in line.
	p := s.cur.P
	h := (*head)(unsafe.Add(p, s.off))
	if *entry.Bits(p)&s.bit != 0 && h.block == 0 {
		r := unsafe.Add(unsafe.Pointer(h), headSize+uintptr(h.count-1)*s.size)
		if *startOf(r) == start {
			return (*Acc)(unsafe.Add(r, startSize))
		}
	}
	return s.find(start)
}

// find is At in all cases.
func (s *Store[Acc]) find(start int64) *Acc {
	p, a := s.cur.P, s.cur.Arena
	if !s.field.Has(p) {
		return s.fresh(s.insert(p, a, 0, start))
	}
	base, n := s.slices(p, a)
	r := s.slice(base, n-1)
	if *startOf(r) != start {
		i, found := s.search(base, n, start)
		if !found {
			return s.fresh(s.insert(p, a, i, start))
		}
		r = s.slice(base, i)
	}
	if h := s.headOf(p); h.block != 0 && !a.Writable(h.block) {
		r = s.thawed(h, a, base, r)
	}
	if s.flat {
		return s.opened(r, a)
	}
	return (*Acc)(unsafe.Add(r, startSize))
}

// Keep stores what became of the accumulator that At returned.
func (s *Store[Acc]) Keep() {
	if s.flat {
		s.keep(s.cur.Arena)
	}
}

// headOf is the head of the entry's field.
func (s *Store[Acc]) headOf(p unsafe.Pointer) *head { return (*head)(s.field.At(p)) }

// slices returns the slices of an entry that has the field.
func (s *Store[Acc]) slices(p unsafe.Pointer, a *memory.Arena) (base unsafe.Pointer, n int) {
	h := s.headOf(p)
	if h.block == 0 {
		return unsafe.Add(unsafe.Pointer(h), headSize), int(h.count)
	}
	return unsafe.Pointer(unsafe.SliceData(a.Bytes(h.block, 1))), int(h.count)
}

func (s *Store[Acc]) slice(base unsafe.Pointer, i int) unsafe.Pointer {
	return unsafe.Add(base, uintptr(i)*s.size)
}

func startOf(r unsafe.Pointer) *int64 { return (*int64)(r) }

func textOf(r unsafe.Pointer) *text { return (*text)(unsafe.Add(r, startSize)) }

// search returns the index of the first slice that does not start before
// start, and whether it is the one wanted. Records come roughly in order, so
// it looks at the newest first.
func (s *Store[Acc]) search(base unsafe.Pointer, n int, start int64) (i int, found bool) {
	const few = 8
	low, high := 0, n
	for ; high > 0 && n-high < few; high-- {
		at := *startOf(s.slice(base, high-1))
		if at == start {
			return high - 1, true
		}
		if at < start {
			return high, false
		}
	}
	for low < high {
		mid := int(uint(low+high) / 2)
		if *startOf(s.slice(base, mid)) < start {
			low = mid + 1
		} else {
			high = mid
		}
	}
	return low, low < n && *startOf(s.slice(base, low)) == start
}
