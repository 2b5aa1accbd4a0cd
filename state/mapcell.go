package state

import (
	"encoding/binary"
	"errors"
	"fmt"
	"unsafe"

	"github.com/weirstream/weir/internal/entry"
	"github.com/weirstream/weir/internal/memory"
	"github.com/weirstream/weir/internal/snapshot"
)

const (
	mapSlotSize = unsafe.Sizeof(slot{})
	timeSize    = 8
)

func timeAt(p unsafe.Pointer) *int64 { return (*int64)(p) }

func (c *mapCell[K, V]) slot(p unsafe.Pointer) *slot { return (*slot)(c.f.At(p)) }

// find returns the position and the entry of k in the map of a state entry, or
// -1 if it is not there.
func (c *mapCell[K, V]) find(p unsafe.Pointer, k K) (i int, e unsafe.Pointer, err error) {
	if !c.f.Has(p) {
		return -1, nil, nil
	}
	if c.key.native {
		i, e = c.table.findWord(c.slot(p), c.cur.Arena, *(*uint64)(unsafe.Pointer(&k)))
		return i, e, nil
	}
	key, err := c.key.key(&c.table, k)
	if err != nil {
		return -1, nil, err
	}
	i, e = c.table.find(c.slot(p), c.cur.Arena, key)
	return i, e, nil
}

func (c *mapCell[K, V]) get(k K) (v V, ok bool, err error) {
	p := c.cur.P
	if p == nil {
		return v, false, ErrNoKey
	}
	i, e, err := c.find(p, k)
	if i < 0 {
		return v, false, err
	}
	if c.table.timed {
		return c.getTimed(c.slot(p), i, e)
	}
	if c.form.class == inline {
		return *(*V)(unsafe.Add(e, c.table.val)), true, nil
	}
	v, err = c.form.get(unsafe.Add(e, c.table.val), c.cur.Arena)
	return v, err == nil, err
}

// getTimed is get of an entry that may have expired.
func (c *mapCell[K, V]) getTimed(s *slot, i int, e unsafe.Pointer) (v V, ok bool, err error) {
	a, at := c.cur.Arena, *timeAt(e)
	if c.ttl.visible(at, c.cur.Now) {
		if v, err = c.form.get(unsafe.Add(e, c.table.val), a); err != nil {
			return v, false, err
		}
		ok = true
	}
	c.read(s, i, e)
	return v, ok, nil
}

// read counts a read of the i-th entry, e: it removes the entry if it has
// expired, and renews its time if reads do.
func (c *mapCell[K, V]) read(s *slot, i int, e unsafe.Pointer) {
	a, at := c.cur.Arena, *timeAt(e)
	if c.ttl.expired(at, c.cur.Now) {
		c.removeAt(s, i)
	} else if c.ttl.onRead && at != c.cur.Now {
		*timeAt(c.table.own(s, a, i, e)) = c.cur.Now
	}
}

func (c *mapCell[K, V]) contains(k K) (bool, error) {
	p := c.cur.P
	if p == nil {
		return false, ErrNoKey
	}
	i, e, err := c.find(p, k)
	if i < 0 || !c.table.timed {
		return i >= 0, err
	}
	ok := c.ttl.visible(*timeAt(e), c.cur.Now)
	c.read(c.slot(p), i, e)
	return ok, nil
}

func (c *mapCell[K, V]) put(k K, v V) error {
	p := c.cur.P
	if p == nil {
		return ErrNoKey
	}
	i, e, err := c.find(p, k)
	if err != nil {
		return err
	}
	if i < 0 {
		return c.insert(p, k, v)
	}
	s, a := c.slot(p), c.cur.Arena
	if s.paged() || !a.Writable(s.entries) {
		e = c.table.own(s, a, i, e)
	}
	if c.form.class == inline {
		*(*V)(unsafe.Add(e, c.table.val)) = v
	} else if err := c.form.put(unsafe.Add(e, c.table.val), a, true, v); err != nil {
		return err
	}
	if c.table.timed {
		*timeAt(e) = c.cur.Now
	}
	return nil
}

// insert puts a key that has no value yet. What fails leaves nothing behind.
func (c *mapCell[K, V]) insert(p unsafe.Pointer, k K, v V) (err error) {
	var b []byte
	if c.form.class > block {
		if b, err = c.form.bytes(&v); err != nil {
			return err
		}
	}
	key, err := c.key.key(&c.table, k)
	if err != nil {
		return err
	}
	s, a := c.slot(p), c.cur.Arena
	if !c.f.Has(p) {
		*s = slot{}
	}
	e := c.table.insert(s, a, key)
	*entry.Bits(p) |= c.f.Bit
	if c.table.timed {
		*timeAt(e) = c.cur.Now
	}
	at := unsafe.Add(e, c.table.val)
	if c.form.class > block {
		textAt(at).init(a, b, len(b))
		return nil
	}
	return c.form.put(at, a, false, v)
}

func (c *mapCell[K, V]) remove(k K) error {
	p := c.cur.P
	if p == nil {
		return ErrNoKey
	}
	i, _, err := c.find(p, k)
	if i >= 0 {
		c.removeAt(c.slot(p), i)
	}
	return err
}

// removeAt removes an entry of the current map, and the map with its last.
func (c *mapCell[K, V]) removeAt(s *slot, i int) {
	if s.count == 1 {
		c.clear(c.cur.P, c.cur.Arena)
		c.forgetWalks(s)
		return
	}
	c.table.remove(s, c.cur.Arena, i)
}

// forgetWalks ends the iterations over a map that is cleared.
func (c *mapCell[K, V]) forgetWalks(s *slot) {
	for _, w := range c.table.walks {
		if w.s == s {
			w.next = len(w.order)
		}
	}
}

func (c *mapCell[K, V]) len(p unsafe.Pointer) int {
	s, a := c.slot(p), c.cur.Arena
	if !c.table.timed || c.ttl.lenient {
		return int(s.count)
	}
	n := 0
	for i := range int(s.count) {
		if !c.ttl.expired(*timeAt(c.table.at(s, a, i)), c.cur.Now) {
			n++
		}
	}
	return n
}

// each calls yield for every entry of the current map, in the order of the keys;
// for those from the key on unless it is nil.
func (c *mapCell[K, V]) each(from *K, yield func(K, V) bool) {
	p := c.cur.P
	c.err = nil
	if p == nil {
		c.err = ErrNoKey
		return
	}
	var first []byte
	if from != nil {
		if first, c.err = c.key.bytes(*from); c.err != nil {
			return
		}
	}
	if c.f.Has(p) && c.table.timed && !c.ttl.lenient {
		c.dropExpired(p)
	}
	if !c.f.Has(p) {
		return
	}
	w := c.table.startWalk(c.slot(p))
	defer w.end()
	c.visitInOrder(w, first)
	for c.cur.P == p && c.f.Has(p) {
		i, more := w.step()
		if !more {
			return
		}
		k, v, ok, err := c.visit(p, i)
		if err != nil {
			c.err = err
			return
		}
		if ok && !yield(k, v) {
			return
		}
	}
}

// dropExpired removes all that has expired of the current map.
func (c *mapCell[K, V]) dropExpired(p unsafe.Pointer) {
	s, a := c.slot(p), c.cur.Arena
	for i := int(s.count) - 1; i >= 0; i-- {
		if c.ttl.expired(*timeAt(c.table.at(s, a, i)), c.cur.Now) {
			c.removeAt(s, i)
		}
	}
}

// visit reads the i-th entry.
func (c *mapCell[K, V]) visit(p unsafe.Pointer, i int) (k K, v V, ok bool, err error) {
	s, a, t := c.slot(p), c.cur.Arena, &c.table
	e := t.at(s, a, i)
	if !t.timed || c.ttl.visible(*timeAt(e), c.cur.Now) {
		if k, err = c.key.get(unsafe.Add(e, t.key), t, a); err != nil {
			return k, v, false, err
		}
		if v, err = c.form.get(unsafe.Add(e, t.val), a); err != nil {
			return k, v, false, err
		}
		ok = true
	}
	if t.timed {
		c.read(s, i, e)
	}
	return k, v, ok, nil
}

func (c *mapCell[K, V]) releaseEntry(e unsafe.Pointer, a *memory.Arena) {
	c.key.drop(unsafe.Add(e, c.table.key), a)
	c.form.drop(unsafe.Add(e, c.table.val), a)
}

func (c *mapCell[K, V]) clear(p unsafe.Pointer, a *memory.Arena) {
	c.table.drop(c.slot(p), a)
	*entry.Bits(p) &^= c.f.Bit
}

// expire removes expired entries; of a large map it looks at a part each time,
// from the last position down. No iteration is under way.
func (c *mapCell[K, V]) expire(p unsafe.Pointer, a *memory.Arena, now int64) {
	const few, parts = 64, 16
	s := c.slot(p)
	at := int(s.sweep &^ pagedBit)
	if at == 0 || at > int(s.count) {
		at = int(s.count)
	}
	for n := max(few, int(s.count)/parts); n > 0 && at > 0; n-- {
		at--
		if !c.ttl.expired(*timeAt(c.table.at(s, a, at)), now) {
			continue
		}
		if s.count == 1 {
			c.clear(p, a)
			return
		}
		c.table.remove(s, a, at)
	}
	s.sweep = s.sweep&pagedBit | uint32(at)
}

// touch loads a word of each line of a small map. Of a larger one it would be
// too many, and which of them is needed depends on a key not known here.
func (c *mapCell[K, V]) touch(p unsafe.Pointer, v memory.View) byte {
	const line, most = 64, 512
	s := c.slot(p)
	if s.index != 0 {
		return 0
	}
	used := small + int(s.count)*int(c.table.stride)
	b := v.Bytes(s.entries, min(used, most))
	var sum byte
	for at := 0; at < len(b); at += line {
		sum ^= b[at]
	}
	return sum
}

// appendTo encodes a map: the count, then per entry its time with TTL, its
// key and its value.
func (c *mapCell[K, V]) appendTo(dst []byte, p unsafe.Pointer, v memory.View) ([]byte, error) {
	s, t := c.slot(p), &c.table
	dst = binary.AppendUvarint(dst, uint64(s.count))
	t.runs(s, v, func(entries []byte) {
		if c.plain {
			dst = append(dst, entries...)
			return
		}
		for ; len(entries) > 0; entries = entries[t.stride:] {
			e := start(entries)
			if t.timed {
				dst = binary.LittleEndian.AppendUint64(dst, uint64(*timeAt(e)))
			}
			dst = c.key.appendItem(dst, unsafe.Add(e, t.key), v)
			dst = c.form.appendItem(dst, unsafe.Add(e, t.val), v)
		}
	})
	return dst, nil
}

func (c *mapCell[K, V]) load(src []byte, timed bool, p unsafe.Pointer, a *memory.Arena, now int64) error {
	c.reset(p, a)
	n, src, err := countOf(src)
	if err != nil {
		return err
	}
	s := c.slot(p)
	*s = slot{}
	for range n {
		if src, err = c.loadEntry(src, timed, p, a, now); err != nil {
			break
		}
	}
	if err == nil && len(src) > 0 {
		err = fmt.Errorf("%d bytes follow the last entry", len(src))
	}
	if err != nil {
		c.table.drop(s, a)
		*entry.Bits(p) &^= c.f.Bit
	}
	return err
}

var errTwice = errors.New("a key is there twice")

// loadEntry decodes one entry, puts it into the map unless it has expired,
// and returns what follows it.
func (c *mapCell[K, V]) loadEntry(src []byte, timed bool, p unsafe.Pointer, a *memory.Arena, now int64) ([]byte, error) {
	at, src, err := c.loadTime(src, timed, now)
	if err != nil {
		return nil, err
	}
	k, src, err := snapshot.Item(src, c.key.size)
	if err != nil {
		return nil, err
	}
	v, rest, err := snapshot.Item(src, c.form.format.Size)
	if err != nil || c.expiredAt(at, now) {
		return rest, err
	}
	key, err := c.key.load(&c.table, k)
	if err != nil {
		return nil, err
	}
	s := c.slot(p)
	if s.count > 0 {
		if i, _ := c.table.find(s, a, key); i >= 0 {
			return nil, errTwice
		}
	}
	e := c.table.insert(s, a, key)
	if err := c.form.load(v, unsafe.Add(e, c.table.val), a); err != nil {
		c.key.drop(unsafe.Add(e, c.table.key), a)
		s.count--
		return nil, err
	}
	if c.table.timed {
		*timeAt(e) = at
	}
	*entry.Bits(p) |= c.f.Bit
	return rest, nil
}
