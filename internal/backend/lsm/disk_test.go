package lsm

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/weirstream/weir/internal/backend/heap"
	"github.com/weirstream/weir/internal/entry"
	"github.com/weirstream/weir/internal/keygroup"
	"github.com/weirstream/weir/internal/memory"
	"github.com/weirstream/weir/internal/storage/file"
)

func open(t *testing.T, o Options) *Disk {
	t.Helper()
	o.Memory, o.Stores, o.Logger = 1<<20, 1, slog.New(slog.DiscardHandler)
	d, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// What a process left that was killed goes with the next start, what one uses
// that runs stays, and an orderly end leaves nothing.
func TestLeftDirectoriesAreSwept(t *testing.T) {
	root := t.TempDir()
	left := filepath.Join(root, "state-of-the-dead", "1-op")
	if err := os.MkdirAll(left, 0o777); err != nil {
		t.Fatal(err)
	}
	first := open(t, Options{Dir: root})
	tier, err := first.Tier("op/../1")
	if err != nil {
		t.Fatal(err)
	}
	second := open(t, Options{Dir: root})
	if _, err := os.Stat(filepath.Dir(left)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("what was left is still there: %v", err)
	}
	for _, d := range []*Disk{first, second} {
		if _, err := os.Stat(d.Dir()); err != nil {
			t.Errorf("a directory in use is gone: %v", err)
		}
	}
	tier.Close()
	if err := errors.Join(first.Close(), second.Close()); err != nil {
		t.Fatal(err)
	}
	if names, err := os.ReadDir(root); len(names) != 0 || err != nil {
		t.Errorf("left at the end: %v, %v", names, err)
	}
}

// So does what one left that was killed while it came or went, unless it may
// still be about to lock it.
func TestDirectoriesWithoutANameAreSwept(t *testing.T) {
	root := t.TempDir()
	for name, age := range map[string]time.Duration{"temp-left": 2 * grace, "temp-new": 0} {
		if err := os.MkdirAll(filepath.Join(root, name, "1-op"), 0o777); err != nil {
			t.Fatal(err)
		}
		at := time.Now().Add(-age)
		if err := os.Chtimes(filepath.Join(root, name), at, at); err != nil {
			t.Fatal(err)
		}
	}
	if err := open(t, Options{Dir: root}).Close(); err != nil {
		t.Fatal(err)
	}
	names, err := os.ReadDir(root)
	if err != nil || len(names) != 1 || names[0].Name() != "temp-new" {
		t.Errorf("left: %v, %v", names, err)
	}
}

// A start that fails leaves nothing, however often it is tried.
func TestFailedClaimLeavesNothing(t *testing.T) {
	root := t.TempDir()
	d := &Disk{o: Options{Dir: root, Logger: slog.New(slog.DiscardHandler)}}
	lock := func(string) (func() error, error) { return nil, errors.New("no space left") }
	if err := d.claim(lock); err == nil || !strings.Contains(err.Error(), "no space left") {
		t.Errorf("error %v", err)
	}
	if names, err := os.ReadDir(root); len(names) != 0 || err != nil {
		t.Errorf("left: %v, %v", names, err)
	}
}

// However many start at once, none sweeps what another has just begun to use.
func TestDirectoriesInUseAreNotSwept(t *testing.T) {
	root := t.TempDir()
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 30 {
				d, err := Open(Options{Dir: root, Memory: 1 << 20, Stores: 1, Logger: slog.New(slog.DiscardHandler)})
				if err != nil {
					t.Error(err)
					return
				}
				if _, err := os.Stat(filepath.Join(d.Dir(), file.LockName)); err != nil {
					t.Errorf("a directory in use is gone: %v", err)
				}
				if err := d.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
}

func TestDirectoryThatCannotBe(t *testing.T) {
	name := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(name, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Open(Options{Dir: name, Memory: 1 << 20, Stores: 1, Logger: slog.New(slog.DiscardHandler)})
	if err == nil || !strings.Contains(err.Error(), "local state directory (state.backend.lsm.dir)") || !strings.Contains(err.Error(), name) {
		t.Fatalf("error %v", err)
	}
}

// A disk that fails ends the task with an error that says so, and a snapshot
// with one as well; nothing hangs.
func TestFailingDisk(t *testing.T) {
	var broken errorfs.Toggle
	broken.Injector = errorfs.ErrInjected
	fs := errorfs.Wrap(vfs.NewMem(), &broken)
	d := open(t, Options{Dir: "state", FS: fs})
	pool := memory.NewPool(0)
	defer pool.Close()
	cur := &entry.Cursor{}
	o := heap.Options{Operator: "op", Fields: []*entry.Field{heap.NewTimerField(entry.EventTime)}, Cursor: cur,
		MaxParallelism: 1, Range: keygroup.Range{}, Pool: pool, Share: memory.NewBudget(0, 1).Share()}
	var err error
	if o.Tier, err = d.Tier("op"); err != nil {
		t.Fatal(err)
	}
	s, err := heap.New[int64](o)
	if err != nil {
		t.Fatal(err)
	}
	set := func(from, n int64) (err error) {
		defer func() { err, _ = recover().(error) }()
		eachKey(s, from, n, func(k int64) { cur.Timers.Set(entry.EventTime, k) })
		return nil
	}
	if err := set(0, 3000); err != nil {
		t.Fatal(err)
	}
	settled := s.Freeze()
	if err := settled.Settle(false); err != nil { // so that there are files
		t.Fatal(err)
	}
	if err := set(3000, 10); err != nil {
		t.Fatal(err)
	}
	f := s.Freeze()
	broken.On()
	if err := f.Settle(false); !errors.Is(err, heap.ErrTier) || !errors.Is(err, errorfs.ErrInjected) {
		t.Errorf("snapshot on a failing disk: %v", err)
	}
	if err := set(0, 3000); !errors.Is(err, heap.ErrTier) || !strings.Contains(err.Error(), `operator "op"`) {
		t.Errorf("records on a failing disk: %v", err)
	}
	broken.Off()
	f.Release()
	settled.Release()
	s.Close()
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}
