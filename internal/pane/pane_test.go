package pane

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/weirstream/weir/internal/entry"
	"github.com/weirstream/weir/internal/memory"
	"github.com/weirstream/weir/window"
)

const ms = time.Millisecond

// wide is an accumulator with padding that lies in line twice.
type wide struct {
	Sum  int64
	Seen bool
	N    int64
}

// log is a flat accumulator: every value, 8 bytes each.
var logConfig = Config[[]byte]{
	Name: "w", Kind: "log", Init: func(*[]byte) {},
	Merge: func(acc, other *[]byte) error { *acc = append(*acc, *other...); return nil },
}

var sumConfig = Config[int64]{
	Name: "w", Kind: "sum", Init: func(*int64) {},
	Merge: func(acc, other *int64) error { *acc += *other; return nil },
}

var wideConfig = Config[wide]{
	Name: "w", Kind: "wide", Init: func(a *wide) { a.Seen = true },
	Merge: func(acc, other *wide) error { acc.Sum, acc.N = acc.Sum+other.Sum, acc.N+other.N; return nil },
}

// key is one entry with its store, outside of any backend.
type key[Acc any] struct {
	*Store[Acc]
	cur  entry.Cursor
	mem  []uint64
	pool *memory.Pool
}

func newKey[Acc any](t testing.TB, c Config[Acc], w window.Assigner, lateness time.Duration) *key[Acc] {
	t.Helper()
	c.Windows, c.Lateness = w, lateness
	s, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	size, err := entry.Plan(8, []*entry.Field{s.Field()})
	if err != nil {
		t.Fatal(err)
	}
	k := &key[Acc]{Store: s, mem: make([]uint64, size/8), pool: memory.NewPool(0)}
	for i := range k.mem {
		k.mem[i] = 0xABABABABABABABAB
	}
	k.cur = entry.Cursor{P: unsafe.Pointer(&k.mem[0]), Arena: memory.NewArena(k.pool)}
	*entry.Bits(k.cur.P) = entry.Used
	s.Bind(&k.cur)
	t.Cleanup(func() {
		if k.field.Has(k.cur.P) {
			k.field.Clear(k.cur.P, k.cur.Arena)
		}
		k.cur.Arena.Close()
		if n := k.pool.InUse(); n != 0 {
			t.Errorf("%d bytes are still in use", n)
		}
		if err := k.pool.Close(); err != nil {
			t.Error(err)
		}
	})
	return k
}

// encode encodes the entry as it is in mem, through a view of its arena.
func (k *key[Acc]) encode(t testing.TB, mem []uint64, v memory.View) []byte {
	t.Helper()
	b, err := k.field.Append(nil, unsafe.Pointer(&mem[0]), v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// subject is one kind of accumulator in the model test.
type subject[Acc any] struct {
	config Config[Acc]
	add    func(acc *Acc, v int64)
	// values gives what is checked of an accumulator that v was added to.
	matches func(acc *Acc, vs []int64) bool
}

func TestModel(t *testing.T) {
	sum := func(vs []int64) (n int64) {
		for _, v := range vs {
			n += v
		}
		return n
	}
	t.Run("sum", func(t *testing.T) {
		model(t, subject[int64]{sumConfig, func(a *int64, v int64) { *a += v },
			func(a *int64, vs []int64) bool { return *a == sum(vs) }})
	})
	t.Run("wide", func(t *testing.T) {
		model(t, subject[wide]{wideConfig, func(a *wide, v int64) { a.Sum, a.N = a.Sum+v, a.N+1 },
			func(a *wide, vs []int64) bool { return *a == wide{sum(vs), true, int64(len(vs))} }})
	})
	t.Run("flat", func(t *testing.T) {
		model(t, subject[[]byte]{logConfig,
			func(a *[]byte, v int64) { *a = binary.LittleEndian.AppendUint64(*a, uint64(v)) },
			func(a *[]byte, vs []int64) bool {
				var got []int64
				for b := *a; len(b) > 0; b = b[8:] {
					got = append(got, int64(binary.LittleEndian.Uint64(b)))
				}
				slices.Sort(got)
				slices.Sort(vs)
				return slices.Equal(got, vs)
			}})
	})
}

func model[Acc any](t *testing.T, sub subject[Acc]) {
	shapes := []struct {
		size, slide, lateness, disorder int64
	}{
		{10, 10, 0, 5}, {10, 10, 25, 60}, {60, 1, 0, 10}, {60, 1, 5, 100}, {16, 7, 3, 20}, {3, 5, 0, 10}, {100, 10, 1000, 2000},
	}
	for _, sh := range shapes {
		w := window.Sliding(time.Duration(sh.size)*ms, time.Duration(sh.slide)*ms)
		for seed := range uint64(4) {
			m := &modelRun[Acc]{
				t: t, sub: sub, w: w, lateness: sh.lateness, disorder: sh.disorder,
				r: rand.New(rand.NewPCG(seed, 7)), want: map[int64][]int64{}, watermark: -1000,
				name: fmt.Sprintf("%v lateness %d seed %d", w, sh.lateness, seed),
			}
			m.run()
		}
	}
}

// modelRun drives a key and a map of slices with the same records.
type modelRun[Acc any] struct {
	t                  *testing.T
	name               string
	sub                subject[Acc]
	w                  window.Assigner
	lateness, disorder int64
	r                  *rand.Rand
	k                  *key[Acc]
	want               map[int64][]int64
	watermark          int64
	frozen             []frozen
}

// frozen is a pending snapshot and what it must contain.
type frozen struct {
	mem  []uint64
	view memory.View
	want []byte
}

func (m *modelRun[Acc]) run() {
	m.k = newKey(m.t, m.sub.config, m.w, time.Duration(m.lateness)*ms)
	for step := range 1500 {
		switch op := m.r.IntN(100); {
		case op < 70:
			m.record(step)
		case op < 80:
			m.watermark += m.r.Int64N(m.disorder)
			m.expire()
		case op < 90:
			m.fire()
		case op < 94:
			m.freeze()
		case op < 98:
			m.thaw()
		default:
			m.restore()
		}
		if m.t.Failed() {
			m.t.Fatalf("%s: failed at step %d", m.name, step)
		}
	}
	for len(m.frozen) > 0 {
		m.thaw()
	}
}

func (m *modelRun[Acc]) record(step int) {
	ts := m.watermark + m.r.Int64N(m.disorder) - m.disorder/4
	start, ok := m.k.Locate(ts)
	if want, wantOK := m.w.SliceStart(ts); start != want || ok != wantOK {
		m.t.Errorf("slice of %d: %d %v, want %d %v", ts, start, ok, want, wantOK)
	}
	if !ok || m.w.Late(ts, m.watermark, m.lateness) {
		return
	}
	m.sub.add(m.k.At(start), int64(step))
	m.k.Keep()
	m.want[start] = append(m.want[start], int64(step))
}

func (m *modelRun[Acc]) expire() {
	m.k.Expire(m.watermark)
	for start := range m.want {
		if m.w.Late(start, m.watermark, m.lateness) {
			delete(m.want, start)
		}
	}
	m.check()
}

// check compares all slices, the next end and the next expiry.
func (m *modelRun[Acc]) check() {
	all := window.Span{Start: math.MinInt64, End: math.MaxInt64}
	var starts []int64
	err := m.k.Each(all, func(start int64, acc *Acc) error {
		starts = append(starts, start)
		if !m.sub.matches(acc, slices.Clone(m.want[start])) {
			m.t.Errorf("slice %d: %v, want %v", start, *acc, m.want[start])
		}
		return nil
	})
	if err != nil || !slices.IsSorted(starts) || len(starts) != len(m.want) || m.k.Len() != len(starts) {
		m.t.Errorf("slices %v, want %d, Len %d, %v", starts, len(m.want), m.k.Len(), err)
	}
	if m.k.field.Has(m.k.cur.P) != (len(m.want) > 0) {
		m.t.Errorf("the field is present with %d slices", len(m.want))
	}
	var end int64
	expiry := int64(math.MaxInt64)
	some := false
	for _, start := range starts {
		last, _ := m.w.LastEnd(start)
		if x := last - 1 + m.lateness; x < expiry {
			expiry = x
		}
		for w := range m.w.Windows(start) {
			if w.End > m.watermark && (!some || w.End < end) {
				end, some = w.End, true
			}
		}
	}
	if got, ok := m.k.NextEnd(m.watermark); ok != some || got != end {
		m.t.Errorf("next end after %d: %d %v, want %d %v", m.watermark, got, ok, end, some)
	}
	if got, ok := m.k.NextExpiry(); ok != (len(starts) > 0) || ok && got != expiry {
		m.t.Errorf("next expiry %d %v, want %d", got, ok, expiry)
	}
}

// fire compares the windows around a random time.
func (m *modelRun[Acc]) fire() {
	at := m.watermark + m.r.Int64N(m.disorder)
	for span := range m.w.Windows(at) {
		var want []int64
		for start, vs := range m.want {
			if span.Contains(start) {
				want = append(want, vs...)
			}
		}
		acc, ok, err := m.k.Window(span)
		if err != nil || ok != (want != nil) || ok && !m.sub.matches(acc, want) {
			m.t.Errorf("window %d: %v %v, want %v", span.Start, acc, err, want)
		}
	}
}

func (m *modelRun[Acc]) freeze() {
	if !m.k.field.Has(m.k.cur.P) {
		return
	}
	f := frozen{mem: slices.Clone(m.k.mem), want: m.k.encode(m.t, m.k.mem, m.k.cur.Arena.View())}
	f.view = m.k.cur.Arena.Freeze()
	m.frozen = append(m.frozen, f)
}

// thaw encodes a pending snapshot, long after its barrier.
func (m *modelRun[Acc]) thaw() {
	if len(m.frozen) == 0 {
		return
	}
	i := m.r.IntN(len(m.frozen))
	f := m.frozen[i]
	if got := m.k.encode(m.t, f.mem, f.view); !bytes.Equal(got, f.want) {
		m.t.Errorf("the snapshot changed after its barrier")
	}
	m.k.cur.Arena.Thaw(f.view)
	m.frozen = slices.Delete(m.frozen, i, i+1)
}

// restore loads the entry's own encoding over it.
func (m *modelRun[Acc]) restore() {
	if !m.k.field.Has(m.k.cur.P) {
		return
	}
	b := m.k.encode(m.t, m.k.mem, m.k.cur.Arena.View())
	if err := m.k.field.Load(b, false, m.k.cur.P, m.k.cur.Arena, 0); err != nil {
		m.t.Error(err)
	}
	m.check()
}

func TestLayoutInTheEntry(t *testing.T) {
	for name, c := range map[string]struct{ got, want uintptr }{
		"tumbling":               {newKey(t, sumConfig, window.Tumbling(time.Second), 0).field.Size, 8 + 2*16},
		"tumbling with lateness": {newKey(t, sumConfig, window.Tumbling(time.Second), ms).field.Size, 8 + 3*16},
		"sliding":                {newKey(t, sumConfig, window.Sliding(time.Minute, time.Second), 0).field.Size, 8 + 4*16},
		"wide":                   {newKey(t, wideConfig, window.Sliding(time.Minute, time.Second), 0).field.Size, 8 + 3*32},
		"flat":                   {newKey(t, logConfig, window.Tumbling(time.Second), 0).field.Size, 8 + 2*16},
	} {
		if c.got != c.want {
			t.Errorf("%s: %d bytes, want %d", name, c.got, c.want)
		}
	}
}

func TestGoldenSnapshot(t *testing.T) {
	k := newKey(t, wideConfig, window.Sliding(20*ms, 10*ms), 0)
	k.At(10).Sum = 5
	k.At(-10).N = 2
	got := fmt.Sprintf("%x", k.encode(t, k.mem, k.cur.Arena.View()))
	want := "02" + "f6ffffffffffffff" + "0000000000000000" + "01" + "0200000000000000" +
		"0a00000000000000" + "0500000000000000" + "01" + "0000000000000000"
	if got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if f := k.field; f.Detail != "wide in sliding(20ms,10ms)" || f.Format.Schema != "struct{Sum int64; Seen bool; N int64}" {
		t.Errorf("detail %q, schema %q", f.Detail, f.Format.Schema)
	}
}

func TestW23HugeJump(t *testing.T) {
	k := newKey(t, sumConfig, window.Tumbling(time.Second), 0)
	*k.At(0) = 1
	*k.At(1600000000000) = 2
	if end, ok := k.NextEnd(math.MinInt64); !ok || end != 1000 {
		t.Errorf("first end %d %v", end, ok)
	}
	k.Expire(999)
	if end, ok := k.NextEnd(999); !ok || end != 1600000001000 {
		t.Errorf("second end %d %v", end, ok)
	}
	k.Expire(math.MaxInt64)
	if k.Len() != 0 {
		t.Errorf("%d slices are left", k.Len())
	}
}

func TestRefusedConfigs(t *testing.T) {
	c := sumConfig
	for _, x := range []struct {
		w        window.Assigner
		lateness time.Duration
		part     string
	}{{window.Tumbling(0), 0, "window size"}, {window.Tumbling(ms), -ms, "allowed lateness -1ms"}, {window.Tumbling(ms), 1, "whole number"}} {
		c.Windows, c.Lateness = x.w, x.lateness
		if _, err := New(c); err == nil || !strings.Contains(err.Error(), x.part) {
			t.Errorf("error %v, want one that contains %q", err, x.part)
		}
	}
	if _, err := New(Config[string]{Windows: window.Tumbling(ms)}); err == nil || !strings.Contains(err.Error(), "keep it in a []byte") {
		t.Errorf("accumulator with a pointer: %v", err)
	}
}

func FuzzLoad(f *testing.F) {
	w := window.Sliding(60*ms, ms)
	good := newKey(f, logConfig, w, 0)
	for i := range int64(6) {
		*good.At(i) = []byte("value")
		good.Keep()
	}
	f.Add(good.encode(f, good.mem, good.cur.Arena.View()))
	f.Add([]byte{0})
	f.Add([]byte{1, 0, 0, 0, 0, 0, 0, 0, 0, 1})
	f.Add(bytes.Repeat([]byte{0xff}, 30))
	f.Fuzz(func(t *testing.T, src []byte) {
		fuzzLoad(t, newKey(t, logConfig, w, 0), src)
		fuzzLoad(t, newKey(t, wideConfig, w, 0), src)
	})
}

func fuzzLoad[Acc any](t *testing.T, k *key[Acc], src []byte) {
	if k.field.Load(src, false, k.cur.P, k.cur.Arena, 0) != nil || !k.field.Has(k.cur.P) {
		if k.field.Has(k.cur.P) {
			t.Fatal("a field is left behind by a failed load")
		}
		return
	}
	first := k.encode(t, k.mem, k.cur.Arena.View())
	if err := k.field.Load(first, false, k.cur.P, k.cur.Arena, 0); err != nil {
		t.Fatal(err)
	}
	if again := k.encode(t, k.mem, k.cur.Arena.View()); !bytes.Equal(first, again) {
		t.Fatalf("%x becomes %x", first, again)
	}
}

func TestAddAllocatesNothing(t *testing.T) {
	k := newKey(t, sumConfig, window.Sliding(time.Minute, time.Second), 0)
	fl := newKey(t, logConfig, window.Tumbling(time.Minute), 0)
	ts := int64(0)
	n := testing.AllocsPerRun(5000, func() {
		start, _ := k.Locate(ts)
		*k.At(start)++
		k.Keep()
		k.Expire(ts - 5000)
		*fl.At(0) = append((*fl.At(0))[:0], 1, 2, 3)
		fl.Keep()
		ts += 300
	})
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// benchAdd adds records that are up to disorder out of order, in a stream that
// advances by a millisecond per record.
func benchAdd(b *testing.B, w window.Assigner, disorder int64) {
	k := newKey(b, sumConfig, w, 0)
	offsets := make([]int64, 1024)
	for i := range offsets {
		offsets[i] = rand.Int64N(max(disorder, 1))
	}
	b.ReportAllocs()
	ts := int64(1_700_000_000_000)
	for b.Loop() {
		addBatch(k.Store, ts, offsets)
		ts += 1024
		k.Expire(ts - disorder)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1024, "ns/record")
}

func addBatch(s *Store[int64], ts int64, offsets []int64) {
	for i, off := range offsets {
		start, ok := s.Locate(ts + int64(i) - off)
		if !ok {
			panic("no slice")
		}
		*s.At(start) += 3
		s.Keep()
	}
}

func BenchmarkAdd(b *testing.B) {
	b.Run("tumbling", func(b *testing.B) { benchAdd(b, window.Tumbling(10*time.Second), 0) })
	b.Run("tumbling-disorder", func(b *testing.B) { benchAdd(b, window.Tumbling(10*time.Second), 5000) })
	b.Run("sliding60", func(b *testing.B) { benchAdd(b, window.Sliding(time.Minute, time.Second), 0) })
	b.Run("sliding60-disorder", func(b *testing.B) { benchAdd(b, window.Sliding(time.Minute, time.Second), 5000) })
}

func BenchmarkFireSliding60(b *testing.B) {
	k := newKey(b, sumConfig, window.Sliding(time.Minute, time.Second), 0)
	for i := range int64(60) {
		*k.At(i * 1000) = i
	}
	b.ReportAllocs()
	for b.Loop() {
		acc, ok, err := k.Window(window.Span{Start: 0, End: 60_000})
		if err != nil || !ok || *acc != 1770 {
			b.Fatal(*acc, ok, err)
		}
	}
}

// An aggregator may drop bytes from the front of a flat accumulator. What it
// leaves is no memory for the accumulators of others.
func TestFlatAccumulatorCutAtTheFront(t *testing.T) {
	k := newKey(t, logConfig, window.Tumbling(10*ms), 0)
	add := func(start int64, cut int, b string) {
		acc := k.At(start)
		*acc = append((*acc)[cut:], b...)
		k.Keep()
	}
	long := strings.Repeat("x", 500)
	add(0, 0, long)
	add(0, 20, "")   // its block goes
	add(10, 0, long) // and comes again
	add(20, 0, "fresh")
	for start, want := range map[int64]string{0: long[20:], 10: long, 20: "fresh"} {
		acc, ok, err := k.Window(window.Span{Start: start, End: start + 10})
		if err != nil || !ok || string(*acc) != want {
			t.Errorf("window at %d: %q, %v, %v; want %q", start, *acc, ok, err, want)
		}
	}
}
