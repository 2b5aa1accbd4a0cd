package streamtest_test

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirstream/weir/state"
	"github.com/weirstream/weir/stream"
	"github.com/weirstream/weir/streamtest"
)

// order is an item that somebody ordered, and price what an item costs; a
// price below 0 withdraws it.
type (
	order struct {
		Who, Item string
		At        time.Time
	}
	price struct {
		Item string
		Cost int64
		At   time.Time
	}
)

func (o order) who() string     { return o.Who }
func (o order) time() time.Time { return o.At }
func (p price) time() time.Time { return p.At }

// till adds up what people owe. What has no price yet waits for it.
type till struct {
	prices  state.Broadcast[string, int64]
	owed    state.Value[int64]
	waiting state.List[string]
	timers  state.Timers
}

func newTill(r *state.Registry) *till {
	return &till{
		prices: state.BroadcastIn[string, int64](r, "prices"), owed: state.ValueIn[int64](r, "owed"),
		waiting: state.ListIn[string](r, "waiting"), timers: state.EventTimers(r),
	}
}

func (f *till) Process(ctx *stream.Ctx[string, string], o order) error {
	if o.Item == "write" {
		return f.prices.Put("write", 1)
	}
	cost, ok, err := f.prices.Get(o.Item)
	if err != nil {
		return err
	}
	if !ok {
		return f.waiting.Add(o.Item)
	}
	if err := f.timers.Set(o.At.Add(10 * time.Second)); err != nil {
		return err
	}
	return f.charge(ctx, cost)
}

func (f *till) charge(ctx *stream.Ctx[string, string], cost int64) error {
	owed, err := f.owed.Get()
	if err != nil {
		return err
	}
	ctx.Emit(fmt.Sprintf("%s owes %d", ctx.Key(), owed+cost))
	return f.owed.Set(owed + cost)
}

func (f *till) OnTimer(*stream.Ctx[string, string], time.Time) error {
	return errors.Join(f.owed.Clear(), f.prices.Clear())
}

func (f *till) ProcessBroadcast(ctx *stream.Ctx[string, string], p price) error {
	if p.Cost < 0 {
		return f.prices.Remove(p.Item)
	}
	if err := f.prices.Put(p.Item, p.Cost); err != nil {
		return err
	}
	return ctx.EachKey(func(who string) error {
		items, err := f.waiting.Get()
		if err != nil {
			return err
		}
		rest := slices.DeleteFunc(slices.Clone(items), func(item string) bool { return item == p.Item })
		for range len(items) - len(rest) {
			if err := f.charge(ctx, p.Cost); err != nil {
				return err
			}
		}
		return f.waiting.Update(rest)
	})
}

// walker goes through the keys as it is told to.
type walker struct {
	n    state.Value[int64]
	said state.Broadcast[string, string]
	walk func(f *walker, ctx *stream.Ctx[string, string], key string) error
}

func (f *walker) Process(*stream.Ctx[string, string], string) error { return f.n.Set(1) }

func (f *walker) ProcessBroadcast(ctx *stream.Ctx[string, string], v string) error {
	if _, err := f.n.Get(); !errors.Is(err, state.ErrNoKey) {
		return fmt.Errorf("before EachKey the state of a key is read: %w", err)
	}
	err := ctx.EachKey(func(key string) error {
		if key != ctx.Key() {
			return fmt.Errorf("the current key is %q", ctx.Key())
		}
		return f.walk(f, ctx, key)
	})
	if _, stateErr := f.n.Get(); !errors.Is(stateErr, state.ErrNoKey) {
		return fmt.Errorf("after EachKey the state of a key is read: %w", stateErr)
	}
	return err
}

func TestEachKeyFails(t *testing.T) {
	for says, walk := range map[string]func(*walker, *stream.Ctx[string, string], string) error{
		`operator "process", subtask 0: key a: no more`: func(*walker, *stream.Ctx[string, string], string) error { return errors.New("no more") },
		`key a: EachKey can be called in ProcessBroadcast`: func(_ *walker, ctx *stream.Ctx[string, string], _ string) error {
			return ctx.EachKey(func(string) error { return nil })
		},
		`operator "process", key a: panic: no more`: func(*walker, *stream.Ctx[string, string], string) error { panic("no more") },
	} {
		h := streamtest.KeyedBroadcastProcess(t, func(s string) string { return s }, func(r *state.Registry) *walker {
			return &walker{state.ValueIn[int64](r, "n"), state.BroadcastIn[string, string](r, "said"), walk}
		})
		h.PushSecond("x")
		h.Push("a")
		if err := h.Try(func() { h.PushSecond("x") }); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want an error that says %s", err, says)
		}
	}
}

func buy(who, item string) order { return order{Who: who, Item: item} }

func TestABroadcastStreamBesideAKeyedOne(t *testing.T) {
	h := streamtest.KeyedBroadcastProcess(t, order.who, newTill, streamtest.Parallelism(2))
	h.PushSecond(price{Item: "tea", Cost: 3})
	h.Push(buy("ann", "tea"), buy("bob", "tea"), buy("ann", "cake"), buy("bob", "cake"), buy("cid", "cake"), buy("ann", "tea"))
	h.Expect("ann owes 3", "bob owes 3", "ann owes 6")
	prices := map[string]int64{"tea": 3}
	for _, parallelism := range []int{3, 1, 4, 2} {
		h.Rescale(parallelism)
		if got := streamtest.Broadcast[string, int64](h, "prices"); !reflect.DeepEqual(got, prices) {
			t.Errorf("at %d the prices are %v, want %v", parallelism, got, prices)
		}
		name := fmt.Sprint("item", parallelism)
		prices[name] = int64(parallelism)
		h.PushSecond(price{Item: name, Cost: int64(parallelism)})
	}
	h.Expect()
	h.PushSecond(price{Item: "cake", Cost: 10})
	got := h.Take()
	slices.Sort(got)
	if want := []string{"ann owes 16", "bob owes 13", "cid owes 10"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := streamtest.List[string](h, "waiting", "cid"); got != nil {
		t.Errorf("cid still waits for %v", got)
	}
	h.PushSecond(price{Item: "tea", Cost: -1})
	h.Push(buy("ann", "tea"))
	h.Expect()
	h.Rescale(3)
	h.PushSecond(price{Item: "tea", Cost: 4})
	h.Expect("ann owes 20")
}

// The keyed side reads, and writes nothing.
func TestBroadcastStateIsReadOnlyOnTheKeyedSide(t *testing.T) {
	h := streamtest.KeyedBroadcastProcess(t, order.who, newTill, streamtest.Timestamps(order.time), streamtest.Timestamps(price.time))
	h.PushSecond(price{"tea", 3, at(1)})
	before := h.Snapshot()
	err := h.Try(func() { h.Push(order{"ann", "write", at(2)}) })
	if !errors.Is(err, state.ErrReadOnly) || !strings.Contains(err.Error(), `operator "process"`) || !strings.Contains(err.Error(), `broadcast state "prices"`) {
		t.Errorf("a write in Process: %v", err)
	}
	h.Restore(before)
	h.Push(order{"ann", "tea", at(2)})
	err = h.Try(func() { h.Watermark(at(12)) })
	if !errors.Is(err, state.ErrReadOnly) || !strings.Contains(err.Error(), "key ann") {
		t.Errorf("a write in OnTimer: %v", err)
	}
	if got := h.TakeRecords(); len(got) != 1 || got[0].Value != "ann owes 3" || got[0].Time != at(2).UTC() {
		t.Errorf("got %v", got)
	}
}

// What the function says of itself.
type echo struct {
	said   state.Broadcast[int, string]
	passed state.OperatorList[string]
	calls  func(f *echo, ctx *stream.Ctx[stream.NoKey, string], v string) error
}

func (f *echo) Process(ctx *stream.Ctx[stream.NoKey, string], v string) error {
	f.passed.Add(v)
	for n, s := range f.said.All() {
		ctx.Emit(fmt.Sprint(v, n, s))
	}
	return nil
}

func (f *echo) ProcessBroadcast(ctx *stream.Ctx[stream.NoKey, string], v string) error {
	if f.calls != nil {
		return f.calls(f, ctx, v)
	}
	return f.said.Put(len(v), v)
}

func newEcho(calls func(*echo, *stream.Ctx[stream.NoKey, string], string) error) func(*state.Registry) *echo {
	return func(r *state.Registry) *echo {
		return &echo{state.BroadcastIn[int, string](r, "said"), state.OperatorListIn[string](r, "passed"), calls}
	}
}

func TestABroadcastStreamBesideOneWithoutKeys(t *testing.T) {
	h := streamtest.BroadcastProcess(t, newEcho(nil))
	h.PushSecond("bb", "a", "cc")
	h.Push("x")
	h.Expect("x2cc", "x1a")
	h.Rescale(2)
	h.PushSecond("ddd")
	h.Push("y")
	h.Expect("y2cc", "y1a", "y3ddd")
	if got := streamtest.OperatorList[string](h, "passed"); !slices.Equal(got, []string{"x", "y"}) && !slices.Equal(got, []string{"y", "x"}) {
		t.Errorf("passed are %v", got)
	}
	if got := streamtest.Broadcast[int, string](h, "process/said"); !reflect.DeepEqual(got, map[int]string{1: "a", 2: "cc", 3: "ddd"}) {
		t.Errorf("said are %v", got)
	}
}

func TestWrongUsesOfBroadcastState(t *testing.T) {
	for _, c := range []struct {
		name string
		test func(testing.TB)
		says []string
	}{
		{"subtasks that differ", func(t testing.TB) {
			var n int
			h := streamtest.BroadcastProcess(t, newEcho(func(f *echo, _ *stream.Ctx[stream.NoKey, string], v string) error {
				n++
				return f.said.Put(n, v)
			}), streamtest.Parallelism(2))
			h.PushSecond("a")
			streamtest.Broadcast[int, string](h, "said")
		}, []string{`broadcast state "said" of operator "process" is not the same in all subtasks`, "subtask 1 holds", "map[2:a]", "map[1:a]"}},
		{"EachKey without keys", func(t testing.TB) {
			h := streamtest.BroadcastProcess(t, newEcho(func(_ *echo, ctx *stream.Ctx[stream.NoKey, string], _ string) error {
				return ctx.EachKey(func(stream.NoKey) error { return nil })
			}))
			h.PushSecond("a")
		}, []string{`operator "process", subtask 0: EachKey can be called in ProcessBroadcast`}},
		{"no such state", func(t testing.TB) {
			streamtest.Broadcast[int, string](streamtest.BroadcastProcess(t, newEcho(nil)), "passed")
		}, []string{`no operator declares a broadcast state "passed"`}},
		{"another type", func(t testing.TB) {
			streamtest.Broadcast[string, string](streamtest.BroadcastProcess(t, newEcho(nil)), "said")
		}, []string{`operator state "said" of operator "process" holds`, "the test asks for map[string]string"}},
		{"not broadcast", func(t testing.TB) {
			streamtest.NewConnected(t, func(a, b stream.Stream[string]) stream.Stream[string] {
				return stream.BroadcastProcess(stream.Connect(a, b), "process", newEcho(nil))
			})
		}, []string{`operator "process": the second stream of Connect does not go to all subtasks; put it into stream.Broadcast`}},
		{"no broadcast input", func(t testing.TB) {
			streamtest.ProcessUnkeyed(t, newEcho(nil))
		}, []string{`operator "process": broadcast state is declared by a function without a broadcast input`}},
		{"timestamps of neither", func(t testing.TB) {
			streamtest.BroadcastProcess(t, newEcho(nil), streamtest.Timestamps(order.time))
		}, []string{"the option Timestamps is a func(streamtest_test.order) time.Time; the records are of type string and string"}},
	} {
		t.Run(c.name, func(t *testing.T) { mustSay(t, failing(t, c.test), c.says...) })
	}
}
