package kafka

import (
	"slices"
	"testing"
)

// After a restore at another parallelism each partition is with its owner: those
// of a topic are spread evenly, whoever read them before.
func TestPartitionsGoToTheirOwners(t *testing.T) {
	c := newCluster(t)
	topic := c.topic(4)
	other := topic + "-other"
	c.create(other, 4)
	for p := range int32(4) {
		c.put(topic, p, numbers(int(p)*100, 2)...)
		c.put(other, p, numbers(int(p)*100+50, 2)...)
	}
	src := Source(topic, text{}, Topics(other), c.brokers())
	first := c.start(src, 2, nil)
	c.count(first, 16)
	snap := c.snapshot(first, 1)
	slices.Reverse(snap.Splits) // in any order
	for p := range int32(4) {
		c.put(topic, p, "more")
	}
	for _, parallelism := range []int{1, 2, 4} {
		r := c.start(src, parallelism, snap)
		var had []Split
		for i := range parallelism {
			splits, err := r.Reader(i).Snapshot(2)
			if err != nil {
				t.Fatal(err)
			}
			of := map[string]int{}
			for _, s := range splits {
				of[s.Topic]++
				if s.Next != 2 {
					t.Errorf("parallelism %d: %s goes on at %d, want 2", parallelism, s.SplitID(), s.Next)
				}
			}
			if n := 4 / parallelism; of[topic] != n || of[other] != n {
				t.Errorf("parallelism %d: reader %d has %v, want %d partitions of each topic", parallelism, i, of, n)
			}
			had = append(had, splits...)
		}
		if len(had) != 8 {
			t.Errorf("parallelism %d: the readers have %d partitions, want 8", parallelism, len(had))
		}
		c.count(r, 4)
		wantValues(t, r.Values(), "more", "more", "more", "more")
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
