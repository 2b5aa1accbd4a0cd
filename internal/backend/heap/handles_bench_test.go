package heap

import (
	"testing"
	"time"

	"github.com/weirstream/weir/internal/entry"
	"github.com/weirstream/weir/internal/keygroup"
	"github.com/weirstream/weir/internal/memory"
	"github.com/weirstream/weir/state"
)

// One key with much state that has a time to live.
func BenchmarkLargeMapWithTTL(b *testing.B) {
	var cur entry.Cursor
	r := state.NewRegistry("op")
	state.MapIn[int64, int64](r, "m", state.TTL(time.Hour))
	r = r.Bind(&cur)
	m := state.MapIn[int64, int64](r, "m", state.TTL(time.Hour))
	pool := memory.NewPool(0)
	defer pool.Close()
	s, err := New[int64](Options{Operator: "op", Fields: r.Fields(), Cursor: &cur, MaxParallelism: 128, Range: whole(128),
		Pool: pool, Clock: func() int64 { return 1 }})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	h, _ := keygroup.NewHasher[int64]()
	keys, hashes := make([]int64, 256), make([]uint32, 256)
	h.HashAll(keys, hashes)
	s.Bind(keys, hashes)
	s.Seek(0)
	for k := range int64(100_000) {
		if err := m.Put(k, k); err != nil {
			b.Fatal(err)
		}
	}
	s.Release()
	b.ResetTimer()
	for n := 0; n < b.N; n += len(keys) {
		s.Bind(keys, hashes)
		for i := range keys {
			s.Seek(i)
			if err := m.Put(int64(i), 1); err != nil {
				b.Fatal(err)
			}
		}
		s.Release()
	}
}
