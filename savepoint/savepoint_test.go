package savepoint_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirstream/weir/checkpoint"
	"github.com/weirstream/weir/connector/collect"
	"github.com/weirstream/weir/internal/jobtest"
	"github.com/weirstream/weir/runner/embedded"
	"github.com/weirstream/weir/savepoint"
	"github.com/weirstream/weir/state"
	"github.com/weirstream/weir/stream"
)

// entries are those of a state as lines of JSON.
func entries(t *testing.T, s *savepoint.Snapshot, state string) []string {
	t.Helper()
	var out []string
	for e, err := range s.Entries(t.Context(), "profiles", state) {
		check(t, err)
		b, err := json.Marshal([]any{e.Key, e.Index, e.MapKey, e.Value})
		check(t, err)
		out = append(out, string(b))
	}
	slices.Sort(out)
	return out
}

func TestEntriesOfEachKind(t *testing.T) {
	s := bootstrapped(t, 3)
	for state, want := range map[string]string{
		"count":             `["user-0",0,null,0] ["user-1",0,null,1] ["user-2",0,null,2]`,
		"seen":              `["user-0",0,null,"s0"] ["user-1",0,null,"s1"] ["user-2",0,null,"s2"]`,
		"sizes":             `["user-0",0,null,"AQIDAA=="] ["user-1",0,null,"AQIDAQ=="] ["user-2",0,null,"AQIDAg=="]`,
		"pages":             `["user-0",0,"home",0] ["user-0",1,"cart",2] ["user-1",0,"home",1] ["user-1",1,"cart",2] ["user-2",0,"home",2] ["user-2",1,"cart",2]`,
		"best":              `["user-0",0,null,0] ["user-1",0,null,0.5] ["user-2",0,null,1]`,
		"total":             `["user-0",0,null,100] ["user-1",0,null,101] ["user-2",0,null,102]`,
		"processing-timers": `["user-0",0,null,"2126-02-05T00:00:00Z"] ["user-1",0,null,"2126-02-05T00:00:00Z"] ["user-2",0,null,"2126-02-05T00:00:00Z"]`,
		"owned":             `[null,0,null,"one"] [null,1,null,"two"] [null,2,null,"three"]`,
		"all":               `[null,0,null,7] [null,1,null,8]`,
		"rules":             `[null,0,"allow",false] [null,0,"block",true]`,
	} {
		if got := strings.Join(entries(t, s, state), " "); got != want {
			t.Errorf("%s: %s, want %s", state, got, want)
		}
	}
	visits := entries(t, s, "visits")
	if want := `["user-1",0,null,{"Page":"home","At":"2026-03-01T00:00:01Z"}]`; len(visits) != 6 || visits[2] != want {
		t.Errorf("visits %q", visits)
	}
	if timers := entries(t, s, "event-timers"); len(timers) != 6 || timers[1] != `["user-0",1,null,"2026-03-01T01:00:00Z"]` {
		t.Errorf("timers %q", timers)
	}
	for e, err := range s.Entries(t.Context(), "profiles", "seen") {
		check(t, err)
		if age := time.Since(e.Accessed); age < 0 || age > time.Hour {
			t.Errorf("accessed %v", e.Accessed)
		}
	}
}

func TestInfoCounts(t *testing.T) {
	s := bootstrapped(t, 50)
	info, err := s.Info(t.Context())
	check(t, err)
	got := map[string]int64{}
	for _, st := range info.Operators[0].States {
		got[st.Name] = st.Count
		if st.Keyed() && st.Name != "sketch" && (st.Groups < 10 || st.Groups > 16 || st.Bytes < 50*8) {
			t.Errorf("%s: %d key groups, %d bytes", st.Name, st.Groups, st.Bytes)
		}
	}
	for name, want := range map[string]int64{"count": 50, "pages": 50, "event-timers": 50, "owned": 3, "all": 2, "rules": 2, "sketch": 0} {
		if got[name] != want {
			t.Errorf("%s counts %d, want %d", name, got[name], want)
		}
	}
	if info.Job != "test" || info.Kind != "savepoint" || info.Operators[0].MaxParallelism != 16 || len(info.Files) != 1 {
		t.Errorf("info %+v", info)
	}
}

func TestEntriesOfOneKey(t *testing.T) {
	s := bootstrapped(t, 200)
	for _, key := range []string{"user-0", "user-77", "user-199"} {
		n := 0
		for e, err := range s.EntriesOf(t.Context(), "profiles", "pages", key) {
			check(t, err)
			if e.Key != key {
				t.Errorf("asked for %s, got %v", key, e.Key)
			}
			n++
		}
		if n != 2 {
			t.Errorf("%s has %d pages", key, n)
		}
	}
	for _, err := range s.EntriesOf(t.Context(), "profiles", "pages", "nobody") {
		t.Errorf("an entry of nobody, %v", err)
	}
	for _, test := range [][3]string{{"profiles", "owned", "x"}, {"profiles", "none", "x"}, {"none", "pages", "x"}} {
		for _, err := range s.EntriesOf(t.Context(), test[0], test[1], test[2]) {
			if err == nil {
				t.Errorf("%q has entries", test)
			}
		}
	}
}

// restored runs a job from the savepoint, one record for each key, and returns
// what it emits.
func restored(t *testing.T, path string, parallelism int, keys ...string) []string {
	t.Helper()
	out := collect.New[string]()
	o := embedded.Options{
		RestorePath: path, Parallelism: parallelism, Checkpoint: checkpoint.Options{Dir: t.TempDir(), Interval: time.Hour},
	}
	items := make([]jobtest.Item[string], len(keys))
	for i, k := range keys {
		items[i] = jobtest.R(k, 0)
	}
	jobtest.Run(t, o, func(j *stream.Job) {
		in := jobtest.Script(j, "in", items...)
		rules := jobtest.Script(j, "rules-in", jobtest.R("x", 0))
		keyed := stream.KeyBy(in, func(s string) string { return s })
		both := stream.Connect(keyed, stream.Broadcast(rules))
		stream.To(stream.KeyedBroadcastProcess[string, string, string, string](both, "profiles", newRuled), "out", out)
	})
	got := out.Values()
	slices.Sort(got)
	return got
}

// ruled is profile with its broadcast input.
type ruled struct{ *profile }

func newRuled(r *state.Registry) *ruled { return &ruled{newProfile(r)} }

func (p *ruled) ProcessBroadcast(*stream.Ctx[string, string], string) error { return nil }
func (p *ruled) OnTimer(*stream.Ctx[string, string], time.Time) error       { return nil }

func TestBootstrapRestores(t *testing.T) {
	s := bootstrapped(t, 100)
	for _, parallelism := range []int{1, 3} {
		got := restored(t, s.Path(), parallelism, "user-0", "user-42", "nobody")
		want := []string{
			"nobody: 0, seen , 0 sizes, pages [], best 0, total 0",
			"user-0: 0, seen s0, visit home 00:00:00, visit cart 00:00:00, 1 sizes, pages [cart=2 home=0], best 0, total 100",
			"user-42: 42, seen s42, visit home 00:00:42, visit cart 00:00:00, 1 sizes, pages [cart=2 home=42], best 21, total 142",
		}
		if !slices.Equal(got, want) {
			t.Errorf("parallelism %d: %q, want %q", parallelism, got, want)
		}
	}
}

func TestEachReadsByTheJobsHandles(t *testing.T) {
	s := bootstrapped(t, 100)
	seen := map[string]string{}
	check(t, savepoint.Each(t.Context(), s, "profiles", newProfile, func(key string, p *profile) error {
		text, err := p.text()
		seen[key] = text
		return err
	}))
	if len(seen) != 100 || seen["user-3"] != "seen s3, visit home 00:00:03, visit cart 00:00:00, 1 sizes, pages [cart=2 home=3], best 1.5, total 103" {
		t.Errorf("%d keys, %s", len(seen), seen["user-3"])
	}
	var owned []string
	check(t, savepoint.EachUnkeyed(s, "profiles", newProfile, func(_ int, p *profile) error {
		owned = append(owned, p.owned.Get()...)
		if on, ok, err := p.rules.Get("block"); !ok || !on || err != nil {
			t.Errorf("rule %v, %v", on, ok)
		}
		return nil
	}))
	if !slices.Equal(owned, []string{"one", "two", "three"}) {
		t.Errorf("owned %q", owned)
	}
	stop := errors.New("stop")
	err := savepoint.Each(t.Context(), s, "profiles", newProfile, func(string, *profile) error { return stop })
	if !errors.Is(err, stop) {
		t.Errorf("error %v", err)
	}
}

func TestEdit(t *testing.T) {
	s := bootstrapped(t, 100)
	w := savepoint.From(s)
	check(t, savepoint.Edit(w, "profiles", newProfile, func(key string, p *profile) error {
		if key == "user-7" { // deleted
			return errors.Join(p.count.Clear(), p.seen.Clear(), p.visits.Clear(), p.sizes.Clear(), p.pages.Clear(), p.best.Clear(), p.total.Clear(),
				p.timers.Delete(day.Add(time.Minute)), p.timers.Delete(day.Add(time.Hour)), p.wakes.Delete(day.Add(100*365*24*time.Hour)))
		}
		return p.count.Set(1000)
	}, "user-7", "user-8", "new"))
	check(t, savepoint.EditUnkeyed(w, "profiles", newProfile, func(_ int, p *profile) error {
		p.owned.Update([]string{"other"})
		return p.rules.Remove("allow")
	}))
	check(t, w.Rename("profiles", "people"))
	if err := w.Rename("people", "people"); err == nil {
		t.Error("renamed to a name that is taken")
	}
	out := written(t, w)
	counts := map[any]any{}
	for e, err := range out.Entries(t.Context(), "people", "count") {
		check(t, err)
		counts[e.Key] = e.Value
	}
	if len(counts) != 100 || counts["user-8"] != int64(1000) || counts["new"] != int64(1000) || counts["user-9"] != int64(9) || counts["user-7"] != nil {
		t.Errorf("%d counts, user-8 %v, new %v, user-7 %v", len(counts), counts["user-8"], counts["new"], counts["user-7"])
	}
	for _, state := range []string{"pages", "seen", "event-timers", "processing-timers"} {
		for range out.EntriesOf(t.Context(), "people", state, "user-7") {
			t.Errorf("user-7 has %s still", state)
		}
		n := 0
		for range out.EntriesOf(t.Context(), "people", state, "user-8") {
			n++
		}
		if n == 0 {
			t.Errorf("user-8 has lost %s", state)
		}
	}
	for e, err := range out.Entries(t.Context(), "people", "owned") {
		check(t, err)
		if e.Value != "other" {
			t.Errorf("owned %v", e.Value)
		}
	}
}

func TestDrop(t *testing.T) {
	s := bootstrapped(t, 20)
	w := savepoint.From(s)
	check(t, w.DropState("profiles", "visits"))
	check(t, w.DropState("profiles", "owned"))
	for _, err := range []error{w.DropState("profiles", "visits"), w.DropState("profiles", "none"), w.DropState("none", "visits"), w.Drop("none"), w.Rename("none", "x")} {
		if !errors.Is(err, savepoint.ErrUnknown) {
			t.Errorf("error %v", err)
		}
	}
	out := written(t, w)
	info, err := out.Info(t.Context())
	check(t, err)
	for _, st := range info.Operators[0].States {
		if st.Name == "visits" || st.Name == "owned" {
			t.Errorf("%s is still there", st.Name)
		}
	}
	w = savepoint.From(out)
	check(t, w.Drop("profiles"))
	check(t, savepoint.Bootstrap(w, "profiles", newProfile, fill(2)))
	if again := entries(t, written(t, w), "count"); len(again) != 2 {
		t.Errorf("counts %q", again)
	}
}

func TestWriterRefuses(t *testing.T) {
	s := bootstrapped(t, 5)
	w := savepoint.From(s)
	type other struct{ count state.Value[string] }
	newOther := func(r *state.Registry) *other { return &other{state.ValueIn[string](r, "count")} }
	err := savepoint.Edit(w, "profiles", newOther, func(string, *other) error { return nil })
	if !errors.Is(err, state.ErrIncompatible) || !strings.Contains(err.Error(), `operator "profiles"`) {
		t.Errorf("another type: %v", err)
	}
	err = savepoint.Edit(w, "profiles", newProfile, func(int64, *profile) error { return nil })
	if !errors.Is(err, state.ErrIncompatible) {
		t.Errorf("another key type: %v", err)
	}
	if err := savepoint.Bootstrap(w, "profiles", newProfile, fill(1)); err == nil {
		t.Error("bootstrapped what is there")
	}
	if err := w.Write(t.Context(), s.Path()); err == nil || !strings.Contains(err.Error(), "holds a snapshot already") {
		t.Errorf("written over it: %v", err)
	}
	broken := savepoint.New("test", 0)
	failed := errors.New("no rows")
	check(t, savepoint.Bootstrap(broken, "profiles", newProfile, func(*savepoint.Keys[string], *profile) error { return failed }))
	dir := t.TempDir() + "/out"
	if err := broken.Write(t.Context(), dir); !errors.Is(err, failed) {
		t.Errorf("error %v", err)
	}
	if _, err := savepoint.Open(t.Context(), dir); !errors.Is(err, savepoint.ErrNotSnapshot) {
		t.Errorf("a snapshot is there: %v", err)
	}
	fmt.Fprintln(t.Output(), dir)
}
