package heap

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"unsafe"

	"github.com/weirstream/weir/codec"
	"github.com/weirstream/weir/internal/entry"
	"github.com/weirstream/weir/internal/memory"
)

// timers is what an entry holds of a field of timers. All-zero bytes are a
// valid form without timers; ref and indexed are valid whether the field is
// present or not.
type timers struct {
	// next is the earliest timer.
	next int64
	// ref is the time of the one reference in the wheel that counts, if indexed is set:
	// at or before next.
	ref int64
	// list is a block of int64s; first..end of them are the further timers,
	// ascending.
	list       memory.Handle
	first, end uint32
	indexed    uint32
}

// timerFormat is that of a field of timers in a snapshot: a uvarint count, then the times as 8
// bytes each, little-endian, ascending.
var timerFormat = codec.Format{ID: "timers", Version: 1}

// NewTimerField makes the field that holds the timers of a key in a time
// domain, for Options.Fields.
func NewTimerField(d entry.Domain) *entry.Field {
	f := &entry.Field{Kind: entry.EventTimers, Format: timerFormat, Size: unsafe.Sizeof(timers{})}
	if d == entry.ProcessingTime {
		f.Kind = entry.ProcessingTimers
	}
	f.Name = string(f.Kind)
	f.Append = func(dst []byte, p unsafe.Pointer, v memory.View) ([]byte, error) {
		return (*timers)(f.At(p)).encode(dst, v), nil
	}
	f.Load = func(src []byte, _ bool, p unsafe.Pointer, a *memory.Arena, _ int64) error {
		if err := (*timers)(f.At(p)).load(src, a); err != nil {
			return err
		}
		*entry.Bits(p) |= f.Bit
		return nil
	}
	f.Clear = func(p unsafe.Pointer, a *memory.Arena) {
		(*timers)(f.At(p)).release(a)
		*entry.Bits(p) &^= f.Bit
	}
	return f
}

func domainOf(k entry.Kind) (entry.Domain, bool) {
	switch k {
	case entry.EventTimers:
		return entry.EventTime, true
	case entry.ProcessingTimers:
		return entry.ProcessingTime, true
	}
	return 0, false
}

// init makes at the only timer.
func (t *timers) init(at int64) { t.next, t.list, t.first, t.end = at, 0, 0, 0 }

// count is the number of timers of a present field.
func (t *timers) count() int { return 1 + int(t.end-t.first) }

// more returns the further timers.
func (t *timers) more(a *memory.Arena) []int64 {
	if t.list == 0 {
		return nil
	}
	return words(a.Bytes(t.list, int(t.end)*8))[t.first:]
}

func words(b []byte) []int64 {
	return unsafe.Slice((*int64)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/8)
}

// add adds a timer, if it is not there yet.
func (t *timers) add(at int64, a *memory.Arena) {
	switch {
	case at == t.next:
	case at < t.next:
		t.insert(0, t.next, a)
		t.next = at
	default:
		if i, found := slices.BinarySearch(t.more(a), at); !found {
			t.insert(i, at, a)
		}
	}
}

// insert puts at among the further timers, as number i.
func (t *timers) insert(i int, at int64, a *memory.Arena) {
	n := int(t.end - t.first)
	if i == n && t.list != 0 && (int(t.end)+1)*8 <= a.Cap(t.list) {
		// Behind all that a snapshot may read: see remove.
		t.end++
		t.more(a)[n] = at
		return
	}
	t.own(n+1, a)
	t.end++
	l := t.more(a)
	copy(l[i+1:], l[i:n])
	l[i] = at
}

// own makes the list one that may be changed, from its start on, with room for
// n timers.
func (t *timers) own(n int, a *memory.Arena) {
	old := t.more(a)
	if t.list != 0 && a.Writable(t.list) && n*8 <= a.Cap(t.list) {
		copy(words(a.Bytes(t.list, len(old)*8)), old)
		t.first, t.end = 0, uint32(len(old))
		return
	}
	room := n
	if n > len(old) {
		room = max(n, 2*len(old))
	}
	h := a.Alloc(room * 8)
	copy(words(a.Bytes(h, len(old)*8)), old)
	a.Free(t.list)
	t.list, t.first, t.end = h, 0, uint32(len(old))
}

// pop drops the earliest timer and reports whether there is another.
func (t *timers) pop(a *memory.Arena) bool {
	if t.first == t.end {
		t.release(a)
		return false
	}
	t.next = t.more(a)[0]
	if t.first++; t.first == t.end {
		t.release(a)
	}
	return true
}

// remove deletes a timer, if it is there, and reports whether one is left.
func (t *timers) remove(at int64, a *memory.Arena) bool {
	if at == t.next {
		return t.pop(a)
	}
	l := t.more(a)
	i, found := slices.BinarySearch(l, at)
	if !found {
		return true
	}
	if len(l) == 1 {
		t.release(a)
		return true
	}
	// Even the last one goes from a list of our own only, so that what insert
	// appends is never in a snapshot.
	t.own(len(l), a)
	l = t.more(a)
	copy(l[i:], l[i+1:])
	t.end--
	return true
}

// release frees the list.
func (t *timers) release(a *memory.Arena) {
	a.Free(t.list)
	t.list, t.first, t.end = 0, 0, 0
}

func (t *timers) encode(dst []byte, v memory.View) []byte {
	dst = binary.AppendUvarint(dst, uint64(t.count()))
	dst = binary.LittleEndian.AppendUint64(dst, uint64(t.next))
	if t.list != 0 {
		for _, at := range words(v.Bytes(t.list, int(t.end)*8))[t.first:] {
			dst = binary.LittleEndian.AppendUint64(dst, uint64(at))
		}
	}
	return dst
}

var errTimers = errors.New("malformed timers")

func (t *timers) load(src []byte, a *memory.Arena) error {
	n, k := binary.Uvarint(src)
	if k <= 0 || n == 0 || n > uint64(len(src)) || uint64(len(src)-k) != 8*n {
		return fmt.Errorf("%w: %d bytes do not hold the count they begin with", errTimers, len(src))
	}
	src = src[k:]
	at := func(i uint64) int64 { return int64(binary.LittleEndian.Uint64(src[8*i:])) }
	for i := uint64(1); i < n; i++ {
		if at(i-1) >= at(i) {
			return fmt.Errorf("%w: not in ascending order", errTimers)
		}
	}
	t.init(at(0))
	if n == 1 {
		return nil
	}
	t.list, t.end = a.Alloc(int(n-1)*8), uint32(n-1)
	for i, l := 0, t.more(a); i < len(l); i++ {
		l[i] = at(uint64(i) + 1)
	}
	return nil
}
