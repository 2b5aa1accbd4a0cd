package state

import (
	"encoding/binary"
	"hash/maphash"
	"math/bits"
	"unsafe"

	"github.com/weirstream/weir/internal/memory"
)

// table is the storage of maps of one state. A map is a block of entries that
// lie densely in the order they were put; a removed one is replaced by the
// last. Up to small entries are found through one byte of the hash each, kept
// in front of the entries; more through an index, a block of its own with a
// linear-probing table of positions.
//
//	block of entries:  small bytes of hashes, then the entries; or pages
//	entry:             time of last access (with TTL), key, value
//
// A snapshot reads the entries alone. So the bytes of hashes and the index
// are changed in place always; entries only where the arena says so, except
// that new ones are appended: no snapshot reads beyond the count it knows.
type table struct {
	// key, val and stride are offsets within an entry and its size.
	key, val, stride uintptr
	timed            bool
	// pageShift is the binary logarithm of the number of entries of a page.
	pageShift uint8
	// Keys are words of 8 bytes, or keyBytes bytes, or a text if that is 0.
	word     bool
	keyBytes int
	// release gives back what an entry owns; nil if that is nothing.
	release func(e unsafe.Pointer, a *memory.Arena)

	seed       maphash.Seed
	mul1, mul2 uint64
	// walks are the iterations, under way or to be used again.
	walks []*walk
}

// small is how many entries a map without index holds.
const small = 16

// slot is what a map takes in the state entry.
type slot struct {
	entries memory.Handle
	count   uint32
	index   memory.Handle
	// sweep is the position up to which expired entries were looked for, and pagedBit.
	sweep uint32
}

// key is a key as a table knows it: word or bytes.
type key struct {
	hash  uint64
	word  uint64
	bytes []byte
}

func (t *table) seedHash() {
	t.seed = maphash.MakeSeed()
	t.mul1 = maphash.Bytes(t.seed, []byte{1})
	t.mul2 = maphash.Bytes(t.seed, []byte{2}) | 1
}

func (t *table) wordKey(w uint64) key {
	hi, lo := bits.Mul64(w^t.mul1, t.mul2)
	return key{hash: hi ^ lo, word: w}
}

func (t *table) bytesKey(b []byte) key {
	return key{hash: maphash.Bytes(t.seed, b), bytes: b}
}

// keyOf reads the key of an entry.
func (t *table) keyOf(e unsafe.Pointer, a *memory.Arena) key {
	at := unsafe.Add(e, t.key)
	if t.word {
		return t.wordKey(*(*uint64)(at))
	}
	return t.bytesKey(t.keyView(at, a))
}

func (t *table) keyView(at unsafe.Pointer, a *memory.Arena) []byte {
	if t.keyBytes > 0 {
		return unsafe.Slice((*byte)(at), t.keyBytes)
	}
	return textAt(at).bytes(a)
}

func (t *table) same(e unsafe.Pointer, a *memory.Arena, k key) bool {
	at := unsafe.Add(e, t.key)
	if t.word {
		return *(*uint64)(at) == k.word
	}
	return string(t.keyView(at, a)) == string(k.bytes)
}

// entry returns the i-th entry of a block.
func (t *table) entry(base unsafe.Pointer, i int) unsafe.Pointer {
	return unsafe.Add(base, small+uintptr(i)*t.stride)
}

func base(s *slot, a *memory.Arena) unsafe.Pointer { return start(a.Bytes(s.entries, 1)) }

// at returns the i-th entry of a map.
func (t *table) at(s *slot, a *memory.Arena, i int) unsafe.Pointer { return t.in(s, base(s, a), a, i) }

// in is at for a map whose base is b.
func (t *table) in(s *slot, b unsafe.Pointer, a *memory.Arena, i int) unsafe.Pointer {
	if s.paged() {
		return t.inPages(b, a, i)
	}
	return t.entry(b, i)
}

// find returns the position of the key's entry and the entry, or -1.
func (t *table) find(s *slot, a *memory.Arena, k key) (int, unsafe.Pointer) {
	b := base(s, a)
	if s.index != 0 {
		return t.findIndexed(s, a, k)
	}
	for half := 0; half < int(s.count); half += 8 {
		hits := matches(*(*uint64)(unsafe.Add(b, half)), k.hash)
		for ; hits != 0; hits &= hits - 1 {
			i := half + bits.TrailingZeros64(hits)>>3
			if i >= int(s.count) {
				break
			}
			if e := t.entry(b, i); t.same(e, a, k) {
				return i, e
			}
		}
	}
	return -1, nil
}

// findWord is find for a key that is a word.
func (t *table) findWord(s *slot, a *memory.Arena, w uint64) (int, unsafe.Pointer) {
	if s.index != 0 {
		return t.find(s, a, t.wordKey(w))
	}
	hi, lo := bits.Mul64(w^t.mul1, t.mul2)
	b, n := base(s, a), int(s.count)
	for half := 0; half < n; half += 8 {
		hits := matches(*(*uint64)(unsafe.Add(b, half)), hi^lo)
		for ; hits != 0; hits &= hits - 1 {
			i := half + bits.TrailingZeros64(hits)>>3
			if i >= n {
				break
			}
			if e := t.entry(b, i); *(*uint64)(unsafe.Add(e, t.key)) == w {
				return i, e
			}
		}
	}
	return -1, nil
}

var littleEndian = binary.NativeEndian.Uint16([]byte{1, 0}) == 1

// matches has the top bit of each byte of tags set that equals the top byte
// of the hash, and now and then one more.
func matches(tags, hash uint64) uint64 {
	const lows, tops = 0x0101010101010101, 0x8080808080808080
	if !littleEndian {
		tags = bits.ReverseBytes64(tags)
	}
	x := tags ^ (hash>>56)*lows
	return (x - lows) &^ x & tops
}

// index is a view of a map's index. An element is 0, or a position plus 1 in
// its low bits and bits of the hash above them.
type index struct {
	cells []uint32
	bits  int
}

func indexOf(s *slot, a *memory.Arena) index {
	n := bits.Len(uint(a.Cap(s.index)/4)) - 1
	return index{unsafe.Slice((*uint32)(start(a.Bytes(s.index, 4<<n))), 1<<n), n}
}

func (x index) home(hash uint64) int      { return int(hash >> (64 - x.bits)) }
func (x index) next(c int) int            { return (c + 1) & (len(x.cells) - 1) }
func (x index) mask() uint32              { return 1<<x.bits - 1 }
func (x index) tag(hash uint64) uint32    { return uint32(hash) &^ x.mask() }
func (x index) position(cell uint32) int  { return int(cell&x.mask()) - 1 }
func (x index) set(c, i int, hash uint64) { x.cells[c] = x.tag(hash) | uint32(i+1) }

// findIndexed is find for a map with an index.
func (t *table) findIndexed(s *slot, a *memory.Arena, k key) (int, unsafe.Pointer) {
	x, b := indexOf(s, a), base(s, a)
	tag := x.tag(k.hash)
	for c := x.home(k.hash); x.cells[c] != 0; c = x.next(c) {
		if x.cells[c]&^x.mask() == tag {
			i := x.position(x.cells[c])
			if e := t.in(s, b, a, i); t.same(e, a, k) {
				return i, e
			}
		}
	}
	return -1, nil
}

// cellOf returns the cell that holds position i, whose key has the hash.
func (x index) cellOf(i int, hash uint64) int {
	c := x.home(hash)
	for x.position(x.cells[c]) != i {
		c = x.next(c)
	}
	return c
}

func (x index) insert(i int, hash uint64) {
	c := x.home(hash)
	for x.cells[c] != 0 {
		c = x.next(c)
	}
	x.set(c, i, hash)
}

// remove empties cell c, moving others back so that each is still found.
func (x index) remove(c int, hashAt func(i int) uint64) {
	for n := x.next(c); x.cells[n] != 0; n = x.next(n) {
		home := x.home(hashAt(x.position(x.cells[n])))
		if (n-home)&(len(x.cells)-1) >= (n-c)&(len(x.cells)-1) {
			x.cells[c] = x.cells[n]
			c = n
		}
	}
	x.cells[c] = 0
}
