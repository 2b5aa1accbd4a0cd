package state

import (
	"encoding/binary"
	"fmt"
	"unsafe"

	"github.com/weirstream/weir/internal/memory"
	"github.com/weirstream/weir/internal/snapshot"
)

// filter removes the elements that have expired at now, and gives the others
// that time if renew is set.
func (c *listCell[T]) filter(p unsafe.Pointer, a *memory.Arena, now int64, renew bool) {
	s := c.slot(p)
	live := c.live(a.Bytes(s.block, int(s.used)), now)
	switch {
	case live == 0:
		c.clear(p, a)
		return
	case live == int(s.count) && !renew:
		return
	}
	from := a.Bytes(s.block, int(s.used))
	to, old := s.block, s.block
	if !a.Writable(old) {
		to = a.Alloc(len(from))
	}
	dst := a.Bytes(to, len(from))
	used := 0
	for len(from) > 0 {
		at, _, size := c.element(from)
		if !c.ttl.expired(at, now) {
			copy(dst[used:], from[:size])
			if renew {
				putTime(start(dst[used:]), now)
			}
			used += size
		}
		from = from[size:]
	}
	if live < int(s.count) {
		c.gen++
	}
	s.block, s.count, s.used = to, uint32(live), uint64(used)
	if to != old {
		a.Free(old)
	}
}

// expire removes expired elements, once they are a part of all of them that is
// worth the copying. They are in the order of their times, so mostly a look at
// the first is enough; when the clock was set back others wait for it.
func (c *listCell[T]) expire(p unsafe.Pointer, a *memory.Arena, now int64) {
	const part = 8
	s := c.slot(p)
	b, dead := a.Bytes(s.block, int(s.used)), 0
	for len(b) > 0 && part*dead < int(s.count) {
		at, _, size := c.element(b)
		if !c.ttl.expired(at, now) {
			return
		}
		dead++
		b = b[size:]
	}
	c.filter(p, a, now, false)
}

// live counts the elements that have not expired.
func (c *listCell[T]) live(b []byte, now int64) int {
	n := 0
	for len(b) > 0 {
		at, _, size := c.element(b)
		if !c.ttl.expired(at, now) {
			n++
		}
		b = b[size:]
	}
	return n
}

// putTime sets the time of the element at e, which need not be aligned.
func putTime(e unsafe.Pointer, at int64) {
	binary.LittleEndian.PutUint64(unsafe.Slice((*byte)(e), timeSize), uint64(at))
}

// touch loads the end of the last element, behind which the next one goes.
func (c *listCell[T]) touch(p unsafe.Pointer, v memory.View) byte {
	s := c.slot(p)
	if s.used == 0 {
		return 0 // elements may take no bytes
	}
	return v.Bytes(s.block, int(s.used))[s.used-1]
}

// appendTo encodes a list: the count, then per element its time with TTL and
// its value.
func (c *listCell[T]) appendTo(dst []byte, p unsafe.Pointer, v memory.View) ([]byte, error) {
	s := c.slot(p)
	dst = binary.AppendUvarint(dst, uint64(s.count))
	b := v.Bytes(s.block, int(s.used))
	if c.plain {
		return append(dst, b...), nil
	}
	for ; len(b) > 0; b = b[c.stride:] {
		if c.head > 0 {
			dst = append(dst, b[:timeSize]...)
		}
		dst = c.form.layout.Append(dst, unsafe.Add(start(b), c.head))
	}
	return dst, nil
}

func (c *listCell[T]) load(src []byte, timed bool, p unsafe.Pointer, a *memory.Arena, now int64) error {
	c.reset(p, a)
	n, src, err := countOf(src)
	if err != nil {
		return err
	}
	if size := c.form.format.Size; size > 0 {
		if timed {
			size += timeSize
		}
		if n > len(src)/size {
			return errTruncated
		}
	}
	for range n {
		if src, err = c.loadElement(src, timed, p, a, now); err != nil {
			break
		}
	}
	if err == nil && len(src) > 0 {
		err = fmt.Errorf("%d bytes follow the last element", len(src))
	}
	if err != nil {
		c.reset(p, a)
	}
	return err
}

// loadElement decodes one element, appends it unless it has expired, and
// returns what follows it.
func (c *listCell[T]) loadElement(src []byte, timed bool, p unsafe.Pointer, a *memory.Arena, now int64) ([]byte, error) {
	at, src, err := c.loadTime(src, timed, now)
	if err != nil {
		return nil, err
	}
	b, rest, err := snapshot.Item(src, c.form.format.Size)
	if err != nil || c.expiredAt(at, now) {
		return rest, err
	}
	if !c.raw {
		c.buf = c.appendElement(c.buf[:0], at, b)
		e := c.extend(p, a, 1, len(c.buf))
		copy(unsafe.Slice((*byte)(e), len(c.buf)), c.buf)
		return rest, nil
	}
	e := c.extend(p, a, 1, c.stride)
	if c.head > 0 {
		putTime(e, at)
	}
	if err := c.form.layout.Load(unsafe.Add(e, c.head), b); err != nil {
		return nil, err
	}
	return rest, nil
}
