package heap

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"strings"
	"testing"

	"github.com/weirstream/weir/codec"
	"github.com/weirstream/weir/internal/entry"
	"github.com/weirstream/weir/internal/keygroup"
	"github.com/weirstream/weir/internal/memory"
	"github.com/weirstream/weir/internal/snapshot"
)

func TestS09NaNAndSignedZeroKeys(t *testing.T) {
	pool := memory.NewPool(0)
	defer pool.Close()
	cur, n := &entry.Cursor{}, newNumber("count")
	s, err := New[float64](Options{Operator: "op", Fields: []*entry.Field{n.Field}, Cursor: cur,
		MaxParallelism: 128, Range: whole(128), Pool: pool})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	h, _ := keygroup.NewHasher[float64]()
	keys := []float64{math.Float64frombits(0x7ff8000000000001), math.Float64frombits(0x7ff8000000000002),
		0, math.Copysign(0, -1), 1}
	hashes := make([]uint32, len(keys))
	h.HashAll(keys, hashes)
	s.Bind(keys, hashes)
	var counts []int64
	for i := range keys {
		s.Seek(i)
		n.add(cur)
		v, _ := n.get(cur)
		counts = append(counts, v)
	}
	s.Release()
	if fmt.Sprint(counts) != "[1 2 1 2 1]" || s.Len() != 3 {
		t.Fatalf("counts %v, %d entries", counts, s.Len())
	}
	for _, k := range keys {
		if !s.Lookup(k, h.Hash(k)) {
			t.Fatalf("%v is not found", k)
		}
		if got := s.Key(); got != k && !(math.IsNaN(got) && math.IsNaN(k)) {
			t.Fatalf("key %v reads as %v", k, got)
		}
	}
	if s.Lookup(2, h.Hash(2)) || cur.P != nil {
		t.Fatal("an absent key is found")
	}
}

func TestUnsupportedKeys(t *testing.T) {
	o := Options{Operator: "op", Cursor: &entry.Cursor{}, MaxParallelism: 1, Range: whole(1), Pool: memory.NewPool(0)}
	if _, err := New[*int](o); err == nil || !strings.Contains(err.Error(), `operator "op"`) {
		t.Errorf("pointer as key: %v", err)
	}
	if _, err := New[any](o); err == nil {
		t.Error("interface as key is accepted")
	}
	if _, err := KeyFormat[chan int](); err == nil {
		t.Error("channel has a key format")
	}
	f, err := KeyFormat[pairKey]()
	if want := (codec.Format{ID: "struct{string;int32}", Version: 1, Schema: "struct{Name string; N int32}"}); err != nil || f != want {
		t.Errorf("format %v, %v; want %v", f, err, want)
	}
}

func TestBadOptions(t *testing.T) {
	ttl := newText("s", 5)
	for name, o := range map[string]Options{
		"no range":     {Cursor: &entry.Cursor{}, MaxParallelism: 4, Range: keygroup.Range{First: 1, Last: 0}, Pool: memory.NewPool(0)},
		"range beyond": {Cursor: &entry.Cursor{}, MaxParallelism: 4, Range: whole(5), Pool: memory.NewPool(0)},
		"no cursor":    {MaxParallelism: 4, Range: whole(4), Pool: memory.NewPool(0)},
		"no clock": {Cursor: &entry.Cursor{}, MaxParallelism: 4, Range: whole(4), Pool: memory.NewPool(0),
			Fields: []*entry.Field{ttl.Field}},
		"two timer fields": {Cursor: &entry.Cursor{}, MaxParallelism: 4, Range: whole(4), Pool: memory.NewPool(0),
			Fields: []*entry.Field{NewTimerField(entry.EventTime), NewTimerField(entry.EventTime)}},
	} {
		if _, err := New[int](o); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestFewKeysCostLittle(t *testing.T) {
	c := newClockwork(t, 128, whole(128))
	for i := range 10 {
		c.with(fmt.Sprint("key ", i, strings.Repeat("x", 50)), func(tm entry.Timers) {
			c.n.set(c.cur, 1)
			tm.Set(entry.EventTime, 5)
			tm.Set(entry.EventTime, 500)
			tm.Set(entry.ProcessingTime, 5)
		})
	}
	if got := c.store.pool.InUse(); got > 256<<10 {
		t.Fatalf("10 keys take %d bytes", got)
	}
}

func TestBudgetPanics(t *testing.T) {
	pool := memory.NewPool(64 << 10)
	defer pool.Close()
	cur, n := &entry.Cursor{}, newNumber("n")
	s, err := New[int64](Options{Operator: "op", Fields: []*entry.Field{n.Field}, Cursor: cur, MaxParallelism: 1, Range: whole(1), Pool: pool})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	h, _ := keygroup.NewHasher[int64]()
	defer func() {
		if err, ok := recover().(error); !ok || !errors.Is(err, memory.ErrBudget) {
			t.Fatalf("panic %v", err)
		}
	}()
	for k := range int64(10_000) {
		s.Bind([]int64{k}, []uint32{h.Hash(k)})
		s.Seek(0)
		n.set(cur, k)
	}
	t.Fatal("the budget is not kept")
}

// A snapshot outlives its store: the memory goes back with the last of them.
func TestCloseWithPendingSnapshot(t *testing.T) {
	pool := memory.NewPool(0)
	defer pool.Close()
	cur, n := &entry.Cursor{}, newNumber("n")
	s, err := New[int64](Options{Operator: "op", Fields: []*entry.Field{n.Field}, Cursor: cur, MaxParallelism: 2, Range: whole(2), Pool: pool})
	if err != nil {
		t.Fatal(err)
	}
	h, _ := keygroup.NewHasher[int64]()
	write := func() {
		for k := range int64(1000) {
			s.Bind([]int64{k}, []uint32{h.Hash(k)})
			s.Seek(0)
			n.add(cur)
		}
		s.Release()
	}
	write()
	first := s.Freeze()
	write()
	second := s.Freeze()
	s.Close()
	for _, f := range []*Frozen{second, first} {
		sections, err := encodeAll(f)
		if err != nil {
			t.Fatal(err)
		}
		count := 0
		for _, sec := range sections {
			count += sec.count
			if want := map[*Frozen]byte{first: 1, second: 2}[f]; sec.data[8] != want {
				t.Fatalf("value %d, want %d", sec.data[8], want)
			}
		}
		if count != 1000 || pool.InUse() == 0 {
			t.Fatalf("%d entries, %d bytes", count, pool.InUse())
		}
		f.Release()
		f.Release()
	}
	if got := pool.InUse(); got != 0 {
		t.Fatalf("%d bytes in use", got)
	}
}

type failing struct{}

var errWriter = errors.New("disk full")

func (failing) Section(snapshot.State, int, []byte) error { return errWriter }

func TestEncodeGroupErrors(t *testing.T) {
	r := newRig[int64](t, 2, keygroup.Range{First: 0, Last: 0})
	k := int64(0)
	for keygroup.Group(r.hash(k), 2) != 0 {
		k++
	}
	r.store.Bind([]int64{k}, []uint32{r.hash(k)})
	r.store.Seek(0)
	r.n.set(r.cur, 1)
	f := r.store.Freeze()
	if err := f.EncodeGroup(1, failing{}); err == nil || !strings.Contains(err.Error(), "0-0") {
		t.Errorf("foreign group: %v", err)
	}
	if err := f.EncodeGroup(0, failing{}); !errors.Is(err, errWriter) || !strings.Contains(err.Error(), `"n"`) {
		t.Errorf("failing writer: %v", err)
	}
	if err := f.EncodeGroup(0, &discard{}); err == nil {
		t.Error("a group is encoded twice")
	}
	f.Release()
	if err := f.EncodeGroup(0, &discard{}); err == nil {
		t.Error("a released snapshot is encoded")
	}
	r.n.Format.Size = 9
	f = r.store.Freeze()
	defer f.Release()
	if err := f.EncodeGroup(0, &discard{}); err == nil || !strings.Contains(err.Error(), "8 bytes instead of 9") {
		t.Errorf("value of the wrong size: %v", err)
	}
	r.n.Format.Size = 8
}

// Reading a key that has no state leaves nothing behind.
func TestReadingLeavesNoEntry(t *testing.T) {
	r := newRig[int64](t, 4, whole(4))
	keys, hashes := make([]int64, 500), make([]uint32, 500)
	for i := range keys {
		keys[i] = int64(i)
		hashes[i] = r.hash(keys[i])
	}
	for range 3 {
		r.store.Bind(keys, hashes)
		if got := r.store.Len(); got != 500 {
			t.Fatalf("%d entries while bound", got)
		}
		r.store.Release()
		if got := r.store.Len(); got != 0 {
			t.Fatalf("%d entries after release", got)
		}
	}
}

func TestBindAllocatesNothing(t *testing.T) {
	r := newRig[string](t, 4, whole(4))
	keys, hashes := make([]string, 500), make([]uint32, 500)
	for i := range keys {
		keys[i] = fmt.Sprint("user-", i)
		hashes[i] = r.hash(keys[i])
	}
	work := func() {
		r.store.Bind(keys, hashes)
		for i := range keys {
			r.store.Seek(i)
			r.n.add(r.cur)
		}
		r.store.Release()
	}
	work()
	if n := testing.AllocsPerRun(20, work); n != 0 {
		t.Fatalf("%v allocations per batch", n)
	}
}

func TestReciprocal(t *testing.T) {
	for _, size := range []uint64{16, 24, 56, 64, 1000, 1<<20 + 8} {
		d := size * pagePositions
		m := reciprocal(d)
		for _, n := range []uint64{0, 1, d - 1, d, d + 1, 7*d - 1, 7 * d, 1<<36 - 1, (1 << 36 / d) * d, (1<<36/d)*d - 1} {
			if hi, _ := bits.Mul64(n, m); hi != n/d {
				t.Fatalf("%d / %d: got %d, want %d", n, d, hi, n/d)
			}
		}
	}
}
