package state

import (
	"iter"
	"maps"

	"github.com/weirstream/weir/internal/entry"
)

// Map is a map per key. A map never written is empty, and one that has become
// empty is no longer stored.
//
// Equality of map keys is that of their canonical encoding: all NaN are one
// key, and so are -0 and +0.
type Map[K comparable, V any] struct{ c *mapCell[K, V] }

// MapIn declares a map state.
func MapIn[K comparable, V any](r *Registry, name string, opts ...Option) Map[K, V] {
	return Map[K, V]{newMapCell[K, V](r, name, collect(opts))}
}

// Get returns the value of k, and false if there is none.
func (m *Map[K, V]) Get(k K) (V, bool, error) { return m.c.get(k) }

// Contains reports whether k has a value.
func (m *Map[K, V]) Contains(k K) (bool, error) { return m.c.contains(k) }

// Put sets the value of k.
func (m *Map[K, V]) Put(k K, v V) error { return m.c.put(k, v) }

// PutAll puts all entries of a map. On an error some may have been put.
func (m *Map[K, V]) PutAll(entries map[K]V) error {
	if len(entries) == 0 {
		_, err := m.c.current()
		return err
	}
	for k, v := range maps.All(entries) {
		if err := m.c.put(k, v); err != nil {
			return err
		}
	}
	return nil
}

// Remove removes k; it is no error if k has no value.
func (m *Map[K, V]) Remove(k K) error { return m.c.remove(k) }

// Clear removes all entries.
func (m *Map[K, V]) Clear() error {
	p, err := m.c.current()
	if err == nil && m.c.f.Has(p) {
		m.c.f.Clear(p, m.c.cur.Arena)
		m.c.forgetWalks(m.c.slot(p))
	}
	return err
}

// Len returns the number of entries. With a TTL it looks at each of them.
func (m *Map[K, V]) Len() (int, error) {
	p, err := m.c.current()
	if err != nil || !m.c.f.Has(p) {
		return 0, err
	}
	return m.c.len(p), nil
}

// IsEmpty reports whether there is no entry.
func (m *Map[K, V]) IsEmpty() (bool, error) {
	n, err := m.Len()
	return n == 0, err
}

// All iterates over the entries in the natural order of their keys: numbers by
// value, NaN before all others, false before true, strings and byte arrays by their
// bytes, arrays and structs by their parts from the first on, and keys with a
// KeyCodec, or with names of their own, by their encoded bytes.
//
// While it runs the map may be changed. It visits what is there at its start, each
// entry once, with the value it has then; one that is removed before its turn is
// left out, also if it is put again, and one that is put meanwhile is not
// visited. A Clear ends it. Ask Err afterwards. An iteration must end before
// the function returns.
//
// It looks at all keys at its start, and sorts them unless they were put in order and
// none was removed.
func (m *Map[K, V]) All() iter.Seq2[K, V] {
	return func(yield func(K, V) bool) { m.c.each(nil, yield) }
}

// From iterates, as All does, over the entries whose key is k or comes after it.
func (m *Map[K, V]) From(k K) iter.Seq2[K, V] {
	return func(yield func(K, V) bool) { m.c.each(&k, yield) }
}

// Keys iterates over the keys, as All does.
func (m *Map[K, V]) Keys() iter.Seq[K] {
	return func(yield func(K) bool) { m.c.each(nil, func(k K, _ V) bool { return yield(k) }) }
}

// Values iterates over the values, as All does.
func (m *Map[K, V]) Values() iter.Seq[V] {
	return func(yield func(V) bool) { m.c.each(nil, func(_ K, v V) bool { return yield(v) }) }
}

// Err returns the error that ended the last iteration early, nil if there
// was none: ErrNoKey, or one of a codec.
func (m *Map[K, V]) Err() error { return m.c.err }

// mapCell is what the copies of a Map handle share.
type mapCell[K comparable, V any] struct {
	cell
	table table
	key   mapKey[K]
	form  form[V]
	// plain entries lie in a block as they lie in a snapshot.
	plain bool
	// words are where keys that are words are compared.
	words [2][8]byte
	err   error
}

func newMapCell[K comparable, V any](r *Registry, name string, o options) *mapCell[K, V] {
	c := &mapCell[K, V]{cell: r.cell(o)}
	c.f = &entry.Field{Name: name, Kind: entry.Map, TTL: o.ttl.on(), Size: mapSlotSize}
	r.declare(c.f, o, func() error { return c.init(o) })
	return c
}

func (c *mapCell[K, V]) init(o options) error {
	kc, err := codecOf[K](o.keyCodec)
	if err != nil {
		return err
	}
	if c.key, err = newMapKey(kc); err != nil {
		return err
	}
	if c.form, err = formOf[V](o); err != nil {
		return err
	}
	c.layOut()
	c.f.Format, c.f.Key = c.form.format, c.key.format
	c.f.Format.Size, c.f.ItemSize = 0, c.form.format.Size
	c.f.Append, c.f.Load, c.f.Clear = c.appendTo, c.load, c.clear
	c.f.Touch, c.f.Convert = c.touch, c.convert
	if c.ttl.on() {
		c.f.Expire = c.expire
		c.f.Prune = c.ttl.pruneElements(c.key.size, c.form.format.Size)
	}
	return nil
}

func (c *mapCell[K, V]) layOut() {
	t := &c.table
	t.timed = c.ttl.on()
	if t.timed {
		t.key = timeSize
	}
	t.val = t.key + c.key.slot()
	t.stride = t.val + c.form.slot
	t.word, t.keyBytes = c.key.word, c.key.size
	if c.key.size == 0 || c.form.class != inline {
		t.release = c.releaseEntry
	}
	t.layOutPages()
	t.seedHash()
	// Texts have no size, and what is not a multiple of 8 is padded.
	c.plain = c.form.class == inline && c.form.layout.Plain() &&
		uintptr(c.key.size)+uintptr(c.form.layout.Size()) == t.stride-t.key
}
