package lsm

import (
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2/objstorage/objstorageprovider"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/weirstream/weir/internal/backend/heap"
)

// loadPrefix begins the names of files that are loaded.
const loadPrefix = "load-"

// loadFileSize is the size from which on a load goes on with another file.
const loadFileSize = 64 << 20

// load writes sorted rows to files that the database then takes over as they
// are.
type load struct {
	tier  *Tier
	files []string
	w     *sstable.Writer
}

// Load implements heap.Tier. The memtable is flushed meanwhile: else it would be
// when the files are taken over.
func (t *Tier) Load() (heap.Changes, error) { return &load{tier: t}, t.flush() }

// flush begins to write what is in the memtable to files.
func (t *Tier) flush() error {
	if err := t.health.err(); err != nil || !t.dirty.Swap(false) {
		return err
	}
	flushing, err := t.db.AsyncFlush()
	if err != nil {
		t.dirty.Store(true)
		return err
	}
	t.flushing = flushing
	return nil
}

// flushed waits until what was in the memtable is in files, also if a load that
// was given up has begun it.
func (t *Tier) flushed() error { return t.health.wait(t.flushing) }

func (l *load) Put(key, row []byte) error {
	if err := l.room(); err != nil {
		return err
	}
	return advise(l.w.Set(key, row))
}

func (l *load) Delete(key []byte) error {
	if err := l.room(); err != nil {
		return err
	}
	return advise(l.w.Delete(key))
}

// room sees to it that there is a file to write to.
func (l *load) room() error {
	if l.w != nil {
		if l.w.Raw().EstimatedSize() < loadFileSize {
			return nil
		}
		if err := l.end(); err != nil {
			return err
		}
	}
	t := l.tier
	name := t.disk.fs.PathJoin(t.dir, fmt.Sprintf("%s%d", loadPrefix, t.loads.Add(1)))
	f, err := t.disk.fs.Create(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		return advise(err)
	}
	l.files = append(l.files, name)
	l.w = sstable.NewWriter(objstorageprovider.NewFileWritable(f), t.options.MakeWriterOptions(0, t.db.TableFormat()))
	return nil
}

func (l *load) end() error {
	w := l.w
	l.w = nil
	return advise(w.Close())
}

// Commit implements heap.Changes.
func (l *load) Commit() error {
	if l.w != nil {
		if err := l.end(); err != nil {
			l.Abort()
			return err
		}
	}
	err := l.tier.flushed()
	if err == nil && len(l.files) > 0 {
		err = l.tier.ingest(l.files)
	}
	if err != nil {
		l.Abort()
		return err
	}
	return nil
}

// Abort implements heap.Changes.
func (l *load) Abort() {
	var err error
	if l.w != nil {
		err = l.end()
	}
	for _, name := range l.files {
		err = errors.Join(err, l.tier.disk.fs.Remove(name))
	}
	l.files = nil
	if err != nil {
		l.tier.disk.o.Logger.Debug("giving up a load", "error", err)
	}
}
