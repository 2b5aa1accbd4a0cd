package agg

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"reflect"
	"slices"
	"unsafe"

	"github.com/zeebo/xxh3"
)

// A distinct count is a []byte in one of three forms, little-endian:
//
//	empty      nothing
//	hashes     0, the 64-bit hashes of the values seen, ascending
//	registers  1, precision p, 2^p registers of a HyperLogLog sketch
const (
	formHashes    = 0
	formRegisters = 1
)

var errDistinct = errors.New("accumulator is not that of a distinct count")

// Distinct counts how many different values of has for the records. Up to 256
// different values per slice and window the count is exact (fewer at a coarse
// Accuracy); beyond, its standard error is within the Accuracy, by default
// 0.02, and the accumulator takes 4 KiB.
func Distinct[T any, V Integer | ~string](of func(T) V, opts ...Option) Aggregator[T, []byte, int64] {
	o := collect(0.02, opts)
	p := int(math.Ceil(2 * math.Log2(1.04/o.accuracy)))
	return &distinct[T, V]{of: of, hash: hashOf[V](), p: p, exact: 1 << p / 16, err: o.err}
}

type distinct[T any, V Integer | ~string] struct {
	of   func(T) V
	hash func(V) uint64
	// p is the precision, exact the most hashes that are kept.
	p, exact int
	err      error
}

// hashOf hashes integers as 8 bytes, so that the type may be widened.
func hashOf[V Integer | ~string]() func(V) uint64 {
	switch t := reflect.TypeFor[V](); {
	case t.Kind() == reflect.String:
		return func(v V) uint64 { return xxh3.HashString(*(*string)(unsafe.Pointer(&v))) }
	case t.Size() == 8:
		return func(v V) uint64 { return hashWord(*(*uint64)(unsafe.Pointer(&v))) }
	case t.Size() == 4 && (t.Kind() == reflect.Int32 || t.Kind() == reflect.Int):
		return func(v V) uint64 { return hashWord(uint64(*(*int32)(unsafe.Pointer(&v)))) }
	case t.Size() == 4:
		return func(v V) uint64 { return hashWord(uint64(*(*uint32)(unsafe.Pointer(&v)))) }
	case t.Kind() == reflect.Int16:
		return func(v V) uint64 { return hashWord(uint64(*(*int16)(unsafe.Pointer(&v)))) }
	case t.Kind() == reflect.Uint16:
		return func(v V) uint64 { return hashWord(uint64(*(*uint16)(unsafe.Pointer(&v)))) }
	case t.Kind() == reflect.Int8:
		return func(v V) uint64 { return hashWord(uint64(*(*int8)(unsafe.Pointer(&v)))) }
	default:
		return func(v V) uint64 { return hashWord(uint64(*(*uint8)(unsafe.Pointer(&v)))) }
	}
}

func hashWord(v uint64) uint64 {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], v)
	return xxh3.Hash(b[:])
}

func (d *distinct[T, V]) Err() error { return d.err }

func (*distinct[T, V]) Init(acc *[]byte) { *acc = (*acc)[:0] }

func (d *distinct[T, V]) valid(b []byte) bool {
	switch {
	case len(b) == 0:
		return true
	case b[0] == formHashes:
		return len(b)%8 == 1
	}
	return b[0] == formRegisters && len(b) == 2+1<<d.p && int(b[1]) == d.p
}

func (d *distinct[T, V]) Add(acc *[]byte, in T) error {
	if !d.valid(*acc) {
		return errDistinct
	}
	*acc = d.insert(*acc, d.hash(d.of(in)))
	return nil
}

// insert adds a hash to a valid accumulator.
func (d *distinct[T, V]) insert(b []byte, hash uint64) []byte {
	if len(b) == 0 {
		b = append(b, formHashes)
	}
	if b[0] == formRegisters {
		d.register(b[2:], hash)
		return b
	}
	n := len(b) / 8
	i, found := searchHash(b[1:], n, hash)
	if found {
		return b
	}
	if n >= d.exact {
		b = d.toRegisters(b)
		d.register(b[2:], hash)
		return b
	}
	b = insertZeros(b, 1+8*i, 8)
	setU64(b, 1+8*i, hash)
	return b
}

func searchHash(b []byte, n int, hash uint64) (int, bool) {
	low, high := 0, n
	for low < high {
		mid := (low + high) / 2
		if u64(b, 8*mid) < hash {
			low = mid + 1
		} else {
			high = mid
		}
	}
	return low, low < n && u64(b, 8*low) == hash
}

func (d *distinct[T, V]) toRegisters(b []byte) []byte {
	hashes := slices.Clone(b[1:])
	size := 2 + 1<<d.p
	b = slices.Grow(b[:0], size)[:size]
	clear(b)
	b[0], b[1] = formRegisters, byte(d.p)
	for ; len(hashes) > 0; hashes = hashes[8:] {
		d.register(b[2:], u64(hashes, 0))
	}
	return b
}

// register notes a hash: its first p bits choose the register, which keeps the
// greatest position of the first 1 among the others.
func (d *distinct[T, V]) register(registers []byte, hash uint64) {
	r := &registers[hash>>(64-d.p)]
	*r = max(*r, byte(min(bits.LeadingZeros64(hash<<d.p), 64-d.p)+1))
}

func (d *distinct[T, V]) Merge(acc, other *[]byte) error {
	b, o := *acc, *other
	if !d.valid(b) || !d.valid(o) {
		return errDistinct
	}
	switch {
	case len(o) == 0:
	case len(b) == 0:
		b = append(b, o...)
	case o[0] == formHashes:
		for at := 1; at < len(o); at += 8 {
			b = d.insert(b, u64(o, at))
		}
	default:
		if b[0] == formHashes {
			b = d.toRegisters(b)
		}
		for i, r := range o[2:] {
			b[2+i] = max(b[2+i], r)
		}
	}
	*acc = b
	return nil
}

func (d *distinct[T, V]) Result(acc *[]byte) (int64, bool) {
	b := *acc
	switch {
	case !d.valid(b):
		return 0, false
	case len(b) == 0:
		return 0, true
	case b[0] == formHashes:
		return int64(len(b) / 8), true
	}
	return int64(math.Round(d.estimate(b[2:]))), true
}

func (d *distinct[T, V]) Kind() string { return fmt.Sprintf("distinct(%d)", d.p) }

// estimate is Ertl's improved estimator: unbiased over the whole range,
// without tables.
func (d *distinct[T, V]) estimate(registers []byte) float64 {
	top := 64 - d.p + 1
	var histogram [66]float64
	for _, r := range registers {
		histogram[min(int(r), top)]++
	}
	m := float64(len(registers))
	z := m * tau(1-histogram[top]/m)
	for k := top - 1; k >= 1; k-- {
		z = (z + histogram[k]) / 2
	}
	z += m * sigma(histogram[0]/m)
	return m * m / (2 * math.Ln2 * z)
}

// sigma is x + the sum of x^(2^k) 2^(k-1).
func sigma(x float64) float64 {
	if x == 1 {
		return math.Inf(1)
	}
	y, z := 1.0, x
	for {
		x *= x
		before := z
		z += x * y
		y += y
		if z == before {
			return z
		}
	}
}

// tau is a third of 1 - x - the sum of (1 - x^(2^-k))^2 2^-k.
func tau(x float64) float64 {
	if x == 0 || x == 1 {
		return 0
	}
	y, z := 1.0, 1-x
	for {
		x = math.Sqrt(x)
		before := z
		y /= 2
		z -= (1 - x) * (1 - x) * y
		if z == before {
			return z / 3
		}
	}
}
