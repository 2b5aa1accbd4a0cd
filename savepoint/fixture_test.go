package savepoint_test

import (
	"fmt"
	"path/filepath"
	"sort"
	"testing"
	"time"

	"github.com/weirstream/weir/agg"
	"github.com/weirstream/weir/savepoint"
	"github.com/weirstream/weir/state"
	"github.com/weirstream/weir/stream"
)

type visit struct {
	Page string
	At   time.Time
}

// profile declares every kind of state.
type profile struct {
	count  state.Value[int64]
	seen   state.Value[string] // with a TTL
	visits state.List[visit]
	sizes  state.List[[4]byte]
	pages  state.Map[string, int32]
	best   state.Reducing[float64]
	total  state.Aggregating[int64, int64, int64]
	sketch state.KeyedRaw
	timers state.Timers
	wakes  state.Timers
	owned  state.OperatorList[string]
	all    state.UnionList[int64]
	rules  state.Broadcast[string, bool]
}

const lifetime = 24 * time.Hour

func newProfile(r *state.Registry) *profile {
	return &profile{
		count:  state.ValueIn[int64](r, "count"),
		seen:   state.ValueIn[string](r, "seen", state.TTL(lifetime)),
		visits: state.ListIn[visit](r, "visits"),
		sizes:  state.ListIn[[4]byte](r, "sizes", state.TTL(lifetime)),
		pages:  state.MapIn[string, int32](r, "pages"),
		best:   state.ReducingIn(r, "best", func(a, b float64) float64 { return max(a, b) }),
		total:  state.AggregatingIn(r, "total", agg.Sum(func(n int64) int64 { return n })),
		sketch: state.KeyedRawIn(r, "sketch"),
		timers: state.EventTimers(r),
		wakes:  state.ProcessingTimers(r),
		owned:  state.OperatorListIn[string](r, "owned"),
		all:    state.UnionListIn[int64](r, "all"),
		rules:  state.BroadcastIn[string, bool](r, "rules"),
	}
}

func (p *profile) Process(ctx *stream.Ctx[string, string], v string) error {
	n, err := p.count.Get()
	if err != nil {
		return err
	}
	text, err := p.text()
	if err != nil {
		return err
	}
	ctx.Emit(fmt.Sprintf("%s: %d, %s", v, n, text))
	return p.count.Set(n + 1)
}

// text is all keyed state of the current key.
func (p *profile) text() (string, error) {
	seen, err := p.seen.Get()
	if err != nil {
		return "", err
	}
	text := "seen " + seen
	for v := range p.visits.All() {
		text += ", visit " + v.Page + " " + v.At.Format(time.TimeOnly)
	}
	n := 0
	for range p.sizes.All() {
		n++
	}
	text += fmt.Sprintf(", %d sizes", n)
	var pages []string
	for k, v := range p.pages.All() {
		pages = append(pages, fmt.Sprintf("%s=%d", k, v))
	}
	sort.Strings(pages)
	best, err := p.best.Get()
	if err != nil {
		return "", err
	}
	total, _, err := p.total.Get()
	return fmt.Sprintf("%s, pages %v, best %v, total %d", text, pages, best, total), err
}

var day = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)

// fill writes state of users 0 to n-1.
func fill(n int) func(keys *savepoint.Keys[string], p *profile) error {
	return func(keys *savepoint.Keys[string], p *profile) error {
		p.owned.Add("one", "two", "three")
		p.all.Add(7, 8)
		if err := p.rules.Put("block", true); err != nil {
			return err
		}
		if err := p.rules.Put("allow", false); err != nil {
			return err
		}
		for i := range n {
			keys.Select(fmt.Sprintf("user-%d", i))
			if err := p.fill(i); err != nil {
				return err
			}
		}
		return nil
	}
}

func (p *profile) fill(i int) error {
	for _, err := range []error{
		p.count.Set(int64(i)),
		p.seen.Set(fmt.Sprintf("s%d", i)),
		p.visits.AddAll(visit{"home", day.Add(time.Duration(i) * time.Second)}, visit{"cart", day}),
		p.sizes.Add([4]byte{1, 2, 3, byte(i)}),
		p.pages.Put("home", int32(i)), p.pages.Put("cart", 2),
		p.best.Add(float64(i) / 2),
		p.total.Add(int64(i)), p.total.Add(100),
		p.timers.Set(day.Add(time.Minute)), p.timers.Set(day.Add(time.Hour)),
		p.wakes.Set(day.Add(100 * 365 * 24 * time.Hour)),
	} {
		if err != nil {
			return err
		}
	}
	return nil
}

// bootstrapped writes a savepoint with the state of n users, and opens it.
func bootstrapped(t testing.TB, n int) *savepoint.Snapshot {
	t.Helper()
	w := savepoint.New("test", 16)
	check(t, savepoint.Bootstrap(w, "profiles", newProfile, fill(n)))
	return written(t, w)
}

func written(t testing.TB, w *savepoint.Writer) *savepoint.Snapshot {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "saved")
	check(t, w.Write(t.Context(), dir))
	s, err := savepoint.Open(t.Context(), dir)
	check(t, err)
	intact(t, dir)
	return s
}

// intact verifies a snapshot.
func intact(t testing.TB, dir string) *savepoint.Report {
	t.Helper()
	r, err := savepoint.Verify(t.Context(), dir, nil)
	check(t, err)
	if len(r.Damage) > 0 {
		t.Fatalf("damage: %q", r.Damage)
	}
	return r
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
