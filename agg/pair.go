package agg

import (
	"encoding/binary"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"unsafe"

	"github.com/weirstream/weir/internal/fixed"
)

// Both is the result of Pair. FirstOK and SecondOK tell whether the aggregator
// has a result.
type Both[A, B any] struct {
	First             A
	Second            B
	FirstOK, SecondOK bool
}

var errPair = errors.New("accumulator is not that of the pair")

// Pair computes two aggregates of one input. It has a result if one of the two
// has. The accumulator is a []byte that holds both; pairs may be paired.
func Pair[In, AccA, OutA, AccB, OutB any](a Aggregator[In, AccA, OutA], b Aggregator[In, AccB, OutB]) Aggregator[In, []byte, Both[OutA, OutB]] {
	left, errA := newSide[AccA]()
	right, errB := newSide[AccB]()
	err := errors.Join(errA, errB, Err(a), Err(b))
	if left.layout == nil && right.layout != nil {
		// The part that grows comes last, so that it can grow in place.
		return &swapped[In, AccB, OutB, AccA, OutA]{pair[In, AccB, OutB, AccA, OutA]{a: b, b: a, left: right, right: left, err: err}}
	}
	return &pair[In, AccA, OutA, AccB, OutB]{a: a, b: b, left: left, right: right, err: err}
}

// A paired accumulator is empty before the first record, else a uint32 with
// the length of the first part, and the two parts.
const pairHeader = 4

type pair[In, AccA, OutA, AccB, OutB any] struct {
	a      Aggregator[In, AccA, OutA]
	b      Aggregator[In, AccB, OutB]
	left   side[AccA]
	right  side[AccB]
	err    error
	frames sync.Pool
}

// frame is where the two accumulators lie while they are used. The pair is
// shared by subtasks, so frames come from a pool.
type frame[AccA, AccB any] struct {
	a, otherA AccA
	b, otherB AccB
}

func (p *pair[In, AccA, OutA, AccB, OutB]) frame() *frame[AccA, AccB] {
	if f, ok := p.frames.Get().(*frame[AccA, AccB]); ok {
		return f
	}
	return new(frame[AccA, AccB])
}

func (p *pair[In, AccA, OutA, AccB, OutB]) release(f *frame[AccA, AccB]) {
	*f = frame[AccA, AccB]{}
	p.frames.Put(f)
}

func (p *pair[In, AccA, OutA, AccB, OutB]) Err() error { return p.err }

func (*pair[In, AccA, OutA, AccB, OutB]) Init(acc *[]byte) { *acc = (*acc)[:0] }

func (p *pair[In, AccA, OutA, AccB, OutB]) Add(acc *[]byte, in In) error {
	f := p.frame()
	defer p.release(f)
	if err := p.openOrInit(*acc, f); err != nil {
		return err
	}
	if err := p.a.Add(&f.a, in); err != nil {
		return err
	}
	if err := p.b.Add(&f.b, in); err != nil {
		return err
	}
	*acc = p.store(*acc, &f.a, &f.b)
	return nil
}

func (p *pair[In, AccA, OutA, AccB, OutB]) Merge(acc, other *[]byte) error {
	if len(*other) == 0 {
		return nil
	}
	f := p.frame()
	defer p.release(f)
	if err := p.open(*other, &f.otherA, &f.otherB); err != nil {
		return err
	}
	if err := p.openOrInit(*acc, f); err != nil {
		return err
	}
	if err := p.a.Merge(&f.a, &f.otherA); err != nil {
		return err
	}
	if err := p.b.Merge(&f.b, &f.otherB); err != nil {
		return err
	}
	*acc = p.store(*acc, &f.a, &f.b)
	return nil
}

// openOrInit puts the two accumulators into f.
func (p *pair[In, AccA, OutA, AccB, OutB]) openOrInit(acc []byte, f *frame[AccA, AccB]) error {
	if len(acc) > 0 {
		return p.open(acc, &f.a, &f.b)
	}
	p.a.Init(&f.a)
	p.b.Init(&f.b)
	return nil
}

// open decodes both accumulators. Flat ones are views of src; the first does
// not grow into the second.
func (p *pair[In, AccA, OutA, AccB, OutB]) open(src []byte, a *AccA, b *AccB) error {
	if len(src) < pairHeader {
		return errPair
	}
	n := uint64(binary.LittleEndian.Uint32(src))
	if n > uint64(len(src)-pairHeader) {
		return errPair
	}
	end := pairHeader + int(n)
	if err := p.left.open(a, src[pairHeader:end:end]); err != nil {
		return err
	}
	return p.right.open(b, src[end:])
}

// store writes both accumulators: in place if the first kept its size and
// those that are flat their place, else to new memory.
func (p *pair[In, AccA, OutA, AccB, OutB]) store(dst []byte, a *AccA, b *AccB) []byte {
	sizeA, sizeB := p.left.size(a), p.right.size(b)
	end := pairHeader + sizeA
	if len(dst) >= end && int(binary.LittleEndian.Uint32(dst)) == sizeA && cap(dst) >= end+sizeB &&
		p.left.within(a, dst[pairHeader:]) && p.right.within(b, dst[end:]) {
		dst = dst[:end+sizeB]
		p.left.write(dst[pairHeader:end], a)
		p.right.write(dst[end:], b)
		return dst
	}
	out := dst[:0]
	if len(dst) > 0 {
		out = make([]byte, 0, 2*(end+sizeB))
	}
	out = binary.LittleEndian.AppendUint32(out, uint32(sizeA))
	out = p.left.append(out, a)
	return p.right.append(out, b)
}

func (p *pair[In, AccA, OutA, AccB, OutB]) Result(acc *[]byte) (out Both[OutA, OutB], ok bool) {
	f := p.frame()
	defer p.release(f)
	if len(*acc) == 0 || p.open(*acc, &f.a, &f.b) != nil {
		return out, false
	}
	out.First, out.FirstOK = p.a.Result(&f.a)
	out.Second, out.SecondOK = p.b.Result(&f.b)
	return out, out.FirstOK || out.SecondOK
}

func (p *pair[In, AccA, OutA, AccB, OutB]) Skipped(acc *[]byte) int64 {
	f := p.frame()
	defer p.release(f)
	if len(*acc) == 0 || p.open(*acc, &f.a, &f.b) != nil {
		return 0
	}
	return Skipped(p.a, &f.a) + Skipped(p.b, &f.b)
}

func (p *pair[In, AccA, OutA, AccB, OutB]) Kind() string {
	return fmt.Sprintf("pair(%s,%s)", p.a.Kind(), p.b.Kind())
}

// swapped is a pair stored in the other order.
type swapped[In, AccB, OutB, AccA, OutA any] struct {
	pair[In, AccB, OutB, AccA, OutA]
}

func (p *swapped[In, AccB, OutB, AccA, OutA]) Result(acc *[]byte) (Both[OutA, OutB], bool) {
	r, ok := p.pair.Result(acc)
	return Both[OutA, OutB]{r.Second, r.First, r.SecondOK, r.FirstOK}, ok
}

func (p *swapped[In, AccB, OutB, AccA, OutA]) Kind() string {
	return fmt.Sprintf("pair(%s,%s)", p.b.Kind(), p.a.Kind())
}

// side is how an accumulator lies in that of a pair: in its layout, or as it
// is if it is a []byte (nil layout).
type side[Acc any] struct{ layout *fixed.Layout }

func newSide[Acc any]() (side[Acc], error) {
	t := reflect.TypeFor[Acc]()
	if t == reflect.TypeFor[[]byte]() {
		return side[Acc]{}, nil
	}
	l, err := fixed.Of(t)
	if err != nil {
		return side[Acc]{}, fmt.Errorf("pair: accumulator: %w; keep it in a []byte", err)
	}
	return side[Acc]{l}, nil
}

func flat[Acc any](acc *Acc) *[]byte { return (*[]byte)(unsafe.Pointer(acc)) }

func (s side[Acc]) open(acc *Acc, src []byte) error {
	if s.layout == nil {
		*flat(acc) = src
		return nil
	}
	return s.layout.Load(unsafe.Pointer(acc), src)
}

func (s side[Acc]) size(acc *Acc) int {
	if s.layout == nil {
		return len(*flat(acc))
	}
	return s.layout.Size()
}

// within reports whether a flat accumulator still begins where dst does, or
// has no place of its own.
func (s side[Acc]) within(acc *Acc, dst []byte) bool {
	return s.layout != nil || cap(*flat(acc)) > 0 && unsafe.SliceData(*flat(acc)) == unsafe.SliceData(dst)
}

// write stores the accumulator in its place dst; a flat one is there.
func (s side[Acc]) write(dst []byte, acc *Acc) {
	if s.layout != nil {
		s.layout.Append(dst[:0], unsafe.Pointer(acc))
	}
}

func (s side[Acc]) append(dst []byte, acc *Acc) []byte {
	if s.layout == nil {
		return append(dst, *flat(acc)...)
	}
	return s.layout.Append(dst, unsafe.Pointer(acc))
}
