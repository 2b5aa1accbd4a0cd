package keygroup

import (
	"math/bits"
	"reflect"
	"unsafe"

	"github.com/zeebo/xxh3"
)

// HashName names the hash of keys; every snapshot stores it. It is the low
// half of the unseeded XXH3-64 over the canonical encoding of the key.
const HashName = "xxh3-32/v1"

// way is how a Hasher reads a key.
type way uint8

const (
	wayString way = iota
	way8
	way4
	wayFloat64
	wayMemory // the key's memory is its encoding
	wayEncode
)

// Hasher hashes keys of type K. It is immutable and may be used from any
// goroutine.
type Hasher[K comparable] struct {
	plan *plan
	way  way
}

// NewHasher returns the hasher of K; the error is that of NewEncoding.
func NewHasher[K comparable]() (Hasher[K], error) {
	t := reflect.TypeFor[K]()
	p, err := newPlan(t)
	if err != nil {
		return Hasher[K]{}, err
	}
	return Hasher[K]{p, wayOf(p, t)}, nil
}

func wayOf(p *plan, t reflect.Type) way {
	switch {
	case p.text:
		return wayString
	case t.Kind() == reflect.Float64:
		return wayFloat64
	case p.canonical && t.Size() == 8:
		return way8
	case p.canonical && t.Size() == 4:
		return way4
	case p.canonical:
		return wayMemory
	}
	return wayEncode
}

// Hash returns the hash of k.
func (h Hasher[K]) Hash(k K) uint32 {
	p := unsafe.Pointer(&k)
	switch h.way {
	case wayString:
		return uint32(xxh3.HashString(*(*string)(p)))
	case way8:
		return hash8(load8(p))
	case way4:
		return hash4(load4(p))
	case wayFloat64:
		return hash8(canonical64(*(*float64)(p)))
	case wayMemory:
		return uint32(xxh3.Hash(unsafe.Slice((*byte)(p), unsafe.Sizeof(k))))
	}
	return h.encoded(p)
}

// HashAll writes the hash of each key to out, which is as long as keys.
func (h Hasher[K]) HashAll(keys []K, out []uint32) {
	if len(keys) == 0 {
		return
	}
	out = out[:len(keys)]
	p := unsafe.Pointer(unsafe.SliceData(keys))
	switch h.way {
	case wayString:
		for i, s := range unsafe.Slice((*string)(p), len(keys)) {
			out[i] = uint32(xxh3.HashString(s))
		}
	case way8:
		for i := range out {
			out[i] = hash8(load8(unsafe.Add(p, i*8)))
		}
	case way4:
		for i := range out {
			out[i] = hash4(load4(unsafe.Add(p, i*4)))
		}
	default:
		for i := range keys {
			out[i] = h.Hash(keys[i])
		}
	}
}

// encoded hashes a key that must be encoded first; keys of up to 128 encoded
// bytes do not allocate.
func (h Hasher[K]) encoded(p unsafe.Pointer) uint32 {
	var buf [128]byte
	return uint32(xxh3.Hash(h.plan.append(buf[:0], p)))
}

// load8 and load4 read little-endian words of any alignment.
func load8(p unsafe.Pointer) uint64 {
	b := (*[8]byte)(p)
	return uint64(b[0]) | uint64(b[1])<<8 | uint64(b[2])<<16 | uint64(b[3])<<24 |
		uint64(b[4])<<32 | uint64(b[5])<<40 | uint64(b[6])<<48 | uint64(b[7])<<56
}

func load4(p unsafe.Pointer) uint32 {
	b := (*[4]byte)(p)
	return uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16 | uint32(b[3])<<24
}

// The short form of XXH3-64, for inputs of 4 to 8 bytes, unseeded: flip is
// the xor of two words of its secret, prime its multiplier.
const (
	flip  uint64 = 0x1CAD21F72C81017C ^ 0xDB979083E96DD4DE
	prime uint64 = 0x9FB21C651E98DF25
)

// hash8 is the low half of XXH3-64 of v as 8 little-endian bytes.
func hash8(v uint64) uint32 {
	return uint32(shortMix(bits.RotateLeft64(v, 32)^flip, 8))
}

// hash4 is the low half of XXH3-64 of v as 4 little-endian bytes.
func hash4(v uint32) uint32 {
	return uint32(shortMix((uint64(v)|uint64(v)<<32)^flip, 4))
}

func shortMix(h, n uint64) uint64 {
	h ^= bits.RotateLeft64(h, 49) ^ bits.RotateLeft64(h, 24)
	h *= prime
	h ^= h>>35 + n
	h *= prime
	return h ^ h>>28
}

// HashEncoded is the hash of a key of which the canonical encoding is given.
func HashEncoded(encoded []byte) uint32 { return uint32(xxh3.Hash(encoded)) }
