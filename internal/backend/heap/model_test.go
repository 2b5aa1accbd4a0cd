package heap

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/weirstream/weir/internal/entry"
	"github.com/weirstream/weir/internal/keygroup"
	"github.com/weirstream/weir/internal/memory"
	"github.com/weirstream/weir/internal/snapshot"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// content is what a key holds: absent parts are nil.
type content struct {
	n *int64
	s *string
}

func (c content) String() string {
	out := ""
	if c.n != nil {
		out += fmt.Sprint("n=", *c.n)
	}
	if c.s != nil {
		out += fmt.Sprintf(" s=%.20q/%d", *c.s, len(*c.s))
	}
	return out
}

// rig is a store with a number and a text, and a plain model of it.
type rig[K comparable] struct {
	t      *testing.T
	pool   *memory.Pool
	cur    *entry.Cursor
	n      number
	s      text
	store  *Store[K]
	model  map[K]content
	hash   func(K) uint32
	max    int
	groups keygroup.Range
}

func newRig[K comparable](t *testing.T, max int, groups keygroup.Range) *rig[K] {
	t.Helper()
	r := &rig[K]{t: t, pool: memory.NewPool(0), cur: &entry.Cursor{}, n: newNumber("n"), s: newText("s", 0),
		model: map[K]content{}, max: max, groups: groups}
	var err error
	r.store, err = New[K](Options{Operator: "op", Fields: []*entry.Field{r.n.Field, r.s.Field}, Cursor: r.cur,
		MaxParallelism: max, Range: groups, Pool: r.pool})
	if err != nil {
		t.Fatal(err)
	}
	h, err := keygroup.NewHasher[K]()
	if err != nil {
		t.Fatal(err)
	}
	r.hash = h.Hash
	t.Cleanup(func() {
		r.store.Close()
		if n := r.pool.InUse(); n != 0 {
			t.Errorf("%d bytes in use after Close", n)
		}
		r.pool.Close()
	})
	return r
}

// here returns the content of the current entry.
func (r *rig[K]) here() content {
	var c content
	if v, ok := r.n.get(r.cur); ok {
		c.n = &v
	}
	if v, ok := r.s.get(r.cur); ok {
		c.s = &v
	}
	return c
}

func same(a, b content) bool {
	eq := func(x, y any) bool { return fmt.Sprint(x) == fmt.Sprint(y) }
	return (a.n == nil) == (b.n == nil) && (a.n == nil || eq(*a.n, *b.n)) &&
		(a.s == nil) == (b.s == nil) && (a.s == nil || eq(*a.s, *b.s))
}

// batch performs random operations on the keys.
func (r *rig[K]) batch(rng *rand.Rand, keys []K) {
	r.t.Helper()
	hashes := make([]uint32, len(keys))
	for i, k := range keys {
		hashes[i] = r.hash(k)
	}
	r.store.Bind(keys, hashes)
	for i, k := range keys {
		r.store.Seek(i)
		m := r.model[k]
		if got := r.here(); !same(got, m) {
			r.t.Fatalf("key %v holds %v, want %v", k, got, m)
		}
		if got := r.store.Key(); got != k {
			r.t.Fatalf("Key is %v, want %v", got, k)
		}
		switch rng.IntN(8) {
		case 0, 1, 2:
			v := rng.Int64()
			r.n.set(r.cur, v)
			m.n = &v
		case 3, 4:
			v := strings.Repeat(string(rune('a'+rng.IntN(26))), rng.IntN(60))
			r.s.set(r.cur, v)
			m.s = &v
		case 5:
			if m.n != nil {
				r.n.Clear(r.cur.P, r.cur.Arena)
				m.n = nil
			}
		case 6:
			if m.n != nil {
				r.n.Clear(r.cur.P, r.cur.Arena)
				m.n = nil
			}
			if m.s != nil {
				r.s.Clear(r.cur.P, r.cur.Arena)
				m.s = nil
			}
		}
		if m == (content{}) {
			delete(r.model, k)
		} else {
			r.model[k] = m
		}
	}
	r.store.Release()
	if r.cur.P != nil {
		r.t.Fatal("a key is current after Release")
	}
	if got := r.store.Len(); got != len(r.model) {
		r.t.Fatalf("%d entries for %d keys", got, len(r.model))
	}
}

// section is what a GroupWriter got.
type section struct {
	group int
	st    snapshot.State
	count int
	data  []byte
}

type collector struct {
	group    int
	sections []section
}

func (c *collector) Section(st snapshot.State, count int, data []byte) error {
	c.sections = append(c.sections, section{c.group, st, count, bytes.Clone(data)})
	return nil
}

// discard counts what it gets.
type discard struct{ bytes, count int }

func (d *discard) Section(_ snapshot.State, count int, data []byte) error {
	d.bytes += len(data)
	d.count += count
	return nil
}

// encodeAll encodes every group of f.
func encodeAll(f *Frozen) ([]section, error) {
	c := &collector{}
	for g := f.Groups().First; g <= f.Groups().Last; g++ {
		c.group = g
		if err := f.EncodeGroup(g, c); err != nil {
			return nil, err
		}
	}
	return c.sections, nil
}

// decode turns sections back into a model, and checks the order of entries.
func (r *rig[K]) decode(sections []section) (map[K]content, error) {
	enc, _ := keygroup.NewEncoding[K]()
	model := map[K]content{}
	for _, sec := range sections {
		var lastHash uint32
		var lastKey []byte
		data := sec.data
		for i := range sec.count {
			kb, rest, err := snapshot.Item(data, enc.Format().Size)
			if err != nil {
				return nil, err
			}
			vb, rest, err := snapshot.Item(rest, sec.st.Format.Size)
			if err != nil {
				return nil, err
			}
			data = rest
			k, err := enc.Decode(kb)
			if err != nil {
				return nil, err
			}
			h := r.hash(k)
			if keygroup.Group(h, r.max) != sec.group {
				return nil, fmt.Errorf("key %v is in group %d", k, sec.group)
			}
			if i > 0 && cmp.Or(cmp.Compare(lastHash, h), bytes.Compare(lastKey, kb)) >= 0 {
				return nil, fmt.Errorf("entry %d of group %d, state %s is out of order", i, sec.group, sec.st.Name)
			}
			lastHash, lastKey = h, kb
			m := model[k]
			if sec.st.Name == "n" {
				v := int64(uint64(vb[0]) | uint64(vb[1])<<8 | uint64(vb[2])<<16 | uint64(vb[3])<<24 |
					uint64(vb[4])<<32 | uint64(vb[5])<<40 | uint64(vb[6])<<48 | uint64(vb[7])<<56)
				m.n = &v
			} else {
				v := string(vb[8:])
				m.s = &v
			}
			model[k] = m
		}
		if len(data) > 0 {
			return nil, fmt.Errorf("%d bytes left", len(data))
		}
	}
	return model, nil
}

func compare[K comparable](got, want map[K]content) error {
	if len(got) != len(want) {
		return fmt.Errorf("%d keys, want %d", len(got), len(want))
	}
	for k, w := range want {
		if !same(got[k], w) {
			return fmt.Errorf("key %v holds %v, want %v", k, got[k], w)
		}
	}
	return nil
}

// run drives the rig through steps random batches, with snapshots taken in
// between and encoded meanwhile, and returns the sections of the last one.
func (r *rig[K]) run(seed uint64, steps int, key func(*rand.Rand) K) []section {
	r.t.Helper()
	rng := rand.New(rand.NewPCG(seed, 11))
	type result struct {
		sections []section
		err      error
	}
	var waiting []chan result
	take := func() chan result {
		f, want, done := r.store.Freeze(), maps.Clone(r.model), make(chan result, 1)
		ended := make(chan struct{})
		go func() {
			sections, err := encodeAll(f)
			if err == nil {
				var got map[K]content
				if got, err = r.decode(sections); err == nil {
					err = compare(got, want)
				}
			}
			f.Release()
			done <- result{sections, err}
			close(ended)
		}()
		r.t.Cleanup(func() { <-ended })
		return done
	}
	finish := func(done chan result) []section {
		res := <-done
		if res.err != nil {
			r.t.Fatalf("seed %d: snapshot: %v", seed, res.err)
		}
		return res.sections
	}
	for range steps {
		keys := make([]K, 1+rng.IntN(200))
		for i := range keys {
			keys[i] = key(rng)
		}
		r.batch(rng, keys)
		switch rng.IntN(8) {
		case 0:
			waiting = append(waiting, take())
		case 1:
			r.store.Freeze().Release() // abandoned
		}
		if len(waiting) > 3 {
			i := rng.IntN(len(waiting))
			finish(waiting[i])
			waiting = slices.Delete(waiting, i, i+1)
		}
	}
	for _, done := range waiting {
		finish(done)
	}
	return finish(take())
}

// restored makes rigs at another parallelism from the sections and compares
// them to the model.
func (r *rig[K]) restored(sections []section, parallelism int) {
	r.t.Helper()
	got := map[K]content{}
	for sub := range parallelism {
		o := newRig[K](r.t, r.max, keygroup.RangeOf(sub, parallelism, r.max))
		o.hash = r.hash
		for _, sec := range sections {
			if o.groups.Contains(sec.group) {
				if err := o.store.RestoreSection(sec.group, sec.st, sec.count, sec.data); err != nil {
					r.t.Fatal(err)
				}
			}
		}
		again, err := encodeAll(freezeAndRelease(r.t, o.store))
		if err != nil {
			r.t.Fatal(err)
		}
		m, err := o.decode(again)
		if err != nil {
			r.t.Fatal(err)
		}
		maps.Copy(got, m)
	}
	if err := compare(got, r.model); err != nil {
		r.t.Fatalf("restored at %d: %v", parallelism, err)
	}
}

func freezeAndRelease[K comparable](t *testing.T, s *Store[K]) *Frozen {
	f := s.Freeze()
	t.Cleanup(f.Release)
	return f
}

type pairKey struct {
	Name string
	N    int32
}

func modelCase[K comparable](key func(*rand.Rand) K) func(*testing.T) {
	return func(t *testing.T) {
		for seed := range uint64(3) {
			r := newRig[K](t, 6, keygroup.Range{First: 0, Last: 5})
			sections := r.run(seed, 150, key)
			r.restored(sections, 1)
			r.restored(sections, 4)
		}
	}
}

func TestModel(t *testing.T) {
	t.Run("int64", modelCase(func(r *rand.Rand) int64 { return r.Int64N(3000) - 1500 }))
	t.Run("int16", modelCase(func(r *rand.Rand) int16 { return int16(r.IntN(500)) }))
	t.Run("float64", modelCase(func(r *rand.Rand) float64 { return float64(r.IntN(500)) / 4 }))
	t.Run("bytes16", modelCase(func(r *rand.Rand) [16]byte { return [16]byte{byte(r.IntN(40)), 15: byte(r.IntN(40))} }))
	t.Run("string", modelCase(func(r *rand.Rand) string { return strings.Repeat("k", r.IntN(120)) + fmt.Sprint(r.IntN(10)) }))
	t.Run("struct", modelCase(func(r *rand.Rand) pairKey { return pairKey{strings.Repeat("x", r.IntN(50)), r.Int32N(9)} }))
	t.Run("fixed struct", modelCase(func(r *rand.Rand) struct {
		A int64
		B uint16
	} {
		return struct {
			A int64
			B uint16
		}{r.Int64N(30), uint16(r.IntN(9))}
	}))
}

// Keys that collide, wholly or in the bits that give the home, are found,
// removed and stored like others, and probing stays short.
func TestModelColliding(t *testing.T) {
	for name, hash := range map[string]func(int64) uint32{
		"equal":   func(int64) uint32 { return 0xDEADBEEF },
		"similar": func(k int64) uint32 { return 0xFFFFFF00 | uint32(k)&3 },
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(3) {
				r := newRig[int64](t, 1, keygroup.Range{})
				r.hash = hash
				r.run(seed, 100, func(rng *rand.Rand) int64 { return rng.Int64N(1500) })
				st := r.store.Stats()
				if st.Displaced == 0 {
					t.Fatal("no entry is displaced: the case tests nothing")
				}
				if st.MaxProbe > 2*maxProbe {
					t.Fatalf("a key lies %d positions from its home", st.MaxProbe)
				}
			}
		})
	}
}
