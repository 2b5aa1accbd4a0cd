package state

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/weirstream/weir/codec"
)

// TestNothingLeaks: state that comes and goes for long takes no more memory
// than it does at first.
func TestNothingLeaks(t *testing.T) {
	for name, declare := range kinds {
		for _, l := range []life{{}, {ttl: 50}} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				s, sub := newStore(t, 1, func(r *Registry) subject { return declare(r, "state", l) })
				r := rand.New(rand.NewPCG(5, 6))
				var warm int64
				for round := range 120 {
					rounds(t, s, sub, r)
					if round == 40 {
						warm = s.pool.InUse()
					}
				}
				if got := s.pool.InUse(); got > warm+warm/4+64<<10 {
					t.Errorf("%d bytes in use after 120 rounds, %d after 40", got, warm)
				}
			})
		}
	}
}

// rounds fills the state, takes a snapshot on the way, and clears it.
func rounds(t *testing.T, s *store, sub subject, r *rand.Rand) {
	t.Helper()
	empty := sub.save()
	s.seek(0)
	for range 50 {
		sub.op(t, r, 0, s.cur.Now)
	}
	f := s.freeze()
	for range 50 {
		s.cur.Now += 2
		sub.op(t, r, 0, s.cur.Now)
	}
	f.thaw()
	if field := s.reg.Fields()[0]; field.Has(s.ptr(0)) {
		field.Clear(s.ptr(0), s.cur.Arena)
	}
	sub.use(empty)
}

func TestMapShrinks(t *testing.T) {
	s, h := newStore(t, 1, func(r *Registry) Map[int64, int64] { return MapIn[int64, int64](r, "m") })
	s.seek(0)
	const many, few = 100_000, 100
	for k := range int64(many) {
		ok(t, h.Put(k, -k))
	}
	for k := range int64(many) {
		if k%(many/few) != 0 {
			ok(t, h.Remove(k))
		}
	}
	slot := h.c.slot(s.cur.P)
	if room := h.c.table.room(slot, s.cur.Arena); room > 16*few {
		t.Errorf("room for %d entries is kept for %d", room, few)
	}
	if cells := s.cur.Arena.Cap(slot.index) / 4; cells > 64*few {
		t.Errorf("an index of %d cells is kept for %d", cells, few)
	}
	for k := int64(0); k < many; k += many / few {
		v, found, err := h.Get(k)
		ok(t, err)
		equals(t, "found", found, true)
		equals(t, "value", v, -k)
	}
}

// TestChangeOfLargeMapCopiesPages: what a change while a snapshot is pending copies
// does not grow with the map.
func TestChangeOfLargeMapCopiesPages(t *testing.T) {
	s, h := newStore(t, 1, func(r *Registry) Map[int64, string] { return MapIn[int64, string](r, "m") })
	s.seek(0)
	const many = 100_000
	for k := range int64(many) {
		ok(t, h.Put(k, "short"))
	}
	for _, change := range []func(){
		func() { ok(t, h.Put(77_777, "another")) },
		func() { ok(t, h.Remove(11_111)) },
		func() { ok(t, h.Put(many, "one more")) },
	} {
		f, before := s.freeze(), s.cur.Arena.Extent()
		for range 10 {
			change()
		}
		if grown := s.cur.Arena.Extent() - before; grown > 256<<10 {
			t.Errorf("a change takes %d bytes", grown)
		}
		stored, err := f.encode()
		ok(t, err)
		f.thaw()
		n, _, err := countOf(stored.values[0]["m"])
		ok(t, err)
		if n < many-1 || n > many {
			t.Errorf("%d entries are stored", n)
		}
	}
	n, err := h.Len()
	ok(t, err)
	equals(t, "length", n, many)
}

// TestFormsEqualCodecs: a type kept in line is stored as its default codec
// would store it, so that giving that codec, or taking it away, loses nothing.
func TestFormsEqualCodecs(t *testing.T) {
	formEqual(t, true)
	formEqual(t, int(-5))
	formEqual(t, int8(-5))
	formEqual(t, int16(-500))
	formEqual(t, int32(-70_000))
	formEqual(t, int64(math.MinInt64))
	formEqual(t, uint(7))
	formEqual(t, uint8(200))
	formEqual(t, uint16(60_000))
	formEqual(t, uint32(1<<31))
	formEqual(t, uint64(1<<63))
	formEqual(t, float32(1.5))
	formEqual(t, math.Inf(-1))
	formEqual(t, "text that is longer than what is kept short")
	formEqual(t, []byte("bytes"))
}

func formEqual[T any](t *testing.T, v T) {
	t.Helper()
	c, err := codec.For[T]()
	ok(t, err)
	want, err := c.Append(nil, v)
	ok(t, err)
	s, h := newStore(t, 1, func(r *Registry) Value[T] { return ValueIn[T](r, "v") })
	s.seek(0)
	ok(t, h.Set(v))
	equals(t, "format of "+typeName[T](), s.reg.Fields()[0].Format, c.Format())
	equals(t, "stored "+typeName[T](), s.snapshot(t).values[0]["v"], want)
}

func TestStoredForms(t *testing.T) {
	type flat struct {
		A bool
		B int32
		_ [4]byte
		C [2]uint16
		D complex64
	}
	type handles struct {
		flat  Value[flat]
		list  List[int16]
		texts List[string]
		m     Map[string, int8]
		ttl   Value[uint8]
	}
	s, h := newStore(t, 1, func(r *Registry) handles {
		return handles{ValueIn[flat](r, "flat"), ListIn[int16](r, "list"), ListIn[string](r, "texts"),
			MapIn[string, int8](r, "map"), ValueIn[uint8](r, "ttl", TTL(ms))}
	})
	s.cur.Now = 0x0102
	s.seek(0)
	ok(t, h.flat.Set(flat{A: true, B: -2, C: [2]uint16{1, 2}, D: complex(1, -2)}))
	ok(t, h.list.AddAll(1, -1))
	ok(t, h.texts.AddAll("ab", ""))
	ok(t, h.m.Put("k", -3))
	ok(t, h.ttl.Set(9))
	equals(t, "stored", s.snapshot(t).values[0], map[string][]byte{
		"flat":  {1, 0xFE, 0xFF, 0xFF, 0xFF, 0, 0, 0, 0, 1, 0, 2, 0, 0, 0, 0x80, 0x3F, 0, 0, 0, 0xC0},
		"list":  {2, 1, 0, 0xFF, 0xFF},
		"texts": {2, 2, 'a', 'b', 0},
		"map":   {1, 1, 'k', 0xFD},
		"ttl":   {2, 1, 0, 0, 0, 0, 0, 0, 9},
	})
	equals(t, "schema", s.reg.Fields()[0].Format, codec.Format{ID: "struct", Version: 1, Size: 21,
		Schema: "struct{A bool; B int32; _ [4]uint8; C [2]uint16; D complex64}"})
}

func TestLoadRefusesWhatIsNoValue(t *testing.T) {
	type handles struct {
		b Value[bool]
		p Value[struct {
			A int16
			B bool
		}]
		l List[bool]
		m Map[int32, bool]
		k Map[bool, int8]
		s List[string]
	}
	s, _ := newStore(t, 1, func(r *Registry) handles {
		return handles{ValueIn[bool](r, "b"), ValueIn[struct {
			A int16
			B bool
		}](r, "p"), ListIn[bool](r, "l"), MapIn[int32, bool](r, "m"), MapIn[bool, int8](r, "k"), ListIn[string](r, "s")}
	})
	for name, bad := range map[string][][]byte{
		"b": {{}, {2}, {1, 0}},
		"p": {{1, 0, 2}, {1, 0}},
		"l": {{}, {1, 2}, {2, 1}, {1, 1, 1}, binary.AppendUvarint(nil, math.MaxUint64)},
		"m": {{1, 1, 0, 0, 0, 2}, {2, 1, 0, 0, 0, 1, 1, 0, 0, 0, 1}, {1, 1, 0, 0, 0}},
		"k": {{1, 2, 1}},
		"s": {{1, 5, 'a'}, {1, 0xFF}, {2, 0}},
	} {
		for _, f := range s.reg.Fields() {
			for _, src := range bad {
				if f.Name != name {
					continue
				}
				if err := f.Load(src, false, s.ptr(0), s.cur.Arena, 0); err == nil {
					t.Errorf("%s: %x is accepted", name, src)
				}
				equals(t, "presence", f.Has(s.ptr(0)), false)
			}
		}
	}
}

func TestTextMovesBetweenItsPlaces(t *testing.T) {
	s, _ := newStore(t, 1, func(r *Registry) Value[string] { return ValueIn[string](r, "v") })
	a := s.cur.Arena
	var x text
	p := textAt(unsafe.Pointer(&x))
	p.init(a, nil, 0)
	long := make([]byte, 1000)
	for i := range long {
		long[i] = byte(i)
	}
	for _, n := range []int{0, 1, maxShort, maxShort + 1, 1000, 24, 23, 500, 3, 0, 100} {
		p.set(a, long[:n])
		equals(t, "set", string(p.bytes(a)), string(long[:n]))
		b := p.open(a)
		b = append(b, 'x')
		p.close(a, b)
		equals(t, "appended", string(p.bytes(a)), string(long[:n])+"x")
		b = p.open(a)
		p.close(a, b[1:]) // a part of itself
		equals(t, "cut", string(p.bytes(a)), (string(long[:n]) + "x")[1:])
	}
	p.drop(a)
}
