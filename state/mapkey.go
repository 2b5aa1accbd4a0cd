package state

import (
	"encoding/binary"
	"fmt"
	"reflect"
	"unsafe"

	"github.com/weirstream/weir/codec"
	"github.com/weirstream/weir/internal/keygroup"
	"github.com/weirstream/weir/internal/memory"
	"github.com/weirstream/weir/internal/snapshot"
)

// mapKey is how the keys of a map lie in its entries: canonically encoded, in
// a word where they fit, as plain bytes where their length is fixed, as a
// text elsewhere.
type mapKey[K comparable] struct {
	enc   keygroup.Encoding[K]
	codec codec.Codec[K] // overrides enc unless nil
	// size is the encoded size, 0 if it varies; word is whether it fits into one.
	size int
	word bool
	// native keys of 8 bytes are their own word; texts are strings.
	native, text bool
	nilable      bool
	// order is that of the keys; in native keys, signed says so.
	order   keygroup.Order
	signed  bool
	format  codec.Format
	scratch []byte
}

func newMapKey[K comparable](c codec.Codec[K]) (mapKey[K], error) {
	if c == nil && holdsNames(reflect.TypeFor[K]()) {
		var err error
		if c, err = codec.For[K](); err != nil {
			return mapKey[K]{}, fmt.Errorf("map keys: %w", err)
		}
	}
	if c != nil {
		f := c.Format()
		return mapKey[K]{codec: c, size: f.Size, word: f.Size > 0 && f.Size <= 8, nilable: nilable(reflect.TypeFor[K]()), format: f}, nil
	}
	enc, err := keygroup.NewEncoding[K]()
	if err != nil {
		return mapKey[K]{}, fmt.Errorf("map keys: %w, or give a KeyCodec", err)
	}
	f := enc.Format()
	k := mapKey[K]{enc: enc, order: keygroup.OrderOf[K](), format: f, size: f.Size, word: f.Size > 0 && f.Size <= 8}
	k.native = littleEndian && enc.InMemory() && f.Size == 8
	k.signed = k.native && f.ID == "int64"
	k.text = f.ID == "string"
	return k, nil
}

// slot is the size of a key in an entry.
func (m *mapKey[K]) slot() uintptr {
	if m.size == 0 {
		return textSize
	}
	return align8(uintptr(m.size))
}

// key returns k as the table knows it, good until the next call.
func (m *mapKey[K]) key(t *table, k K) (key, error) {
	if m.native {
		return t.wordKey(*(*uint64)(unsafe.Pointer(&k))), nil
	}
	if m.text {
		s := *(*string)(unsafe.Pointer(&k))
		return t.bytesKey(unsafe.Slice(unsafe.StringData(s), len(s))), nil
	}
	return m.encoded(t, k)
}

func (m *mapKey[K]) encoded(t *table, k K) (key, error) {
	b, err := m.bytes(k)
	if err != nil {
		return key{}, err
	}
	return m.tableKey(t, b), nil
}

// bytes returns k canonically encoded, good until the next call.
func (m *mapKey[K]) bytes(k K) ([]byte, error) {
	b := m.scratch[:0]
	if m.codec == nil {
		b = m.enc.Append(b, k)
	} else {
		if m.nilable && isNil(&k) {
			return nil, ErrNil
		}
		var err error
		if b, err = m.codec.Append(b, k); err != nil {
			return nil, fmt.Errorf("state: encode a map key: %w", err)
		}
		if m.size > 0 && len(b) != m.size {
			return nil, fmt.Errorf("state: the codec of %s says that it writes %d bytes, and wrote %d", typeName[K](), m.size, len(b))
		}
	}
	m.scratch = b
	return b, nil
}

// tableKey returns an encoded key as the table knows it.
func (m *mapKey[K]) tableKey(t *table, b []byte) key {
	if !m.word {
		return t.bytesKey(b)
	}
	var w [8]byte
	copy(w[:], b)
	return t.wordKey(binary.LittleEndian.Uint64(w[:]))
}

// load returns a key from a snapshot as the table knows it.
func (m *mapKey[K]) load(t *table, b []byte) (key, error) {
	if m.native || m.text || m.codec != nil {
		return m.tableKey(t, b), nil
	}
	k, err := m.decode(b)
	if err != nil {
		return key{}, err
	}
	return m.key(t, k) // canonical, whatever b was
}

// drop gives back what the key of an entry owns.
func (m *mapKey[K]) drop(at unsafe.Pointer, a *memory.Arena) {
	if m.size == 0 {
		textAt(at).drop(a)
	}
}

// get reads a key from an entry.
func (m *mapKey[K]) get(at unsafe.Pointer, t *table, a *memory.Arena) (K, error) {
	if m.native {
		return *(*K)(at), nil
	}
	if m.word {
		var w [8]byte
		return m.decode(m.wordBytes(&w, at))
	}
	return m.decode(t.keyView(at, a))
}

// rank returns the rank of an entry's key.
func (m *mapKey[K]) rank(at unsafe.Pointer, t *table, a *memory.Arena) uint64 {
	switch {
	case m.signed:
		return keygroup.SignedRank(*(*int64)(at))
	case m.word:
		var w [8]byte
		return m.order.Rank(m.wordBytes(&w, at))
	}
	return m.order.Rank(t.keyView(at, a))
}

// wordBytes writes the word at a place to w and returns the encoded key.
func (m *mapKey[K]) wordBytes(w *[8]byte, at unsafe.Pointer) []byte {
	binary.LittleEndian.PutUint64(w[:], *(*uint64)(at))
	return w[:m.size]
}

func (m *mapKey[K]) decode(b []byte) (k K, err error) {
	if m.codec != nil {
		k, err = m.codec.Decode(b)
	} else {
		k, err = m.enc.Decode(b)
	}
	if err != nil {
		err = fmt.Errorf("state: decode a map key: %w", err)
	}
	return k, err
}

// appendItem appends an entry's key for a snapshot.
func (m *mapKey[K]) appendItem(dst []byte, at unsafe.Pointer, v memory.View) []byte {
	switch {
	case m.word:
		return binary.LittleEndian.AppendUint64(dst, *(*uint64)(at))[:len(dst)+m.size]
	case m.size > 0:
		return append(dst, unsafe.Slice((*byte)(at), m.size)...)
	}
	return snapshot.AppendItem(dst, 0, textAt(at).frozen(v))
}
