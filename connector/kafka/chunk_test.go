package kafka

import (
	"errors"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/weirstream/weir/codec"
)

// underWay is a chunk of n records that were handed to a client.
func underWay(t *testing.T, home *chunks, p *produced, n int) *chunk {
	t.Helper()
	c, skipped, err := encodeBatch(home, &valueEncoder[int64]{topic: "t", values: codec.Int64()}, make([]int64, n), make([]int64, n))
	if err != nil || skipped != 0 || len(c.records) != n {
		t.Fatalf("%d records, %d skipped, error %v", len(c.records), skipped, err)
	}
	c.to = p
	c.left.Store(int64(n))
	return c
}

func by(id int64, epoch int16) *kgo.Record {
	return &kgo.Record{Topic: "t", ProducerID: id, ProducerEpoch: epoch}
}

func TestChunkIsUsedAgainWhenAllItsRecordsHaveAnOutcome(t *testing.T) {
	var home chunks
	var p produced
	c := underWay(t, &home, &p, 3)
	c.promise(by(1, 0), nil)
	c.promise(by(1, 0), nil)
	if other := underWay(t, &home, &p, 1); other == c {
		t.Fatal("a chunk was used again before its last record arrived")
	}
	c.promise(by(1, 0), errors.New("refused"))
	again := home.get()
	if again != c || len(again.records) != 0 || len(again.values) != 0 {
		t.Fatalf("got a chunk with %d records", len(again.records))
	}
	for _, r := range again.records[:cap(again.records)] {
		if r.Value != nil || r.Topic != "" {
			t.Fatal("a chunk holds on to records")
		}
	}
	if p.failure() == nil {
		t.Error("the failure of the last record went unnoticed")
	}
}

func TestChunkNotesAChangedIdentity(t *testing.T) {
	var home chunks
	for name, outcome := range map[string]func(p *produced){
		"within a chunk": func(p *produced) {
			c := underWay(t, &home, p, 3)
			c.promise(by(1, 0), nil)
			c.promise(by(1, 0), nil)
			c.promise(by(1, 1), nil)
		},
		"from one chunk to the next": func(p *produced) {
			underWay(t, &home, p, 1).promise(by(1, 0), nil)
			underWay(t, &home, p, 1).promise(by(2, 0), nil)
		},
	} {
		var strict produced
		if outcome(&strict); strict.failure() == nil {
			t.Errorf("%s: not noticed", name)
		}
		lax := produced{anybody: true}
		if outcome(&lax); lax.failure() != nil {
			t.Errorf("%s: %v", name, lax.failure())
		}
	}
	var p produced
	underWay(t, &home, &p, 2).promise(by(7, 3), nil)
	if id, ok := p.producedBy(); !ok || id != (identity{7, 3}) {
		t.Errorf("produced by %v, %v", id, ok)
	}
}

func TestStringKey(t *testing.T) {
	key := StringKey(func(s string) string { return s })
	if string(key("abc")) != "abc" {
		t.Errorf("key %q", key("abc"))
	}
	if k := key(""); k == nil || len(k) != 0 {
		t.Errorf("key %v of an empty string, which is a key", k)
	}
}
