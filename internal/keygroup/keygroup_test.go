package keygroup

import "testing"

// The hashes are those that Java gives the keys of the vectors.
var flinkVectors = []struct {
	hash     int32
	murmur   uint32
	group    int
	p4, p3   int
	skipSubs bool
}{
	{hash: 0, murmur: 593689054, group: 94, p4: 2, p3: 2},
	{hash: 1, murmur: 68075478, group: 86, p4: 2, p3: 2},
	{hash: 2, murmur: 1085422463, group: 127, p4: 3, p3: 2},
	{hash: 3, murmur: 847579505, group: 113, p4: 3, p3: 2},
	{hash: 42, murmur: 1134849565, group: 29, p4: 0, p3: 0},
	{hash: -1, murmur: 1982413648, group: 80, p4: 2, p3: 1},
	{hash: 1000, murmur: 3506311, group: 7, p4: 0, p3: 0},
	{hash: 2147483647, murmur: 1653689534, group: 62, p4: 1, p3: 1},
	{hash: -2147483648, murmur: 1718298732, group: 108, p4: 3, p3: 2},
	{hash: 97, murmur: 1455541201, group: 81, p4: 2, p3: 1},
	{hash: 98, murmur: 516420758, group: 22, p4: 0, p3: 0},
	{hash: 111578582, murmur: 1923642504, group: 8, p4: 0, p3: 0},
	{hash: 111578583, murmur: 2089886400, group: 64, p4: 2, p3: 1},
	{hash: 111578584, murmur: 1032802497, group: 65, p4: 2, p3: 1},
	{hash: 97520992, murmur: 1330823394, group: 98, p4: 3, p3: 2},
	{hash: 1737617, murmur: 256828222, group: 62, p4: 1, p3: 1},
	{hash: 256, murmur: 1409940790, group: 54, skipSubs: true},
}

func TestGroupMatchesFlink(t *testing.T) {
	for _, v := range flinkVectors {
		h := uint32(v.hash)
		if got := murmur(h); got != v.murmur {
			t.Errorf("murmur(%d) = %d, want %d", v.hash, got, v.murmur)
		}
		g := Group(h, 128)
		if g != v.group {
			t.Errorf("Group(%d) = %d, want %d", v.hash, g, v.group)
		}
		if v.skipSubs {
			continue
		}
		if got := Subtask(g, 4, 128); got != v.p4 {
			t.Errorf("hash %d at parallelism 4: subtask %d, want %d", v.hash, got, v.p4)
		}
		if got := Subtask(g, 3, 128); got != v.p3 {
			t.Errorf("hash %d at parallelism 3: subtask %d, want %d", v.hash, got, v.p3)
		}
	}
}

func TestO06RangesAndDefaults(t *testing.T) {
	ranges := []struct {
		max  int
		want []Range
	}{
		{128, []Range{{0, 42}, {43, 85}, {86, 127}}},
		{128, []Range{{0, 25}, {26, 51}, {52, 76}, {77, 102}, {103, 127}}},
		{10, []Range{{0, 2}, {3, 4}, {5, 7}, {8, 9}}},
		{5, []Range{{0, 1}, {2, 3}, {4, 4}}},
	}
	for _, c := range ranges {
		for i, want := range c.want {
			if got := RangeOf(i, len(c.want), c.max); got != want {
				t.Errorf("RangeOf(%d, %d, %d) = %v, want %v", i, len(c.want), c.max, got, want)
			}
		}
	}
	defaults := map[int]int{
		1: 128, 2: 128, 8: 128, 85: 128, 86: 256, 100: 256, 128: 256, 170: 256, 171: 256,
		200: 512, 342: 1024, 1000: 2048, 10000: 16384, 21845: 32768, 32768: 32768,
	}
	for p, want := range defaults {
		if got := DefaultMax(p); got != want {
			t.Errorf("DefaultMax(%d) = %d, want %d", p, got, want)
		}
	}
}

func TestO06RangesAgreeWithRouting(t *testing.T) {
	for m := 1; m <= 512; m++ {
		for p := 1; p <= m; p++ {
			next := 0
			for i := range p {
				r := RangeOf(i, p, m)
				if r.First != next || r.Last < r.First {
					t.Fatalf("max %d parallelism %d: subtask %d owns %v, want it to begin at %d", m, p, i, r, next)
				}
				if Subtask(r.First, p, m) != i || Subtask(r.Last, p, m) != i {
					t.Fatalf("max %d parallelism %d: routing of %v does not lead to %d", m, p, r, i)
				}
				next = r.Last + 1
			}
			if next != m {
				t.Fatalf("max %d parallelism %d: %d groups owned", m, p, next)
			}
		}
	}
	table := Table(5, 128)
	for g, sub := range table {
		if !RangeOf(int(sub), 5, 128).Contains(g) {
			t.Errorf("Table: group %d at subtask %d", g, sub)
		}
	}
}

func TestRange(t *testing.T) {
	r := Range{3, 7}
	if r.Len() != 5 || !r.Contains(3) || !r.Contains(7) || r.Contains(8) || r.Contains(2) {
		t.Errorf("%v: wrong Len or Contains", r)
	}
	if got := r.Intersect(Range{6, 9}); got != (Range{6, 7}) {
		t.Errorf("Intersect = %v", got)
	}
	if got := r.Intersect(Range{8, 9}); got.Len() != 0 || got.String() != "none" {
		t.Errorf("disjoint: %v, Len %d", got, got.Len())
	}
}

func TestCheck(t *testing.T) {
	for _, c := range []struct {
		p, max int
		ok     bool
	}{{1, 1, true}, {128, 128, true}, {1, MaxGroups, true}, {0, 128, false}, {2, 1, false}, {1, MaxGroups + 1, false}, {1, 0, false}} {
		if err := Check(c.p, c.max); (err == nil) != c.ok {
			t.Errorf("Check(%d, %d) = %v", c.p, c.max, err)
		}
	}
}

func TestO11FewKeysManySubtasks(t *testing.T) {
	h, err := NewHasher[int]()
	if err != nil {
		t.Fatal(err)
	}
	var count [4]int
	for k := range 10000 {
		count[Subtask(Group(h.Hash(k), 128), 4, 128)]++
	}
	for i, n := range count {
		if n < 1500 || n > 3500 {
			t.Errorf("subtask %d gets %d of 10000 keys", i, n)
		}
	}
}

func TestGroupsOfABatch(t *testing.T) {
	hashes := make([]uint32, 1000)
	for i := range hashes {
		hashes[i] = uint32(i) * 2654435761
	}
	out := make([]uint16, len(hashes))
	for _, max := range []int{1, 2, 100, 128, 171, 32768} {
		Groups(hashes, max, out)
		for i, h := range hashes {
			if int(out[i]) != Group(h, max) {
				t.Fatalf("max %d, hash %d: group %d, want %d", max, h, out[i], Group(h, max))
			}
		}
	}
}
