package state

import (
	"testing"
)

func BenchmarkValueInt64(b *testing.B) {
	s, v := newStore(b, 1, func(r *Registry) Value[int64] { return ValueIn[int64](r, "v") })
	s.seek(0)
	b.ReportAllocs()
	for b.Loop() {
		n, err := v.Get()
		if err != nil {
			b.Fatal(err)
		}
		if err := v.Set(n + 1); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkValueInt64TTL(b *testing.B) {
	s, v := newStore(b, 1, func(r *Registry) Value[int64] { return ValueIn[int64](r, "v", TTL(1000*ms)) })
	s.seek(0)
	b.ReportAllocs()
	for b.Loop() {
		n, _ := v.Get()
		_ = v.Set(n + 1)
	}
}

func BenchmarkValueStringSet(b *testing.B) {
	s, v := newStore(b, 1, func(r *Registry) Value[string] { return ValueIn[string](r, "v") })
	s.seek(0)
	b.ReportAllocs()
	for b.Loop() {
		_ = v.Set("a string of thirty-six characters, ok")
	}
}

func BenchmarkMap16(b *testing.B) {
	s, m := newStore(b, 1, func(r *Registry) Map[int64, int64] { return MapIn[int64, int64](r, "m") })
	s.seek(0)
	b.ReportAllocs()
	i := int64(0)
	for b.Loop() {
		k := i * 7 % 16
		i++
		n, _, err := m.Get(k)
		if err != nil {
			b.Fatal(err)
		}
		if err := m.Put(k, n+1); err != nil {
			b.Fatal(err)
		}
	}
}

func benchmarkMapLarge(b *testing.B, entries int64) {
	s, m := newStore(b, 1, func(r *Registry) Map[int64, int64] { return MapIn[int64, int64](r, "m") })
	s.seek(0)
	for k := range entries {
		_ = m.Put(k, k)
	}
	b.ReportAllocs()
	b.ResetTimer()
	i := int64(0)
	for b.Loop() {
		i = (i*2862933555777941757 + 3037000493)
		k := int64(uint64(i)>>20) % entries
		n, _, _ := m.Get(k)
		_ = m.Put(k, n+1)
	}
}

func BenchmarkMap1000(b *testing.B)   { benchmarkMapLarge(b, 1000) }
func BenchmarkMap100000(b *testing.B) { benchmarkMapLarge(b, 100_000) }

func BenchmarkMapString16(b *testing.B) {
	s, m := newStore(b, 1, func(r *Registry) Map[string, int64] { return MapIn[string, int64](r, "m") })
	s.seek(0)
	keys := make([]string, 16)
	for i := range keys {
		keys[i] = "key-number-" + string(rune('a'+i))
	}
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		k := keys[i&15]
		i++
		n, _, _ := m.Get(k)
		_ = m.Put(k, n+1)
	}
}

// BenchmarkMapFirstChange changes a large map for the first time since a barrier.
func BenchmarkMapFirstChange(b *testing.B) {
	s, m := newStore(b, 1, func(r *Registry) Map[int64, int64] { return MapIn[int64, int64](r, "m") })
	s.seek(0)
	for k := range int64(100_000) {
		_ = m.Put(k, k)
	}
	b.ReportAllocs()
	for b.Loop() {
		v := s.cur.Arena.Freeze()
		_ = m.Put(77_777, 1)
		s.cur.Arena.Thaw(v)
	}
}

// BenchmarkMapFill puts and removes 100,000 entries; ns per entry.
func BenchmarkMapFill(b *testing.B) {
	s, m := newStore(b, 1, func(r *Registry) Map[int64, int64] { return MapIn[int64, int64](r, "m") })
	s.seek(0)
	b.ReportAllocs()
	k := int64(0)
	for b.Loop() {
		_ = m.Put(k, k)
		if k >= 100_000 {
			_ = m.Remove(k - 100_000)
		}
		k++
	}
}

// BenchmarkMapIterate visits 16 entries.
func BenchmarkMapIterate(b *testing.B) {
	s, m := newStore(b, 1, func(r *Registry) Map[int64, int64] { return MapIn[int64, int64](r, "m") })
	s.seek(0)
	for k := range int64(16) {
		_ = m.Put(k, k)
	}
	b.ReportAllocs()
	sum := int64(0)
	for b.Loop() {
		for _, v := range m.All() {
			sum += v
		}
	}
	if sum == 0 {
		b.Fatal("nothing visited")
	}
}

func BenchmarkListAdd(b *testing.B) {
	s, l := newStore(b, 1, func(r *Registry) List[int64] { return ListIn[int64](r, "l") })
	s.seek(0)
	b.ReportAllocs()
	i := int64(0)
	for b.Loop() {
		if err := l.Add(i); err != nil {
			b.Fatal(err)
		}
		if i++; i&1023 == 0 {
			_ = l.Clear()
		}
	}
}

func BenchmarkListAddString(b *testing.B) {
	s, l := newStore(b, 1, func(r *Registry) List[string] { return ListIn[string](r, "l") })
	s.seek(0)
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		_ = l.Add("twenty characters ok")
		if i++; i&1023 == 0 {
			_ = l.Clear()
		}
	}
}

func BenchmarkReducing(b *testing.B) {
	s, v := newStore(b, 1, func(r *Registry) Reducing[int64] {
		return ReducingIn(r, "v", func(a, b int64) int64 { return a + b })
	})
	s.seek(0)
	b.ReportAllocs()
	for b.Loop() {
		_ = v.Add(1)
	}
}

func BenchmarkAggregating(b *testing.B) {
	s, v := newStore(b, 1, func(r *Registry) Aggregating[uint16, smallAcc, []uint16] { return AggregatingIn(r, "v", lastSmall) })
	s.seek(0)
	b.ReportAllocs()
	for b.Loop() {
		_ = v.Add(1)
	}
}

func BenchmarkAggregatingFlat(b *testing.B) {
	s, v := newStore(b, 1, func(r *Registry) Aggregating[uint16, []byte, []uint16] { return AggregatingIn(r, "v", lastFlat{}) })
	s.seek(0)
	b.ReportAllocs()
	for b.Loop() {
		_ = v.Add(1)
	}
}
