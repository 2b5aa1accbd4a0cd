package heap

import (
	"fmt"
	"slices"
	"sync/atomic"
	"unsafe"

	"github.com/weirstream/weir/internal/entry"
	"github.com/weirstream/weir/internal/snapshot"
)

// A store can tell what has changed between two of its snapshots. Entries bear
// the number of snapshots taken before they were last current (mark), pages
// that of those before the last write to them, and keys that are removed are
// listed, interval by interval. So changes are known relative to any earlier
// snapshot, however many of those in between have failed.

// firstSnapshot is the number of what a store was restored from, or of the
// empty state it began with. Snapshots count from there.
const firstSnapshot = 1

// restoredMark is that of entries the first snapshot has.
var restoredMark = mark{seq: belowBit}

const (
	// removedLeast and removedShare bound the memory that removed keys take, the
	// latter as a part of the tables'. Beyond it changes are unknown.
	removedLeast = 1 << 20
	removedShare = 4
)

// increment is the stage's side of changes.
type increment struct {
	on bool
	// keep is the oldest snapshot that changes will still be asked to.
	keep atomic.Uint32
	// removed are the keys removed since then, by interval; the last interval
	// is the present one. bytes of them are bounded by limit.
	removed []*removals
	bytes   int
	limit   int
	// touched is the number of snapshots taken before state was last in use.
	touched uint32
	spare   *removals
}

// removals are the keys removed in an interval between two snapshots.
type removals struct {
	// since is the snapshot that the interval begins with.
	since uint32
	// groups hold hash and key, as an item, by group from the range's first.
	groups [][]byte
	bytes  int
	// lost says that they are not known.
	lost bool
}

func (c *core) startIncrements() {
	i := &c.increment
	i.on, i.limit, i.touched = true, removedLeast, firstSnapshot
	c.seq, c.newest = firstSnapshot, firstSnapshot
	i.keep.Store(firstSnapshot)
	i.removed = []*removals{c.newRemovals()}
	c.chain = &Chain{}
}

// leaveMemory says that the state has outgrown its memory: what has changed is from
// now on told by the tier's files.
func (c *core) leaveMemory() {
	if c.increment.on {
		c.increment.on, c.increment.removed, c.increment.spare = false, nil, nil
		c.findNewest()
	}
}

// Chain makes files of the snapshots of the store; nil if changes are not known.
func (c *core) Chain() *Chain { return c.chain }

func (c *core) newRemovals() *removals {
	r := c.increment.spare
	c.increment.spare = nil
	if r == nil {
		return &removals{since: c.seq, groups: make([][]byte, len(c.tables))}
	}
	for i := range r.groups {
		r.groups[i] = r.groups[i][:0]
	}
	*r = removals{since: c.seq, groups: r.groups}
	return r
}

// noteBatch preserves and marks all entries of the batch, whose groups are known.
func (c *core) noteBatch() {
	c.increment.touched = c.seq
	c.preserveBatch()
	seq, at := c.seq, c.size-markSize
	for _, p := range c.ptrs {
		if m := (*mark)(unsafe.Add(p, at)); m.seq&^belowBit != seq {
			m.seq = belowBit | seq
		}
	}
}

// own preserves and marks an entry that is about to be used.
func (c *core) own(p unsafe.Pointer) {
	if c.newest != 0 {
		c.preserveEntry(p)
	}
	if c.increment.on {
		c.increment.touched = c.seq
		c.noteChange(p)
	}
}

// noteRemoved lists the key of an entry that goes, unless no snapshot has it.
func (c *core) noteRemoved(group int, p unsafe.Pointer) {
	i := &c.increment
	i.touched = c.seq
	r := i.removed[len(i.removed)-1]
	if m := c.markOf(p); m.seq == c.seq || r.lost {
		return
	}
	before := len(r.groups[group])
	r.groups[group] = appendRemoved(r.groups[group], *entry.Hash(p), c.keyBytes, c.encodedKey(p, c.arena.View()))
	n := len(r.groups[group]) - before
	r.bytes += n
	if i.bytes += n; i.bytes > i.limit {
		c.loseRemoved()
	}
}

// loseRemoved forgets what was removed: until a snapshot of all state completes
// there are no changes to be had.
func (c *core) loseRemoved() {
	i := &c.increment
	i.bytes = 0
	i.removed = []*removals{{since: c.seq, lost: true}}
}

// endInterval ends the present interval with the snapshot just counted. It
// returns what was removed since the oldest snapshot to which changes are
// known.
func (c *core) endInterval() (removed []*removals, floor uint32) {
	i := &c.increment
	keep := i.keep.Load()
	for len(i.removed) > 1 && i.removed[0].since < keep {
		i.bytes -= i.removed[0].bytes
		if len(c.pending) == 0 && !i.removed[0].lost {
			i.spare = i.removed[0] // nobody reads it
		}
		i.removed = slices.Delete(i.removed, 0, 1)
	}
	removed = slices.Clone(i.removed)
	floor = removed[0].since
	if removed[0].lost {
		floor = c.seq
		if len(removed) > 1 {
			floor = removed[1].since
		}
	}
	var tables int64
	for g := range c.tables {
		tables += c.bytesOf(c.tables[g].positions())
	}
	i.limit = max(removedLeast, int(tables)/removedShare)
	i.removed = append(i.removed, c.newRemovals())
	return removed, floor
}

// Number is the number of the snapshot among those of its store: they count up,
// and 1 is what the store began with.
func (f *Frozen) Number() uint32 { return f.seq }

// KnowsChanges tells whether EncodeChanges can tell what has changed since an
// earlier snapshot of the store.
func (f *Frozen) KnowsChanges(since uint32) bool {
	return f.removed != nil && since >= f.floor && since < f.seq
}

// Unchanged tells that nothing has changed since an earlier snapshot to which the changes are
// known.
func (f *Frozen) Unchanged(since uint32) bool {
	return f.KnowsChanges(since) && f.touched < since
}

// Completed says that snapshots to come will not be asked for changes to any
// that was before the one of this number. Any goroutine may call it.
func (f *Frozen) Completed(number uint32) {
	i := &f.core.increment
	for keep := i.keep.Load(); keep < number && !i.keep.CompareAndSwap(keep, number); {
		keep = i.keep.Load()
	}
}

// Bytes is about how many bytes the state takes in memory.
func (f *Frozen) Bytes() int64 { return f.bytes }

// EncodeChanges writes what has changed in a key group since an earlier
// snapshot: a section of kind snapshot.ChangedKeys with all keys that may be
// affected, in the order of (hash, encoded key), and, as EncodeGroup does,
// the state that those have. Each group can be encoded once.
func (f *Frozen) EncodeChanges(since uint32, g int, w GroupWriter) error {
	if err := f.encodeChanges(since, g, w); err != nil {
		return fmt.Errorf("changes of operator %q, key group %d: %w", f.core.operator, g, err)
	}
	return nil
}

func (f *Frozen) encodeChanges(since uint32, g int, w GroupWriter) error {
	p, err := f.begin(g)
	switch {
	case err != nil:
		return err
	case !f.KnowsChanges(since):
		return fmt.Errorf("what has changed between snapshots %d and %d is not known", since, f.seq)
	}
	s := f.scratch
	if s.entries = s.entries[:0]; p.array != nil && p.used > 0 {
		f.collect(p, since)
		f.order(p)
	}
	s.removed = s.removed[:0]
	for _, r := range f.removed {
		if r.since < since {
			continue
		}
		if s.removed, err = cutRemoved(s.removed, r.groups[g-f.core.groups.First], f.core.keyBytes); err != nil {
			return err
		}
	}
	slices.SortFunc(s.removed, removedKey.compare)
	if err := f.changedKeys(w); err != nil {
		return err
	}
	return f.sections(w)
}

// changedKeys merges the keys of the collected entries with those removed.
func (f *Frozen) changedKeys(w GroupWriter) error {
	s, words, count := f.scratch, int(f.core.size/8), 0
	data := s.data[:0]
	removed := s.removed
	var last removedKey
	take := func(k removedKey) {
		if count == 0 || last.compare(k) != 0 {
			data = snapshot.AppendItem(data, f.core.keyBytes, k.key)
			count++
		}
		last = k
	}
	for i := 0; i < len(s.entries); i += words {
		e := unsafe.Pointer(&s.entries[i])
		k := removedKey{*entry.Hash(e), f.core.encodedKey(e, f.view)}
		for len(removed) > 0 && removed[0].compare(k) <= 0 {
			take(removed[0])
			removed = removed[1:]
		}
		take(k)
	}
	for _, k := range removed {
		take(k)
	}
	s.data = data
	clear(s.removed)
	if count == 0 {
		return nil
	}
	return w.Section(snapshot.State{Kind: snapshot.ChangedKeys}, count, data)
}
