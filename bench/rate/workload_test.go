package main

import "testing"

// With -fill each key is written once before the updates, which then are as
// many as -records says.
func TestFillWritesEachKeyOnce(t *testing.T) {
	w := &workload{n: 40, keys: 1000, parallelism: 2, fill: true}
	if got := w.share(); got != 520 {
		t.Fatalf("a share is %d records, want 520", got)
	}
	if got := w.filled(); got != 500 {
		t.Fatalf("%d of them fill, want 500", got)
	}
	seen := map[int64]int{}
	for i := range uint64(1000) {
		seen[scattered(i, 1000)]++
	}
	for k := range int64(1000) {
		if seen[k] != 1 {
			t.Errorf("key %d is written %d times", k, seen[k])
		}
	}
}
