package lsm

import (
	"slices"
	"testing"

	"github.com/weirstream/weir/internal/backend/heap"
)

// A walk begins at a key, there or not, and the empty one comes before all.
func TestWalkBeginsAtAKey(t *testing.T) {
	d := open(t, Options{Dir: t.TempDir()})
	tier, err := d.Tier("op")
	if err != nil {
		t.Fatal(err)
	}
	loaded, err := tier.Load()
	if err != nil {
		t.Fatal(err)
	}
	put := func(c heap.Changes, keys ...string) {
		for _, k := range keys {
			if err := c.Put([]byte(k), []byte("row "+k)); err != nil {
				t.Fatal(err)
			}
		}
		if err := c.Commit(); err != nil {
			t.Fatal(err)
		}
	}
	put(loaded, "a", "c")
	put(tier.Change(), "b", "d")
	cases := []struct {
		first []byte
		want  []string
	}{
		{[]byte("aa"), []string{"row b", "row c", "row d"}},
		{[]byte("d"), []string{"row d"}},
		{[]byte("e"), nil},
		{nil, []string{"row a", "row b", "row c"}},
		{[]byte{}, []string{"row a", "row b", "row c"}},
	}
	for i := range 10 * len(cases) { // Pebble uses iterators again, with what they hold
		from := cases[i%len(cases)]
		var got []string
		err := tier.Walk(from.first, func(_, row []byte) (bool, error) {
			got = append(got, string(row))
			return len(got) < 3, nil
		})
		if err != nil || !slices.Equal(got, from.want) {
			t.Fatalf("from %q: %q, want %q; error %v", from.first, got, from.want, err)
		}
	}
	tier.Close()
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}
