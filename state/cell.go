package state

import (
	"encoding/binary"
	"errors"
	"math"
	"unsafe"

	"github.com/weirstream/weir/internal/entry"
	"github.com/weirstream/weir/internal/memory"
)

// ErrNoKey is returned by handles of keyed state that are used while no key
// is current: in a constructor, in Open, in Close, or on another goroutine.
var ErrNoKey = errors.New("state: no key is current; keyed state can be used only while a record or a timer is processed")

// cell is what all kinds of keyed state have.
type cell struct {
	cur *entry.Cursor
	f   *entry.Field
	ttl ttl
	// migrations are those to the type of the values.
	migrations migrations
}

// current returns the current entry.
func (c *cell) current() (unsafe.Pointer, error) {
	if p := c.cur.P; p != nil {
		return p, nil
	}
	return nil, ErrNoKey
}

// reset clears the field of an entry that is about to be loaded.
func (c *cell) reset(p unsafe.Pointer, a *memory.Arena) {
	if c.f.Has(p) {
		c.f.Clear(p, a)
	}
}

// expiredAt tells whether what was accessed at a time has expired.
func (c *cell) expiredAt(at, now int64) bool { return c.ttl.on() && c.ttl.expired(at, now) }

// loadTime takes the time of last access off src, which has one if timed.
func (c *cell) loadTime(src []byte, timed bool, now int64) (at int64, rest []byte, err error) {
	if !timed {
		return now, src, nil
	}
	if len(src) < timeSize {
		return 0, nil, errTruncated
	}
	return int64(binary.LittleEndian.Uint64(src)), src[timeSize:], nil
}

// countOf takes a count of elements, each of which is at least a byte, off
// src.
func countOf(src []byte) (n int, rest []byte, err error) {
	count, k := binary.Uvarint(src)
	if k <= 0 || count > uint64(len(src)-k) || count > math.MaxUint32 {
		return 0, nil, errTruncated
	}
	return int(count), src[k:], nil
}

// single is one T per key: the storage of Value and Reducing.
//
//	time of last access (with TTL), slot of the form
type single[T any] struct {
	cell
	form form[T]
	// at is the offset of the form's slot within the field.
	at uintptr
}

// init completes the field once the form is known.
func (c *single[T]) init(o options) error {
	f, err := formOf[T](o)
	if err != nil {
		return err
	}
	c.adopt(f)
	return nil
}

// adopt completes the field for a form.
func (c *single[T]) adopt(f form[T]) {
	c.form = f
	c.f.Format = c.form.format
	if c.ttl.on() {
		c.at = timeSize
		c.f.Expire, c.f.Prune = c.expire, c.ttl.pruneValue
		if c.f.Format.Size > 0 {
			c.f.Format.Size += timeSize
		}
	}
	c.f.Size = c.at + c.form.slot
	c.f.Append, c.f.Load, c.f.Clear = c.appendTo, c.load, c.clear
	c.f.Convert = c.convert
	if c.form.class != inline {
		c.f.Touch = func(p unsafe.Pointer, v memory.View) byte { return c.form.touch(c.slot(p), v) }
	}
}

func (c *single[T]) slot(p unsafe.Pointer) unsafe.Pointer { return unsafe.Add(c.f.At(p), c.at) }

func (c *single[T]) lookup() (v T, ok bool, err error) {
	p := c.cur.P
	if p == nil {
		return v, false, ErrNoKey
	}
	if !c.f.Has(p) {
		return v, false, nil
	}
	if c.ttl.on() {
		return c.lookupTimed(p)
	}
	v, err = c.form.get(c.slot(p), c.cur.Arena)
	return v, err == nil, err
}

func (c *single[T]) lookupTimed(p unsafe.Pointer) (v T, ok bool, err error) {
	a, at := c.cur.Arena, timeAt(c.f.At(p))
	if c.ttl.visible(*at, c.cur.Now) {
		if v, err = c.form.get(c.slot(p), a); err != nil {
			return v, false, err
		}
		ok = true
	}
	if c.ttl.expired(*at, c.cur.Now) {
		c.clear(p, a)
	} else if c.ttl.onRead {
		*at = c.cur.Now
	}
	return v, ok, nil
}

func (c *single[T]) set(v T) error {
	p := c.cur.P
	if p == nil {
		return ErrNoKey
	}
	if err := c.form.put(c.slot(p), c.cur.Arena, c.f.Has(p), v); err != nil {
		return err
	}
	c.written(p)
	return nil
}

// written notes that the value was written.
func (c *single[T]) written(p unsafe.Pointer) {
	*entry.Bits(p) |= c.f.Bit
	if c.ttl.on() {
		*timeAt(c.f.At(p)) = c.cur.Now
	}
}

func (c *single[T]) remove() error {
	p, err := c.current()
	if err == nil && c.f.Has(p) {
		c.clear(p, c.cur.Arena)
	}
	return err
}

func (c *single[T]) clear(p unsafe.Pointer, a *memory.Arena) {
	c.form.drop(c.slot(p), a)
	*entry.Bits(p) &^= c.f.Bit
}

func (c *single[T]) expire(p unsafe.Pointer, a *memory.Arena, now int64) {
	if c.ttl.expired(*timeAt(c.f.At(p)), now) {
		c.clear(p, a)
	}
}

func (c *single[T]) appendTo(dst []byte, p unsafe.Pointer, v memory.View) ([]byte, error) {
	if c.ttl.on() {
		dst = binary.LittleEndian.AppendUint64(dst, uint64(*timeAt(c.f.At(p))))
	}
	return c.form.append(dst, c.slot(p), v), nil
}

func (c *single[T]) load(src []byte, timed bool, p unsafe.Pointer, a *memory.Arena, now int64) error {
	c.reset(p, a)
	at, src, err := c.loadTime(src, timed, now)
	if err != nil || c.expiredAt(at, now) {
		return err
	}
	if err := c.form.load(src, c.slot(p), a); err != nil {
		return err
	}
	*entry.Bits(p) |= c.f.Bit
	if c.ttl.on() {
		*timeAt(c.f.At(p)) = at
	}
	return nil
}
