package state

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/weirstream/weir/codec"
)

// evolve stores values as Old in every kind of state that has values, restores
// them as New, and compares.
func evolve[Old, New any](t *testing.T, was []Old, is []New, opts ...Option) {
	t.Helper()
	for _, ttl := range [][2]bool{{false, false}, {true, true}, {false, true}, {true, false}} {
		evolveKeyed(t, was, is, ttl[0], ttl[1], opts)
	}
	evolveOperatorState(t, was, is, opts)
}

// every is a state of each kind, of one type.
type every[T any] struct {
	value Value[T]
	list  List[T]
	m     Map[string, T]
	word  Map[int64, T]
	last  Reducing[T]
}

func declareEvery[T any](ttl bool, opts []Option) func(*Registry) *every[T] {
	if ttl {
		opts = append(opts[:len(opts):len(opts)], TTL(time.Hour))
	}
	return func(r *Registry) *every[T] {
		return &every[T]{
			ValueIn[T](r, "value", opts...), ListIn[T](r, "list", opts...), MapIn[string, T](r, "map", opts...), MapIn[int64, T](r, "word", opts...),
			ReducingIn(r, "last", func(_, b T) T { return b }, opts...),
		}
	}
}

func evolveKeyed[Old, New any](t *testing.T, was []Old, is []New, timedThen, timedNow bool, opts []Option) {
	t.Helper()
	s, old := newStore(t, 1, declareEvery[Old](timedThen, nil))
	s.seek(0)
	for i, v := range was {
		ok(t, old.value.Set(v))
		ok(t, old.list.Add(v))
		ok(t, old.m.Put(fmt.Sprint(i), v))
		ok(t, old.word.Put(int64(i), v))
		ok(t, old.last.Add(v))
	}
	stored := s.snapshot(t)
	s, now := newStore(t, 1, declareEvery[New](timedNow, opts))
	s.load(t, stored)
	s.seek(0)
	last := is[len(is)-1]
	got, err := now.value.Get()
	ok(t, err)
	equals(t, "value", got, last)
	all, err := now.list.Get()
	ok(t, err)
	equals(t, "list", all, is)
	for i := range is {
		got, have, err := now.m.Get(fmt.Sprint(i))
		ok(t, err)
		equals(t, "map", got, is[i])
		got, haveWord, err := now.word.Get(int64(i))
		ok(t, err)
		equals(t, "map with short keys", got, is[i])
		equals(t, "entries", have && haveWord, true)
	}
	got, err = now.last.Get()
	ok(t, err)
	equals(t, "reducing", got, last)
}

func evolveOperatorState[Old, New any](t *testing.T, was []Old, is []New, opts []Option) {
	t.Helper()
	old, now := NewRegistry("op"), NewRegistry("op")
	OperatorListIn[Old](old, "list").l.items = was
	UnionListIn[Old](old, "union").l.items = was
	m := BroadcastIn[string, Old](old, "broadcast")
	old.AllowBroadcast(true)
	for i, v := range was {
		ok(t, m.Put(fmt.Sprint(i), v))
	}
	lists, err := old.SnapshotLists()
	ok(t, err)
	list, union, entries := OperatorListIn[New](now, "list", opts...), UnionListIn[New](now, "union", opts...), BroadcastIn[string, New](now, "broadcast", opts...)
	ok(t, now.Err())
	ok(t, now.RestoreLists(lists))
	equals(t, "operator list", list.Get(), is)
	equals(t, "union list", union.Get(), is)
	for i := range is {
		got, _, err := entries.Get(fmt.Sprint(i))
		ok(t, err)
		equals(t, "broadcast state", got, is[i])
	}
}

type inner struct {
	X int8
	Y []int32
}

// plainV1 to plainV3 have no pointers and lie in memory as they are; the others
// are encoded.
type (
	plainV1 struct {
		N    int32
		Gone bool
		Sum  float32
		At   [2]int16
	}
	plainV2 struct {
		At    [2]int64
		Total float64 `avro:"Total,alias=Sum"`
		New   uint16
		N     int64
	}
	codedV1 struct {
		N    int32
		Name string
		Sum  float32
		In   inner
		By   map[string]inner
		Gone []string
	}
	codedV2 struct {
		By    map[string]*innerV2
		In    innerV2
		Extra string `avro:"Extra,default=none"`
		Full  string `avro:"Full,alias=[Label,Name]"`
		N     *int64
		Sum   float64
	}
	innerV2 struct {
		Y []int64
		X int16
		Z *string
	}
)

func TestEvolutionOfStructs(t *testing.T) {
	n := int64(-7)
	t.Run("plain", func(t *testing.T) {
		evolve(t, []plainV1{{1, true, 0.5, [2]int16{1, -2}}, {-3, false, -2, [2]int16{}}},
			[]plainV2{{[2]int64{1, -2}, 0.5, 0, 1}, {[2]int64{}, -2, 0, -3}})
	})
	t.Run("encoded", func(t *testing.T) {
		evolve(t, []codedV1{{-7, "ann", 1.5, inner{-1, []int32{4, -5}}, map[string]inner{"a": {2, []int32{}}}, []string{"x"}}},
			[]codedV2{{map[string]*innerV2{"a": {[]int64{}, 2, nil}}, innerV2{[]int64{4, -5}, -1, nil}, "none", "ann", &n, 1.5}})
	})
	type grown struct {
		Name string
		N    int64
	}
	t.Run("a string is added", func(t *testing.T) { evolve(t, []plainV1{{N: 9}}, []grown{{N: 9}}) })
	t.Run("the string is left out", func(t *testing.T) {
		evolve(t, []grown{{"x", 70}}, []plainV2{{N: 70}})
	})
	type fields struct{ n, other int64 }
	type more struct {
		other, third int64
		n            int64
	}
	t.Run("not exported", func(t *testing.T) { evolveKeyed(t, []fields{{1, 2}}, []more{{2, 0, 1}}, false, false, nil) })
}

type Base struct{ X, Y int64 }

// Avro knows the fields of embedded structs as those of the outer one.
func TestEvolutionOfEmbeddedStructs(t *testing.T) {
	type plain struct {
		Base
		N int64
	}
	type coded struct {
		Base
		S string
		N int64
	}
	evolveKeyed(t, []plain{{Base{1, 2}, 3}}, []coded{{Base{1, 2}, "", 3}}, false, false, nil)
	evolveKeyed(t, []coded{{Base{1, 2}, "s", 3}}, []plain{{Base{1, 2}, 3}}, false, false, nil)
}

func TestEvolutionOfScalars(t *testing.T) {
	evolve(t, []int8{-128, 127}, []int16{-128, 127})
	evolve(t, []int16{-1}, []int32{-1})
	evolve(t, []int32{-1 << 31}, []int64{-1 << 31})
	evolve(t, []int32{5}, []int{5})
	evolve(t, []uint8{255}, []int16{255})
	evolve(t, []uint8{255}, []uint64{255})
	evolve(t, []uint16{65535}, []uint32{65535})
	evolve(t, []uint32{1<<32 - 1}, []int64{1<<32 - 1})
	evolve(t, []float32{1.25}, []float64{1.25})
	evolve(t, []int32{-9}, []float64{-9})
	evolve(t, []string{"a", ""}, [][]byte{[]byte("a"), {}})
	one := int64(1)
	evolve(t, []int32{1}, []*int64{&one})
	evolve(t, [][3]uint8{{1, 2, 3}}, [][3]uint8{{1, 2, 3}})
	evolve(t, [][]int32{{1, 2}, {}}, [][]int64{{1, 2}, {}})
	evolve(t, [][2]int32{{1, 2}}, [][]int64{{1, 2}})
	evolve(t, []map[string]float32{{"a": 1}}, []map[string]float64{{"a": 1}})
}

// What would lose values is refused, and the error says what differs.
func TestEvolutionRefused(t *testing.T) {
	type v1 struct {
		A int64
		B inner
	}
	type narrower struct {
		A int32
		B inner
	}
	type inside struct{ X string }
	type nested struct {
		A int64
		B inside
	}
	type renamed struct{ Amount int64 }
	refuse[int64, int32](t, "it is int64 in the snapshot and int32 now")
	refuse[int64, uint64](t, "it is int64 in the snapshot and uint64 now")
	refuse[uint64, int64](t, "it is uint64 in the snapshot and int64 now")
	refuse[int64, float64](t, "it is int64 in the snapshot and float64 now")
	refuse[float64, float32](t, "it is float64 in the snapshot and float32 now")
	refuse[float32, int64](t, "it is float32 in the snapshot and int64 now")
	refuse[int32, string](t, "it is int32 in the snapshot and string now")
	refuse[time.Time, int64](t, "no rule")
	refuse[[2]uint8, [3]uint8](t, "it is [2]byte in the snapshot and [3]byte now")
	refuse[*int64, int64](t, "it is *int64 in the snapshot and int64 now")
	refuse[v1, narrower](t, "field A is int64 in the snapshot and int32 now")
	refuse[v1, nested](t, "field B.X is int32 in the snapshot and string now")
	refuse[v1, renamed](t, "no field under the name of a stored one (A, B)", `alias=A`)
	refuse[v1, int64](t, "it is struct{A int64; B struct{X int32; Y []int32}} in the snapshot and int64 now")
	refuse[map[string]int64, map[string]int32](t, "field [] is int64 in the snapshot and int32 now")
}

func refuse[Old, New any](t *testing.T, words ...string) {
	t.Helper()
	old, now := NewRegistry("op"), NewRegistry("op")
	ValueIn[Old](old, "value")
	ListIn[Old](old, "list")
	MapIn[string, Old](old, "map")
	OperatorListIn[Old](old, "elements")
	BroadcastIn[string, Old](old, "broadcast")
	ValueIn[New](now, "value")
	ListIn[New](now, "list")
	MapIn[string, New](now, "map")
	OperatorListIn[New](now, "elements")
	BroadcastIn[string, New](now, "broadcast")
	lists, err := old.SnapshotLists()
	ok(t, err)
	err = now.Check(old.keyedStates())
	if !errors.Is(err, ErrIncompatible) {
		t.Errorf("%v is no ErrIncompatible", err)
	}
	wants(t, err, append(words, `state "value"`, `state "list"`, `state "map"`, "state.Migrate")...)
	err = now.CheckLists(lists)
	if !errors.Is(err, ErrIncompatible) {
		t.Errorf("%v is no ErrIncompatible", err)
	}
	wants(t, err, append(words, `state "elements"`, `state "broadcast"`)...)
}

type (
	accountV1 struct{ Euros float64 }
	accountV2 struct {
		Cents    int64
		Currency string
	}
	accountV3 struct {
		Cents    int64
		Currency [3]byte
	}
)

func v1to2(v accountV1) (accountV2, error) { return accountV2{int64(v.Euros * 100), "EUR"}, nil }

func v2to3(v accountV2) (accountV3, error) {
	if len(v.Currency) != 3 {
		return accountV3{}, fmt.Errorf("%q is no currency", v.Currency)
	}
	return accountV3{v.Cents, [3]byte([]byte(v.Currency))}, nil
}

func TestMigrate(t *testing.T) {
	chain := []Option{Migrate(v2to3), Migrate(v1to2)}
	last := accountV3{150, [3]byte{'E', 'U', 'R'}}
	evolve(t, []accountV1{{1.5}}, []accountV2{{150, "EUR"}}, Migrate(v1to2))
	evolve(t, []accountV1{{1.5}}, []accountV3{last}, chain...)
	evolve(t, []accountV2{{150, "EUR"}}, []accountV3{last}, chain...)
	evolve(t, []accountV3{last}, []accountV3{last}, chain...)
	// An old form of the old type.
	type older struct{ Euros float32 }
	evolve(t, []older{{1.5}}, []accountV3{last}, chain...)
}

// A migration is refused where it does not lead to the type of the state.
func TestMigrateNowhere(t *testing.T) {
	r := NewRegistry("op")
	ValueIn[int64](r, "a", Migrate(v1to2))
	ValueIn[accountV2](r, "b", Migrate(v1to2), Migrate(v1to2))
	ListIn[accountV3](r, "c", Migrate(func(v accountV3) (accountV3, error) { return v, nil }))
	MapIn[string, accountV3](r, "d", Migrate[accountV2, accountV3](nil))
	OperatorListIn[int](r, "e", Migrate(v1to2))
	there := func(v accountV1) (accountV2, error) { return accountV2{}, nil }
	back := func(v accountV2) (accountV1, error) { return accountV1{}, nil }
	ValueIn[string](r, "f", Migrate(there), Migrate(back))
	wants(t, r.Err(), `state "a": a migration makes a state.accountV2, the state holds int64`, `state "b": two migrations`, `state "c"`, "a type of its own",
		`state "d": the function given to Migrate is nil`, `state "e": a migration makes a state.accountV2, the state holds int`, `state "f"`, "in a circle")
}

func TestMigrateFails(t *testing.T) {
	s, old := newStore(t, 1, declareEvery[accountV2](false, nil))
	s.seek(0)
	ok(t, old.value.Set(accountV2{1, "?"}))
	stored := s.snapshot(t)
	s, _ = newStore(t, 1, declareEvery[accountV3](false, []Option{Migrate(v2to3)}))
	ok(t, s.reg.Check(stored.states))
	conv, err := s.reg.Fields()[0].Conversion(stored.states[0])
	ok(t, err)
	_, err = conv.Append(nil, stored.values[0]["value"])
	wants(t, err, "migrate a state.accountV2 to a state.accountV3", `"?" is no currency`)
}

// A codec of one's own takes part by codec.Migrate.
func TestMigrateByCodec(t *testing.T) {
	c2, err := codec.Migrate(nil, nil, v1to2)
	ok(t, err)
	c3, err := codec.Migrate(codec.JSON[accountV3](), c2, v2to3)
	ok(t, err)
	last := accountV3{150, [3]byte{'E', 'U', 'R'}}
	evolve(t, []accountV2{{150, "EUR"}}, []accountV3{last}, Codec(c3))
	evolve(t, []accountV1{{1.5}}, []accountV2{{150, "EUR"}}, Codec(c2))
}

// What an aggregate adds to its accumulator is as in one of no record.
func TestEvolutionOfAccumulators(t *testing.T) {
	s, old := newStore(t, 1, func(r *Registry) Aggregating[int64, accV1, int64] {
		return AggregatingIn(r, "a", extremes1{})
	})
	s.seek(0)
	ok(t, old.Add(5))
	ok(t, old.Add(9))
	stored := s.snapshot(t)
	s, now := newStore(t, 1, func(r *Registry) Aggregating[int64, accV2, string] {
		return AggregatingIn(r, "a", extremes2{})
	})
	s.load(t, stored)
	s.seek(0)
	ok(t, now.Add(7))
	got, _, err := now.Get()
	ok(t, err)
	equals(t, "result", got, "5 to 9, last 7")

	// Another aggregate needs a migration.
	r := NewRegistry("op")
	AggregatingIn(r, "a", lastFlat{})
	wants(t, r.Check(stored.states), "an aggregate cannot become another one", "state.Migrate")
	s, flat := newStore(t, 1, func(r *Registry) Aggregating[int64, accV3, string] {
		return AggregatingIn(r, "a", extremes3{}, Migrate(func(v accV1) (accV3, error) { return accV3(v), nil }))
	})
	s.load(t, stored)
	s.seek(0)
	got, _, err = flat.Get()
	ok(t, err)
	equals(t, "result", got, "5")
}

type (
	accV1 struct{ Min int32 }
	accV2 struct {
		Max int64
		Min int64
		// last has no field in the old accumulator.
		Last int64
	}
	accV3 struct{ Min int32 }
)

// extremes1 keeps the least value; extremes2 the greatest, too.
type extremes1 struct{}

func (extremes1) Kind() string                  { return "extremes" }
func (extremes1) Init(a *accV1)                 { a.Min = 1 << 30 }
func (extremes1) Add(a *accV1, v int64) error   { a.Min = min(a.Min, int32(v)); return nil }
func (extremes1) Merge(a, b *accV1) error       { a.Min = min(a.Min, b.Min); return nil }
func (extremes1) Result(a *accV1) (int64, bool) { return int64(a.Min), true }

type extremes2 struct{}

func (extremes2) Kind() string  { return "extremes" }
func (extremes2) Init(a *accV2) { *a = accV2{Max: 9, Min: 1 << 30} }
func (extremes2) Add(a *accV2, v int64) error {
	a.Min, a.Max, a.Last = min(a.Min, v), max(a.Max, v), v
	return nil
}
func (extremes2) Merge(a, b *accV2) error { return nil }
func (extremes2) Result(a *accV2) (string, bool) {
	return fmt.Sprintf("%d to %d, last %d", a.Min, a.Max, a.Last), true
}

type extremes3 struct{}

func (extremes3) Kind() string                   { return "another" }
func (extremes3) Init(a *accV3)                  {}
func (extremes3) Add(a *accV3, v int64) error    { return nil }
func (extremes3) Merge(a, b *accV3) error        { return nil }
func (extremes3) Result(a *accV3) (string, bool) { return fmt.Sprint(a.Min), true }

// Formats that differ in names only are the same bytes.
func TestEvolutionOfNamesAlone(t *testing.T) {
	type v1 struct {
		A int64
		S string
	}
	type v2 struct {
		B int64 `avro:"B,alias=A"`
		S string
	}
	old, now := NewRegistry("op"), NewRegistry("op")
	ValueIn[v1](old, "s")
	ValueIn[v2](now, "s")
	conv, err := now.Fields()[0].Conversion(old.keyedStates()[0])
	ok(t, err)
	equals(t, "same", conv.Same(), true)
}

// JSON is read as JSON.
func TestEvolutionOutOfJSON(t *testing.T) {
	type v1 struct {
		By map[int]int32
		N  int64
	}
	type v2 struct {
		N int64
		S string
	}
	evolve(t, []v1{{map[int]int32{1: 2}, 3}}, []v2{{3, ""}})
	type v3 struct {
		N  int64
		By map[int]int64
	}
	evolve(t, []v1{{map[int]int32{1: 2}, 3}}, []v3{{3, map[int]int64{1: 2}}})
}

func TestNotes(t *testing.T) {
	old, now := NewRegistry("op"), NewRegistry("op")
	type v1 struct{ Number, Old int64 }
	type v2 struct{ NUMBER, Old int64 }
	ValueIn[v1](old, "s")
	ValueIn[v2](now, "s")
	equals(t, "notes", Notes("op", now.Fields(), old.keyedStates()), []string{
		`operator "op": state "s": field NUMBER is new; if it was Number, name that in its tag: ` + "`avro:\"NUMBER,alias=Number\"`",
		`operator "op": state "s": field Number is dropped`,
	})
}
