package state

import (
	"errors"
	"fmt"
	"iter"
	"reflect"

	"github.com/weirstream/weir/internal/snapshot"
)

// ErrReadOnly is wrapped by the error of a write to broadcast state where it may
// only be read.
var ErrReadOnly = errors.New("broadcast state is read-only here; write it in ProcessBroadcast or Initialize")

// Broadcast is a map that all subtasks of a function hold alike, apart from any
// key: rules, prices, settings. It lives in memory, once in each subtask.
//
// Functions with a broadcast input have it: see stream.KeyedBroadcastProcess.
// It can be read everywhere and written only in ProcessBroadcast and
// Initialize. All subtasks see every record of the broadcast stream, and must
// do the same to the map for it: what they write may depend on the record and
// on the map, and not on the subtask, on keyed state or on the clock. Records of
// one broadcast stream come in order; if several subtasks or streams make it up,
// subtasks may see them in different orders.
//
// Every subtask stores its own copy in a snapshot. At a restore with another
// parallelism each is given the copy of one of them.
//
// Equality of keys is that of their canonical encoding: all NaN are one key, and
// so are -0 and +0.
type Broadcast[K comparable, V any] struct{ m *broadcastMap[K, V] }

// BroadcastIn declares broadcast state. Of the options only Codec and KeyCodec
// are possible; the default of values is codec.For.
func BroadcastIn[K comparable, V any](r *Registry, name string, opts ...Option) Broadcast[K, V] {
	m := &broadcastMap[K, V]{name: name, reg: r}
	r.broadcast = true
	r.declareOperatorState(name, m, m.init(collect(opts)))
	return Broadcast[K, V]{m}
}

// Get returns the value of k, and false if there is none. A value that holds
// pointers, slices or maps shares them with the state: it must not be changed.
func (b *Broadcast[K, V]) Get(k K) (v V, ok bool, err error) {
	key, err := b.m.keys.bytes(k)
	if err != nil {
		return v, false, b.m.failed(err)
	}
	i, ok := b.m.index[string(key)]
	if ok {
		v = b.m.entries[i].val
	}
	return v, ok, nil
}

// Contains reports whether k has a value.
func (b *Broadcast[K, V]) Contains(k K) (bool, error) {
	_, ok, err := b.Get(k)
	return ok, err
}

// Len returns the number of entries.
func (b *Broadcast[K, V]) Len() int { return len(b.m.index) }

// All iterates over the entries, in the order in which their keys were first put. While it
// runs the map may be changed: an entry that is removed before its turn is left
// out, one that is put meanwhile is not visited.
func (b *Broadcast[K, V]) All() iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		b.m.walks++
		defer func() { b.m.walks-- }()
		entries := b.m.entries
		for i := range entries {
			if p := &entries[i]; p.live && !yield(p.key, p.val) {
				return
			}
		}
	}
}

// Put sets the value of k. It does not copy what v points to.
func (b *Broadcast[K, V]) Put(k K, v V) error {
	if err := b.m.write(); err != nil {
		return err
	}
	if nilable(reflect.TypeFor[V]()) && isNil(&v) {
		return b.m.failed(ErrNil)
	}
	key, err := b.m.keys.bytes(k)
	if err != nil {
		return b.m.failed(err)
	}
	b.m.put(key, k, v)
	return nil
}

// Remove removes k; it is no error if k has no value.
func (b *Broadcast[K, V]) Remove(k K) error {
	if err := b.m.write(); err != nil {
		return err
	}
	key, err := b.m.keys.bytes(k)
	if err != nil {
		return b.m.failed(err)
	}
	b.m.remove(key)
	return nil
}

// Clear removes all entries.
func (b *Broadcast[K, V]) Clear() error {
	if err := b.m.write(); err != nil {
		return err
	}
	for i := range b.m.entries {
		b.m.entries[i] = broadcastEntry[K, V]{} // an iteration may be under way
	}
	b.m.reset(0)
	return nil
}

// broadcastMap is what the copies of a Broadcast handle share.
type broadcastMap[K comparable, V any] struct {
	name       string
	reg        *Registry
	keys       mapKey[K]
	values     form[V]
	migrations migrations
	// index has the positions by the encoded keys.
	index map[string]int
	// entries are in the order of their first Put, with gaps.
	entries []broadcastEntry[K, V]
	// walks counts the iterations under way.
	walks int
}

// broadcastEntry is an entry; one that was removed is not live.
type broadcastEntry[K comparable, V any] struct {
	key  K
	val  V
	live bool
}

func (m *broadcastMap[K, V]) init(o options) error {
	var err error
	if m.values, err = operatorForm[V](o); err != nil {
		return err
	}
	m.migrations = o.migrations
	kc, err := codecOf[K](o.keyCodec)
	if err != nil {
		return err
	}
	m.keys, err = newMapKey(kc)
	m.reset(0)
	return err
}

func (m *broadcastMap[K, V]) reset(n int) {
	m.index, m.entries = make(map[string]int, n), make([]broadcastEntry[K, V], 0, n)
}

func (m *broadcastMap[K, V]) failed(err error) error {
	return fmt.Errorf("broadcast state %q: %w", m.name, err)
}

// write tells whether the map may be written.
func (m *broadcastMap[K, V]) write() error {
	if !m.reg.writable {
		return m.failed(ErrReadOnly)
	}
	return nil
}

func (m *broadcastMap[K, V]) put(key []byte, k K, v V) {
	if i, ok := m.index[string(key)]; ok {
		m.entries[i].val = v
		return
	}
	m.index[string(key)] = len(m.entries)
	m.entries = append(m.entries, broadcastEntry[K, V]{k, v, true})
}

// minGaps is how many gaps there are at least when they are closed.
const minGaps = 32

func (m *broadcastMap[K, V]) remove(key []byte) {
	i, ok := m.index[string(key)]
	if !ok {
		return
	}
	delete(m.index, string(key))
	m.entries[i] = broadcastEntry[K, V]{}
	if gaps := len(m.entries) - len(m.index); gaps >= minGaps && gaps > len(m.index) && m.walks == 0 {
		m.closeGaps()
	}
}

// closeGaps moves the entries together. No iteration may be under way.
func (m *broadcastMap[K, V]) closeGaps() {
	moved := make([]int, len(m.entries))
	live := make([]broadcastEntry[K, V], 0, len(m.index))
	for i, p := range m.entries {
		if moved[i] = len(live); p.live {
			live = append(live, p)
		}
	}
	for key, i := range m.index {
		m.index[key] = moved[i]
	}
	m.entries = live
}

func (m *broadcastMap[K, V]) describe() snapshot.ListState {
	return snapshot.ListState{Name: m.name, Kind: snapshot.BroadcastMap, Format: m.values.format, Key: m.keys.format}
}

// encode puts all entries into one item.
func (m *broadcastMap[K, V]) encode() ([][]byte, error) {
	if len(m.index) == 0 {
		return nil, nil
	}
	var all, value []byte
	size := m.values.format.Size
	for i := range m.entries {
		p := &m.entries[i]
		if !p.live {
			continue
		}
		key, err := m.keys.bytes(p.key)
		if err != nil {
			return nil, err
		}
		all = snapshot.AppendItem(all, m.keys.size, key)
		if value, err = m.values.codec.Append(value[:0], p.val); err != nil {
			return nil, fmt.Errorf("encode the value of key %v: %w", p.key, err)
		}
		if size > 0 && len(value) != size {
			return nil, fmt.Errorf("the codec of %s says that it writes %d bytes, and wrote %d", typeName[V](), size, len(value))
		}
		all = snapshot.AppendItem(all, size, value)
	}
	return [][]byte{all}, nil
}

func (m *broadcastMap[K, V]) check(stored snapshot.ListState) error {
	if !sameKeys(stored.Key, m.keys.format) {
		return errMapKey
	}
	_, err := m.values.from(stored.Format, m.migrations)
	return err
}

func (m *broadcastMap[K, V]) decode(stored snapshot.ListState) error {
	conv, err := m.values.from(stored.Format, m.migrations)
	if err != nil {
		return err
	}
	m.reset(0)
	for _, data := range stored.Items {
		for len(data) > 0 {
			rest, err := m.decodeEntry(data, conv)
			if err != nil {
				return fmt.Errorf("entry %d: %w", len(m.index)+1, err)
			}
			data = rest
		}
	}
	return nil
}

// decodeEntry takes an entry off data and returns the rest.
func (m *broadcastMap[K, V]) decodeEntry(data []byte, conv conversion) (rest []byte, err error) {
	stored, data, err := snapshot.Item(data, m.keys.size)
	if err != nil {
		return nil, fmt.Errorf("key: %w", err)
	}
	k, err := m.keys.decode(stored)
	if err != nil {
		return nil, err
	}
	value, rest, err := snapshot.Item(data, conv.size)
	if err != nil {
		return nil, fmt.Errorf("value of key %v: %w", k, err)
	}
	v, err := decodeStored(&m.values, conv, value)
	if err != nil {
		return nil, fmt.Errorf("decode the value of key %v: %w", k, err)
	}
	key, err := m.keys.bytes(k) // canonical, whatever was stored
	if err != nil {
		return nil, err
	}
	if _, ok := m.index[string(key)]; ok {
		return nil, fmt.Errorf("key %v comes twice", k)
	}
	m.put(key, k, v)
	return rest, nil
}

// HasBroadcast tells whether broadcast state is declared. It is for the engine.
func (r *Registry) HasBroadcast() bool { return r.broadcast }

// AllowBroadcast tells whether broadcast state may be written from now on. It is
// for the engine.
func (r *Registry) AllowBroadcast(write bool) { r.writable = write }
