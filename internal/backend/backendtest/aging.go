package backendtest

import (
	"fmt"
	"testing"
)

// aging has lists, maps and values expire: none of it comes into a snapshot,
// and it all goes in the background.
func aging(t *testing.T, b Backend) {
	const keys, old, young = 600, 3, 2
	now := int64(1000)
	s := newSubject[int64](t, b, whole(), &now, nil)
	each(s, keys, func(int64) {
		s.check(s.aging.Set("old"))
		s.add(old, "an old element")
	})
	now += lifetime - 10
	each(s, keys, func(k int64) {
		if k%2 == 0 {
			s.add(young, "a young element")
		}
	})
	now += 10
	f := s.store.Freeze()
	sections, err := encode(f)
	s.check(err)
	f.Release()
	count := map[string]int{}
	for _, sec := range sections {
		count[sec.st.Name] += sec.count
	}
	if want := map[string]int{"stamps": keys / 2, "recent": keys / 2}; fmt.Sprint(count) != fmt.Sprint(want) {
		t.Errorf("the snapshot holds %v, want the half of the keys that is young, %v", count, want)
	}
	// With the clock turned back it shows what is there.
	then := int64(0)
	o := newSubject[int64](t, Heap, whole(), &then, nil)
	o.restore(sections, whole())
	each(o, keys, func(k int64) {
		want := young * (1 - int(k%2))
		if n, err := o.stamps.Len(); n != want || err != nil {
			t.Fatalf("a list in the snapshot holds %d elements, want %d; error %v", n, want, err)
		}
		if n, err := o.recent.Len(); n != want || err != nil {
			t.Fatalf("a map in the snapshot holds %d entries, want %d; error %v", n, want, err)
		}
	})
}

// add adds n elements to the list and the map of the current key.
func (s *subject[K]) add(n int, v string) {
	for i := range n {
		s.check(s.stamps.Add(v))
		s.check(s.recent.Put(*s.now+int64(i), v))
	}
}

// each makes n keys current, one after the other.
func each(s *subject[int64], n int64, fn func(k int64)) {
	for k := range n {
		s.store.Bind([]int64{k}, []uint32{s.hash(k)})
		s.store.Seek(0)
		fn(k)
		s.store.Release()
	}
}

// flat inserts and lets expire for long: lists and maps of keys that come
// again, and of keys that do not, take no more memory than at first.
func flat(t *testing.T, b Backend) {
	now := int64(1000)
	s := newSubject[int64](t, b, whole(), &now, nil)
	next := int64(100)
	round := func() {
		keys := make([]int64, 0, 100)
		for k := range int64(10) {
			keys = append(keys, k)
		}
		for range 20 {
			keys = append(keys, next)
			next++
		}
		hashes := make([]uint32, len(keys))
		for i, k := range keys {
			hashes[i] = s.hash(k)
		}
		s.store.Bind(keys, hashes)
		for i := range keys {
			s.store.Seek(i)
			s.add(5, "an element")
		}
		s.store.Release()
		now++
	}
	most := func() (elements int) {
		for range 200 {
			round()
		}
		for _, k := range []int64{0, 3, 9} {
			if !s.store.Lookup(k, s.hash(k)) {
				t.Fatal("a key in use is gone")
			}
			stamps, err := s.stamps.Len()
			s.check(err)
			recent, err := s.recent.Len()
			s.check(err)
			elements = max(elements, stamps, recent)
			s.store.Release()
		}
		return elements
	}
	most()
	memory := s.pool.InUse()
	for range 10 {
		if n := most(); n > 5*lifetime {
			t.Fatalf("a key holds %d elements, of which %d are young", n, 5*lifetime)
		}
	}
	if got := s.pool.InUse(); got > memory+memory/4+256<<10 {
		t.Errorf("%d bytes in use after 2200 rounds, %d after 200", got, memory)
	}
	if n := s.store.Len(); n > 30*lifetime {
		t.Errorf("%d keys are in memory, of which %d are young", n, 20*lifetime)
	}
}
