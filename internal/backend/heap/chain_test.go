package heap

import (
	"context"
	"errors"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weirstream/weir/codec"
	"github.com/weirstream/weir/internal/entry"
	"github.com/weirstream/weir/internal/keygroup"
	"github.com/weirstream/weir/internal/memory"
	"github.com/weirstream/weir/internal/snapshot"
	"github.com/weirstream/weir/internal/storage/mem"
)

// chainRig is a store of numbers whose checkpoints are files, as a task makes
// them.
type chainRig struct {
	t       *testing.T
	pool    *memory.Pool
	cur     *entry.Cursor
	n       number
	store   *Store[int64]
	hasher  keygroup.Hasher[int64]
	blobs   *mem.Blobs
	uploads *snapshot.Uploads
	id      int64
	model   map[int64]int64
}

const chainGroups = 16

func newChainRig(t *testing.T, restored ...snapshot.File) *chainRig {
	t.Helper()
	r := &chainRig{t: t, pool: memory.NewPool(0), cur: &entry.Cursor{}, n: newNumber("n"), blobs: mem.New(), model: map[int64]int64{},
		uploads: snapshot.NewUploads(snapshot.Writer{Lineage: "l", Attempt: 1, Stage: "s"}, restored)}
	var err error
	r.store, err = New[int64](Options{Operator: "op", Fields: []*entry.Field{r.n.Field}, Cursor: r.cur,
		MaxParallelism: chainGroups, Range: whole(chainGroups), Pool: r.pool, Incremental: true})
	if err != nil {
		t.Fatal(err)
	}
	if r.hasher, err = keygroup.NewHasher[int64](); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		r.store.Close()
		if n := r.pool.InUse(); n != 0 {
			t.Errorf("%d bytes in use after Close", n)
		}
		r.pool.Close()
	})
	return r
}

// set gives the keys values, or none.
func (r *chainRig) set(rng *rand.Rand, keys ...int64) {
	hashes := make([]uint32, len(keys))
	r.hasher.HashAll(keys, hashes)
	r.store.Bind(keys, hashes)
	for i, k := range keys {
		r.store.Seek(i)
		if rng.IntN(10) == 0 {
			r.n.Clear(r.cur.P, r.cur.Arena)
			delete(r.model, k)
			continue
		}
		r.model[k] = rng.Int64()
		r.n.set(r.cur, r.model[k])
	}
	r.store.Release()
}

// numberPart is the frozen state of a store with its formats.
type numberPart struct {
	*Frozen
	key    codec.Format
	states []snapshot.State
}

func (p numberPart) KeyFormat() codec.Format  { return p.key }
func (p numberPart) States() []snapshot.State { return p.states }

// stored is a checkpoint.
type stored struct {
	sub   snapshot.Subtask
	files []snapshot.File
	bytes int64
	model map[int64]int64
}

// checkpoint takes a checkpoint, which completes or not.
func (r *chainRig) checkpoint(completes bool) stored {
	r.t.Helper()
	s := stored{model: maps.Clone(r.model)}
	f := r.store.Freeze()
	defer f.Release()
	r.id++
	up := r.uploads.Begin(r.id, r.blobs, "job/chk", true)
	if err := r.store.Chain().Store(context.Background(), numberPart{f, r.store.KeyFormat(), r.store.States()}, up, &s.sub); err != nil {
		r.t.Fatal(err)
	}
	up.Done()
	if completes {
		r.uploads.Complete(r.id)
	}
	for _, name := range s.sub.DataFiles() {
		i := slices.IndexFunc(up.Files(), func(f snapshot.File) bool { return f.Name == name })
		s.files = append(s.files, up.Files()[i])
	}
	s.bytes = up.Bytes()
	return s
}

// restore fills the store from a checkpoint in the blobs of another rig.
func (r *chainRig) restore(from *chainRig, s stored) {
	r.t.Helper()
	c, err := snapshot.OpenChain(context.Background(), from.blobs, "job/chk", s.files, whole(chainGroups))
	if err != nil {
		r.t.Fatal(err)
	}
	for _, g := range c.Groups() {
		p, err := c.ReadOperator(context.Background(), g, "op")
		for err == nil {
			var h snapshot.SectionHeader
			var data []byte
			if h, data, err = p.Next(); err == nil {
				err = r.store.RestoreSection(g, h.State, h.Count, data)
			}
		}
		if !errors.Is(err, io.EOF) {
			r.t.Fatal(err)
		}
	}
	r.blobs, r.id, r.model = from.blobs, from.id, maps.Clone(s.model)
}

// holds compares a checkpoint with what the model held.
func (r *chainRig) holds(s stored) {
	r.t.Helper()
	o := newChainRig(r.t)
	o.restore(r, s)
	if o.store.Len() != len(s.model) {
		r.t.Fatalf("%d keys are restored, want %d", o.store.Len(), len(s.model))
	}
	for k, v := range s.model {
		if !o.store.Lookup(k, o.hasher.Hash(k)) {
			r.t.Fatalf("key %d is not restored", k)
		}
		if got, _ := o.n.get(o.cur); got != v {
			r.t.Fatalf("key %d has %d, want %d", k, got, v)
		}
	}
	o.store.Release()
}

// The base is written anew in parts, so that no checkpoint is much larger than
// others, the files stay within bounds, and each checkpoint is complete.
func TestChainWritesItsBaseAnew(t *testing.T) {
	r, rng := newChainRig(t), rand.New(rand.NewPCG(1, 2))
	const keys = 200_000
	all := make([]int64, keys)
	for i := range all {
		all[i] = int64(i)
	}
	for part := range slices.Chunk(all, 1000) {
		r.set(rng, part...)
	}
	base := r.checkpoint(true)
	if len(base.files) != 1 || base.bytes < chainLeast {
		t.Fatalf("the first checkpoint has files %v", base.files)
	}
	bases := 0
	last := base
	for i := range 60 {
		changed := make([]int64, 8000)
		for j := range changed {
			changed[j] = rng.Int64N(keys)
		}
		r.set(rng, changed...)
		s := r.checkpoint(rng.IntN(6) > 0)
		var total int64
		for _, f := range s.files {
			total += f.Size
		}
		if s.bytes == 0 || s.bytes > base.bytes/2 {
			t.Errorf("checkpoint %d writes %d bytes, the base had %d", i, s.bytes, base.bytes)
		}
		if total > 4*base.bytes || len(s.files) > chainFiles+chainParts {
			t.Errorf("checkpoint %d has %d bytes in %d files, the base had %d", i, total, len(s.files), base.bytes)
		}
		if s.sub.File != last.sub.File {
			bases++
		}
		if last = s; i%7 == 0 || i == 59 {
			r.holds(s)
		}
	}
	if bases < 2 {
		t.Errorf("the base was replaced %d times", bases)
	}
}

// A small base is replaced at once, when the changes have grown to a part of it.
func TestChainOfLittleState(t *testing.T) {
	r, rng := newChainRig(t), rand.New(rand.NewPCG(3, 4))
	keys := make([]int64, 2000)
	for i := range keys {
		keys[i] = int64(i)
	}
	r.set(rng, keys...)
	var files []int
	for range 12 {
		r.set(rng, keys[:300]...)
		s := r.checkpoint(true)
		files = append(files, len(s.files))
		r.holds(s)
	}
	if !slices.Contains(files[1:], 1) || slices.Max(files) < 3 {
		t.Errorf("the checkpoints have %v files", files)
	}
}

// Nothing is written where nothing has changed, and what a failed checkpoint
// held is in the next one.
func TestChainWithoutChanges(t *testing.T) {
	r, rng := newChainRig(t), rand.New(rand.NewPCG(5, 6))
	keys := make([]int64, 3000)
	for i := range keys {
		keys[i] = int64(i)
	}
	r.set(rng, keys...)
	base := r.checkpoint(true)
	for range 3 {
		if s := r.checkpoint(true); s.bytes != 0 || !slices.Equal(s.files, base.files) {
			t.Errorf("%d bytes without a change, files %v", s.bytes, s.files)
		}
	}
	r.set(rng, 1, 2, 3)
	failed := r.checkpoint(false)
	again := r.checkpoint(false) // nothing has changed since the one that failed
	if len(again.files) != 2 || again.files[0] != base.files[0] || again.files[1].Name == failed.files[1].Name {
		t.Errorf("after a failed checkpoint with files %v come %v", failed.files, again.files)
	}
	r.holds(again)
}

// A chain goes on from a restored one if that had the same states and its files
// may be referred to.
func TestChainGoesOnFromARestoredOne(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	for name, c := range map[string]struct {
		usable bool
		states func([]snapshot.State) []snapshot.State
		files  int
	}{
		"the same":     {true, func(s []snapshot.State) []snapshot.State { return s }, 3},
		"not its own":  {false, func(s []snapshot.State) []snapshot.State { return s }, 1},
		"other states": {true, func(s []snapshot.State) []snapshot.State { return append(slices.Clone(s), snapshot.State{Name: "m"}) }, 1},
		"other forms": {true, func(s []snapshot.State) []snapshot.State {
			s = slices.Clone(s)
			s[0].TTL = true
			return s
		}, 1},
	} {
		r := newChainRig(t)
		keys := make([]int64, 3000)
		for i := range keys {
			keys[i] = int64(i)
		}
		r.set(rng, keys...)
		r.checkpoint(true)
		r.set(rng, keys[:50]...)
		s := r.checkpoint(true)
		var files []snapshot.File
		if c.usable {
			files = s.files
		}
		o := newChainRig(t, files...)
		o.uploads = snapshot.NewUploads(snapshot.Writer{Lineage: "l", Attempt: 2, Stage: "s"}, files)
		o.restore(r, s)
		o.store.Chain().GoOnFrom(&s.sub, c.states(o.store.States()))
		if err := o.store.Restored(); err != nil {
			t.Fatal(err)
		}
		o.set(rng, 20, 40, 60)
		next := o.checkpoint(true)
		if len(next.files) != c.files {
			t.Errorf("%s: the files are %v, before %v", name, next.files, s.files)
		}
		o.holds(next)
	}
}

// A change is not lost where the table grows between it and the snapshot.
func TestChainWhileTablesGrow(t *testing.T) {
	r, rng := newChainRig(t), rand.New(rand.NewPCG(11, 12))
	follows := 0
	for i := range int64(250) {
		r.set(rng, rng.Int64N(i+1), rng.Int64N(i+1))
		r.set(rng, 1000+5*i, 1001+5*i, 1002+5*i, 1003+5*i, 1004+5*i)
		s := r.checkpoint(true)
		if len(s.files) > 1 {
			follows++
		}
		r.holds(s)
	}
	if follows < 100 {
		t.Errorf("%d checkpoints go on from another", follows)
	}
}

// Timers that are dropped together are changes.
func TestDroppedTimersAreChanges(t *testing.T) {
	pool, cur, timers := memory.NewPool(0), &entry.Cursor{}, NewTimerField(entry.ProcessingTime)
	defer pool.Close()
	n := newNumber("n")
	s, err := New[int64](Options{Operator: "op", Fields: []*entry.Field{n.Field, timers}, Cursor: cur, MaxParallelism: 1, Range: whole(1), Pool: pool, Incremental: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	h, err := keygroup.NewHasher[int64]()
	if err != nil {
		t.Fatal(err)
	}
	for k := range int64(5) {
		s.Bind([]int64{k}, []uint32{h.Hash(k)})
		s.Seek(0)
		n.set(cur, k)
		if k < 3 {
			cur.Timers.Set(entry.ProcessingTime, 10)
		}
		s.Release()
	}
	before := s.Freeze()
	before.Release()
	if dropped := s.DropProcessingTimers(); dropped != 3 {
		t.Fatalf("%d timers are dropped", dropped)
	}
	f := s.Freeze()
	defer f.Release()
	if f.Unchanged(before.Number()) {
		t.Error("nothing has changed, it says")
	}
	c := &collector{}
	if err := f.EncodeChanges(before.Number(), 0, c); err != nil {
		t.Fatal(err)
	}
	if len(c.sections) != 2 || c.sections[0].st.Kind != snapshot.ChangedKeys || c.sections[0].count != 3 || c.sections[1].st.Name != "n" || c.sections[1].count != 3 {
		t.Errorf("the changes are %+v, want 3 keys with their numbers and no timers", c.sections)
	}
}

// More removed keys than memory is spent on make the next checkpoint a whole one.
func TestChainAfterTooManyRemovals(t *testing.T) {
	r, rng := newChainRig(t), rand.New(rand.NewPCG(9, 10))
	r.set(rng, 1, 2, 3)
	r.checkpoint(true)
	r.set(rng, 4)
	if s := r.checkpoint(true); len(s.files) != 2 {
		t.Fatalf("the second checkpoint has files %v", s.files)
	}
	r.store.increment.limit = 0
	for r.model[4] != 0 {
		r.set(rng, 4)
	}
	s := r.checkpoint(true)
	if len(s.files) != 1 {
		t.Errorf("with what was removed unknown the files are %v", s.files)
	}
	r.holds(s)
	r.set(rng, 5)
	if s := r.checkpoint(true); len(s.files) != 2 {
		t.Errorf("after a whole checkpoint the files are %v", s.files)
	}
}

// Batches and removals of a store with changes do not allocate.
func TestChangesDoNotAllocate(t *testing.T) {
	r := newChainRig(t)
	keys, hashes := make([]int64, 500), make([]uint32, 500)
	for i := range keys {
		keys[i] = int64(i)
	}
	r.hasher.HashAll(keys, hashes)
	batch := func(fn func()) {
		r.store.Bind(keys, hashes)
		for i := range keys {
			r.store.Seek(i)
			fn()
		}
		r.store.Release()
	}
	add := func() { r.n.add(r.cur) }
	work := func() {
		batch(add)
		batch(func() { r.n.Clear(r.cur.P, r.cur.Arena) })
	}
	work()
	batch(add)
	f := r.store.Freeze()
	f.Release()
	if n := testing.AllocsPerRun(50, func() { batch(add) }); n != 0 {
		t.Errorf("%v allocations per batch", n)
	}
	batch(func() { r.n.Clear(r.cur.P, r.cur.Arena) }) // these are listed
	listed := r.store.increment.bytes
	if n := testing.AllocsPerRun(50, work); n != 0 {
		t.Errorf("%v allocations per batch of new keys that are removed", n)
	}
	if got := r.store.increment.bytes; listed != 500*(4+8) || got != listed {
		t.Errorf("%d bytes of removed keys, then %d: keys that no snapshot has need not be listed", listed, got)
	}
}
