package heap

import (
	"hash/maphash"
	"unsafe"

	"github.com/weirstream/weir/codec"
	"github.com/weirstream/weir/internal/entry"
	"github.com/weirstream/weir/internal/keygroup"
	"github.com/weirstream/weir/internal/memory"
)

// form is how the encoding of a key lies in the entry.
type form uint8

const (
	// formWord: at most 8 bytes, padded with zeros to a word.
	formWord form = iota
	// formFixed: a fixed number of bytes above 8.
	formFixed
	// formText: bytes of any number, in a slot.
	formText
)

// A text slot holds the length and up to shortText bytes, or longText and a
// reference to an arena block.
const (
	textSlot  = 40
	shortText = textSlot - 1
	longText  = 0xFF
)

// reference is a text slot whose bytes lie in the arena.
type reference struct {
	tag    byte
	block  memory.Handle
	length uint32
}

// KeyFormat identifies how keys of type K are stored in snapshots. The error
// says why K cannot be a key.
func KeyFormat[K comparable]() (codec.Format, error) {
	e, err := keygroup.NewEncoding[K]()
	if err != nil {
		return codec.Format{}, err
	}
	return e.Format(), nil
}

func formOf(f codec.Format) (fo form, slot uintptr) {
	switch {
	case f.Size == 0:
		return formText, textSlot
	case f.Size <= 8:
		return formWord, 8
	}
	return formFixed, uintptr(f.Size)
}

// encoded is a batch of keys in their encoding; which field counts is given by
// the form.
type encoded struct {
	words []uint64
	texts []string
	// fixed holds the keys back to back.
	fixed []byte
}

// keyAt returns the address of an entry's key.
func keyAt(p unsafe.Pointer) unsafe.Pointer { return unsafe.Add(p, entry.HeaderSize) }

func word(p unsafe.Pointer) uint64 { return *(*uint64)(keyAt(p)) }

// is reports whether the entry holds the batch's key i.
func (c *core) is(p unsafe.Pointer, i int) bool {
	switch c.form {
	case formWord:
		return word(p) == c.keys.words[i]
	case formText:
		return c.isText(p, c.keys.texts[i])
	}
	return c.isFixed(p, i)
}

func (c *core) isFixed(p unsafe.Pointer, i int) bool {
	n := c.keyBytes
	return unsafe.String((*byte)(keyAt(p)), n) == string(c.keys.fixed[i*n:(i+1)*n])
}

func (c *core) isText(p unsafe.Pointer, s string) bool {
	k := keyAt(p)
	if n := int(*(*byte)(k)); n <= shortText {
		return n == len(s) && unsafe.String((*byte)(unsafe.Add(k, 1)), n) == s
	}
	r := (*reference)(k)
	return int(r.length) == len(s) && string(c.arena.Bytes(r.block, len(s))) == s
}

// storeKey puts the batch's key i into an entry whose bytes are zero.
func (c *core) storeKey(p unsafe.Pointer, i int) {
	k := keyAt(p)
	switch c.form {
	case formWord:
		*(*uint64)(k) = c.keys.words[i]
	case formFixed:
		copy(unsafe.Slice((*byte)(k), c.keyBytes), c.keys.fixed[i*c.keyBytes:])
	case formText:
		s := c.keys.texts[i]
		if len(s) <= shortText {
			*(*byte)(k) = byte(len(s))
			copy(unsafe.Slice((*byte)(unsafe.Add(k, 1)), shortText), s)
			return
		}
		r := (*reference)(k)
		*r = reference{longText, c.arena.Alloc(len(s)), uint32(len(s))}
		copy(c.arena.Bytes(r.block, len(s)), s)
	}
}

// releaseKey gives back what the key of the entry owns.
func (c *core) releaseKey(p unsafe.Pointer) {
	if c.form == formText {
		if r := (*reference)(keyAt(p)); r.tag == longText {
			c.arena.Free(r.block)
		}
	}
}

// encodedKey returns the encoding of the entry's key, a view.
func (c *core) encodedKey(p unsafe.Pointer, v memory.View) []byte {
	k := keyAt(p)
	if c.form != formText {
		return unsafe.Slice((*byte)(k), c.keyBytes)
	}
	if n := *(*byte)(k); n <= shortText {
		return unsafe.Slice((*byte)(unsafe.Add(k, 1)), int(n))
	}
	r := (*reference)(k)
	return v.Bytes(r.block, int(r.length))
}

// secondary is the hash that gives the entry's secondary home.
func (c *core) secondary(p unsafe.Pointer) uint32 {
	return uint32(maphash.Bytes(c.seed, c.encodedKey(p, c.arena.View())))
}

// secondaryOf is secondary for the batch's key i.
func (c *core) secondaryOf(i int) uint32 {
	switch c.form {
	case formWord:
		return uint32(maphash.Bytes(c.seed, unsafe.Slice((*byte)(unsafe.Pointer(&c.keys.words[i])), c.keyBytes)))
	case formText:
		return uint32(maphash.String(c.seed, c.keys.texts[i]))
	}
	return uint32(maphash.Bytes(c.seed, c.keys.fixed[i*c.keyBytes:(i+1)*c.keyBytes]))
}

// encode brings a batch of keys into their encoding; a batch whose memory is
// its encoding is used as it is.
func (s *Store[K]) encode(keys []K) {
	n, p := len(keys), unsafe.Pointer(unsafe.SliceData(keys))
	switch {
	case s.text:
		s.keys.texts = unsafe.Slice((*string)(p), n)
	case s.form == formText:
		s.encodeText(keys)
	case s.form == formFixed && s.inMemory:
		s.keys.fixed = unsafe.Slice((*byte)(p), n*s.keyBytes)
	case s.form == formFixed:
		s.scratch = s.scratch[:0]
		for _, k := range keys {
			s.scratch = s.encoding.Append(s.scratch, k)
		}
		s.keys.fixed = s.scratch
	case s.inMemory && s.keyBytes == 8:
		s.keys.words = unsafe.Slice((*uint64)(p), n)
	default:
		s.encodeWords(keys)
	}
}

func (s *Store[K]) encodeWords(keys []K) {
	s.wide = resize(s.wide, len(keys))
	clear(s.wide)
	for i, k := range keys {
		s.encoding.Append(unsafe.Slice((*byte)(unsafe.Pointer(&s.wide[i])), 8)[:0], k)
	}
	s.keys.words = s.wide
}

// encodeText encodes structs that hold strings.
func (s *Store[K]) encodeText(keys []K) {
	s.scratch, s.ends = s.scratch[:0], resize(s.ends, len(keys))
	for i, k := range keys {
		s.scratch = s.encoding.Append(s.scratch, k)
		s.ends[i] = len(s.scratch)
	}
	s.views = resize(s.views, len(keys))
	from := 0
	for i, to := range s.ends {
		s.views[i] = unsafe.String(unsafe.SliceData(s.scratch[from:]), to-from)
		from = to
	}
	s.keys.texts = s.views
}

// resize returns a slice of length n, s itself if it is large enough. The
// contents are undefined.
func resize[T any](s []T, n int) []T {
	if cap(s) >= n {
		return s[:n]
	}
	return make([]T, n, max(n, 2*cap(s)))
}
