package heap

import (
	"encoding/binary"
	"errors"
	"unsafe"

	"github.com/weirstream/weir/codec"
	"github.com/weirstream/weir/internal/entry"
	"github.com/weirstream/weir/internal/memory"
)

// number is a field that holds an int64 in the entry.
type number struct{ *entry.Field }

func newNumber(name string) number {
	f := &entry.Field{Name: name, Kind: entry.Value, Format: codec.Format{ID: "int64", Version: 1, Size: 8}, Size: 8}
	f.Append = func(dst []byte, p unsafe.Pointer, _ memory.View) ([]byte, error) {
		return binary.LittleEndian.AppendUint64(dst, *(*uint64)(f.At(p))), nil
	}
	f.Load = func(src []byte, _ bool, p unsafe.Pointer, _ *memory.Arena, _ int64) error {
		*(*uint64)(f.At(p)) = binary.LittleEndian.Uint64(src)
		*entry.Bits(p) |= f.Bit
		return nil
	}
	f.Clear = func(p unsafe.Pointer, _ *memory.Arena) { *entry.Bits(p) &^= f.Bit }
	return number{f}
}

func (n number) get(c *entry.Cursor) (int64, bool) {
	return *(*int64)(n.At(c.P)), n.Has(c.P)
}

func (n number) set(c *entry.Cursor, v int64) {
	*entry.Bits(c.P) |= n.Bit
	*(*int64)(n.At(c.P)) = v
}

func (n number) add(c *entry.Cursor) {
	p := c.P
	bits := entry.Bits(p)
	v := (*int64)(n.At(p))
	if *bits&n.Bit == 0 {
		*bits |= n.Bit
		*v = 1
		return
	}
	*v++
}

// text is a field that holds bytes in the arena, with a time to live: the
// entry has {block, length, written}.
type text struct {
	*entry.Field
	ttl int64
}

type textSlotOf struct {
	block   memory.Handle
	length  uint32
	written int64
}

func newText(name string, ttl int64) text {
	f := &entry.Field{Name: name, Kind: entry.Value, Format: codec.Format{ID: "bytes", Version: 1}, Size: unsafe.Sizeof(textSlotOf{}), TTL: ttl > 0, Sweep: 4}
	slot := func(p unsafe.Pointer) *textSlotOf { return (*textSlotOf)(f.At(p)) }
	f.Append = func(dst []byte, p unsafe.Pointer, v memory.View) ([]byte, error) {
		s := slot(p)
		dst = binary.LittleEndian.AppendUint64(dst, uint64(s.written))
		return append(dst, v.Bytes(s.block, int(s.length))...), nil
	}
	f.Load = func(src []byte, _ bool, p unsafe.Pointer, a *memory.Arena, now int64) error {
		if len(src) < 8 {
			return errors.New("short text")
		}
		s := slot(p)
		*s = textSlotOf{a.Alloc(len(src) - 8), uint32(len(src) - 8), int64(binary.LittleEndian.Uint64(src))}
		copy(a.Bytes(s.block, len(src)-8), src[8:])
		*entry.Bits(p) |= f.Bit
		if ttl > 0 {
			f.Expire(p, a, now)
		}
		return nil
	}
	f.Clear = func(p unsafe.Pointer, a *memory.Arena) {
		a.Free(slot(p).block)
		*entry.Bits(p) &^= f.Bit
	}
	f.Touch = func(p unsafe.Pointer, v memory.View) byte { return v.Bytes(slot(p).block, 1)[0] }
	f.Expire = func(p unsafe.Pointer, a *memory.Arena, now int64) {
		if slot(p).written+ttl <= now {
			f.Clear(p, a)
		}
	}
	return text{f, ttl}
}

func (t text) slot(c *entry.Cursor) *textSlotOf { return (*textSlotOf)(t.At(c.P)) }

func (t text) get(c *entry.Cursor) (string, bool) {
	if !t.Has(c.P) || t.ttl > 0 && t.slot(c).written+t.ttl <= c.Now {
		return "", false
	}
	s := t.slot(c)
	return string(c.Arena.Bytes(s.block, int(s.length))), true
}

// set changes the block in place where that is allowed.
func (t text) set(c *entry.Cursor, v string) {
	s := t.slot(c)
	if t.Has(c.P) && (!c.Arena.Writable(s.block) || c.Arena.Cap(s.block) < len(v)) {
		t.Clear(c.P, c.Arena)
	}
	if !t.Has(c.P) {
		s.block = c.Arena.Alloc(max(len(v), 1))
		*entry.Bits(c.P) |= t.Bit
	}
	s.length, s.written = uint32(len(v)), c.Now
	copy(c.Arena.Bytes(s.block, len(v)), v)
}
