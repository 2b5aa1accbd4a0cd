package lsm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"

	"github.com/weirstream/weir/internal/backend/heap"
	"github.com/weirstream/weir/internal/snapshot"
)

// Tier is the heap.Tier of one store.
type Tier struct {
	disk    *Disk
	dir     string
	options *pebble.Options
	db      *pebble.DB
	stored  []snapshot.NativeFile
	// loads numbers the files that are loaded, captures those that are captured.
	loads    atomic.Int64
	captures int
	health   *health
	// dirty says that something is in the memtable, flushing ends the last flush
	// that was asked for.
	dirty    atomic.Bool
	flushing <-chan struct{}
	// added are the bytes written since somebody has looked at the memtables.
	added int
	// fresh says that many keys of the last fetch had no row.
	fresh bool
}

var _ heap.Tier = (*Tier)(nil)

// freshShare is the part of the keys of a fetch, as a divisor, that have to be
// without a row for the next one to ask the filters of the last level, too.
const freshShare = 8

// Fetch implements heap.Tier. One iterator serves all keys: it looks up the
// tables of a level once, and not for each key.
func (t *Tier) Fetch(keys [][]byte, found func(i int, row []byte) error) (err error) {
	if err := t.health.err(); err != nil {
		return err
	}
	it, err := t.db.NewIter(&pebble.IterOptions{UseL6Filters: t.fresh})
	if err != nil {
		return err
	}
	defer func() {
		if cerr := it.Close(); err == nil {
			err = cerr
		}
	}()
	hits := 0
	for i, k := range keys {
		if !it.SeekPrefixGE(k) {
			if err := it.Error(); err != nil {
				return err
			}
			continue
		}
		hits++
		row, err := it.ValueAndErr()
		if err != nil {
			return err
		}
		if err := found(i, row); err != nil {
			return err
		}
	}
	t.fresh = hits < len(keys)-len(keys)/freshShare
	return nil
}

// Scan implements heap.Tier.
func (t *Tier) Scan(prefix []byte, found func(key, row []byte) error) error {
	return scan(t.db, prefix, found)
}

func scan(r pebble.Reader, prefix []byte, found func(key, row []byte) error) error {
	return walk(r, prefix, behind(prefix), func(key, row []byte) (bool, error) { return true, found(key, row) })
}

// Walk implements heap.Tier.
func (t *Tier) Walk(first []byte, fn func(key, row []byte) (more bool, err error)) error {
	return walk(t.db, first, nil, fn)
}

// walk walks from the first key on to the one before end. An empty key is no
// bound.
func walk(r pebble.Reader, first, end []byte, fn func(key, row []byte) (more bool, err error)) (err error) {
	if len(first) == 0 {
		first = nil // as a bound it would have to have a first byte
	}
	it, err := r.NewIter(&pebble.IterOptions{LowerBound: first, UpperBound: end})
	if err != nil {
		return err
	}
	defer func() {
		if cerr := it.Close(); err == nil {
			err = cerr
		}
	}()
	for it.First(); it.Valid(); it.Next() {
		row, err := it.ValueAndErr()
		if err != nil {
			return err
		}
		if more, err := fn(it.Key(), row); err != nil || !more {
			return err
		}
	}
	return it.Error()
}

// behind is the least key that is behind all that begin with prefix, nil if there is none.
func behind(prefix []byte) []byte {
	b := bytes.Clone(prefix)
	for i := len(b) - 1; i >= 0; i-- {
		if b[i]++; b[i] != 0 {
			return b[:i+1]
		}
	}
	return nil
}

// Change implements heap.Tier.
func (t *Tier) Change() heap.Changes { return change{t, t.db.NewBatch()} }

// change is a few changes: they go by way of the memtable.
type change struct {
	tier *Tier
	b    *pebble.Batch
}

func (c change) Put(key, row []byte) error { return c.b.Set(key, row, nil) }
func (c change) Delete(key []byte) error   { return c.b.Delete(key, nil) }
func (c change) Abort()                    { c.b.Close() }

func (c change) Commit() error {
	if err := c.tier.awaitRoom(c.b.Len()); err != nil {
		return errors.Join(err, c.b.Close())
	}
	c.tier.dirty.Store(true)
	return errors.Join(c.b.Commit(pebble.NoSync), c.b.Close())
}

// mostMemTables is how many memtables may wait to be written.
const mostMemTables = 4

// awaitRoom waits until n more bytes may go to the memtable.
func (t *Tier) awaitRoom(n int) error {
	size := int(t.options.MemTableSize)
	if t.added += n; t.added < size/2 {
		return t.health.err()
	}
	t.added = 0
	for t.health.err() == nil && t.db.Metrics().MemTable.Size > uint64(mostMemTables*size) {
		select {
		case <-t.health.flushes:
		case <-t.health.ended:
		}
	}
	return t.health.err()
}

// Snapshot implements heap.Tier.
func (t *Tier) Snapshot() (heap.TierSnapshot, error) { return moment{t.db.NewSnapshot()}, nil }

type moment struct{ s *pebble.Snapshot }

func (m moment) Scan(prefix []byte, found func(key, row []byte) error) error {
	return scan(m.s, prefix, found)
}

func (m moment) Close() error { return m.s.Close() }

// Close implements heap.Tier.
func (t *Tier) Close() {
	defer t.disk.open.Done()
	if err := errors.Join(t.db.Close(), t.disk.fs.RemoveAll(t.dir)); err != nil {
		t.disk.o.Logger.Warn("closing local state", "dir", t.dir, "error", err)
	}
}

// ingest makes loaded files part of the database.
func (t *Tier) ingest(files []string) error {
	if err := t.db.Ingest(context.Background(), files); err != nil {
		return fmt.Errorf("load %d files: %w", len(files), err)
	}
	return nil
}
