package heap

import (
	"errors"
	"fmt"
	"hash/maphash"
	"reflect"
	"unsafe"

	"github.com/weirstream/weir/internal/entry"
	"github.com/weirstream/weir/internal/keygroup"
	"github.com/weirstream/weir/internal/memory"
	"github.com/weirstream/weir/internal/snapshot"
)

// Options of a Store. All fields are required but Clock.
type Options struct {
	// Operator is the operator's id, for errors.
	Operator string
	// Fields are the operator's states; New places them in the entry.
	Fields []*entry.Field
	// Cursor is what the handles read. New sets its Arena and, if there are
	// fields of timers, its Timers.
	Cursor *entry.Cursor
	// MaxParallelism is the number of key groups of the operator, Range those of
	// the subtask.
	MaxParallelism int
	Range          keygroup.Range
	// Pool is where the memory comes from. It must outlive the store.
	Pool *memory.Pool
	// Clock is the wall clock in milliseconds, for time to live. It is read once
	// per batch and by Tick, and only if a field has a time to live; then it
	// must be set.
	Clock func() int64
	// Tier, if it is not nil, makes the store a cache of what lies there, within
	// the memory of Share. The store closes it. Filled says that rows of an
	// earlier store with the same Layout lie there; else it must be empty.
	Tier   Tier
	Share  *memory.Share
	Filled bool
	// Stored are files of the tier as a snapshot holds them that later ones may
	// be able to refer to.
	Stored []snapshot.NativeFile
	// Settle makes every snapshot settle into the tier, also where all state fits
	// into memory: so it can be stored as the files of the tier. With Incremental
	// that begins when the state outgrows its memory.
	Settle bool
	// Incremental lets snapshots be encoded as what has changed since an earlier
	// one (Frozen.EncodeChanges), as long as a store with a tier fits into its
	// memory. It takes 8 bytes per key, which a store with a tier has anyway.
	Incremental bool
}

// Store is the keyed state of one operator in one subtask. One goroutine, the
// stage's, owns it.
//
// Methods that need memory panic with an error that wraps memory.ErrBudget
// when the pool's budget is used up, and with one that wraps ErrTier if the
// tier fails; the task fails with it.
type Store[K comparable] struct {
	core
	encoding keygroup.Encoding[K]
	hasher   keygroup.Hasher[K]
	// text says that K is a string, inMemory that its memory is its encoding.
	text, inMemory bool

	// one is a batch of one key.
	one     [1]K
	wide    []uint64
	scratch []byte
	ends    []int
	views   []string
}

// core is the part of a Store that does not depend on the key's type.
type core struct {
	cur   *entry.Cursor
	arena *memory.Arena
	pool  *memory.Pool
	clock func() int64

	operator string
	max      int
	groups   keygroup.Range
	tables   []table
	// nowhere is the memory of all empty tables, a free position.
	nowhere []uint64
	// first is the number of positions of a new table.
	first uint32
	// size is that of an entry in bytes.
	size     uintptr
	form     form
	keyBytes int
	seed     maphash.Seed

	fields []*entry.Field
	states []snapshot.State
	// converters are those of restored states, by name.
	converters map[string]*converter
	// touched are the fields with a Touch, aging those that are swept for what has
	// expired, perRecord positions for each record.
	touched, aging []*entry.Field
	perRecord      int
	now            func() int64
	// pace is how many records pass between two readings of the clock.
	pace int

	// keys is the batch, ptrs the entries of its keys; open while it is bound.
	keys encoded
	ptrs []unsafe.Pointer
	// batch are the key groups of its keys.
	batch []uint16
	open  bool
	// sink keeps the touch loops from being optimised away.
	sink uint64
	// empties are positions whose entry may have to go.
	empties []place
	sweep   place

	timed   bool
	domains [2]domain

	below     below
	increment increment
	chain     *Chain
	usage     usage
	oneWord   [1]uint64
	oneText   [1]string

	snapshots
}

// place is a position in a table; group counts from the range's first.
type place struct {
	group int
	pos   uint32
}

// New makes an empty store. It plans the fields. If it fails, or panics, the tier
// is still the caller's.
func New[K comparable](o Options) (_ *Store[K], err error) {
	s, made := &Store[K]{}, false
	defer func() {
		if !made {
			s.abandon()
		}
	}()
	if err := s.init(o); err != nil {
		return nil, fmt.Errorf("state of operator %q: %w", o.Operator, err)
	}
	made = true
	return s, nil
}

// abandon gives the memory back that a store has taken over so far.
func (s *Store[K]) abandon() {
	if s.arena == nil {
		return
	}
	s.below.tier = nil
	s.Close()
}

func (s *Store[K]) init(o Options) (err error) {
	if s.encoding, err = keygroup.NewEncoding[K](); err != nil {
		return err
	}
	if s.hasher, err = keygroup.NewHasher[K](); err != nil {
		return err
	}
	if o.Cursor == nil || o.Pool == nil || o.Range.Len() == 0 || o.Range.First < 0 || o.Range.Last >= o.MaxParallelism {
		return fmt.Errorf("cursor, pool and a range of key groups below %d are needed; the range is %v", o.MaxParallelism, o.Range)
	}
	f := s.encoding.Format()
	form, slot := formOf(f)
	size, err := entry.Plan(slot, o.Fields)
	if err != nil {
		return err
	}
	if o.Tier != nil && o.Share == nil {
		return errors.New("a tier needs a share of memory")
	}
	if o.Tier != nil || o.Incremental {
		size += markSize
	}
	s.text = reflect.TypeFor[K]().Kind() == reflect.String
	s.inMemory = s.encoding.InMemory()
	s.core = core{
		cur: o.Cursor, arena: memory.NewArena(o.Pool), pool: o.Pool, clock: o.Clock,
		operator: o.Operator, max: o.MaxParallelism, groups: o.Range,
		tables: make([]table, o.Range.Len()), first: firstPositions(size), size: size,
		form: form, keyBytes: f.Size, seed: maphash.MakeSeed(), fields: o.Fields,
		nowhere: make([]uint64, size/8),
	}
	for i := range s.tables {
		s.tables[i] = s.emptyTable()
	}
	if o.Tier != nil {
		s.below.init(&o)
	}
	s.snapshots.init(size)
	if o.Incremental && !o.Filled {
		s.startIncrements()
	}
	o.Cursor.Arena = s.arena
	if err := s.adopt(o.Fields); err != nil {
		return err
	}
	if o.Tier == nil {
		s.openUsage()
		s.arena.OnExhausted(s.exhausted)
	}
	if !o.Filled {
		return nil
	}
	return s.takeOver()
}

// Layout describes the states of fields, in the order they have in rows.
func Layout(fields []*entry.Field) []snapshot.State {
	states := make([]snapshot.State, len(fields))
	for i, f := range fields {
		states[i] = snapshot.State{
			Name: f.Name, Kind: string(f.Kind), Format: f.Format, Key: f.Key, Detail: f.Detail, TTL: f.TTL, ItemSize: f.ItemSize,
		}
	}
	return states
}

// adopt sorts the fields by what has to be done for them.
func (c *core) adopt(fields []*entry.Field) error {
	c.states = Layout(fields)
	for _, f := range fields {
		if f.Touch != nil {
			c.touched = append(c.touched, f)
		}
		if f.TTL && f.Expire != nil && f.Sweep > 0 {
			c.aging = append(c.aging, f)
			c.perRecord = max(c.perRecord, f.Sweep)
		}
		if f.TTL && c.clock == nil {
			return fmt.Errorf("state %q has a time to live, but there is no clock", f.Name)
		}
		if d, ok := domainOf(f.Kind); ok {
			if c.domains[d].field != nil {
				return fmt.Errorf("two fields of kind %s", f.Kind)
			}
			c.domains[d].init(f, c.pool)
			c.timed, c.cur.Timers = true, registrar{c}
		}
		if f.TTL {
			c.now = c.clock
		}
	}
	return nil
}

// Seek makes the entry of the batch's key i the current one.
func (s *Store[K]) Seek(i int) { s.cur.P = s.ptrs[i] }

// Key returns the key of the current entry, which there must be; the caller may
// keep it.
func (s *Store[K]) Key() K {
	k, err := s.encoding.Decode(s.encodedKey(s.cur.P, s.arena.View()))
	if err != nil {
		panic(fmt.Errorf("state of operator %q: %w", s.operator, err)) // the entry was made from a K
	}
	return k
}

// Lookup makes the entry of key the current one, if there is one. hash is the
// key's. It ends the current batch.
func (s *Store[K]) Lookup(key K, hash uint32) bool {
	if s.below.tier != nil {
		return s.lookupOne(key, hash)
	}
	s.Release()
	s.one[0] = key
	s.encode(s.one[:])
	p := s.find(s.table(hash), hash, 0)
	if p == nil {
		return false
	}
	s.readTime()
	s.bindOne(p)
	return true
}

// Close gives all memory back, except what unreleased snapshots still read:
// that follows with their release. The store must not be used afterwards.
func (s *Store[K]) Close() {
	s.cur.P, s.cur.Arena, s.cur.Timers = nil, nil, nil
	s.closeUsage()
	if s.below.share != nil {
		s.below.share.Close()
	}
	s.core.unref()
}
