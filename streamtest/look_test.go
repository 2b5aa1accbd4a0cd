package streamtest_test

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/weirstream/weir/agg"
	"github.com/weirstream/weir/codec"
	"github.com/weirstream/weir/state"
	"github.com/weirstream/weir/stream"
	"github.com/weirstream/weir/streamtest"
)

func long(v int64) string {
	return fmt.Sprintf("a text that is far too long for a slot in line: %d", v)
}

func TestEveryKindOfStateCanBeLookedAt(t *testing.T) {
	h := streamtest.Process(t, func(v int64) int64 { return v % 10 }, newHoard, streamtest.Parallelism(2))
	h.Push(3, 13, 4, 23)
	same := func(what string, got, want any) {
		t.Helper()
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %v, want %v", what, got, want)
		}
	}
	for range 2 { // a look changes nothing
		last, ok := streamtest.Value[point](h, "last", int64(3))
		same("value", []any{last, ok}, []any{point{23, -23}, true})
		tags, _ := streamtest.Value[[]string](h, "tags", int64(3))
		same("coded value", tags, []string{"tag", long(23)})
		text, _ := streamtest.Value[string](h, "text", int64(4))
		same("text", text, long(4))
		named, _ := streamtest.Value[point](h, "named", int64(4), state.Codec(codec.JSON[point]()))
		same("value with a codec", named, point{4, 1})
		same("list", streamtest.List[string](h, "all", int64(3)), []string{long(3), long(13), long(23)})
		same("map", streamtest.Map[int64, string](h, "seen", int64(3)), map[int64]string{3: long(3), 13: long(13), 23: long(23)})
		sum, ok := streamtest.Value[int64](h, "sum", int64(3))
		same("reducing", []any{sum, ok}, []any{int64(39), true})
		mean, ok := streamtest.Aggregating(h, "mean", int64(3), agg.Avg(identity))
		same("aggregating", []any{mean, ok}, []any{13.0, true})
		keys := streamtest.Keys[int64](h, "all")
		slices.Sort(keys)
		same("keys", keys, []int64{3, 4})
	}
	last, ok := streamtest.Value[point](h, "last", int64(5))
	same("no value", []any{last, ok}, []any{point{}, false})
	same("no list", streamtest.List[string](h, "all", int64(5)), []string(nil))
	same("no map", streamtest.Map[int64, string](h, "seen", int64(5)), map[int64]string(nil))
	_, ok = streamtest.Aggregating(h, "mean", int64(5), agg.Avg(identity))
	same("no aggregate", ok, false)
}

func TestALookSeesWhatHasExpired(t *testing.T) {
	h := streamtest.Process(t, func(v int64) int64 { return max(v, -v) }, newHoard)
	held := func(name string) bool {
		_, ok := streamtest.Value[int64](h, name, int64(7))
		return ok
	}
	h.Push(7)
	h.AdvanceClock(40 * time.Second)
	h.Push(-7) // reads
	if !held("brief") || !held("warm") {
		t.Error("a value has expired too early")
	}
	h.AdvanceClock(30 * time.Second)
	if held("brief") || !held("warm") {
		t.Errorf("after 70 s without a write, 30 s after a read: brief %v, warm %v", held("brief"), held("warm"))
	}
	h.AdvanceClock(30 * time.Second)
	if held("warm") {
		t.Error("looking has kept a value from expiring")
	}
}

// passer keeps what it passes on, in an operator list.
type passer struct{ l state.OperatorList[int64] }

func newPasser(r *state.Registry) *passer { return &passer{state.OperatorListIn[int64](r, "passed")} }

func (p *passer) Process(ctx *stream.Ctx[stream.NoKey, int64], v int64) error {
	p.l.Add(v)
	ctx.Emit(v)
	return nil
}

// Looks leave nothing behind: the harness tells at the end.
func TestALookAtAListBesideKeyedState(t *testing.T) {
	h := streamtest.New(t, func(in stream.Stream[int64]) stream.Stream[string] {
		passed := stream.ProcessUnkeyed(in, "passer", newPasser)
		return stream.Process(stream.KeyBy(passed, identity), "hoard", newHoard)
	}, streamtest.Parallelism(2))
	h.Push(1, 2, 3)
	got := streamtest.OperatorList[int64](h, "passed")
	if slices.Sort(got); !slices.Equal(got, []int64{1, 2, 3}) {
		t.Errorf("the list is %v", got)
	}
}

// shard keeps the words of its own, by their length, in a union list.
type shard struct {
	words state.UnionList[string]
	own   func(string) bool
}

func newShard(r *state.Registry) *shard {
	return &shard{words: state.UnionListIn[string](r, "words")}
}

func (s *shard) Initialize(rt *stream.Runtime) error {
	s.own = func(w string) bool { return len(w)%rt.Parallelism() == rt.Subtask() }
	s.words.Update(slices.DeleteFunc(s.words.Get(), func(w string) bool { return !s.own(w) }))
	return nil
}

func (s *shard) Process(ctx *stream.Ctx[stream.NoKey, int], w string) error {
	if s.own(w) {
		s.words.Add(w)
		ctx.Emit(s.words.Len())
	}
	return nil
}

func TestAUnionListInWhichEachSubtaskKeepsItsOwn(t *testing.T) {
	h := streamtest.New(t, func(in stream.Stream[string]) stream.Stream[int] {
		return stream.ProcessUnkeyed(stream.Broadcast(in), "shard", newShard)
	}, streamtest.Parallelism(2))
	h.Push("a", "bb", "ccc", "dddd", "eeeee")
	h.Expect(1, 1, 2, 2, 3)
	for _, step := range []struct {
		parallelism int
		want        []string
	}{
		{2, []string{"bb", "dddd", "a", "ccc", "eeeee"}},
		{3, []string{"ccc", "dddd", "a", "bb", "eeeee"}},
		{1, []string{"ccc", "dddd", "a", "bb", "eeeee"}},
		{2, []string{"dddd", "bb", "ccc", "a", "eeeee"}},
	} {
		h.Rescale(step.parallelism)
		if got := streamtest.UnionList[string](h, "words"); !slices.Equal(got, step.want) {
			t.Errorf("at %d the list is %v, want %v", step.parallelism, got, step.want)
		}
	}
	h.Push("ff")
	h.Expect(3)
}

// histogram counts the words of each length in arrays of its own, per key group
// of the lengths, and the words of all in one part.
type histogram struct {
	groups state.KeyedRaw
	total  state.Raw
	counts map[int]map[int]byte
	all    byte
}

func newHistogram(r *state.Registry) *histogram {
	return &histogram{groups: state.KeyedRawIn(r, "groups"), total: state.RawIn(r, "total"), counts: map[int]map[int]byte{}}
}

func (f *histogram) Initialize(*stream.Runtime) error {
	for r := range f.total.Parts() {
		b, err := io.ReadAll(r)
		if err != nil {
			return err
		}
		f.all += b[0]
	}
	for g := range f.groups.Groups() {
		r, err := f.groups.Reader(g)
		if err != nil {
			return err
		}
		b, err := io.ReadAll(r)
		if err != nil {
			return err
		}
		f.counts[g] = map[int]byte{}
		for pair := range slices.Chunk(b, 2) {
			f.counts[g][int(pair[0])] = pair[1]
		}
	}
	return nil
}

func (f *histogram) Process(ctx *stream.Ctx[int, string], w string) error {
	g, err := f.groups.Group()
	if err != nil {
		return err
	}
	f.all++
	f.counts[g][len(w)]++
	ctx.Emit(fmt.Sprintf("%d: %d", len(w), f.counts[g][len(w)]))
	return nil
}

func (f *histogram) Snapshot() error {
	f.total.Clear()
	if f.all > 0 {
		if err := f.total.Add(func(w io.Writer) error { _, err := w.Write([]byte{f.all}); return err }); err != nil {
			return err
		}
	}
	for g := range f.groups.Groups() {
		err := f.groups.Write(g, func(w io.Writer) error {
			for _, n := range slices.Sorted(maps.Keys(f.counts[g])) {
				if _, err := w.Write([]byte{byte(n), f.counts[g][n]}); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func TestRawStateFollowsItsKeyGroups(t *testing.T) {
	h := streamtest.Process(t, func(w string) int { return len(w) }, newHistogram, streamtest.Parallelism(2), streamtest.MaxParallelism(16))
	h.Push("a", "b", "cc", "ddd", "eee", "fff", "ggggg")
	h.Take()
	if got := streamtest.KeyedRaw(h, "groups"); got != nil {
		t.Errorf("a look runs the hook Snapshot: %v", got)
	}
	h.Snapshot()
	stored := streamtest.KeyedRaw(h, "groups")
	var pairs []byte
	for _, g := range slices.Sorted(maps.Keys(stored)) {
		pairs = append(pairs, stored[g]...)
	}
	if got := slices.Collect(slices.Chunk(pairs, 2)); len(got) != 4 {
		t.Errorf("the counts are %v, want those of four lengths", stored)
	}
	for _, parallelism := range []int{3, 16, 1, 2} {
		h.Rescale(parallelism)
		if got := streamtest.KeyedRaw(h, "process/groups"); !reflect.DeepEqual(got, stored) {
			t.Errorf("at %d the groups hold %v, want %v", parallelism, got, stored)
		}
		sum := 0
		for _, part := range streamtest.Raw(h, "total") {
			sum += int(part[0])
		}
		if sum != 7 {
			t.Errorf("at %d the parts are of %d words, want 7", parallelism, sum)
		}
	}
	h.Push("z", "zz", "zzz", "zzzz", "zzzzz")
	h.Expect("1: 3", "2: 2", "3: 4", "4: 1", "5: 2")
}

// fragile values cannot be encoded once they are broken.
type fragile struct{ Broken bool }

type fragileCodec struct{ panics bool }

func (fragileCodec) Format() codec.Format { return codec.Format{ID: "fragile", Version: 1} }

func (c fragileCodec) Append(dst []byte, v fragile) ([]byte, error) {
	if !v.Broken {
		return append(dst, 1), nil
	}
	if c.panics {
		panic("broken in codec")
	}
	return dst, errors.New("broken in codec")
}

func (fragileCodec) Decode([]byte) (fragile, error) { return fragile{}, nil }

type fragileList struct{ l state.OperatorList[fragile] }

func (f *fragileList) Process(_ *stream.Ctx[stream.NoKey, int64], v int64) error {
	f.l.Add(fragile{v < 0})
	return nil
}

// A codec that fails in a look fails the test like one that fails in a snapshot.
func TestALookWithABrokenCodec(t *testing.T) {
	for _, panics := range []bool{false, true} {
		mustSay(t, failing(t, func(t testing.TB) {
			h := streamtest.ProcessUnkeyed(t, func(r *state.Registry) *fragileList {
				return &fragileList{state.OperatorListIn[fragile](r, "l", state.Codec(fragileCodec{panics}))}
			})
			h.Push(-1)
			streamtest.OperatorList[fragile](h, "l", state.Codec(fragileCodec{}))
		}), "the job failed", "broken in codec")
	}
}

func TestWrongLooks(t *testing.T) {
	hoarder := func(t testing.TB) *streamtest.Harness[int64, string] {
		h := streamtest.Process(t, identity, newHoard)
		h.Push(1)
		return h
	}
	twins := func(in stream.Stream[word]) stream.Stream[string] {
		one := stream.Process(stream.KeyBy(in, word.self), "one", newTally)
		words := stream.Map(one, func(s string) word { return word(s) })
		return stream.Process(stream.KeyBy(words, word.self), "two", newTally)
	}
	for _, c := range []struct {
		name string
		test func(testing.TB)
		says []string
	}{
		{"unknown name", func(t testing.TB) { streamtest.Value[int64](hoarder(t), "summ", int64(1)) },
			[]string{`there is no state "summ"`, "process/last", "process/warm"}},
		{"no state", func(t testing.TB) {
			streamtest.Value[int64](streamtest.Process(t, word.self, newForgetful), "n", "a")
		}, []string{`there is no state "n": no operator declares keyed state`}},
		{"wrong type", func(t testing.TB) { streamtest.Value[string](hoarder(t), "sum", int64(1)) },
			[]string{`state "sum" of operator "process" is a reducing of int64; the test asks for a reducing of string`}},
		{"wrong type of an absent value", func(t testing.TB) { streamtest.Value[string](hoarder(t), "brief", int64(5)) },
			[]string{`is a value of int64; the test asks for a value of string`}},
		{"int is stored as int64", func(t testing.TB) { streamtest.Value[int](hoarder(t), "named", int64(1)) },
			[]string{`is a value of json; the test asks for a value of int64 (of Go's int)`}},
		{"map of int", func(t testing.TB) { streamtest.Map[int, bool](hoarder(t), "seen", int64(1)) },
			[]string{`is a map of int64 to string; the test asks for a map of int64 to bool (of Go's int to bool)`}},
		{"wrong kind", func(t testing.TB) { streamtest.List[string](hoarder(t), "seen", int64(1)) },
			[]string{`is a map of int64 to string; the test asks for a list of string`}},
		{"wrong map key", func(t testing.TB) { streamtest.Map[string, string](hoarder(t), "seen", int64(1)) },
			[]string{`is a map of int64 to string; the test asks for a map of string to string`}},
		{"wrong aggregator", func(t testing.TB) {
			streamtest.Aggregating(hoarder(t), "mean", int64(1), agg.SumFloat(identity))
		}, []string{`is a aggregating avg`, `the test asks for a aggregating sum-float`}},
		{"wrong key", func(t testing.TB) { streamtest.Value[int64](hoarder(t), "sum", "1") },
			[]string{`the keys of operator "process" are of int64; the test asks by a key of type string`}},
		{"wrong key type of Keys", func(t testing.TB) { streamtest.Keys[int32](hoarder(t), "sum") },
			[]string{`are of int64; the test asks by a key of type int32`}},
		{"codec left out", func(t testing.TB) { streamtest.Value[point](hoarder(t), "named", int64(1)) },
			[]string{`is a value of json; the test asks for a value of struct`}},
		{"ambiguous", func(t testing.TB) { streamtest.Value[int64](streamtest.New(t, twins), "n", "a") },
			[]string{`several operators declare a state "n": name one of one/n, two/n`}},
		{"ambiguous timers", func(t testing.TB) { streamtest.Timers(streamtest.New(t, twins), stream.EventTime, "a") },
			[]string{"Timers: several operators are keyed: name one of one, two"}},
		{"timers of nobody", func(t testing.TB) {
			streamtest.Timers(streamtest.New(t, twins), stream.EventTime, "a", "three")
		}, []string{`there is no keyed operator "three"; there are one, two`}},
		{"timers without keys", func(t testing.TB) {
			var calls []string
			streamtest.Timers(streamtest.ProcessUnkeyed(t, newBuffer(&calls)), stream.EventTime, "a")
		}, []string{"Timers: no operator is keyed"}},
		{"no such list", func(t testing.TB) { streamtest.OperatorList[string](hoarder(t), "stored") },
			[]string{`no operator declares an operator list "stored"`}},
		{"no such raw state", func(t testing.TB) {
			streamtest.Raw(streamtest.Process(t, func(w string) int { return len(w) }, newHistogram), "groups")
		}, []string{`no operator declares a raw state "groups"`}},
		{"no such raw state of key groups", func(t testing.TB) {
			streamtest.KeyedRaw(streamtest.Process(t, func(w string) int { return len(w) }, newHistogram), "total")
		}, []string{`no operator declares a raw state of key groups "total"`}},
		{"raw state without keys", func(t testing.TB) {
			streamtest.ProcessUnkeyed(t, func(r *state.Registry) *passer { state.KeyedRawIn(r, "groups"); return newPasser(r) })
		}, []string{`operator "process": keyed state or timers are declared on a stream without keys`}},
		{"list of another type", func(t testing.TB) {
			var calls []string
			streamtest.OperatorList[int64](streamtest.ProcessUnkeyed(t, newBuffer(&calls)), "stored")
		}, []string{`operator state "stored" of operator "process" holds elements of string; the test asks for int64`}},
	} {
		t.Run(c.name, func(t *testing.T) { mustSay(t, failing(t, c.test), c.says...) })
	}
}
