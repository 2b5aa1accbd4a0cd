package lsm

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

// faulty is a tier on a disk that calls a function before each operation.
func faulty(t *testing.T, before errorfs.InjectorFunc) (*Disk, *Tier) {
	t.Helper()
	d := open(t, Options{Dir: "state", FS: errorfs.Wrap(vfs.NewMem(), before)})
	tier, err := d.Tier("op")
	if err != nil {
		t.Fatal(err)
	}
	return d, tier
}

func put(tier *Tier, n int) error {
	c := tier.Change()
	for i := range 100 {
		if err := c.Put(fmt.Appendf(groupKey(1), "%08d", 100*n+i), make([]byte, 1000)); err != nil {
			return errors.Join(err, c.Commit())
		}
	}
	return c.Commit()
}

// What was evicted before a snapshot that failed is in the files of the next
// one, also if it was still being written then.
func TestFilesHaveWhatAnAbandonedLoadHasFlushed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var closed atomic.Bool
		gate := make(chan struct{})
		d, tier := faulty(t, func(op errorfs.Op) error {
			if closed.Load() && op.Kind == errorfs.OpCreate && isTable(op.Path) {
				<-gate
			}
			return nil
		})
		if err := put(tier, 0); err != nil {
			t.Fatal(err)
		}
		closed.Store(true)
		l, err := tier.Load()
		if err != nil {
			t.Fatal(err)
		}
		l.Abort()
		tables := -1
		go func() {
			files, err := tier.Files()
			if err != nil {
				t.Error(err)
				return
			}
			tables = 0
			for _, f := range files.List() {
				if isTable(f.Name) {
					tables++
				}
			}
			if err := files.Close(); err != nil {
				t.Error(err)
			}
		}()
		synctest.Wait()
		close(gate)
		synctest.Wait()
		if tables != 1 {
			t.Errorf("%d tables hold the row, want 1", tables)
		}
		tier.Close()
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
}

// A disk that is full for what Pebble writes in the background holds nobody up:
// neither who goes on writing nor a snapshot, and nothing panics.
func TestFullDiskInTheBackground(t *testing.T) {
	cases := map[string]func(errorfs.Op) bool{
		"table":    func(op errorfs.Op) bool { return op.Kind == errorfs.OpCreate && isTable(op.Path) },
		"contents": func(op errorfs.Op) bool { return op.Kind == errorfs.OpFileWrite && isTable(op.Path) },
		"manifest": func(op errorfs.Op) bool {
			return op.Kind == errorfs.OpFileWrite && strings.Contains(op.Path, manifestPrefix)
		},
	}
	for name, hit := range cases {
		t.Run(name, func(t *testing.T) {
			var full atomic.Bool
			d, tier := faulty(t, func(op errorfs.Op) error {
				if full.Load() && hit(op) {
					return syscall.ENOSPC
				}
				return nil
			})
			if err := put(tier, 0); err != nil {
				t.Fatal(err)
			}
			full.Store(true)
			l, err := tier.Load()
			if err == nil {
				err = l.Commit()
			}
			if name == "manifest" && err == nil { // Commit may be ahead of it
				_, err = tier.Files()
			}
			if !errors.Is(err, syscall.ENOSPC) {
				t.Errorf("a snapshot: error %v", err)
			}
			for n := 1; err != nil && n < 100; n++ {
				if err = put(tier, n); err != nil {
					break
				}
			}
			if !errors.Is(err, syscall.ENOSPC) {
				t.Errorf("changes: error %v", err)
			}
			tier.Close()
			if err := d.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	t.Run("no snapshot", func(t *testing.T) {
		var full atomic.Bool
		d, tier := faulty(t, func(op errorfs.Op) error {
			if full.Load() && cases["contents"](op) {
				return syscall.ENOSPC
			}
			return nil
		})
		var err error
		for n := 0; err == nil && n < 1000; n++ {
			full.Store(n > 0)
			err = put(tier, n)
		}
		if !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("changes: error %v", err)
		}
		tier.Close()
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
}

// Whatever the disk is full for, the error names what to set.
func TestFullDiskNamesWhatToSet(t *testing.T) {
	for name, hit := range map[string]func(errorfs.Op) bool{
		"flush":   func(op errorfs.Op) bool { return op.Kind == errorfs.OpFileWrite && isTable(op.Path) },
		"load":    func(op errorfs.Op) bool { return op.Kind == errorfs.OpCreate && strings.Contains(op.Path, "load-") },
		"loading": func(op errorfs.Op) bool { return op.Kind == errorfs.OpFileWrite && strings.Contains(op.Path, "load-") },
	} {
		t.Run(name, func(t *testing.T) {
			var full atomic.Bool
			d, tier := faulty(t, func(op errorfs.Op) error {
				if full.Load() && hit(op) {
					return syscall.ENOSPC
				}
				return nil
			})
			if err := put(tier, 0); err != nil {
				t.Fatal(err)
			}
			full.Store(true)
			l, err := tier.Load()
			if err == nil {
				err = l.Put(groupKey(2), nil)
			}
			if err == nil {
				err = l.Commit()
			}
			if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "state.backend.lsm.dir") {
				t.Errorf("error %v", err)
			}
			l.Abort()
			tier.Close()
			if err := d.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// A block that is damaged on the local disk fails who reads it, and everything
// after: what there is must not get into a snapshot.
func TestDamagedLocalFile(t *testing.T) {
	mem := vfs.NewMem()
	d := open(t, Options{Dir: "state", FS: mem})
	tier, err := d.Tier("op")
	if err != nil {
		t.Fatal(err)
	}
	l, err := tier.Load()
	if err != nil {
		t.Fatal(err)
	}
	for i := range 100 {
		if err := l.Put(fmt.Appendf(groupKey(1), "%08d", i), make([]byte, 1000)); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Commit(); err != nil {
		t.Fatal(err)
	}
	names, err := mem.List(tier.dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if !isTable(name) {
			continue
		}
		f, err := mem.OpenReadWrite(mem.PathJoin(tier.dir, name), vfs.WriteCategoryUnspecified)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteAt([]byte{1}, 500); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	err = tier.Scan(nil, func([]byte, []byte) error { return nil })
	if err == nil || !strings.Contains(err.Error(), "checksum") {
		t.Errorf("reading: error %v", err)
	}
	if _, err := tier.Files(); err == nil || !strings.Contains(err.Error(), "damaged") {
		t.Errorf("a snapshot: error %v", err)
	}
	tier.Close()
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}
