package embedded_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weirstream/weir/connector/collect"
	"github.com/weirstream/weir/internal/jobtest"
	"github.com/weirstream/weir/runner/embedded"
	"github.com/weirstream/weir/state"
	"github.com/weirstream/weir/stream"
	"github.com/weirstream/weir/window"
)

// totalV1 to totalV3 are three versions of one type: the second has a string and
// wider numbers, and the third is in another unit.
type (
	totalV1 struct {
		Euros int32
		Seen  bool
	}
	totalV2 struct {
		Note  string `avro:"Note,default=none"`
		Total int64  `avro:"Total,alias=Euros"`
	}
	totalV3 struct {
		Cents int64
		Times []int64
	}
)

func (t totalV1) add() totalV1 { return totalV1{t.Euros + 1, true} }
func (t totalV2) add() totalV2 { return totalV2{t.Note, t.Total + 1} }
func (t totalV3) add() totalV3 { return totalV3{t.Cents + 100, append(t.Times, t.Cents)} }

func toCents(v totalV2) (totalV3, error) { return totalV3{Cents: 100 * v.Total}, nil }

type adder[T any] interface{ add() T }

// totaller keeps a total in each kind of keyed state, and emits them.
type totaller[T adder[T]] struct {
	value state.Value[T]
	list  state.List[T]
	names state.Map[string, T]
	last  state.Reducing[T]
}

func newTotaller[T adder[T]](opts ...state.Option) func(*state.Registry) *totaller[T] {
	return func(r *state.Registry) *totaller[T] {
		return &totaller[T]{
			state.ValueIn[T](r, "value", opts...), state.ListIn[T](r, "list", opts...), state.MapIn[string, T](r, "map", opts...),
			state.ReducingIn(r, "last", func(_, b T) T { return b }, opts...),
		}
	}
}

func (f *totaller[T]) Process(c *stream.Ctx[string, string], _ string) error {
	v, err := f.value.Get()
	if err != nil {
		return err
	}
	v = v.add()
	for _, err := range []error{f.value.Set(v), f.list.Add(v), f.names.Put("only", v), f.last.Add(v)} {
		if err != nil {
			return err
		}
	}
	list, err := f.list.Get()
	if err != nil {
		return err
	}
	m, _, err := f.names.Get("only")
	if err != nil {
		return err
	}
	last, err := f.last.Get()
	c.Emit(fmt.Sprintf("%s %+v %+v %+v %+v", c.Key(), v, list, m, last))
	return err
}

// A job restores what an older version of it stored: within a backend, into the
// other one, and with another parallelism.
func TestEvolutionOfAJob(t *testing.T) {
	lsm := embedded.Options{StateBackend: embedded.LSM, LSMMemory: 1000, LSMDir: t.TempDir()}
	backends := map[string]embedded.Options{"heap": {}, "lsm": lsm}
	for from, first := range backends {
		for to, second := range backends {
			t.Run(from+" to "+to, func(t *testing.T) {
				dir, out := t.TempDir(), collect.NewExactlyOnce[string]()
				gates := []*jobtest.Gate{jobtest.NewGate(), jobtest.NewGate()}
				items := script(records("a", "b", "a"), hold(gates[0]), records("a"), hold(gates[1]), records("a", "b"))
				r := launch(t, dir, first, totalJob(out, items, newTotaller[totalV1]()))
				r.reach(gates[0])
				r.suspend()
				gates[0].Open()
				second.Parallelism = 2
				r = launch(t, dir, second, totalJob(out, items, newTotaller[totalV2]()))
				r.reach(gates[1])
				r.suspend()
				gates[1].Open()
				launch(t, dir, second, totalJob(out, items, newTotaller[totalV3](state.Migrate(toCents)))).end()
				want(t, "totals", out.Values(),
					"a {Euros:1 Seen:true} [{Euros:1 Seen:true}] {Euros:1 Seen:true} {Euros:1 Seen:true}",
					"b {Euros:1 Seen:true} [{Euros:1 Seen:true}] {Euros:1 Seen:true} {Euros:1 Seen:true}",
					"a {Euros:2 Seen:true} [{Euros:1 Seen:true} {Euros:2 Seen:true}] {Euros:2 Seen:true} {Euros:2 Seen:true}",
					"a {Note:none Total:3} [{Note:none Total:1} {Note:none Total:2} {Note:none Total:3}] {Note:none Total:3} {Note:none Total:3}",
					"a {Cents:400 Times:[300]} [{Cents:100 Times:[]} {Cents:200 Times:[]} {Cents:300 Times:[]} {Cents:400 Times:[300]}] {Cents:400 Times:[300]} {Cents:400 Times:[300]}",
					"b {Cents:200 Times:[100]} [{Cents:100 Times:[]} {Cents:200 Times:[100]}] {Cents:200 Times:[100]} {Cents:200 Times:[100]}")
			})
		}
	}
}

func totalJob[T adder[T]](out *collect.Sink[string], items []jobtest.Item[string], newP func(*state.Registry) *totaller[T]) func(*stream.Job) {
	return func(j *stream.Job) {
		keyed := stream.KeyBy(jobtest.Script(j, "in", items...), itself)
		stream.To(stream.Process(keyed, "total", newP), "out", out)
	}
}

// The windows of an older version go on with wider accumulators, or with those
// that a migration makes of theirs.
func TestEvolutionOfWindows(t *testing.T) {
	dir, out := t.TempDir(), collect.NewExactlyOnce[string]()
	gates := []*jobtest.Gate{jobtest.NewGate(), jobtest.NewGate()}
	items := script(records("a", "a"), hold(gates[0]), records("a"), hold(gates[1]), records("a"), []jobtest.Item[string]{jobtest.WM[string](100)})
	r := launch(t, dir, embedded.Options{}, plusJob(out, items, plusCounter[int32]{}))
	r.reach(gates[0])
	r.suspend()
	gates[0].Open()
	r = launch(t, dir, embedded.Options{}, plusJob(out, items, plusCounter[int64]{}))
	r.reach(gates[1])
	r.suspend()
	gates[1].Open()
	launch(t, dir, embedded.Options{}, plusJob(out, items, plusCounter[float64]{1000},
		stream.MigrateAccumulator(func(n int64) (float64, error) { return float64(n) + 0.5, nil }))).end()
	want(t, "counts", out.Values(), "a 1003.5")
}

// plusCounter counts, and adds something to the result.
type plusCounter[N int32 | int64 | float64] struct{ more N }

func (plusCounter[N]) Kind() string                 { return "counter" }
func (plusCounter[N]) Init(n *N)                    { *n = 0 }
func (plusCounter[N]) Add(n *N, _ string) error     { *n++; return nil }
func (plusCounter[N]) Merge(n, o *N) error          { *n += *o; return nil }
func (c plusCounter[N]) Result(n *N) (string, bool) { return fmt.Sprint(*n + c.more - c.lost()), true }

// lost is what the test takes off, so that the result shows each part.
func (c plusCounter[N]) lost() N {
	if c.more == 0 {
		return 0
	}
	return 1
}

func plusJob[N int32 | int64 | float64](out *collect.Sink[string], items []jobtest.Item[string], c plusCounter[N], opts ...stream.Option) func(*stream.Job) {
	return func(j *stream.Job) {
		keyed := stream.KeyBy(jobtest.Script(j, "in", items...), itself)
		stream.To(stream.Aggregate(keyed, "count", window.Tumbling(100*time.Millisecond), c,
			func(k string, _ window.Span, n string) string { return k + " " + n }, opts...), "out", out)
	}
}

// All that is wrong with all operators is said at once.
func TestEvolutionRefusedAtOnce(t *testing.T) {
	dir, gate, out := t.TempDir(), jobtest.NewGate(), collect.NewExactlyOnce[string]()
	items := script(records("a"), hold(gate))
	build := func(declare ...func(*state.Registry)) func(*stream.Job) {
		return func(j *stream.Job) {
			keyed := stream.KeyBy(jobtest.Script(j, "in", items...), itself)
			for i, d := range declare {
				id := fmt.Sprintf("op%d", i)
				stream.To(stream.Process(keyed, id, func(r *state.Registry) *setter {
					if d != nil {
						d(r)
					}
					return &setter{state.ValueIn[int64](r, "n")}
				}), id+"-out", out)
			}
		}
	}
	r := launch(t, dir, embedded.Options{}, build(
		func(r *state.Registry) { state.ValueIn[int64](r, "x") },
		func(r *state.Registry) { state.ListIn[totalV1](r, "y") },
		func(r *state.Registry) { state.ValueIn[int64](r, "z") }))
	r.reach(gate)
	r.suspend()
	gate.Open()
	err := launch(t, dir, embedded.Options{}, build(
		func(r *state.Registry) { state.ValueIn[int32](r, "x") },
		func(r *state.Registry) { state.ListIn[totalV3](r, "y") },
		func(r *state.Registry) { state.ListIn[int64](r, "z") })).result()
	wantError(t, err, `operator "op0"`, `state "x"`, "int64 in the snapshot and int32 now", `operator "op1"`, `state "y"`, "struct{Euros int32; Seen bool}",
		`operator "op2"`, `state "z"`, "value of int64", "list of int64", "state.Migrate")
	if n := strings.Count(err.Error(), "incompatible state"); n != 3 {
		t.Errorf("%d refusals: %v", n, err)
	}
}

type setter struct{ n state.Value[int64] }

func (f *setter) Process(*stream.Ctx[string, string], string) error { return f.n.Set(1) }
