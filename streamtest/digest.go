package streamtest

import (
	"encoding/binary"
	"hash/maphash"
	"math"
	"reflect"
)

// digester makes numbers of values: equal ones for those that are the same, see
// difference.
type digester struct{ seed maphash.Seed }

func newDigester() digester { return digester{maphash.MakeSeed()} }

// depth is how far references are followed: records may be cyclic.
const depth = 8

// digest takes a value that is addressable.
func (d digester) digest(v reflect.Value) uint64 { return d.sum(v, depth) }

func (d digester) sum(v reflect.Value, deep int) uint64 {
	var h maphash.Hash
	h.SetSeed(d.seed)
	d.write(&h, v, deep)
	return h.Sum64()
}

func (d digester) write(h *maphash.Hash, v reflect.Value, deep int) {
	if t, ok := instant(v); ok {
		number(h, uint64(t.Unix()))
		number(h, uint64(t.Nanosecond()))
		return
	}
	switch v.Kind() {
	case reflect.String:
		number(h, uint64(v.Len()))
		_, _ = h.WriteString(v.String())
	case reflect.Bool:
		var n uint64
		if v.Bool() {
			n = 1
		}
		number(h, n)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		number(h, uint64(v.Int()))
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		number(h, v.Uint())
	case reflect.Float32, reflect.Float64:
		float(h, v.Float())
	case reflect.Complex64, reflect.Complex128:
		float(h, real(v.Complex()))
		float(h, imag(v.Complex()))
	case reflect.Struct:
		for i := range v.NumField() {
			d.write(h, field(v, i), deep)
		}
	case reflect.Array:
		for i := range v.Len() {
			d.write(h, v.Index(i), deep)
		}
	case reflect.Slice, reflect.Map, reflect.Pointer, reflect.Interface:
		if !v.IsNil() && deep > 0 {
			d.reference(h, v, deep-1)
		}
	}
}

func (d digester) reference(h *maphash.Hash, v reflect.Value, deep int) {
	switch v.Kind() {
	case reflect.Slice:
		number(h, uint64(v.Len()))
		for i := range v.Len() {
			d.write(h, v.Index(i), deep)
		}
	case reflect.Map:
		var all uint64 // in no order
		for at := v.MapRange(); at.Next(); {
			all += d.sum(addressable(at.Key()), deep) ^ 3*d.sum(addressable(at.Value()), deep)
		}
		number(h, all)
	case reflect.Interface:
		d.write(h, addressable(v.Elem()), deep)
	case reflect.Pointer:
		d.write(h, v.Elem(), deep)
	}
}

func number(h *maphash.Hash, n uint64) {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], n)
	_, _ = h.Write(b[:])
}

func float(h *maphash.Hash, f float64) {
	switch {
	case f == 0: // also -0
		f = 0
	case f != f:
		f = math.NaN()
	}
	number(h, math.Float64bits(f))
}
