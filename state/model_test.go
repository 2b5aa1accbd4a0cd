package state

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// flat24 is 24 bytes with padding; flat80 is too large for an entry.
type flat24 struct {
	A int8
	B float64
	C [2]bool
	D uint32
}
type flat80 struct {
	A [9]int64
	B int32
}
type nested struct {
	Name string
	Tags []string
	More *nested
}
type pair struct {
	A int8
	B int64
}

func genInt(r *rand.Rand) int64 { return r.Int64N(1000) - 500 }
func gen24(r *rand.Rand) flat24 {
	return flat24{int8(r.Int()), r.NormFloat64(), [2]bool{r.IntN(2) == 0, r.IntN(2) == 0}, r.Uint32()}
}
func gen80(r *rand.Rand) (f flat80) {
	for i := range f.A {
		f.A[i] = r.Int64()
	}
	f.B = r.Int32()
	return f
}
func genString(r *rand.Rand) string { return strings.Repeat(string(rune('a'+r.IntN(26))), r.IntN(60)) }
func genBytes(r *rand.Rand) []byte  { return []byte(genString(r)) }
func genStrings(r *rand.Rand) []string {
	s := []string{}
	for range r.IntN(6) {
		s = append(s, genString(r))
	}
	return s
}
func genPointer(r *rand.Rand) *nested {
	n := &nested{Name: genString(r), Tags: genStrings(r)}
	if r.IntN(2) == 0 {
		n.More = &nested{Name: "inner", Tags: []string{}}
	}
	return n
}
func genMap(r *rand.Rand) map[string]int64 {
	m := map[string]int64{}
	for range r.IntN(4) {
		m[genString(r)] = r.Int64()
	}
	return m
}

type declare func(r *Registry, name string, l life) subject

func lifeOptions(l life) []Option {
	if l.ttl == 0 {
		return nil
	}
	update := OnCreateAndWrite
	if l.onRead {
		update = OnReadAndWrite
	}
	return []Option{TTL(time.Duration(l.ttl)*time.Millisecond, update)}
}

func value[T any](gen func(*rand.Rand) T) declare {
	return func(r *Registry, name string, l life) subject {
		return &valueSubject[T]{life: l, h: ValueIn[T](r, name, lifeOptions(l)...), gen: gen, model: map[int]timed[T]{}}
	}
}

func reducing[T any](gen func(*rand.Rand) T, reduce func(a, b T) T) declare {
	return func(r *Registry, name string, l life) subject {
		return &valueSubject[T]{life: l, red: ReducingIn(r, name, reduce, lifeOptions(l)...), reduce: reduce, gen: gen, model: map[int]timed[T]{}}
	}
}

func list[T any](gen func(*rand.Rand) T) declare {
	return func(r *Registry, name string, l life) subject {
		return &listSubject[T]{life: l, h: ListIn[T](r, name, lifeOptions(l)...), gen: gen, model: map[int][]timed[T]{}}
	}
}

func mapping[K comparable, V any](key func(*rand.Rand) K, gen func(*rand.Rand) V) declare {
	return func(r *Registry, name string, l life) subject {
		return &mapSubject[K, V]{life: l, h: MapIn[K, V](r, name, lifeOptions(l)...), key: key, gen: gen, model: map[int]map[K]timed[V]{}}
	}
}

var kinds = map[string]declare{
	"value/int64":   value(genInt),
	"value/empty":   value(func(*rand.Rand) struct{} { return struct{}{} }),
	"value/24":      value(gen24),
	"value/80":      value(gen80),
	"value/string":  value(genString),
	"value/bytes":   value(genBytes),
	"value/strings": value(genStrings),
	"value/map":     value(genMap),
	"value/pointer": value(genPointer),

	"reducing/int64":  reducing(genInt, func(a, b int64) int64 { return a + b }),
	"reducing/80":     reducing(gen80, func(a, b flat80) flat80 { a.A[0] += b.A[1]; return a }),
	"reducing/string": reducing(genString, func(a, b string) string { return (b + a)[:min(len(a)+len(b), 100)] }),

	"list/int64":   list(genInt),
	"list/bool":    list(func(r *rand.Rand) bool { return r.IntN(2) == 0 }),
	"list/empty":   list(func(*rand.Rand) struct{} { return struct{}{} }),
	"list/24":      list(gen24),
	"list/80":      list(gen80),
	"list/string":  list(genString),
	"list/bytes":   list(genBytes),
	"list/strings": list(genStrings),
	"list/pointer": list(genPointer),

	"map/int64/int64":   mapping(func(r *rand.Rand) int64 { return r.Int64N(60) }, genInt),
	"map/int64/many":    mapping(func(r *rand.Rand) int64 { return r.Int64N(3000) }, genInt),
	"map/int32/bool":    mapping(func(r *rand.Rand) int32 { return r.Int32N(20) }, func(r *rand.Rand) bool { return r.IntN(2) == 0 }),
	"map/string/empty":  mapping(genString, func(*rand.Rand) struct{} { return struct{}{} }),
	"map/string/string": mapping(genString, genString),
	"map/pair/80":       mapping(func(r *rand.Rand) pair { return pair{int8(r.IntN(4)), r.Int64N(10)} }, gen80),
	"map/float/pointer": mapping(func(r *rand.Rand) float64 { return float64(r.IntN(30)) / 4 }, genPointer),
	"map/bytes16/24":    mapping(func(r *rand.Rand) [16]byte { return [16]byte{3: byte(r.IntN(40))} }, gen24),

	"aggregating/flat": func(r *Registry, name string, l life) subject {
		return &aggSubject[[]byte]{l, AggregatingIn(r, name, lastFlat{}, lifeOptions(l)...), map[int]timed[[]uint16]{}, lastCount}
	},
	"aggregating/small": func(r *Registry, name string, l life) subject {
		return &aggSubject[smallAcc]{l, AggregatingIn(r, name, lastSmall, lifeOptions(l)...), map[int]timed[[]uint16]{}, 10}
	},
	"aggregating/large": func(r *Registry, name string, l life) subject {
		return &aggSubject[largeAcc]{l, AggregatingIn(r, name, lastLarge, lifeOptions(l)...), map[int]timed[[]uint16]{}, lastCount}
	},
}

// TestModel runs random operations on every kind of state beside a model,
// takes snapshots that are encoded while operations go on, and restores them.
// It is case S07 for all kinds: neither side may notice the other.
func TestModel(t *testing.T) {
	for name, make := range kinds {
		for _, l := range []life{{}, {ttl: 50}, {ttl: 50, onRead: true}} {
			t.Run(fmt.Sprintf("%s/ttl=%d,%v", name, l.ttl, l.onRead), func(t *testing.T) {
				t.Parallel()
				for seed := range uint64(3) {
					runModel(t, make, l, seed)
				}
			})
		}
	}
}

const modelKeys = 3

// pending is a snapshot being encoded.
type pending struct {
	f     *frozen
	model any
	now   int64
	out   chan *stored
}

func runModel(t *testing.T, make declare, l life, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 7))
	build := func(reg *Registry) subject { return make(reg, "state", l) }
	s, sub := newStore(t, modelKeys, build)
	var open []pending
	for range 3000 {
		if r.IntN(8) == 0 {
			s.cur.Now += r.Int64N(10)
		}
		key := r.IntN(modelKeys)
		s.seek(key)
		sub.op(t, r, key, s.cur.Now)
		s.touch(key)
		switch r.IntN(100) {
		case 0:
			if len(open) < 3 {
				open = append(open, begin(t, s, sub))
			}
		case 1:
			if n := len(open); n > 0 {
				i := r.IntN(n)
				finish(t, open[i], build)
				open[i] = open[n-1]
				open = open[:n-1]
			}
		case 2:
			s.expire()
		}
	}
	for _, p := range open {
		finish(t, p, build)
	}
	checkAll(t, s, sub)
}

func begin(t *testing.T, s *store, sub subject) pending {
	p := pending{s.freeze(), sub.save(), s.cur.Now, make(chan *stored, 1)}
	go func() {
		out, err := p.f.encode()
		if err != nil {
			t.Error(err)
		}
		p.out <- out
	}()
	return p
}

// finish restores a snapshot and compares it with the model of its moment.
func finish(t *testing.T, p pending, build func(*Registry) subject) {
	t.Helper()
	out := <-p.out
	p.f.thaw()
	s, sub := newStore(t, modelKeys, build)
	s.cur.Now = p.now
	sub.use(p.model)
	s.load(t, out)
	checkAll(t, s, sub)
}

func checkAll(t *testing.T, s *store, sub subject) {
	t.Helper()
	for key := range modelKeys {
		s.seek(key)
		sub.check(t, key, s.cur.Now)
	}
}
