package savepoint

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"testing"

	"github.com/weirstream/weir/codec"
	"github.com/weirstream/weir/internal/keygroup"
	"github.com/weirstream/weir/internal/snapshot"
	"github.com/weirstream/weir/internal/storage"
	"github.com/weirstream/weir/internal/storage/mem"
	"github.com/weirstream/weir/state"
)

type small struct {
	count state.Value[int64]
	list  state.List[string]
	pages state.Map[string, int64]
	timer state.Timers
	items state.OperatorList[string]
}

func newSmall(r *state.Registry) *small {
	return &small{state.ValueIn[int64](r, "count"), state.ListIn[string](r, "list"), state.MapIn[string, int64](r, "pages"), state.EventTimers(r), state.OperatorListIn[string](r, "items")}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// stored writes a savepoint with the state of n keys.
func stored(t testing.TB, blobs storage.Blobs, n, groups int) {
	t.Helper()
	w := New("test", groups)
	must(t, Bootstrap(w, "op", newSmall, func(keys *Keys[int64], s *small) error {
		s.items.Add(strings.Repeat("x", 5000)) // beside _metadata
		for i := range n {
			keys.Select(int64(i))
			must(t, s.count.Set(int64(i)*3))
			must(t, s.list.AddAll("a", "bc"))
			must(t, s.pages.Put("home", int64(i)))
			must(t, s.timer.SetMillis(int64(i)*1000))
		}
		return nil
	}))
	must(t, w.WriteIn(t.Context(), blobs, "saved"))
}

// TestVerifyFindsEveryFlippedBit flips each bit of a data file, and one of each
// byte of the other files of a snapshot, cuts them, and lengthens the data file.
func TestVerifyFindsEveryFlippedBit(t *testing.T) {
	blobs := mem.New()
	stored(t, blobs, 3, 4)
	r, err := VerifyIn(t.Context(), blobs, "saved", nil)
	must(t, err)
	if len(r.Damage) > 0 || r.Entries != 12 || r.Files != 1 {
		t.Fatalf("before: %+v", r)
	}
	files := 0
	must(t, blobs.List(t.Context(), "saved", func(name string, size int64) error {
		files++
		good, err := blobs.Get(t.Context(), name)
		must(t, err)
		found := func(bad []byte, what string) {
			must(t, blobs.Put(t.Context(), name, func(w io.Writer) error { _, err := w.Write(bad); return err }))
			if r, err := VerifyIn(t.Context(), blobs, "saved", nil); err == nil && len(r.Damage) == 0 {
				t.Fatalf("%s, %s: nothing is found", name, what)
			}
		}
		for i := range good {
			for bit := range 8 {
				if bit != i%8 && path.Base(name) != snapshot.Name("op", 0, 1) {
					continue // one checksum covers all of it
				}
				bad := bytes.Clone(good)
				bad[i] ^= 1 << bit
				found(bad, fmt.Sprintf("bit %d of byte %d flipped", bit, i))
			}
			if i%7 == 0 {
				found(good[:i], fmt.Sprintf("cut to %d bytes", i))
			}
		}
		if path.Base(name) != snapshot.MetadataName && !strings.Contains(name, "blob-") {
			found(append(bytes.Clone(good), 0), "a byte longer")
		}
		return blobs.Put(t.Context(), name, func(w io.Writer) error { _, err := w.Write(good); return err })
	}))
	if files != 3 {
		t.Errorf("%d files", files)
	}
	must(t, blobs.Delete(t.Context(), "saved/"+snapshot.Name("op", 0, 1)))
	if r, err := VerifyIn(t.Context(), blobs, "saved", nil); err != nil || len(r.Damage) == 0 {
		t.Errorf("a missing file: %+v, %v", r, err)
	}
}

// forged is a snapshot whose checksums are right and whose content is not.
type forged struct {
	t     *testing.T
	blobs storage.Blobs
	m     snapshot.Metadata
	key   codec.Format
	state snapshot.State
}

func forge(t *testing.T) *forged {
	f := &forged{t: t, blobs: mem.New()}
	f.key = codec.Format{ID: "int64", Version: 1, Size: 8}
	f.state = snapshot.State{Name: "count", Kind: Value, Format: codec.Format{ID: "int64", Version: 1, Size: 8}}
	f.m = snapshot.Metadata{Job: "test", Lineage: "l", Attempt: 1, ID: 1, KeyHash: keygroup.HashName, Operators: []snapshot.Operator{{
		ID: "op", Parallelism: 1, MaxParallelism: 2, KeyFormat: &f.key, States: []snapshot.State{f.state}, Subtasks: []snapshot.Subtask{{File: "data"}},
	}}}
	return f
}

// entry is that of a key of a group, the n-th in order.
func (f *forged) entries(group int) [][]byte {
	var out [][]byte
	last := uint32(0)
	for i := int64(0); len(out) < 3; i++ {
		k := key64(i)
		if h := keygroup.HashEncoded(k); keygroup.Group(h, 2) == group && h > last {
			last = h
			out = append(out, append(k, key64(7)...))
		}
	}
	return out
}

func key64(i int64) []byte {
	b, _ := codec.Int64().Append(nil, i)
	return b
}

// write stores the snapshot and returns its damage.
func (f *forged) damage(write func(fw *snapshot.FileWriter)) []string {
	f.t.Helper()
	must(f.t, f.blobs.Put(f.t.Context(), "saved/data", func(w io.Writer) error {
		fw := snapshot.NewFileWriter(w, snapshot.None)
		write(fw)
		size, crc, err := fw.Close()
		f.m.Files = []snapshot.File{{Name: "data", Size: size, CRC: crc}}
		return err
	}))
	must(f.t, snapshot.Store(f.t.Context(), f.blobs, "saved", &f.m))
	r, err := VerifyIn(f.t.Context(), f.blobs, "saved", nil)
	must(f.t, err)
	return r.Damage
}

func TestVerifyFindsWhatChecksumsDoNot(t *testing.T) {
	for name, test := range map[string]struct {
		write func(f *forged, section func(count int, data ...[]byte))
		want  string
	}{
		"good":        {func(f *forged, s func(int, ...[]byte)) { s(3, f.entries(0)...) }, ""},
		"count":       {func(f *forged, s func(int, ...[]byte)) { s(4, f.entries(0)...) }, "its header says 4"},
		"group":       {func(f *forged, s func(int, ...[]byte)) { s(1, f.entries(1)[0]) }, "belongs to key group 1"},
		"order":       {func(f *forged, s func(int, ...[]byte)) { e := f.entries(0); s(2, e[1], e[0]) }, "entry 2 is not in order"},
		"twice":       {func(f *forged, s func(int, ...[]byte)) { e := f.entries(0); s(2, e[1], e[1]) }, "there twice"},
		"no value":    {func(f *forged, s func(int, ...[]byte)) { s(1, f.entries(0)[0][:8]) }, "has no value"},
		"cut":         {func(f *forged, s func(int, ...[]byte)) { s(1, f.entries(0)[0][:12]) }, "malformed"},
		"two":         {func(f *forged, s func(int, ...[]byte)) { s(1, f.entries(0)[0]); s(1, f.entries(0)[1]) }, `state "count" is there twice`},
		"other state": {func(f *forged, s func(int, ...[]byte)) { f.m.Operators[0].States[0].Name = "x"; s(1, f.entries(0)[0]) }, "not listed"},
		"other form":  {func(f *forged, s func(int, ...[]byte)) { f.m.Operators[0].States[0].TTL = true; s(1, f.entries(0)[0]) }, "its form"},
		"other op":    {func(f *forged, s func(int, ...[]byte)) { f.m.Operators[0].ID = "x"; s(1, f.entries(0)[0]) }, "it is not in _metadata"},
		"no max":      {func(f *forged, s func(int, ...[]byte)) { f.m.Operators[0].MaxParallelism = 0; s(1, f.entries(0)[0]) }, "no possible key format"},
		"hash":        {func(f *forged, s func(int, ...[]byte)) { f.m.KeyHash = "x"; s(1, f.entries(0)[0]) }, "keys are hashed by"},
		"list":        {func(f *forged, s func(int, ...[]byte)) { f.list(); s(1, key64(first(f)), []byte("\x03\x02\x01a")) }, "malformed"},
	} {
		f := forge(t)
		got := f.damage(func(fw *snapshot.FileWriter) {
			must(t, fw.BeginGroup(0))
			test.write(f, func(count int, data ...[]byte) {
				must(t, fw.Section("op", f.key, f.state, count, bytes.Join(data, nil)))
			})
			must(t, fw.EndGroup())
		})
		if all := strings.Join(got, "\n"); test.want == "" && len(got) > 0 || !strings.Contains(all, test.want) {
			t.Errorf("%s: damage %q, want %q", name, got, test.want)
		}
	}
	f := forge(t)
	f.m.Operators[0].Parallelism = 2
	if got := f.damage(func(fw *snapshot.FileWriter) {
		must(t, fw.BeginGroup(1))
		must(t, fw.Section("op", f.key, f.state, 1, f.entries(1)[0]))
		must(t, fw.EndGroup())
	}); len(got) != 1 || !strings.Contains(got[0], "subtask 0 of 2 does not have that group") {
		t.Errorf("another subtask's group: %q", got)
	}
}

func (f *forged) list() {
	f.state = snapshot.State{Name: "count", Kind: List, Format: codec.Format{ID: "string", Version: 1}}
	f.m.Operators[0].States[0] = f.state
}

// first is a key of group 0.
func first(f *forged) int64 {
	v, _ := codec.Int64().Decode(f.entries(0)[0][:8])
	return v
}

// A mark must name the snapshot.
func TestVerifyReadsTheMark(t *testing.T) {
	blobs := mem.New()
	stored(t, blobs, 3, 8)
	m, err := snapshot.Load(t.Context(), blobs, "saved")
	must(t, err)
	own := fmt.Sprintf("{\"lineage\": %q, \"attempt\": %d, \"id\": %d, \"time\": 5}\n", m.Lineage, m.Attempt, m.ID)
	for mark, damaged := range map[string]bool{own: false, strings.Replace(own, `"id"`, `"ie"`, 1): true, own[:len(own)-3]: true, own + "x": true, "": true,
		strings.Replace(own, m.Lineage, m.Lineage+"x", 1): true} {
		must(t, blobs.Delete(t.Context(), "saved/"+committedName))
		must(t, blobs.PutIfAbsent(t.Context(), "saved/"+committedName, []byte(mark)))
		r, err := VerifyIn(t.Context(), blobs, "saved", nil)
		must(t, err)
		if found := strings.Contains(strings.Join(r.Damage, "\n"), committedName); found != damaged || !damaged && len(r.Damage) > 0 {
			t.Errorf("with the mark %q: %q", mark, r.Damage)
		}
	}
}

func TestVerifyTellsProgress(t *testing.T) {
	blobs := mem.New()
	stored(t, blobs, 100, 4)
	var last, all int64
	_, err := VerifyIn(t.Context(), blobs, "saved", func(done, total int64) {
		if done < last || done > total {
			t.Errorf("%d after %d of %d", done, last, total)
		}
		last, all = done, total
	})
	if err != nil || last != all || all == 0 {
		t.Errorf("%d of %d, %v", last, all, err)
	}
}

// counting counts the bytes that are read of data files.
type counting struct {
	storage.Blobs
	read int64
}

func (c *counting) GetRange(ctx context.Context, name string, off, n int64) ([]byte, error) {
	c.read += n
	return c.Blobs.GetRange(ctx, name, off, n)
}

func TestOneKeyReadsItsGroupOnly(t *testing.T) {
	blobs := &counting{Blobs: mem.New()}
	stored(t, blobs, 20000, 64)
	s, err := OpenIn(t.Context(), blobs, "saved")
	must(t, err)
	n := 0
	for e, err := range s.EntriesOf(t.Context(), "op", "count", "4711") {
		must(t, err)
		if e.Key != int64(4711) || e.Value != int64(3*4711) {
			t.Errorf("entry %+v", e)
		}
		n++
	}
	if all := s.meta.Files[0].Size; n != 1 || blobs.read > all/4 {
		t.Errorf("%d entries; %d bytes of %d were read", n, blobs.read, all)
	}
}

// TestReadingTakesConstantMemory: ten times the entries take no more memory at
// once. What is allocated and given up again is not counted.
func TestReadingTakesConstantMemory(t *testing.T) {
	peak := func(n int) int {
		blobs := mem.New()
		stored(t, blobs, n, 1) // one key group: no reading group by group
		s, err := OpenIn(t.Context(), blobs, "saved")
		must(t, err)
		places, err := s.places(t.Context(), &s.meta.Operators[0])
		must(t, err)
		sc := places[0].file.Scan(t.Context(), 0, "op")
		defer sc.Close()
		most := 0
		for {
			h, err := sc.Next()
			if errors.Is(err, io.EOF) {
				return most
			}
			must(t, err)
			for {
				_, err := sc.Item(h.KeyFormat.Size)
				if errors.Is(err, io.EOF) {
					break
				}
				must(t, err)
				_, err = sc.Item(h.State.Format.Size)
				must(t, err)
				most = max(most, sc.Held())
			}
		}
	}
	few, many := peak(30_000), peak(300_000)
	if many > few+few/4 {
		t.Errorf("%d bytes are held for ten times the entries, %d for one", many, few)
	}
}

func FuzzEntries(f *testing.F) {
	blobs := mem.New()
	stored(f, blobs, 3, 1)
	s, err := OpenIn(f.Context(), blobs, "saved")
	must(f, err)
	var op = &s.meta.Operators[0]
	for e, err := range s.rawEntries(f.Context(), op, "pages", nil) {
		must(f, err)
		f.Add(uint8(2), "int64", "", e.value, true)
	}
	f.Add(uint8(1), "string", "", []byte("\x02\x01a\x00"), false)
	f.Add(uint8(7), "struct{A int64}", "sum in tumbling(10s)", []byte("\x01\x00\x00\x00\x00\x00\x00\x00\x0001234567"), false)
	f.Add(uint8(5), "timers", "", []byte("\x0101234567"), false)
	kinds := []string{Value, List, Map, Reducing, Aggregating, EventTimers, ProcessingTimers, Slices, KeyedRaw}
	f.Fuzz(func(t *testing.T, kind uint8, id, detail string, value []byte, ttl bool) {
		st := snapshot.State{Name: "s", Kind: kinds[int(kind)%len(kinds)], Format: codec.Format{ID: id, Version: 1, Schema: id}, Detail: detail, TTL: ttl, Key: codec.Format{ID: "string", Version: 1}}
		d := s.newEntryDecoder(op, st)
		n := 0
		_, _ = d.decode(rawEntry{state: st, key: key64(1), value: value}, func(Entry, error) bool { n++; return true })
		if n > len(value)+1 {
			t.Fatalf("%d values in %d bytes", n, len(value))
		}
	})
}
