package stage

import (
	"slices"
	"testing"

	"github.com/weirstream/weir/internal/graph"
	"github.com/weirstream/weir/internal/keygroup"
)

// line is a channel that keeps what is pushed.
type line struct{ elements []Element }

func (l *line) Push(e Element) { l.elements = append(l.elements, e) }
func (l *line) HasRoom() bool  { return len(l.elements) < 3 }

func lines(n int) ([]*line, []Channel) {
	ls, cs := make([]*line, n), make([]Channel, n)
	for i := range ls {
		ls[i] = &line{}
		cs[i] = ls[i]
	}
	return ls, cs
}

func rows(n int) *Rows[int] {
	b := &Rows[int]{}
	for i := range n {
		b.Vals, b.Times = append(b.Vals, i), append(b.Times, int64(i*10))
	}
	return b
}

// vals returns the records of a line's batches.
func (l *line) vals() (vals []int) {
	for _, e := range l.elements {
		switch b := e.Batch.(type) {
		case *Rows[int]:
			vals = append(vals, b.Vals...)
		case *KeyedRows[int64, int]:
			vals = append(vals, b.Vals...)
		}
	}
	return vals
}

func TestHashEdgeSendsAKeyToTheOwnerOfItsGroup(t *testing.T) {
	const p, groups, n = 3, 128, 5000
	ls, cs := lines(p)
	w, err := HashEdge[int64, int]{Key: func(v int) int64 { return int64(v % 97) }}.NewWriter(graph.Hash, cs, 0, groups)
	if err != nil {
		t.Fatal(err)
	}
	in := rows(n)
	if err := w.Receiver().(Receiver[int]).Receive(in); err != nil {
		t.Fatal(err)
	}
	w.Control(Element{Kind: Watermark, Time: 7})
	h, err := keygroup.NewHasher[int64]()
	if err != nil {
		t.Fatal(err)
	}
	total := 0
	for i, l := range ls {
		last := l.elements[len(l.elements)-1]
		if last.Kind != Watermark || last.Time != 7 {
			t.Errorf("subtask %d: the watermark does not come last: %+v", i, last)
		}
		for _, e := range l.elements[:len(l.elements)-1] {
			b := e.Batch.(*KeyedRows[int64, int])
			if len(b.Vals) > BatchLimit[int]() {
				t.Errorf("a batch of %d records", len(b.Vals))
			}
			for k, v := range b.Vals {
				key := int64(v % 97)
				if b.Keys[k] != key || b.Hashes[k] != h.Hash(key) || b.Times[k] != int64(v*10) {
					t.Fatalf("record %d travels with key %d, hash %d, time %d", v, b.Keys[k], b.Hashes[k], b.Times[k])
				}
				if owner := keygroup.Subtask(keygroup.Group(h.Hash(key), groups), p, groups); owner != i {
					t.Fatalf("key %d went to subtask %d, its group belongs to %d", key, i, owner)
				}
			}
			total += len(b.Vals)
		}
		if !slices.IsSorted(l.vals()) {
			t.Errorf("subtask %d: records changed their order", i)
		}
	}
	if total != n {
		t.Errorf("%d of %d records arrived", total, n)
	}
}

func TestSpreadEdges(t *testing.T) {
	const n = 2500
	for _, c := range []struct {
		partition graph.Partition
		targets   int
		want      func(target int, vals []int) bool
	}{
		{graph.Forward, 1, func(_ int, vals []int) bool { return len(vals) == n }},
		{graph.Rebalance, 2, func(_ int, vals []int) bool { return len(vals) >= n/3 }},
		{graph.Broadcast, 3, func(_ int, vals []int) bool { return len(vals) == n }},
	} {
		ls, cs := lines(c.targets)
		w, err := SpreadEdge[int]{}.NewWriter(c.partition, cs, 0, 128)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Receiver().(Receiver[int]).Receive(rows(n)); err != nil {
			t.Fatal(err)
		}
		w.Flush()
		total := 0
		for i, l := range ls {
			vals := l.vals()
			total += len(vals)
			if !c.want(i, vals) || !slices.IsSorted(vals) {
				t.Errorf("%s: subtask %d got %d records", c.partition, i, len(vals))
			}
		}
		if c.partition == graph.Rebalance && total != n {
			t.Errorf("rebalance: %d of %d records arrived", total, n)
		}
		if w.HasRoom() != (len(ls[0].elements) < 3) {
			t.Errorf("%s: room is %v", c.partition, w.HasRoom())
		}
	}
}

func TestBatchesAreReused(t *testing.T) {
	_, cs := lines(1)
	l := cs[0].(*line)
	w, err := HashEdge[int64, int]{Key: func(v int) int64 { return int64(v) }}.NewWriter(graph.Hash, cs, 0, 128)
	if err != nil {
		t.Fatal(err)
	}
	in, r := rows(BatchLimit[int]()), w.Receiver().(Receiver[int])
	n := testing.AllocsPerRun(100, func() {
		if err := r.Receive(in); err != nil {
			t.Fatal(err)
		}
		for _, e := range l.elements {
			e.Batch.Recycle()
		}
		l.elements = l.elements[:0]
	})
	if n > 1 {
		t.Errorf("%v allocations per batch", n)
	}
}

type sink struct{ got []int }

func (s *sink) Receive(b *Rows[int]) error { s.got = append(s.got, b.Vals...); return nil }

func TestEmitterKeepsTheOrderOfEmittedAndPassed(t *testing.T) {
	e, s := NewEmitter[int](), &sink{}
	if err := e.Connect("not a receiver"); err == nil {
		t.Error("a string was connected")
	}
	if err := e.Connect(s); err != nil {
		t.Fatal(err)
	}
	e.Emit(-1, 0)
	if err := e.Pass(rows(2)); err != nil {
		t.Fatal(err)
	}
	e.Emit(-2, 0)
	if err := e.Flush(); err != nil {
		t.Fatal(err)
	}
	if want := []int{-1, 0, 1, -2}; !slices.Equal(s.got, want) {
		t.Errorf("got %v, want %v", s.got, want)
	}
}

func TestHistogram(t *testing.T) {
	var h Histogram
	if h.Quantile(0.5) != 0 {
		t.Error("a quantile of nothing")
	}
	for i := range int64(1000) {
		h.Add((i + 1) * 1000)
	}
	for q, exact := range map[float64]int64{0.5: 500_000, 0.999: 999_000, 1: 1_000_000} {
		if got := h.Quantile(q); got < exact || got > exact+exact/8+1 {
			t.Errorf("quantile %v is %d, want at most an eighth above %d", q, got, exact)
		}
	}
}
