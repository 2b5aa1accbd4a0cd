package heap

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"unsafe"

	"github.com/weirstream/weir/internal/entry"
	"github.com/weirstream/weir/internal/memory"
)

// ErrTier is wrapped by the error with which a store panics, or a snapshot
// fails, if its tier does.
var ErrTier = errors.New("state on disk")

// Tier is what lies below a store whose tables are a cache: rows by key, in
// the order of their keys' bytes. The stage reads and writes, and one other
// goroutine at a time loads and takes snapshots.
type Tier interface {
	// Fetch calls found for each of the keys, ascending and different, that has a row.
	// row is valid during the call.
	Fetch(keys [][]byte, found func(i int, row []byte) error) error
	// Scan calls found for each key that begins with prefix.
	Scan(prefix []byte, found func(key, row []byte) error) error
	// Walk calls fn for each key from the first on, in order, as long as it says
	// more.
	Walk(first []byte, fn func(key, row []byte) (more bool, err error)) error
	// Change returns an empty set of changes.
	Change() Changes
	// Load returns an empty set of changes that may be large and whose keys
	// come in ascending order, each once.
	Load() (Changes, error)
	// Snapshot is the tier as of now.
	Snapshot() (TierSnapshot, error)
	// Files are the files of the tier as of now; nobody changes it meanwhile.
	Files() (TierFiles, error)
	// Size is about how many bytes the rows take whose keys begin with prefix.
	Size(prefix []byte) (int64, error)
	// Close removes everything, once all snapshots are closed. Any goroutine
	// may call it.
	Close()
}

// Changes are made to a tier all at once by Commit. Either Commit or Abort
// ends them. Keys and rows are not kept beyond the call.
type Changes interface {
	Put(key, row []byte) error
	Delete(key []byte) error
	Commit() error
	Abort()
}

// TierSnapshot is a tier as of a moment. One goroutine uses it.
type TierSnapshot interface {
	// Scan calls found for each key that begins with prefix.
	Scan(prefix []byte, found func(key, row []byte) error) error
	Close() error
}

// TierFiles are the files that a tier consists of at a moment. One goroutine uses
// them.
type TierFiles interface {
	// Format names the form of the files, for whoever restores them.
	Format() string
	List() []TierFile
	Open(name string) (io.ReadCloser, error)
	// Close gives the files up.
	Close() error
}

// TierFile is a file of a tier.
type TierFile struct {
	Name string
	// Lasting files have the same content whenever they are listed under that
	// name again; the others are of this moment only, and small.
	Lasting bool
}

// mark is what an entry of a cache bears behind its fields.
type mark struct {
	// seq is the number of snapshots taken before the entry was last current,
	// and belowBit if its tier may have a row of it.
	seq uint32
	// batch is the number of the batch it was last in.
	batch uint32
}

const (
	markSize = unsafe.Sizeof(mark{})
	belowBit = 1 << 31
)

// below is the store's side of its tier.
type below struct {
	tier  Tier
	share *memory.Share
	// settles says that every snapshot settles.
	settles bool
	stored  storedFiles
	// batch numbers the batches.
	batch uint32
	// settled is the newest snapshot that the tier has in it, and last the
	// newest that is to be.
	settled uint32
	last    *settling
	// written says that something was, or is being, written to the tier.
	written bool
	groups  []cachedGroup
	// changes are the evictions under way, nil if there are none.
	changes Changes
	// arena is what of the share stands for the arena; turn is the group that
	// gives room in it next.
	arena int64
	turn  int
	// missing are the keys of the batch without an entry, keys their names and
	// found their entries.
	missing []int
	text    []byte
	keys    [][]byte
	found   []unsafe.Pointer
	row     []byte
	rows    rowLoader
	// swept is the name of the row that the sweep of expired rows goes on with,
	// credit the records that it has not looked at rows for.
	swept  []byte
	credit int
	left   []byte
	// restoring are the sections of group, whose end has not come.
	restoring []storedSection
	group     int
	restored  []bool
}

// cachedGroup is the cache of a key group.
type cachedGroup struct {
	// partial says that the tier may have rows of keys without an entry.
	partial bool
	// hand is the position of the clock's hand; visited holds the batch at
	// which it last passed each page.
	hand    uint32
	visited []uint32
	// vacant counts entries that wait for their deletion to be written.
	vacant uint32
}

func (b *below) init(o *Options) {
	b.tier, b.share, b.settles, b.batch = o.Tier, o.Share, o.Settle, 1
	b.stored.init(o.Stored)
	b.groups = make([]cachedGroup, o.Range.Len())
	b.restored = make([]bool, o.Range.Len())
}

// failed panics if err is not nil: the task fails with it.
func (c *core) failed(err error) {
	if err != nil {
		panic(c.tierError(err))
	}
}

func (c *core) tierError(err error) error {
	return fmt.Errorf("operator %q: %w: %w", c.operator, ErrTier, err)
}

func (c *core) markOf(p unsafe.Pointer) *mark {
	return (*mark)(unsafe.Add(p, c.size-markSize))
}

// note marks an entry that becomes current. Its page is preserved.
func (c *core) note(p unsafe.Pointer) {
	c.noteChange(p)
	c.markOf(p).batch = c.below.batch
}

// noteChange marks an entry as changed.
func (c *core) noteChange(p unsafe.Pointer) {
	m := c.markOf(p)
	seq := m.seq
	if seq&^belowBit < c.seq {
		seq |= belowBit // a snapshot taken since then may have put it there
	}
	m.seq = seq&belowBit | c.seq
}

// noteNew marks an entry that was just made.
func (c *core) noteNew(p unsafe.Pointer) { *c.markOf(p) = mark{c.seq, c.below.batch} }

// waits tells whether an entry without contents has to wait for its deletion
// in the tier, and counts it.
func (c *core) waits(group int, p unsafe.Pointer) bool {
	if !c.below.written || c.markOf(p).seq&belowBit == 0 {
		return false
	}
	c.below.groups[group].vacant++
	return true
}

// changedSince tells whether the entry may have changed since a snapshot.
func (m *mark) changedSince(snapshot uint32) bool { return m.seq&^belowBit >= snapshot }

// changed tells whether an entry may differ from what the tier has.
func (c *core) changed(m *mark) bool { return m.changedSince(c.below.settled) }

// Names of rows.

const (
	groupBytes  = 2
	prefixBytes = groupBytes + 4
)

// appendPrefix appends what the names of all rows of a hash begin with.
func appendPrefix(dst []byte, group int, hash uint32) []byte {
	dst = binary.BigEndian.AppendUint16(dst, uint16(group))
	return binary.BigEndian.AppendUint32(dst, hash)
}

// appendName appends the name of an entry's row.
func (c *core) appendName(dst []byte, group int, p unsafe.Pointer, v memory.View) []byte {
	return append(appendPrefix(dst, group, *entry.Hash(p)), c.encodedKey(p, v)...)
}
