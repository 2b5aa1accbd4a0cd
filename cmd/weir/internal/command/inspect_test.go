package command

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"

	"github.com/weirstream/weir/agg"
	"github.com/weirstream/weir/checkpoint"
	"github.com/weirstream/weir/connector/collect"
	"github.com/weirstream/weir/connector/datagen"
	"github.com/weirstream/weir/internal/jobtest"
	"github.com/weirstream/weir/runner/embedded"
	"github.com/weirstream/weir/savepoint"
	keyed "github.com/weirstream/weir/state"
	"github.com/weirstream/weir/stream"
	"github.com/weirstream/weir/window"
)

type click struct {
	Page string
	N    int64
}

// page is state of most kinds.
type page struct {
	count  keyed.Value[int64]
	last   keyed.Value[click]
	users  keyed.Map[string, int64]
	seen   keyed.List[string]
	timers keyed.Timers
	rules  keyed.Broadcast[string, bool]
	owned  keyed.OperatorList[string]
}

func newPage(r *keyed.Registry) *page {
	return &page{
		keyed.ValueIn[int64](r, "count", keyed.TTL(time.Hour)), keyed.ValueIn[click](r, "last"), keyed.MapIn[string, int64](r, "users"), keyed.ListIn[string](r, "seen"),
		keyed.EventTimers(r), keyed.BroadcastIn[string, bool](r, "rules"), keyed.OperatorListIn[string](r, "owned"),
	}
}

// savedPages writes a savepoint with the state of n pages.
func savedPages(t *testing.T, n int, change func(w *savepoint.Writer)) string {
	t.Helper()
	w := savepoint.New("pages", 4)
	err := savepoint.Bootstrap(w, "pages", newPage, func(keys *savepoint.Keys[string], p *page) error {
		p.owned.Add("o1", "o2")
		if err := p.rules.Put("block", true); err != nil {
			return err
		}
		for i := range n {
			keys.Select(fmt.Sprintf("/page/%d", i))
			for _, err := range []error{
				p.count.Set(int64(i)), p.last.Set(click{"x, \"y\"", int64(i)}), p.users.Put("ann", 1), p.users.Put("bob", int64(i)),
				p.seen.AddAll("a", "b\n"), p.timers.Set(time.Date(2026, 3, 1, 0, 0, i, 0, time.UTC)),
			} {
				if err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(w)
	}
	dir := filepath.Join(t.TempDir(), "saved")
	if err := w.Write(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	return dir
}

// steady replaces what differs from run to run.
func steady(text, dir string) string {
	text = strings.ReplaceAll(text, dir, "/var/lib/saved")
	text = regexp.MustCompile(`lineage [a-z0-9]+`).ReplaceAllString(text, "lineage LINEAGE")
	text = regexp.MustCompile(`\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ, \S+ after`).ReplaceAllString(text, "TIME, DURATION after")
	return regexp.MustCompile(`1 data files, \S+ \S+`).ReplaceAllString(text, "1 data files, SIZE")
}

func TestInspectText(t *testing.T) {
	dir := savedPages(t, 3, nil)
	r := weir(t, "", "inspect", dir)
	r.want(t, exitDone)
	golden(t, "inspect.txt", steady(r.out, dir))
	if by := weir(t, "", "inspect", dir+"/_metadata"); by.out != r.out {
		t.Errorf("by its _metadata: %s", by.out)
	}
}

func TestInspectJSON(t *testing.T) {
	r := weir(t, "", "inspect", savedPages(t, 3, nil), "--output", "json")
	r.want(t, exitDone)
	var info savepoint.Info
	if err := json.Unmarshal([]byte(r.out), &info); err != nil {
		t.Fatal(err)
	}
	if op := info.Operators[0]; info.Job != "pages" || op.ID != "pages" || op.KeyFormat.ID != "string" || len(op.States) != 7 || op.States[0].Count != 3 || !op.States[0].TTL {
		t.Errorf("%+v", info)
	}
}

func TestInspectEntries(t *testing.T) {
	dir := savedPages(t, 3, nil)
	for state, want := range map[string]string{
		"pages/users":        "  key      map_key  value\n  /page/1  ann      1\n  /page/1  bob      1\n",
		"pages/seen":         "  key      index  value\n  /page/1  0      a\n  /page/1  1      \"b\\n\"\n",
		"pages/last":         "  key      value\n  /page/1  {\"Page\":\"x, \\\"y\\\"\",\"N\":1}\n",
		"pages/event-timers": "  key      time\n  /page/1  2026-03-01T00:00:01Z\n",
	} {
		r := weir(t, "", "inspect", dir, "--state", state, "--key", "/page/1")
		r.want(t, exitDone)
		if r.out != want {
			t.Errorf("%s:\n%q, want\n%q", state, r.out, want)
		}
	}
	for state, want := range map[string]string{
		"pages/rules": "  key    value\n  block  true\n",
		"pages/owned": "  subtask  index  value\n  0        0      o1\n  0        1      o2\n",
	} {
		if r := weir(t, "", "inspect", dir, "--state", state); r.code != exitDone || r.out != want {
			t.Errorf("%s: %q %s, want %q", state, r.out, r.err, want)
		}
	}
	if r := weir(t, "", "inspect", dir, "--state", "pages/users", "--limit", "4"); strings.Count(r.out, "\n") != 5 {
		t.Errorf("limited:\n%s", r.out)
	}
	weir(t, "", "inspect", dir, "--state", "pages/none").want(t, exitFailed, "no state pages/none; there are pages/count, pages/last, ")
	weir(t, "", "inspect", dir, "--state", "pages/owned", "--key", "x").want(t, exitFailed, "belongs to no key")
	weir(t, "", "inspect", dir, "--key", "x").want(t, exitUsage, "--key and --limit need --state")
	weir(t, "", "inspect", dir, "--output", "csv").want(t, exitUsage, "needs --state")
	weir(t, "", "inspect").want(t, exitUsage)
	weir(t, "", "inspect", t.TempDir()).want(t, exitFailed, "not a snapshot")
	weir(t, "", "inspect", "/none/such").want(t, exitFailed, "does not exist")
}

func TestInspectForms(t *testing.T) {
	dir := savedPages(t, 500, nil)
	r := weir(t, "", "inspect", dir, "--state", "pages/last", "--output", "json")
	rows := strings.Split(strings.TrimSpace(r.out), "\n")
	var first struct {
		Key   string
		Value click
	}
	if err := json.Unmarshal([]byte(rows[0]), &first); err != nil || len(rows) != 500 || first.Value.Page != `x, "y"` {
		t.Errorf("JSON: %d lines, %s, %v", len(rows), rows[0], err)
	}
	r = weir(t, "", "inspect", dir, "--state", "pages/seen", "--output", "csv")
	cells, err := csv.NewReader(strings.NewReader(r.out)).ReadAll()
	if err != nil || len(cells) != 1001 || strings.Join(cells[0], " ") != "key index value" || cells[2][2] != "b\n" {
		t.Errorf("CSV: %d rows, %q, %v", len(cells), cells[:3], err)
	}
	r = weir(t, "", "inspect", dir, "--state", "pages/count", "--output", "parquet")
	r.want(t, exitDone)
	type row struct {
		Key      *string    `parquet:"key"`
		Value    *int64     `parquet:"value"`
		Accessed *time.Time `parquet:"accessed,timestamp(microsecond)"`
	}
	read, err := parquet.Read[row](bytes.NewReader([]byte(r.out)), int64(len(r.out)))
	if err != nil || len(read) != 500 {
		t.Fatalf("Parquet: %d rows, %v", len(read), err)
	}
	for _, v := range read {
		if want := fmt.Sprintf("/page/%d", *v.Value); *v.Key != want || time.Since(*v.Accessed) > time.Hour {
			t.Errorf("row %s %d %v", *v.Key, *v.Value, *v.Accessed)
		}
	}
	r = weir(t, "", "inspect", dir, "--state", "pages/last", "--output", "parquet")
	type wide struct {
		Value *string `parquet:"value"`
	}
	all, err := parquet.Read[wide](bytes.NewReader([]byte(r.out)), int64(len(r.out)))
	if err != nil || len(all) != 500 || !strings.HasPrefix(*all[0].Value, `{"Page":"x, \"y\"","N":`) {
		t.Errorf("Parquet of records: %d, %v", len(all), err)
	}
}

// suspended runs a job until it waits, suspends it and returns its snapshot.
func suspended(t *testing.T, build func(*stream.Job, *jobtest.Gate)) string {
	t.Helper()
	dir, gate := t.TempDir(), jobtest.NewGate()
	o := embedded.Options{Checkpoint: checkpoint.Options{Dir: dir, Interval: time.Hour}, Parallelism: 2}
	j := jobtest.Job(t, o, func(j *stream.Job) { build(j, gate) })
	done := make(chan error, 1)
	go func() { done <- j.Run(context.WithoutCancel(t.Context())) }()
	<-gate.Reached()
	j.Suspend()
	defer gate.Open()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	found, err := filepath.Glob(filepath.Join(dir, "test", "chk-*", "_metadata"))
	if err != nil || len(found) != 1 {
		t.Fatalf("snapshots %q, %v", found, err)
	}
	return filepath.Dir(found[0])
}

func TestInspectOfARealJob(t *testing.T) {
	dir := suspended(t, func(j *stream.Job, gate *jobtest.Gate) {
		in := jobtest.Script(j, "in", jobtest.R("a", 1000), jobtest.R("b", 12_000), jobtest.WM[string](500), jobtest.R("a", 61_000), jobtest.Hold[string](gate))
		counts := stream.Aggregate(stream.KeyBy(in, func(s string) string { return s }), "counts", window.Sliding(time.Minute, 20*time.Second), agg.Count[string](),
			func(k string, _ window.Span, n int64) string { return fmt.Sprint(k, n) })
		stream.To(counts, "out", collect.NewExactlyOnce[string]())
		numbers := stream.From(j, "numbers", datagen.Source(10, func(i int64) int64 { return i }, datagen.Rate(0.1)))
		stream.To(numbers, "none", collect.New[int64]())
	})
	weir(t, "", "verify", dir).want(t, exitDone, "intact")
	weir(t, "", "inspect", dir).want(t, exitDone, "counts/windows", "counts/event-timers", "numbers", `{"number":1,"from":5,"to":10,"step":1,"next":`, "sliding(1m0s,20s)")
	r := weir(t, "", "inspect", dir, "--state", "counts/windows")
	for _, line := range []string{
		"  a    1970-01-01T00:00:00Z  1970-01-01T00:00:20Z  1\n", "  a    1970-01-01T00:01:00Z  1970-01-01T00:01:20Z  1\n", "  b    1970-01-01T00:00:00Z  1970-01-01T00:00:20Z  1\n",
	} {
		if !strings.Contains(r.out, line) {
			t.Errorf("no %q in\n%s", line, r.out)
		}
	}
}

func TestVerify(t *testing.T) {
	dir := savedPages(t, 50, nil)
	weir(t, "", "verify", dir).want(t, exitDone, dir+": intact. 1 data files", "250 entries")
	file := filepath.Join(dir, "pages-0-a1")
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	data[40] ^= 1
	data[len(data)/2] ^= 1
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	r := weir(t, "y", "verify", dir, savedPages(t, 1, nil))
	r.want(t, exitFailed, "damaged, in 3 places", "CRC32C", "key group 0", "intact", "weir: damaged: "+dir+"\n", "100 %")
	r = weir(t, "", "verify", dir, "--output", "json")
	var doc struct{ Snapshots []savepoint.Report }
	if err := json.Unmarshal([]byte(r.out), &doc); err != nil || r.code != exitFailed || len(doc.Snapshots) != 1 || len(doc.Snapshots[0].Damage) != 3 {
		t.Errorf("%s, %v", r.out, err)
	}
	weir(t, "", "verify", t.TempDir()).want(t, exitFailed, "not a snapshot")
	weir(t, "", "verify").want(t, exitUsage)
}

func TestDiff(t *testing.T) {
	before := savedPages(t, 30, nil)
	s, err := savepoint.Open(t.Context(), before)
	if err != nil {
		t.Fatal(err)
	}
	w := savepoint.From(s)
	err = savepoint.Edit(w, "pages", newPage, func(key string, p *page) error {
		if key == "/page/7" {
			return p.users.Clear()
		}
		return p.users.Put("ann", 2)
	})
	if err != nil {
		t.Fatal(err)
	}
	after := filepath.Join(t.TempDir(), "after")
	if err := w.Write(t.Context(), after); err != nil {
		t.Fatal(err)
	}
	weir(t, "", "diff", before, before).want(t, exitDone)
	r := weir(t, "", "diff", before, after, "--limit", "2")
	r.want(t, exitFailed, "pages/users, entry: 0 added, 1 removed, 29 changed", "entry pages/users /page/")
	if n := strings.Count(r.out, "entry pages/users /page/"); n != 2 || r.err != "" {
		t.Errorf("%d are shown:\n%s%s", n, r.out, r.err)
	}
	r = weir(t, "", "diff", before, after, "--output", "json", "--limit", "0")
	lines := strings.Split(strings.TrimSpace(r.out), "\n")
	if r.code != exitFailed || len(lines) != 31 || lines[30] != `{"differences":[{"operator":"pages","state":"users","what":"entry","added":0,"removed":1,"changed":29}]}` {
		t.Errorf("%d lines, %s", len(lines), lines[len(lines)-1])
	}
	weir(t, "", "diff", before, "/none/such").want(t, exitUsage, "does not exist")
	weir(t, "", "diff", before).want(t, exitUsage, "diff needs two snapshots")
}
