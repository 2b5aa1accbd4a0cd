package agg

import (
	"encoding/binary"
	"errors"
	"math"
	"slices"
)

// A quantile sketch is a []byte in one of three forms, all little-endian:
//
//	empty   nothing
//	values  0, skipped uint64, up to 32 values float64: exact
//	bins    1, width, 2 bytes of zero, two stores {bins uint32, first int32},
//	        skipped uint64, zeros uint64, min float64, max float64,
//	        the bins of the negative store, those of the positive store
//
// A bin counts, in width bytes (1, 2, 4 or 8), the values whose magnitude lies
// between two powers of gamma; bins of a store are adjacent. A store keeps
// the bins of the greatest magnitudes, over 35 decimal orders: what is smaller
// counts in its last bin.
const (
	formValues = 0
	formBins   = 1

	valuesHeader = 9
	maxValues    = 32

	offWidth   = 1
	offStores  = 4
	storeSize  = 8
	offSkipped = 20
	offZeros   = 28
	offMin     = 36
	offMax     = 44
	binsHeader = 52

	negative = 0
	positive = 1
)

// orders is the range a store covers, as a natural logarithm.
const orders = 35 * math.Ln10

var errSketch = errors.New("accumulator is not a quantile sketch")

// scale maps magnitudes to bins for a relative error.
type scale struct {
	accuracy float64
	logGamma float64
	// perLog is 1 / logGamma.
	perLog float64
	// mid is what the upper bound of a bin is multiplied by for its value.
	mid  float64
	bins int64
	// top is the bin of the greatest finite value; infinity is in the next.
	top int64
}

func newScale(accuracy float64) scale {
	gamma := (1 + accuracy) / (1 - accuracy)
	s := scale{accuracy: accuracy, logGamma: math.Log(gamma), mid: 2 / (1 + gamma)}
	s.perLog = 1 / s.logGamma
	s.bins = int64(math.Ceil(orders / s.logGamma))
	s.top = int64(math.Ceil(math.Log(math.MaxFloat64) * s.perLog))
	return s
}

// bin is the bin of a magnitude above 0.
func (s *scale) bin(magnitude float64) int64 {
	if math.IsInf(magnitude, 1) {
		return s.top + 1
	}
	return int64(math.Ceil(math.Log(magnitude) * s.perLog))
}

// value is the magnitude that stands for a bin.
func (s *scale) value(bin int64) float64 {
	if bin > s.top {
		return math.Inf(1)
	}
	return min(math.Exp(float64(bin)*s.logGamma)*s.mid, math.MaxFloat64)
}

// valid reports whether b is a sketch.
func valid(b []byte) bool {
	if len(b) == 0 {
		return true
	}
	if b[0] == formValues {
		n := len(b) - valuesHeader
		return n >= 0 && n%8 == 0 && n/8 <= maxValues
	}
	if b[0] != formBins || len(b) < binsHeader {
		return false
	}
	w := b[offWidth]
	return (w == 1 || w == 2 || w == 4 || w == 8) && plausible(b, negative) && plausible(b, positive) &&
		(binsOf(b, negative)+binsOf(b, positive))*int(w) == len(b)-binsHeader
}

// plausible bounds a store far beyond what any accuracy needs.
func plausible(b []byte, store int) bool {
	const far = 1 << 22
	first := firstOf(b, store)
	return binsOf(b, store) <= far && -far <= first && first <= far
}

func u64(b []byte, off int) uint64       { return binary.LittleEndian.Uint64(b[off:]) }
func setU64(b []byte, off int, v uint64) { binary.LittleEndian.PutUint64(b[off:], v) }
func f64(b []byte, off int) float64      { return math.Float64frombits(u64(b, off)) }

func setF64(b []byte, off int, v float64) { setU64(b, off, math.Float64bits(v)) }

// binsOf and firstOf describe a store of the bins form.
func binsOf(b []byte, store int) int {
	return int(binary.LittleEndian.Uint32(b[offStores+store*storeSize:]))
}

func firstOf(b []byte, store int) int64 {
	return int64(int32(binary.LittleEndian.Uint32(b[offStores+store*storeSize+4:])))
}

func setStore(b []byte, store, bins int, first int64) {
	at := b[offStores+store*storeSize:]
	binary.LittleEndian.PutUint32(at, uint32(bins))
	binary.LittleEndian.PutUint32(at[4:], uint32(int32(first)))
}

// binStart is the offset of the first bin of a store.
func binStart(b []byte, store int) int {
	if store == negative {
		return binsHeader
	}
	return binsHeader + binsOf(b, negative)*int(b[offWidth])
}

func binCount(b []byte, at int, width int) uint64 {
	switch width {
	case 1:
		return uint64(b[at])
	case 2:
		return uint64(binary.LittleEndian.Uint16(b[at:]))
	case 4:
		return uint64(binary.LittleEndian.Uint32(b[at:]))
	default:
		return u64(b, at)
	}
}

func setBinCount(b []byte, at int, width int, n uint64) {
	switch width {
	case 1:
		b[at] = byte(n)
	case 2:
		binary.LittleEndian.PutUint16(b[at:], uint16(n))
	case 4:
		binary.LittleEndian.PutUint32(b[at:], uint32(n))
	default:
		setU64(b, at, n)
	}
}

// add folds a value, not NaN, into a valid sketch.
func (s *scale) add(b []byte, v float64) []byte {
	if len(b) == 0 {
		b = append(b, make([]byte, valuesHeader)...)
	}
	if b[0] == formValues {
		if len(b) < valuesHeader+8*maxValues {
			return binary.LittleEndian.AppendUint64(b, math.Float64bits(v))
		}
		b = s.toBins(b)
	}
	return s.addValue(b, v)
}

// skip counts a NaN.
func (s *scale) skip(b []byte) []byte {
	if len(b) == 0 {
		b = append(b, make([]byte, valuesHeader)...)
	}
	off := skippedOff(b)
	setU64(b, off, u64(b, off)+1)
	return b
}

func skippedOff(b []byte) int {
	if b[0] == formValues {
		return 1
	}
	return offSkipped
}

// toBins turns the values form into bins.
func (s *scale) toBins(b []byte) []byte {
	var values [maxValues]float64
	vs := valuesIn(b, &values)
	skipped := u64(b, 1)
	b = append(b[:0], make([]byte, binsHeader)...)
	b[0], b[offWidth] = formBins, 1
	setU64(b, offSkipped, skipped)
	setF64(b, offMin, math.Inf(1))
	setF64(b, offMax, math.Inf(-1))
	for _, v := range vs {
		b = s.addValue(b, v)
	}
	return b
}

func valuesIn(b []byte, into *[maxValues]float64) []float64 {
	vs := into[:(len(b)-valuesHeader)/8]
	for i := range vs {
		vs[i] = f64(b, valuesHeader+8*i)
	}
	return vs
}

// addValue folds a value into the bins form.
func (s *scale) addValue(b []byte, v float64) []byte {
	if v < f64(b, offMin) {
		setF64(b, offMin, v)
	}
	if v > f64(b, offMax) {
		setF64(b, offMax, v)
	}
	switch {
	case v > 0:
		return s.addBin(b, positive, s.bin(v), 1)
	case v < 0:
		return s.addBin(b, negative, s.bin(-v), 1)
	}
	setU64(b, offZeros, u64(b, offZeros)+1)
	return b
}

// addBin adds n to a bin.
func (s *scale) addBin(b []byte, store int, bin int64, n uint64) []byte {
	i := bin - firstOf(b, store)
	if i < 0 || i >= int64(binsOf(b, store)) {
		b = s.cover(b, store, bin, bin)
		i = max(bin-firstOf(b, store), 0)
	}
	return addAt(b, store, int(i), n)
}

// addAt adds n to the i-th bin of a store, widening all bins if need be.
func addAt(b []byte, store, i int, n uint64) []byte {
	width := int(b[offWidth])
	at := binStart(b, store) + i*width
	sum := binCount(b, at, width) + n
	if sum < n {
		sum = math.MaxUint64
	}
	if width < 8 && sum>>(8*width) != 0 {
		for width < 8 && sum>>(8*width) != 0 {
			width *= 2
		}
		b = widen(b, width)
		at = binStart(b, store) + i*width
	}
	setBinCount(b, at, width, sum)
	return b
}

// widen gives all bins a greater width, from the last one on, in place.
func widen(b []byte, width int) []byte {
	old := int(b[offWidth])
	n := (len(b) - binsHeader) / old
	b = slices.Grow(b, n*(width-old))[:binsHeader+n*width]
	for i := n - 1; i >= 0; i-- {
		setBinCount(b, binsHeader+i*width, width, binCount(b, binsHeader+i*old, old))
	}
	b[offWidth] = byte(width)
	return b
}

// cover makes a store hold the bins from low to high, as far as its limit
// allows: the highest are kept, and the lowest one takes what is below.
func (s *scale) cover(b []byte, store int, low, high int64) []byte {
	n, first := int64(binsOf(b, store)), firstOf(b, store)
	if n == 0 {
		first = high
	}
	high = max(high, first+n-1)
	low = max(min(low, first), high-s.bins+1)
	width := int64(b[offWidth])
	begin := binStart(b, store)
	var carry uint64
	if gone := min(low-first, n); gone > 0 {
		for i := range gone {
			carry += binCount(b, begin+int(i*width), int(width))
		}
		b = slices.Delete(b, begin, begin+int(gone*width))
		n -= gone
		first += gone
	}
	if n == 0 {
		first = low
	}
	b = insertZeros(b, begin+int(n*width), int((high-first+1-n)*width))
	b = insertZeros(b, begin, int((first-low)*width))
	setStore(b, store, int(high-low+1), low)
	if carry > 0 {
		b = addAt(b, store, 0, carry)
	}
	return b
}

// insertZeros inserts n zeros at an offset.
func insertZeros(b []byte, at, n int) []byte {
	if n <= 0 {
		return b
	}
	old := len(b)
	b = slices.Grow(b, n)[:old+n]
	copy(b[at+n:], b[at:old])
	clear(b[at : at+n])
	return b
}

// merge folds the valid sketch o into the valid sketch b.
func (s *scale) merge(b, o []byte) []byte {
	switch {
	case len(o) == 0:
		return b
	case len(b) == 0:
		return append(b, o...)
	}
	off := skippedOff(b)
	setU64(b, off, u64(b, off)+u64(o, skippedOff(o)))
	if o[0] == formValues {
		for i := valuesHeader; i < len(o); i += 8 {
			if v := f64(o, i); v == v {
				b = s.add(b, v)
			}
		}
		return b
	}
	if b[0] == formValues {
		b = s.toBins(b)
	}
	setF64(b, offMin, min(f64(b, offMin), f64(o, offMin)))
	setF64(b, offMax, max(f64(b, offMax), f64(o, offMax)))
	setU64(b, offZeros, u64(b, offZeros)+u64(o, offZeros))
	b = s.mergeStore(b, o, negative)
	return s.mergeStore(b, o, positive)
}

func (s *scale) mergeStore(b, o []byte, store int) []byte {
	n, from := binsOf(o, store), firstOf(o, store)
	if n == 0 {
		return b
	}
	b = s.cover(b, store, from, from+int64(n)-1)
	shift := from - firstOf(b, store)
	width, at := int(o[offWidth]), binStart(o, store)
	into, base := int(b[offWidth]), binStart(b, store)
	for i := range n {
		c := binCount(o, at+i*width, width)
		if c == 0 {
			continue
		}
		to := int(max(int64(i)+shift, 0))
		if sum := binCount(b, base+to*into, into) + c; into < 8 && sum < 1<<(8*into) && c < 1<<(8*into) {
			setBinCount(b, base+to*into, into, sum)
			continue
		}
		b = addAt(b, store, to, c)
		into, base = int(b[offWidth]), binStart(b, store)
	}
	return b
}
