package file

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirstream/weir/connector"
	"github.com/weirstream/weir/connector/connectortest"
)

func TestWhatIsRead(t *testing.T) {
	storage := In(FS(files(
		"logs/a.log", "a\n", "logs/b.txt", "b\n", "logs/2026/c.log", "c\n", "logs/2026/03/d.log", "d\n",
		"logs/.hidden.log", "x\n", "logs/_tmp/e.log", "x\n", "logs/f.log.part", "f\n", "other/g.log", "g\n",
	)))
	for _, c := range []struct {
		where string
		opts  []Option
		want  []string
	}{
		{"logs", nil, []string{"c", "d", "a", "b", "f"}},
		{"logs/", []Option{Ignore("*.part", "b.*")}, []string{"d", "c", "a"}},
		{"logs/a.log", nil, []string{"a"}},
		{"logs/.hidden.log", nil, []string{"x"}},
		{"logs/*.log", nil, []string{"a"}},
		{"logs/*/*.log", nil, []string{"c"}},
		{"logs/**/*.log", nil, []string{"d", "c", "a"}},
		{"**/*.log", nil, []string{"d", "c", "a", "g"}},
		{"logs/_*/*.log", nil, []string{"x"}},
		{"*/[ag].log", nil, []string{"a", "g"}},
		{"logs/20*", nil, nil},
		{"logs/*.log", []Option{Paths("other", "logs/a.log", "logs")}, []string{"d", "c", "a", "b", "f", "g"}},
	} {
		got := read(t, Source(c.where, Lines(), append(c.opts, storage)...))
		slices.Sort(got)
		slices.Sort(c.want)
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.where, got, c.want)
		}
	}
}

func TestFilesAreReadInOrderOfPaths(t *testing.T) {
	want(t, read(t, Source("d", Lines(), In(FS(files("d/2", "b\n", "d/1/z", "a\n", "d/3", "c\n"))))), "a", "b", "c")
}

func TestLocal(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string) {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("x/a.txt", "1\n2\n")
	write("x/y/b.txt.gz", gzipped("3\n"))
	if err := os.Symlink(filepath.Join(dir, "x", "a.txt"), filepath.Join(dir, "x", "link")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(dir, "x"), filepath.Join(dir, "linked")); err != nil {
		t.Fatal(err)
	}
	want(t, read(t, Source(filepath.Join(dir, "x"), Lines(), SplitSize(2))), "1", "2", "1", "2", "3")
	want(t, read(t, Source(filepath.Join(dir, "linked"), Lines(), Ignore("link"))), "1", "2", "3")
	want(t, read(t, Source(filepath.Join(dir, "x", "*.txt"), Lines())), "1", "2")
	t.Chdir(dir)
	want(t, read(t, Source("x/y", Lines())), "3")
	want(t, read(t, Source("*/a.txt", Lines())), "1", "2")
}

func TestWrongUses(t *testing.T) {
	for _, c := range []struct {
		src  *Files[string]
		part string
	}{
		{Source("", Lines()), "empty path"},
		{Source("a[", Lines()), "a["},
		{Source[string]("a", nil), "format"},
		{Source("a", Lines(), Watch(0)), "file.Watch"},
		{Source("a", Lines(), Remember(-1)), "file.Remember"},
		{Source("a", Lines(), Watch(1), Remember(time.Second), QuietFor(time.Second)), "file.QuietFor"},
		{Source("a", Lines(), Ignore("[")), "file.Ignore"},
		{Source("a", Lines(), In(nil)), "file.In"},
		{Source("a", Lines(), Compressed(7)), "file.Compressed"},
	} {
		err := fails(t, c.src)
		wantError(t, err, "file source", c.part)
		if !errors.Is(err, connector.ErrFatal) {
			t.Errorf("%v: not fatal", err)
		}
	}
}

func TestMissingInput(t *testing.T) {
	for _, where := range []string{"no/dir", "no/file.txt", "no/*.txt"} {
		err := fails(t, Source(where, Lines(), In(FS(files("a", "")))))
		wantError(t, err, where, "there is no file or directory")
		if !errors.Is(err, connector.ErrFatal) {
			t.Errorf("%v: not fatal", err)
		}
	}
	want(t, read(t, Source("*.txt", Lines(), In(FS(files("a", "x\n")))))) // nothing, with a warning
}

// watching runs a test in a bubble of virtual time, over a tree that it may
// change while the source waits.
func watching(t *testing.T, test func(t *testing.T, w *watch)) {
	synctest.Test(t, func(t *testing.T) {
		w := &watch{T: t, tree: &shared{tree: tree{}}, opts: []Option{Watch(time.Second)}}
		test(t, w)
		w.stop()
	})
}

type watch struct {
	*testing.T
	tree *shared
	opts []Option
	run  *run[string]
	log  strings.Builder
}

func (w *watch) stop() {
	if w.run != nil {
		w.run.close()
	}
}

// start starts an attempt, ending the one before.
func (w *watch) start(from *connectortest.SourceSnapshot) {
	w.stop()
	c := &connectortest.Context{Ctx: w.Context(), Log: logTo(&w.log)}
	w.run = start(w, Source("in", Lines(), append(w.opts, In(FS(only{w.tree})))...), 1, from, c)
}

// reads waits for lines beyond those read before.
func (w *watch) reads(lines ...string) {
	w.Helper()
	before := len(w.run.Records())
	if err := w.run.Count(w.Context(), before+len(lines)); err != nil {
		w.Fatal(err)
	}
	want(w, w.run.Values()[before:], lines...)
	w.quiet(3 * time.Second)
}

// quiet checks that nothing comes for a time.
func (w *watch) quiet(d time.Duration) {
	w.Helper()
	before := len(w.run.Records())
	for range int(d / (100 * time.Millisecond)) {
		<-time.After(100 * time.Millisecond) // of the bubble
		synctest.Wait()
		for {
			progress, err := w.run.Step()
			if err != nil {
				w.Fatal(err)
			}
			if !progress {
				break
			}
		}
	}
	want(w, w.run.Values()[before:])
}

func (w *watch) put(name, content string, at time.Time) {
	w.tree.change(func(f tree) { put(f, "in/"+name, content, at) })
}

func TestF07ModificationTimes(t *testing.T) {
	watching(t, func(t *testing.T, w *watch) {
		now := time.Now()
		w.put("a", "a\n", now)
		w.start(nil)
		w.reads("a")
		w.put("b", "b\n", now.Add(-10*time.Second)) // older than a
		w.put("c", "c\n", now)                      // as old
		w.reads("b", "c")
		w.put(".d.tmp", "d\n", now)
		w.quiet(2 * time.Second)
		w.put("d", "d\n", now)
		w.tree.change(func(f tree) { delete(f, "in/.d.tmp") })
		w.reads("d")
		w.put("a", "a\n", time.Now()) // touched
		w.quiet(5 * time.Second)

		snap := w.run.snapshot(1)
		w.start(snap)
		w.quiet(5 * time.Second)
		w.put("e", "e\n", now.Add(-time.Hour))
		w.reads("e")
	})
}

func TestWhatIsRememberedIsBounded(t *testing.T) {
	watching(t, func(t *testing.T, w *watch) {
		w.opts = append(w.opts, Remember(10*time.Second))
		size := 0
		w.put("first", "first\n", time.Now()) // so that the directory is there
		w.start(nil)
		w.reads("first")
		for i := range 40 {
			w.put(fmt.Sprintf("%03d", i), fmt.Sprintln(i), time.Now())
			w.reads(fmt.Sprint(i))
			if i == 10 {
				size = len(w.run.snapshot(1).Enumerator)
			}
		}
		snap := w.run.snapshot(2)
		if n := len(snap.Enumerator); n > size+10 {
			t.Errorf("the enumerator's state grew from %d bytes after 10 files to %d after 40", size, n)
		}
		w.put("late", "late\n", time.Now().Add(-time.Minute))
		w.quiet(5 * time.Second)
		if !strings.Contains(w.log.String(), "too old") || !strings.Contains(w.log.String(), "in/late") {
			t.Errorf("nobody was told of the file that came late:\n%s", w.log.String())
		}
		w.start(snap)
		w.quiet(5 * time.Second) // all 40 are still there, and most are forgotten
	})
}

// TestAFileFromTheFuture must not make the source forget the present.
func TestAFileFromTheFuture(t *testing.T) {
	watching(t, func(t *testing.T, w *watch) {
		w.put("a", "a\n", time.Now().AddDate(100, 0, 0))
		w.start(nil)
		w.reads("a")
		w.put("b", "b\n", time.Now())
		w.reads("b")
		w.start(w.run.snapshot(1))
		w.quiet(3 * time.Second)
		w.put("c", "c\n", time.Now())
		w.reads("c")
	})
}

func TestQuietFor(t *testing.T) {
	watching(t, func(t *testing.T, w *watch) {
		w.opts = append(w.opts, QuietFor(10*time.Second))
		w.put("old", "old\n", time.Now().Add(-time.Minute))
		w.put("new", "ne", time.Now())
		w.start(nil)
		w.reads("old")
		w.put("new", "new\nx\n", time.Now()) // written on
		w.quiet(8 * time.Second)
		w.reads("new", "x")
	})
	still := files("a", "a\n")
	put(still, "b", "b", time.Now().Add(time.Hour))
	want(t, read(t, Source(".", Lines(), In(FS(still)), QuietFor(time.Minute))), "a")
}

func TestGrownAfterItWasRead(t *testing.T) {
	watching(t, func(t *testing.T, w *watch) {
		w.put("a", "a\n", time.Now())
		w.start(nil)
		w.reads("a")
		w.put("a", "a\nb\n", time.Now())
		w.quiet(5 * time.Second)
		if n := strings.Count(w.log.String(), "another size"); n != 1 || !strings.Contains(w.log.String(), "file.QuietFor") {
			t.Errorf("told %d times:\n%s", n, w.log.String())
		}
	})
}

// TestADirectoryThatGoesForAWhile is looked for again.
func TestADirectoryThatGoesForAWhile(t *testing.T) {
	watching(t, func(t *testing.T, w *watch) {
		w.put("a", "a\n", time.Now())
		w.start(nil)
		w.reads("a")
		kept := w.tree.tree["in/a"]
		w.tree.change(func(f tree) { delete(f, "in/a") })
		w.quiet(3 * time.Second)
		w.tree.change(func(f tree) { f["in/a"] = kept })
		w.put("b", "b\n", time.Now())
		w.reads("b")
	})
}

func TestVanished(t *testing.T) {
	begun := func(opts ...Option) *run[string] {
		fsys := &shared{tree: files("in/a", numbered(0, 3000), "in/b", "b\n", "in/c", "c\n")}
		r := start(t, Source("in", Lines(blockOf(64)), append(opts, In(FS(only{fsys})))...), 1, nil, nil)
		if err := r.Count(deadline(t), 1); err != nil {
			t.Fatal(err)
		}
		fsys.change(func(f tree) { delete(f, "in/b") })
		return r
	}
	r := begun()
	r.close()
	deleted := &shared{tree: files("in/a", numbered(0, 3000))}
	r = start(t, Source("in", Lines(blockOf(64)), In(FS(only{deleted}))), 1, nil, nil)
	if err := r.Count(deadline(t), 1); err != nil {
		t.Fatal(err)
	}
	deleted.change(func(f tree) { delete(f, "in/a") })
	if got := r.toEnd(); len(got) != 3000 {
		t.Errorf("%d lines of a file that was deleted while it was open, want 3000", len(got))
	}

	r = begun()
	err := r.Run(deadline(t))
	wantError(t, err, "in/b", "is gone before", "file.SkipVanished")
	if !errors.Is(err, fs.ErrNotExist) || errors.Is(err, connector.ErrFatal) {
		t.Errorf("%v: it may come back", err)
	}
	r = begun(SkipVanished())
	got := r.toEnd()
	if len(got) != 3001 || got[3000] != "c" || r.Context.Counter("filesVanished") != 1 {
		t.Errorf("%d lines, %d vanished", len(got), r.Context.Counter("filesVanished"))
	}
}

func TestChangedWhileItWasRead(t *testing.T) {
	for name, change := range map[string]func(tree){
		"grown":             func(f tree) { put(f, "in/a", numbered(0, 3001), epoch) },
		"cut":               func(f tree) { put(f, "in/a", numbered(0, 2000), epoch) },
		"replaced":          func(f tree) { put(f, "in/a", numbered(0, 3000), epoch.Add(time.Second)) },
		"replaced and gone": func(f tree) { put(f, "in/b", "other\n", epoch) },
	} {
		t.Run(name, func(t *testing.T) {
			fsys := files("in/a", numbered(0, 3000), "in/b", "b\n")
			src := Source("in", Lines(blockOf(64)), In(FS(fsys)), SplitSize(5000))
			r := start(t, src, 1, nil, nil)
			if err := r.Count(deadline(t), 1); err != nil {
				t.Fatal(err)
			}
			snap := r.snapshot(1)
			r.close()
			change(fsys)
			r = start(t, src, 1, snap, nil)
			err := r.Run(deadline(t))
			var changed *ChangedError
			if !errors.As(err, &changed) || !errors.Is(err, connector.ErrFatal) {
				t.Fatalf("%v, %d records", err, len(r.Records()))
			}
			wantError(t, err, changed.Found.Path, "changed", "file.QuietFor")
		})
	}
}

// TestF01ReaderFails is the case's own input; the acceptance suite has every
// moment of it.
func TestF01ReaderFails(t *testing.T) {
	src := Source(".", Lines(blockOf(8)), In(FS(files("a", numbered(10, 20), "b", numbered(20, 30), "c", numbered(30, 40), "d", numbered(40, 50)))))
	for _, how := range []string{"before any checkpoint", "half read", "the enumerator, too"} {
		r := start(t, src, 2, nil, nil)
		r.Batch = 1
		var before []string
		if err := r.Count(deadline(t), 5); err != nil {
			t.Fatal(err)
		}
		if how != "before any checkpoint" {
			snap := r.snapshot(1)
			before = r.Values()
			if err := r.Complete(1); err != nil {
				t.Fatal(err)
			}
			if err := r.Count(deadline(t), 8); err != nil {
				t.Fatal(err)
			}
			if how == "the enumerator, too" {
				r.close()
				r = start(t, src, 2, snap, nil)
			} else {
				before = nil
			}
		}
		if how != "the enumerator, too" {
			if err := r.FailReader(0); err != nil {
				t.Fatal(err)
			}
		}
		got := append(before, r.toEnd()...)
		slices.Sort(got)
		want(t, got, strings.Fields(numbered(10, 50))...)
	}
}

// A reader that had asked in vain fails: what it had read goes to who asks next,
// not to the reader that is no more.
func TestF01ReaderFailsWhileItWaits(t *testing.T) {
	src := Source(".", Lines(blockOf(8)), In(FS(files("a", numbered(10, 20)))), Watch(time.Hour))
	r := start(t, src, 1, nil, nil)
	e := r.Enumerator().(*enumerator)
	if err := r.Until(deadline(t), func() bool { return len(r.Records()) == 10 && len(e.waiting) == 1 }); err != nil {
		t.Fatal(err)
	}
	if err := r.FailReader(0); err != nil {
		t.Fatal(err)
	}
	if err := r.Count(deadline(t), 10); err != nil {
		t.Fatal(err)
	}
	want(t, r.Values(), strings.Fields(numbered(10, 20))...)
}

func TestPositionOfASplit(t *testing.T) {
	for want, s := range map[string]Split{
		"the beginning":           {Next: Begin},
		"position 0":              {},
		"position 31":             {Next: 31},
		"position 3 of block 120": {Next: 3, Block: 120},
	} {
		if got := s.Position(); got != want {
			t.Errorf("%+v: %q, want %q", s, got, want)
		}
	}
}

func TestCodecs(t *testing.T) {
	f := Info{"a\xff/b", 12, time.Date(1500, 1, 2, 3, 4, 5, 6, time.UTC)}
	s := Split{Info: f, From: 3, To: Whole, Next: Begin, Block: 7}
	b, _ := splitCodec{}.Append(nil, s)
	got, err := splitCodec{}.Decode(b)
	if err != nil || got.Path != s.Path || !got.ModTime.Equal(f.ModTime) || got.At(1, 2) != (Split{Info: got.Info, From: 3, To: Whole, Next: 1, Block: 2}) || got.Next != Begin || got.Block != 7 {
		t.Errorf("%+v, %v", got, err)
	}
	e := Enumeration{Started: true, Horizon: f.ModTime, Seen: []Info{f, {Path: "", ModTime: epoch}}, Unassigned: []Split{s}}
	b, _ = enumerationCodec{}.Append(nil, e)
	again, err := enumerationCodec{}.Decode(b)
	if err != nil || !again.Started || !again.Horizon.Equal(f.ModTime) || len(again.Seen) != 2 || again.Seen[0].Path != f.Path || len(again.Unassigned) != 1 || again.Unassigned[0].SplitID() != "a\xff/b@3" {
		t.Errorf("%+v, %v", again, err)
	}
	for n := range b {
		if _, err := (enumerationCodec{}).Decode(b[:n]); err == nil {
			t.Errorf("%d of %d bytes were enough", n, len(b))
		}
	}
}

func FuzzCodecs(f *testing.F) {
	b, _ := enumerationCodec{}.Append(nil, Enumeration{Started: true, Seen: []Info{{"a", 1, epoch}}, Unassigned: []Split{{Info: Info{"b", 2, epoch}, To: 2}}})
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		if e, err := (enumerationCodec{}).Decode(b); err == nil {
			again, _ := enumerationCodec{}.Append(nil, e)
			if _, err := (enumerationCodec{}).Decode(again); err != nil {
				t.Error(err)
			}
		}
		if s, err := (splitCodec{}).Decode(b); err == nil {
			again, _ := splitCodec{}.Append(nil, s)
			if got, err := (splitCodec{}).Decode(again); err != nil || got.SplitID() != s.SplitID() {
				t.Errorf("%+v, %v", got, err)
			}
		}
	})
}
