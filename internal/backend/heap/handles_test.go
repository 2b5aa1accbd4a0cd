package heap

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirstream/weir/agg"
	"github.com/weirstream/weir/internal/entry"
	"github.com/weirstream/weir/internal/keygroup"
	"github.com/weirstream/weir/internal/memory"
	"github.com/weirstream/weir/state"
)

// everything is a function with a state of every kind, on a store of its own.
type everything struct {
	num    state.Value[int64]
	text   state.Value[string]
	coded  state.Value[map[string]int]
	big    state.Value[[9]int64]
	list   state.List[string]
	times  state.List[int64]
	table  state.Map[string, int64]
	wide   state.Map[int32, string]
	sum    state.Reducing[string]
	uniq   state.Aggregating[string, []byte, int64]
	event  state.Timers
	wall   state.Timers
	cur    entry.Cursor
	store  *Store[int64]
	hash   func(int64) uint32
	now    int64
	timers [2]map[int64][]int64 // a model
}

func (e *everything) declare(r *state.Registry, ttl bool) {
	var o []state.Option
	if ttl {
		o = append(o, state.TTL(40*time.Millisecond))
	}
	e.num, e.text = state.ValueIn[int64](r, "num", o...), state.ValueIn[string](r, "text", o...)
	e.coded, e.big = state.ValueIn[map[string]int](r, "coded"), state.ValueIn[[9]int64](r, "big", o...)
	e.list, e.times = state.ListIn[string](r, "list", o...), state.ListIn[int64](r, "times", o...)
	e.table, e.wide = state.MapIn[string, int64](r, "table", o...), state.MapIn[int32, string](r, "wide", o...)
	e.sum = state.ReducingIn(r, "sum", func(a, b string) string { return (a + b)[max(0, len(a)+len(b)-70):] }, o...)
	e.uniq = state.AggregatingIn(r, "uniq", agg.Distinct(func(s string) string { return s }), o...)
	e.event, e.wall = state.EventTimers(r), state.ProcessingTimers(r)
}

func newEverything(t *testing.T, ttl bool, max int, groups keygroup.Range, hash func(int64) uint32) *everything {
	t.Helper()
	e := &everything{hash: hash, timers: [2]map[int64][]int64{{}, {}}}
	r := state.NewRegistry("op")
	new(everything).declare(r, ttl)
	r = r.Bind(&e.cur)
	e.declare(r, ttl)
	if err := r.Err(); err != nil {
		t.Fatal(err)
	}
	pool := memory.NewPool(0)
	fields := append(r.Fields(), NewTimerField(entry.EventTime), NewTimerField(entry.ProcessingTime))
	var err error
	e.store, err = New[int64](Options{Operator: "op", Fields: fields, Cursor: &e.cur, MaxParallelism: max, Range: groups,
		Pool: pool, Clock: func() int64 { return e.now }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		e.store.Close()
		if n := pool.InUse(); n != 0 {
			t.Errorf("%d bytes in use after Close", n)
		}
		pool.Close()
	})
	return e
}

// act does something random to the current key.
func (e *everything) act(r *rand.Rand) {
	word := strings.Repeat(string(rune('a'+r.IntN(26))), r.IntN(70))
	n := r.Int64N(1000)
	switch r.IntN(26) {
	case 0, 1:
		e.num.Set(n)
	case 2:
		e.text.Set(word)
	case 3:
		e.coded.Set(map[string]int{word: int(n)})
	case 4:
		e.big.Set([9]int64{n, 8: n})
	case 5, 6:
		e.list.Add(word)
	case 7:
		e.list.Update([]string{word, "", word + "x"})
	case 8, 9:
		e.times.AddAll(n, n+1)
	case 10, 11:
		e.table.Put(word, n)
	case 12:
		for i := range int64(30) {
			e.table.Put(fmt.Sprint("key ", (n+i)%60), i)
			e.wide.Put(int32((n+i)%50), word)
		}
	case 13:
		for k := range e.table.All() {
			if (len(k)+int(n))%2 == 0 {
				e.table.Remove(k)
			}
		}
	case 14:
		e.wide.Remove(int32(n % 50))
	case 15:
		e.sum.Add(word)
	case 16, 17:
		e.uniq.Add(word)
	case 18:
		e.text.Clear()
		e.coded.Clear()
	case 19:
		e.list.Clear()
		e.times.Clear()
		e.big.Clear()
	case 20:
		e.table.Clear()
		e.wide.Clear()
	case 21:
		e.num.Clear()
		e.sum.Clear()
		e.uniq.Clear()
	}
}

// actTimers sets or deletes a timer, in the model as well.
func (e *everything) actTimers(r *rand.Rand, key int64) {
	d := entry.Domain(r.IntN(2))
	at := []int64{r.Int64N(300), r.Int64N(1 << 20), math.MaxInt64, math.MinInt64}[r.IntN(4)*r.IntN(2)]
	h, model := &e.event, e.timers[d]
	if d == entry.ProcessingTime {
		h = &e.wall
	}
	i, found := slices.BinarySearch(model[key], at)
	switch {
	case r.IntN(3) > 0:
		h.SetMillis(at)
		if !found {
			model[key] = slices.Insert(slices.Clone(model[key]), i, at)
		}
	case len(model[key]) > 0 && r.IntN(2) == 0:
		at, i = model[key][0], 0
		fallthrough
	default:
		h.DeleteMillis(at)
		if i < len(model[key]) && model[key][i] == at {
			model[key] = slices.Delete(slices.Clone(model[key]), i, i+1)
		}
	}
}

// advance fires timers and compares them to the model.
func (e *everything) advance(t *testing.T, d entry.Domain, to int64, r *rand.Rand) {
	t.Helper()
	last := int64(math.MinInt64)
	fn := func(at int64) error {
		key := e.store.Key()
		m := e.timers[d][key]
		if len(m) == 0 || m[0] != at || at < last || at > to {
			return fmt.Errorf("timer of key %d fires at %d after %d, it has %v", key, at, last, m)
		}
		last = at
		e.timers[d][key] = m[1:]
		// Keys come in no certain order, so each has its own chance.
		e.act(rand.New(rand.NewPCG(uint64(key), uint64(at))))
		return nil
	}
	advance := e.store.AdvanceEventTime
	if d == entry.ProcessingTime {
		advance = e.store.AdvanceProcessingTime
	}
	for more := true; more; {
		var err error
		if _, more, err = advance(to, 1+r.IntN(100), fn); err != nil {
			t.Fatal(err)
		}
	}
	for key, m := range e.timers[d] {
		if len(m) > 0 && m[0] <= to {
			t.Fatalf("timers %v of key %d have not fired at %d", m, key, to)
		}
	}
}

// dump describes all that a key has.
func (e *everything) dump(key int64) string {
	if !e.store.Lookup(key, e.hash(key)) {
		return ""
	}
	num, _ := e.num.Get()
	text, hasText, _ := e.text.Lookup()
	coded, _ := e.coded.Get()
	big, _ := e.big.Get()
	list, _ := e.list.Get()
	times, _ := e.times.Get()
	sum, _ := e.sum.Get()
	uniq, ok, _ := e.uniq.Get()
	s := fmt.Sprint(num, text, hasText, coded, big, list, times, sum, uniq, ok, maps.Collect(e.table.All()), maps.Collect(e.wide.All()))
	e.store.Release()
	return s
}

func (e *everything) dumpAll(keys []int64) map[int64]string {
	all := map[int64]string{}
	blank := "0  false map[] [0 0 0 0 0 0 0 0 0] [] [] 0 false map[] map[]"
	for _, k := range keys {
		if s := e.dump(k); s != "" && s != blank {
			all[k] = s
		}
	}
	return all
}

// crowd returns keys of all sorts: some with equal hashes, many with the same
// home, the others spread.
func crowd(hash func(int64) uint32) (keys []int64) {
	seen := map[uint32]int64{}
	for k := range int64(400_000) {
		h := hash(k)
		if other, twice := seen[h]; twice {
			keys = append(keys, other, k)
		}
		seen[h] = k
		if h>>22 == 0x3FF && len(keys) < 400 {
			keys = append(keys, k)
		}
	}
	for k := range int64(300) {
		keys = append(keys, 1_000_000+k)
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

func TestEverythingUnderSnapshots(t *testing.T) {
	h, _ := keygroup.NewHasher[int64]()
	keys := crowd(h.Hash)
	for _, ttl := range []bool{false, true} {
		for seed := range uint64(2) {
			t.Run(fmt.Sprintf("ttl %v, seed %d", ttl, seed), func(t *testing.T) { runEverything(t, ttl, seed, keys, h.Hash) })
		}
	}
}

// runEverything does the same to a store of which snapshots are taken and to one
// left alone. Each snapshot, restored at any parallelism, is what the other
// store was.
func runEverything(t *testing.T, ttl bool, seed uint64, keys []int64, hash func(int64) uint32) {
	const max = 3
	pair := []*everything{newEverything(t, ttl, max, whole(max), hash), newEverything(t, ttl, max, whole(max), hash)}
	rng := rand.New(rand.NewPCG(seed, 5))
	type taken struct {
		f      *Frozen
		want   map[int64]string
		timers [2]map[int64][]int64
		now    int64
	}
	verify := func(s taken) {
		defer s.f.Release()
		sections, err := encodeAll(s.f)
		if err != nil {
			t.Error(err)
			return
		}
		got := map[int64]string{}
		parallelism := 1 + int(seed)%max
		for sub := range parallelism {
			o := newEverything(t, ttl, max, keygroup.RangeOf(sub, parallelism, max), hash)
			o.now = s.now
			for _, sec := range sections {
				if o.store.groups.Contains(sec.group) {
					if err := o.store.RestoreSection(sec.group, sec.st, sec.count, sec.data); err != nil {
						t.Error(err)
						return
					}
				}
			}
			var own []int64
			for _, k := range keys {
				if o.store.groups.Contains(keygroup.Group(hash(k), max)) {
					own = append(own, k)
					for d := range s.timers {
						if len(s.timers[d][k]) > 0 {
							o.timers[d][k] = s.timers[d][k]
						}
					}
				}
			}
			maps.Copy(got, o.dumpAll(own))
			o.advance(t, entry.EventTime, 200, rand.New(rand.NewPCG(seed, 9)))
			o.advance(t, entry.EventTime, math.MaxInt64, rand.New(rand.NewPCG(seed, 9)))
			o.advance(t, entry.ProcessingTime, math.MaxInt64, rand.New(rand.NewPCG(seed, 9)))
		}
		for k, w := range s.want {
			if got[k] != w {
				t.Errorf("key %d is restored as\n%s, was\n%s", k, got[k], w)
				return
			}
		}
		if len(got) != len(s.want) {
			t.Errorf("%d keys restored, were %d", len(got), len(s.want))
		}
	}
	var running []chan taken
	for step := range 40 {
		batch := make([]int64, 1+rng.IntN(300))
		hashes := make([]uint32, len(batch))
		for i := range batch {
			batch[i] = keys[rng.IntN(len(keys))]
			hashes[i] = hash(batch[i])
		}
		choice := rng.Uint64()
		for _, e := range pair {
			r := rand.New(rand.NewPCG(choice, 1))
			e.now = int64(step)
			e.store.Bind(batch, hashes)
			for i, k := range batch {
				e.store.Seek(i)
				for range 1 + r.IntN(3) {
					e.act(r)
				}
				e.actTimers(r, k)
			}
			e.store.Release()
			if step%9 == 0 {
				e.advance(t, entry.EventTime, int64(step)*2, r)
				e.advance(t, entry.ProcessingTime, int64(step)*100, r)
			}
		}
		if rng.IntN(4) > 0 {
			continue
		}
		s := taken{f: pair[0].store.Freeze(), want: pair[1].dumpAll(keys), now: pair[0].now,
			timers: [2]map[int64][]int64{maps.Clone(pair[0].timers[0]), maps.Clone(pair[0].timers[1])}}
		done := make(chan taken, 1)
		running = append(running, done)
		go func() { verify(s); done <- s }()
		if len(running) > 3 {
			i := rng.IntN(len(running))
			<-running[i]
			running = slices.Delete(running, i, i+1)
		}
	}
	for _, done := range running {
		<-done
	}
}
