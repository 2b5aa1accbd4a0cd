package state

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/weirstream/weir/codec"
	"github.com/weirstream/weir/internal/entry"
	"github.com/weirstream/weir/internal/snapshot"
)

// wants fails unless the error names all the words.
func wants(t *testing.T, err error, words ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error; want one with %q", words)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("error %q does not name %q", err, w)
		}
	}
}

type textCodec struct{}

func (textCodec) Append(dst []byte, v int) ([]byte, error) { return append(dst, byte(v)), nil }
func (textCodec) Decode(src []byte) (int, error)           { return int(src[0]), nil }
func (textCodec) Format() codec.Format                     { return codec.Format{ID: "tiny", Version: 1, Size: 1} }

// lying says that it writes one byte and writes two.
type lying struct{ textCodec }

func (lying) Append(dst []byte, v int) ([]byte, error) { return append(dst, 1, 2), nil }

func TestDeclarationErrors(t *testing.T) {
	for name, c := range map[string]struct {
		declare func(r *Registry)
		words   []string
	}{
		"twice":          {func(r *Registry) { ValueIn[int](r, "a"); ListIn[int](r, "a") }, []string{`"a"`, "declared twice"}},
		"twice, lists":   {func(r *Registry) { ValueIn[int](r, "a"); OperatorListIn[int](r, "a") }, []string{`"a"`, "declared twice"}},
		"no name":        {func(r *Registry) { ValueIn[int](r, "") }, []string{"no name"}},
		"reserved":       {func(r *Registry) { ValueIn[int](r, "event-timers") }, []string{"timers"}},
		"interface":      {func(r *Registry) { ValueIn[any](r, "a") }, []string{`"a"`, "interface"}},
		"pointer key":    {func(r *Registry) { MapIn[*int, int](r, "a") }, []string{`"a"`, "*int", "KeyCodec"}},
		"ttl":            {func(r *Registry) { ValueIn[int](r, "a", TTL(0)) }, []string{`"a"`, "0s", "millisecond"}},
		"short ttl":      {func(r *Registry) { ListIn[int](r, "a", TTL(time.Microsecond)) }, []string{"1µs"}},
		"negative ttl":   {func(r *Registry) { MapIn[int, int](r, "a", TTL(-time.Hour)) }, []string{"-1h"}},
		"ttl option":     {func(r *Registry) { ValueIn[int](r, "a", TTL(time.Hour, ttlMode(99))) }, []string{"99"}},
		"ttl cleanup":    {func(r *Registry) { ValueIn[int](r, "a", TTL(time.Hour, CleanupIncremental(0))) }, []string{"CleanupIncremental(0)", "1 to 1000"}},
		"codec type":     {func(r *Registry) { ValueIn[int64](r, "a", Codec[int](textCodec{})) }, []string{"textCodec", "int64"}},
		"no reduce":      {func(r *Registry) { ReducingIn[int](r, "a", nil) }, []string{"reduce"}},
		"no aggregator":  {func(r *Registry) { AggregatingIn[int, int, int](r, "a", nil) }, []string{"aggregator"}},
		"list ttl":       {func(r *Registry) { OperatorListIn[int](r, "a", TTL(time.Hour)) }, []string{"time to live"}},
		"too many":       {func(r *Registry) { declareMany(r, entry.MaxFields+1) }, []string{"30"}},
		"with timers":    {func(r *Registry) { declareMany(r, entry.MaxFields); EventTimers(r) }, []string{"31", "at most 30"}},
		"acc with codec": {func(r *Registry) { AggregatingIn(r, "a", lastFlat{}, Codec[int](textCodec{})) }, []string{"codec"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := NewRegistry("the-operator")
			c.declare(r)
			wants(t, r.Err(), append(c.words, "the-operator")...)
		})
	}
}

func declareMany(r *Registry, n int) {
	for i := range n {
		ValueIn[int](r, strings.Repeat("x", i+1))
	}
}

func TestAllDeclarationErrorsAreReported(t *testing.T) {
	r := NewRegistry("op")
	ValueIn[any](r, "first")
	ValueIn[int](r, "second", TTL(0))
	wants(t, r.Err(), "first", "second")
}

func TestConstructorMustDeclareTheSame(t *testing.T) {
	recorded := NewRegistry("op")
	ValueIn[int](recorded, "a")
	EventTimers(recorded)
	ok(t, recorded.Err())

	same := recorded.Bind(&entry.Cursor{})
	ValueIn[int](same, "a")
	EventTimers(same)
	ok(t, same.Err())

	other := recorded.Bind(&entry.Cursor{})
	ValueIn[string](other, "a")
	wants(t, other.Err(), `"a"`, "value of int64", "value of string", "event-timers", "nothing")
}

func TestCheckNamesBothForms(t *testing.T) {
	declare := func(f func(r *Registry)) *Registry {
		r := NewRegistry("op")
		f(r)
		ok(t, r.Err())
		return r
	}
	states := func(r *Registry) (s []snapshot.State) {
		for _, f := range r.Fields() {
			s = append(s, stateOf(f))
		}
		return s
	}
	type v1 struct{ A, B int64 }
	type v2 struct {
		B int64
		A string
	}
	for name, c := range map[string]struct {
		old, new func(r *Registry)
		words    []string // none: compatible
	}{
		"same":       {func(r *Registry) { ValueIn[v1](r, "s") }, func(r *Registry) { ValueIn[v1](r, "s") }, nil},
		"ttl":        {func(r *Registry) { ValueIn[int](r, "s") }, func(r *Registry) { ValueIn[int](r, "s", TTL(time.Hour)) }, nil},
		"new state":  {func(r *Registry) {}, func(r *Registry) { ValueIn[int](r, "s") }, nil},
		"named type": {func(r *Registry) { ValueIn[int64](r, "s") }, func(r *Registry) { ValueIn[time.Duration](r, "s") }, nil},
		"gone":       {func(r *Registry) { ListIn[string](r, "s") }, func(r *Registry) {}, []string{"no longer declared", "list of string"}},
		"type":       {func(r *Registry) { ValueIn[int64](r, "s") }, func(r *Registry) { ValueIn[int32](r, "s") }, []string{"value of int64", "value of int32", "it is int64 in the snapshot and int32 now", "state.Migrate"}},
		"field type": {func(r *Registry) { ValueIn[v1](r, "s") }, func(r *Registry) { ValueIn[v2](r, "s") },
			[]string{"struct{A int64; B int64}", "struct{B int64; A string}", "field A is int64 in the snapshot and string now"}},
		"kind": {func(r *Registry) { ValueIn[int](r, "s") }, func(r *Registry) { ListIn[int](r, "s") }, []string{"value of int64", "list of int64"}},
		"map key": {func(r *Registry) { MapIn[int, int](r, "s") }, func(r *Registry) { MapIn[string, int](r, "s") },
			[]string{"map of int64 to int64", "map of string to int64"}},
		"aggregator": {func(r *Registry) { AggregatingIn(r, "s", lastFlat{}) }, func(r *Registry) { AggregatingIn(r, "s", lastSmall) },
			[]string{"last-flat", "last-fixed"}},
	} {
		t.Run(name, func(t *testing.T) {
			err := declare(c.new).Check(states(declare(c.old)))
			if c.words == nil {
				ok(t, err)
				return
			}
			wants(t, err, append(c.words, `operator "op"`, `state "s"`)...)
			if !errors.Is(err, ErrIncompatible) {
				t.Errorf("%v is no ErrIncompatible", err)
			}
		})
	}
}

func TestCheckTimers(t *testing.T) {
	stored := []snapshot.State{{Name: "event-timers", Kind: "event-timers", Format: codec.Format{ID: "timers", Version: 1}}}
	with, without := NewRegistry("op"), NewRegistry("op")
	EventTimers(with)
	ok(t, with.Check(stored))
	wants(t, without.Check(stored), "event-timers", "no longer declared")
	equals(t, "domains", with.TimerDomains(), []entry.Domain{entry.EventTime})
}

func TestNoKey(t *testing.T) {
	type handles struct {
		v Value[int]
		l List[int]
		m Map[int, int]
		r Reducing[int]
		a Aggregating[uint16, []byte, []uint16]
		t Timers
	}
	_, h := newStore(t, 1, func(r *Registry) handles {
		return handles{ValueIn[int](r, "v"), ListIn[int](r, "l"), MapIn[int, int](r, "m"),
			ReducingIn(r, "r", func(a, b int) int { return a + b }), AggregatingIn(r, "a", lastFlat{}), EventTimers(r)}
	})
	_, e1 := h.v.Get()
	_, _, e2 := h.v.Lookup()
	_, e3 := h.l.Get()
	_, e4 := h.l.Len()
	_, _, e5 := h.m.Get(1)
	_, e6 := h.m.Contains(1)
	_, e7 := h.m.IsEmpty()
	_, e8 := h.r.Get()
	_, _, e9 := h.a.Get()
	for range h.l.All() {
		t.Error("an element without a key")
	}
	for range h.m.All() {
		t.Error("an entry without a key")
	}
	for i, err := range []error{e1, e2, e3, e4, e5, e6, e7, e8, e9, h.l.Err(), h.m.Err(),
		h.v.Set(1), h.v.Clear(), h.l.Add(1), h.l.AddAll(), h.l.Update(nil), h.l.Clear(),
		h.m.Put(1, 1), h.m.PutAll(nil), h.m.Remove(1), h.m.Clear(), h.r.Add(1), h.r.Clear(), h.a.Add(1), h.a.Clear(),
		h.t.Set(time.Now()), h.t.Delete(time.Now()), h.t.SetMillis(1), h.t.DeleteMillis(1)} {
		if !errors.Is(err, ErrNoKey) {
			t.Errorf("call %d: %v, want ErrNoKey", i, err)
		}
	}
}

type timerLog []string

func (l *timerLog) Set(d entry.Domain, at int64) {
	*l = append(*l, "set", string(timerKind(d)), itoa(at))
}
func (l *timerLog) Delete(d entry.Domain, at int64) {
	*l = append(*l, "delete", string(timerKind(d)), itoa(at))
}

func itoa(n int64) string { return time.UnixMilli(n).UTC().Format("05.000") }

func TestTimers(t *testing.T) {
	s, h := newStore(t, 1, func(r *Registry) [2]Timers { return [2]Timers{ProcessingTimers(r), EventTimers(r)} })
	s.seek(0)
	if err := h[0].SetMillis(1); err == nil {
		t.Error("no error though the engine keeps no timers")
	}
	var log timerLog
	s.cur.Timers = &log
	ok(t, h[0].Set(time.Unix(3, 4_999_999)))
	ok(t, h[1].DeleteMillis(5001))
	equals(t, "calls", log, timerLog{"set", "processing-timers", "03.004", "delete", "event-timers", "05.001"})
	equals(t, "domains", s.reg.TimerDomains(), []entry.Domain{entry.EventTime, entry.ProcessingTime})
}

func TestCodecOption(t *testing.T) {
	type handles struct {
		v Value[int]
		l List[int]
		m Map[int, int]
		f Value[int]
	}
	build := func(r *Registry) handles {
		c := Codec[int](textCodec{})
		return handles{ValueIn[int](r, "v", c), ListIn[int](r, "l", c), MapIn[int, int](r, "m", c, KeyCodec[int](textCodec{})),
			ValueIn[int](r, "f", Codec[int](lying{}))}
	}
	s, h := newStore(t, 1, build)
	s.seek(0)
	ok(t, h.v.Set(300)) // the codec keeps the low byte: so it is used
	ok(t, h.l.AddAll(1, 2, 3))
	ok(t, h.m.Put(4, 5))
	wants(t, h.f.Set(1), "says that it writes 1")
	saved := s.snapshot(t)
	equals(t, "stored", saved.values[0], map[string][]byte{"v": {44}, "l": {3, 1, 2, 3}, "m": {1, 4, 5}})
	s, h = newStore(t, 1, build)
	s.load(t, saved)
	s.seek(0)
	v, err := h.v.Get()
	ok(t, err)
	equals(t, "value", v, 44)
	l, err := h.l.Get()
	ok(t, err)
	equals(t, "list", l, []int{1, 2, 3})
	m, _, err := h.m.Get(4)
	ok(t, err)
	equals(t, "map", m, 5)
}

func TestFloatMapKeysAreCanonical(t *testing.T) {
	s, m := newStore(t, 1, func(r *Registry) Map[float64, string] { return MapIn[float64, string](r, "m") })
	s.seek(0)
	ok(t, m.Put(math.NaN(), "a"))
	ok(t, m.Put(math.Float64frombits(0x7ff8000000000002), "b"))
	ok(t, m.Put(0, "c"))
	ok(t, m.Put(math.Copysign(0, -1), "d"))
	n, err := m.Len()
	ok(t, err)
	equals(t, "entries", n, 2)
	v, _, err := m.Get(math.NaN())
	ok(t, err)
	equals(t, "NaN", v, "b")
	v, _, err = m.Get(0)
	ok(t, err)
	equals(t, "zero", v, "d")
}

func TestOperatorList(t *testing.T) {
	type handles struct {
		names OperatorList[string]
		ptrs  OperatorList[*nested]
	}
	build := func(r *Registry) handles {
		return handles{OperatorListIn[string](r, "names"), OperatorListIn[*nested](r, "ptrs")}
	}
	s, h := newStore(t, 0, build)
	h.names.Add("a", "b")
	h.names.Add("c")
	got := h.names.Get()
	got[0] = "changed"
	equals(t, "list", h.names.Get(), []string{"a", "b", "c"})
	lists, err := s.reg.SnapshotLists()
	ok(t, err)
	h.names.Update([]string{"z"})
	h.ptrs.Add(nil)
	_, err = s.reg.SnapshotLists()
	wants(t, err, "op", "ptrs", "element 0", "nil")

	s, h = newStore(t, 0, build)
	h.names.Add("old")
	ok(t, s.reg.RestoreLists(lists))
	equals(t, "restored", h.names.Get(), []string{"a", "b", "c"})
	equals(t, "length", h.names.Len(), 3)
	ok(t, s.reg.RestoreLists(nil))
	equals(t, "restored from nothing", h.names.Get(), []string(nil))

	lists[0].Format.ID = "other"
	lists[1].Name = "gone"
	err = s.reg.RestoreLists(lists)
	wants(t, err, `"names"`, "other", `"gone"`, "no longer declared")
	if !errors.Is(err, ErrIncompatible) {
		t.Errorf("%v is no ErrIncompatible", err)
	}
}

// What is stored as one kind of operator state is no other, nor keyed state.
func TestOperatorStateOfAnotherKind(t *testing.T) {
	kinds := map[string]struct {
		declare func(r *Registry)
		is      string
	}{
		"operator list": {func(r *Registry) { OperatorListIn[string](r, "x") }, "operator list of string"},
		"union list":    {func(r *Registry) { UnionListIn[string](r, "x") }, "union list of string"},
		"broadcast":     {func(r *Registry) { BroadcastIn[int64, string](r, "x") }, "broadcast state of int64 to string"},
		"other keys":    {func(r *Registry) { BroadcastIn[string, string](r, "x") }, "broadcast state of string to string"},
		"raw":           {func(r *Registry) { RawIn(r, "x") }, "raw state"},
		"keyed raw":     {func(r *Registry) { KeyedRawIn(r, "x") }, "raw state of key groups"},
		"value":         {func(r *Registry) { ValueIn[string](r, "x") }, "value of string"},
		"nothing":       {func(*Registry) {}, ""},
	}
	for was, stored := range kinds {
		for is, wanted := range kinds {
			if was == "nothing" || was == is {
				continue
			}
			old, r := NewRegistry("op"), NewRegistry("op")
			stored.declare(old)
			wanted.declare(r)
			lists, err := old.SnapshotLists()
			ok(t, err)
			err = errors.Join(r.CheckLists(lists), r.Check(old.keyedStates()))
			says := []string{`operator "op"`, `state "x"`, "stored as " + stored.is}
			if is == "nothing" {
				says = append(says, "no longer declared")
			} else {
				says = append(says, "declared as "+wanted.is)
			}
			wants(t, err, says...)
			if !errors.Is(err, ErrIncompatible) {
				t.Errorf("%v is no ErrIncompatible", err)
			}
		}
	}
}
