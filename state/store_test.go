package state

import (
	"fmt"
	"testing"
	"unsafe"

	"github.com/weirstream/weir/internal/entry"
	"github.com/weirstream/weir/internal/memory"
	"github.com/weirstream/weir/internal/snapshot"
)

// store is a keyed backend of a few entries, in Go memory.
type store struct {
	pool    *memory.Pool
	cur     *entry.Cursor
	reg     *Registry
	entries [][]uint64
	size    uintptr
}

// newStore runs build twice, as the engine does, and binds the second run.
func newStore[F any](t testing.TB, keys int, build func(*Registry) F) (*store, F) {
	t.Helper()
	pool := memory.NewPool(0)
	s := &store{pool: pool, cur: &entry.Cursor{Arena: memory.NewArena(pool), Now: 1_000_000}}
	recorded := NewRegistry("op")
	build(recorded)
	if err := recorded.Err(); err != nil {
		t.Fatal(err)
	}
	s.reg = recorded.Bind(s.cur)
	f := build(s.reg)
	if err := s.reg.Err(); err != nil {
		t.Fatal(err)
	}
	size, err := entry.Plan(8, s.reg.Fields())
	if err != nil {
		t.Fatal(err)
	}
	s.size = size
	for range keys {
		e := make([]uint64, size/8)
		for i := range e {
			e[i] = 0xA5A5A5A5A5A5A5A5 // fields without a value are undefined
		}
		*entry.Bits(unsafe.Pointer(&e[0])) = entry.Used
		s.entries = append(s.entries, e)
	}
	t.Cleanup(func() { _ = pool.Close() })
	return s, f
}

func (s *store) ptr(key int) unsafe.Pointer { return unsafe.Pointer(&s.entries[key][0]) }

func (s *store) seek(key int) {
	s.cur.P = nil
	if key >= 0 {
		s.cur.P = s.ptr(key)
	}
}

// present returns the presence bits of a key.
func (s *store) present(key int) uint32 { return *entry.Bits(s.ptr(key)) & entry.Present }

func (s *store) expire() {
	for key := range s.entries {
		for _, f := range s.reg.Fields() {
			if p := s.ptr(key); f.Expire != nil && f.Has(p) {
				f.Expire(p, s.cur.Arena, s.cur.Now)
			}
		}
	}
}

func (s *store) touch(key int) {
	for _, f := range s.reg.Fields() {
		if p := s.ptr(key); f.Touch != nil && f.Has(p) {
			f.Touch(p, s.cur.Arena.View())
		}
	}
}

// frozen is a pending snapshot.
type frozen struct {
	s       *store
	view    memory.View
	now     int64
	entries [][]uint64
}

func (s *store) freeze() *frozen {
	f := &frozen{s: s, view: s.cur.Arena.Freeze(), now: s.cur.Now}
	for _, e := range s.entries {
		f.entries = append(f.entries, append([]uint64(nil), e...))
	}
	return f
}

// stored is an encoded snapshot.
type stored struct {
	states []snapshot.State
	values []map[string][]byte // per key
}

// encode may run beside the store's goroutine.
func (f *frozen) encode() (*stored, error) {
	out := &stored{}
	for _, field := range f.s.reg.Fields() {
		out.states = append(out.states, stateOf(field))
	}
	for _, e := range f.entries {
		p, values := unsafe.Pointer(&e[0]), map[string][]byte{}
		for _, field := range f.s.reg.Fields() {
			if !field.Has(p) {
				continue
			}
			b, err := field.Append(nil, p, f.view)
			if err != nil {
				return nil, err
			}
			if n := field.Format.Size; n > 0 && n != len(b) {
				return nil, fmt.Errorf("%s: %d bytes, and the format says %d", field.Name, len(b), n)
			}
			if field.Prune != nil {
				if b, err = field.Prune(nil, b, f.now); err != nil {
					return nil, err
				}
			}
			if len(b) > 0 || field.Prune == nil {
				values[field.Name] = b
			}
		}
		out.values = append(out.values, values)
	}
	return out, nil
}

func (f *frozen) thaw() { f.s.cur.Arena.Thaw(f.view) }

func (s *store) snapshot(t testing.TB) *stored {
	t.Helper()
	f := s.freeze()
	defer f.thaw()
	out, err := f.encode()
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// load restores a snapshot into an empty store.
func (s *store) load(t testing.TB, from *stored) {
	t.Helper()
	if err := s.reg.Check(from.states); err != nil {
		t.Fatal(err)
	}
	stored := map[string]snapshot.State{}
	for _, st := range from.states {
		stored[st.Name] = st
	}
	for key, values := range from.values {
		for _, f := range s.reg.Fields() {
			if b, ok := values[f.Name]; ok {
				conv, err := f.Conversion(stored[f.Name])
				if err == nil && !conv.Same() {
					b, err = conv.Append(nil, b)
				}
				if err != nil {
					t.Fatalf("convert %s: %v", f.Name, err)
				}
				if err := f.Load(b, stored[f.Name].TTL, s.ptr(key), s.cur.Arena, s.cur.Now); err != nil {
					t.Fatalf("load %s: %v", f.Name, err)
				}
			}
		}
	}
}
