package state

import (
	"encoding/binary"
	"unsafe"

	"github.com/weirstream/weir/internal/entry"
	"github.com/weirstream/weir/internal/memory"
	"github.com/weirstream/weir/internal/snapshot"
)

// listCell is the storage of a list state: a block of elements, to which
// others are appended in place.
//
//	element:  time of last access (with TTL, little-endian), then
//	          the T as it lies in Go memory, if it has no pointers;
//	          or its encoded bytes, after their uvarint length unless that is fixed
//
// A snapshot reads the bytes in use at its barrier. So appending changes a
// block in place always, anything else only where the arena says so.
type listCell[T any] struct {
	cell
	form form[T]
	// raw elements lie as in Go memory, stride bytes apart; head is where
	// the T begins. plain ones lie so in a snapshot, too.
	raw          bool
	plain        bool
	head, stride int
	// gen counts the changes that end iterations.
	gen int
	buf []byte
	err error
}

// listSlot is what a list takes in the state entry.
type listSlot struct {
	block memory.Handle
	count uint32
	used  uint64
}

const listSlotSize = unsafe.Sizeof(listSlot{})

func (c *listCell[T]) init(o options) error {
	var err error
	if c.form, err = formOf[T](o); err != nil {
		return err
	}
	c.raw = c.form.layout != nil
	c.stride = int(c.form.mem)
	if c.ttl.on() {
		c.head = timeSize
		c.stride = timeSize + int(align8(c.form.mem))
		c.f.Expire = c.expire
		c.f.Prune = c.ttl.pruneElements(c.form.format.Size)
	}
	c.plain = !c.raw || c.form.layout.Plain() && c.head+c.form.layout.Size() == c.stride
	c.f.Format = c.form.format
	c.f.Format.Size, c.f.ItemSize = 0, c.form.format.Size
	c.f.Append, c.f.Load, c.f.Clear, c.f.Touch = c.appendTo, c.load, c.clear, c.touch
	c.f.Convert = c.convert
	return nil
}

func (c *listCell[T]) slot(p unsafe.Pointer) *listSlot { return (*listSlot)(c.f.At(p)) }

func (c *listCell[T]) add(v T) error {
	p := c.cur.P
	if p == nil {
		return ErrNoKey
	}
	if c.raw {
		c.pushRaw(p, v)
		return nil
	}
	return c.addAll([]T{v})
}

func (c *listCell[T]) pushRaw(p unsafe.Pointer, v T) {
	e := c.extend(p, c.cur.Arena, 1, c.stride)
	if c.head > 0 {
		putTime(e, c.cur.Now)
	}
	*(*T)(unsafe.Add(e, c.head)) = v
}

func (c *listCell[T]) addAll(vs []T) error {
	p := c.cur.P
	if p == nil {
		return ErrNoKey
	}
	if len(vs) == 0 {
		return nil
	}
	if err := c.encode(vs); err != nil {
		return err
	}
	c.push(p, vs)
	return nil
}

// encode encodes elements that are not raw into buf.
func (c *listCell[T]) encode(vs []T) error {
	c.buf = c.buf[:0]
	if c.raw {
		return nil
	}
	for i := range vs {
		b, err := c.form.bytes(&vs[i])
		if err != nil {
			return err
		}
		c.buf = c.appendElement(c.buf, c.cur.Now, b)
	}
	return nil
}

func (c *listCell[T]) appendElement(dst []byte, at int64, b []byte) []byte {
	if c.head > 0 {
		dst = binary.LittleEndian.AppendUint64(dst, uint64(at))
	}
	return snapshot.AppendItem(dst, c.form.format.Size, b)
}

// push appends elements; those that are not raw lie in buf.
func (c *listCell[T]) push(p unsafe.Pointer, vs []T) {
	if c.raw {
		for _, v := range vs {
			c.pushRaw(p, v)
		}
		return
	}
	e := c.extend(p, c.cur.Arena, len(vs), len(c.buf))
	copy(unsafe.Slice((*byte)(e), len(c.buf)), c.buf)
	if cap(c.buf) > maxScratch {
		c.buf = nil
	}
}

// extend appends n elements of size bytes together, and returns where they
// are to be written.
func (c *listCell[T]) extend(p unsafe.Pointer, a *memory.Arena, n, size int) unsafe.Pointer {
	s := c.slot(p)
	if !c.f.Has(p) {
		*s = listSlot{block: a.Alloc(size)}
		*entry.Bits(p) |= c.f.Bit
	}
	used := int(s.used)
	b := a.Bytes(s.block, 0)
	if used+size > cap(b) {
		h := a.Alloc(max(2*used, used+size))
		b = a.Bytes(h, 0)
		copy(b[:used], a.Bytes(s.block, used))
		a.Free(s.block)
		s.block = h
	}
	s.used += uint64(size)
	s.count += uint32(n)
	return unsafe.Add(start(b), used)
}

func (c *listCell[T]) update(vs []T) error {
	p := c.cur.P
	if p == nil {
		return ErrNoKey
	}
	if err := c.encode(vs); err != nil {
		return err
	}
	c.gen++
	if c.f.Has(p) {
		a, s := c.cur.Arena, c.slot(p)
		if len(vs) == 0 || !a.Writable(s.block) {
			c.clear(p, a)
		} else {
			s.count, s.used = 0, 0
		}
	}
	if len(vs) > 0 {
		c.push(p, vs)
	}
	return nil
}

func (c *listCell[T]) clear(p unsafe.Pointer, a *memory.Arena) {
	c.gen++
	a.Free(c.slot(p).block)
	*entry.Bits(p) &^= c.f.Bit
}

// element returns the time of the element at the front of b, 0 without TTL,
// its value and the number of bytes it takes. The list is well formed.
func (c *listCell[T]) element(b []byte) (at int64, v []byte, size int) {
	if c.head > 0 {
		at = int64(binary.LittleEndian.Uint64(b))
	}
	if c.raw {
		return at, b[c.head:c.stride], c.stride
	}
	v, rest, _ := snapshot.Item(b[c.head:], c.form.format.Size)
	return at, v, len(b) - len(rest)
}

func (c *listCell[T]) len(p unsafe.Pointer) int {
	s := c.slot(p)
	if !c.ttl.on() || c.ttl.lenient {
		return int(s.count)
	}
	return c.live(c.cur.Arena.Bytes(s.block, int(s.used)), c.cur.Now)
}

// each calls yield for every element of the current list.
func (c *listCell[T]) each(yield func(T) bool) {
	p := c.cur.P
	c.err = nil
	if p == nil {
		c.err = ErrNoKey
		return
	}
	if !c.f.Has(p) {
		return
	}
	if c.ttl.on() {
		if c.ttl.lenient {
			defer c.filterCurrent(p)
		} else if c.filterCurrent(p); !c.f.Has(p) {
			return
		}
	}
	gen, off := c.gen, 0
	for n := c.slot(p).count; n > 0; n-- {
		s := c.slot(p)
		_, b, size := c.element(c.cur.Arena.Bytes(s.block, int(s.used))[off:])
		off += size
		v, err := c.decode(b)
		if err != nil {
			c.err = err
			return
		}
		if !yield(v) || c.gen != gen || c.cur.P != p {
			return
		}
	}
}

func (c *listCell[T]) decode(b []byte) (T, error) {
	if c.raw {
		return *(*T)(start(b)), nil
	}
	return c.form.decode(b)
}

// filterCurrent does what a read does to times.
func (c *listCell[T]) filterCurrent(p unsafe.Pointer) {
	if c.cur.P == p && c.f.Has(p) {
		c.filter(p, c.cur.Arena, c.cur.Now, c.ttl.onRead)
	}
}
