package state

import (
	"cmp"
	"slices"
	"unsafe"

	"github.com/weirstream/weir/internal/memory"
)

// walk is an iteration over a map, in the order of the keys that were there at
// its start.
type walk struct {
	// s is the map, nil while no iteration is under way.
	s *slot
	// order are the entries by their positions at the start; those before next
	// were visited.
	order []ranked
	next  int
	// Once an entry has been removed, now holds where the entry from each position
	// lies, and was where that at each position lay at the start; gone is nowhere.
	now, was []uint32
}

// ranked is a position and a number by which its key is ordered.
type ranked struct {
	rank uint64
	at   uint32
}

const (
	gone = 1<<32 - 1
	// maxWalk is the largest walk kept for the next iteration, in entries.
	maxWalk = 1 << 16
)

// startWalk returns a walk that does not visit anything yet.
func (t *table) startWalk(s *slot) *walk {
	for _, w := range t.walks {
		if w.s == nil {
			w.s = s
			return w
		}
	}
	w := &walk{s: s}
	t.walks = append(t.walks, w)
	return w
}

func (w *walk) end() {
	w.s, w.next = nil, 0
	w.order, w.now, w.was = w.order[:0], w.now[:0], w.was[:0]
	if cap(w.order) > maxWalk {
		*w = walk{}
	}
}

// step returns the position of the next entry, and false when there is none.
func (w *walk) step() (i int, ok bool) {
	for ; w.next < len(w.order); w.next++ {
		at := w.order[w.next].at
		if len(w.now) > 0 {
			at = w.now[at]
		}
		if at != gone {
			w.next++
			return int(at), true
		}
	}
	return 0, false
}

// inserted notes that a new entry lies at a position.
func (w *walk) inserted(i int) {
	if i < len(w.was) {
		w.was[i] = gone
	}
}

// removed notes that the entry at i has gone and that from last moved there.
func (w *walk) removed(i, last int) {
	if len(w.now) == 0 {
		w.follow()
	}
	if o := w.original(i); o != gone {
		w.now[o] = gone
	}
	if i == last {
		return
	}
	o := w.original(last)
	if o != gone {
		w.now[o] = uint32(i)
	}
	if i < len(w.was) {
		w.was[i] = o
	}
}

// original returns where the entry that lies at i lay at the start.
func (w *walk) original(i int) uint32 {
	if i >= len(w.was) {
		return gone
	}
	return w.was[i]
}

// follow begins to note where entries move. As many as there were at the start
// are known.
func (w *walk) follow() {
	n := int(w.known())
	for i := range n {
		w.now, w.was = append(w.now, uint32(i)), append(w.was, uint32(i))
	}
}

// known returns the number of positions at the start.
func (w *walk) known() uint32 {
	most := uint32(0)
	for _, r := range w.order {
		most = max(most, r.at+1)
	}
	return most
}

// visitInOrder fills a walk with the entries of a map, those from the key on
// unless it is nil.
func (c *mapCell[K, V]) visitInOrder(w *walk, from []byte) {
	s, a, t := w.s, c.cur.Arena, &c.table
	order := &c.key.order
	least := uint64(0)
	if from != nil {
		least = order.Rank(from)
	}
	exact, b := order.Exact(), base(s, a)
	sorted, last := exact, uint64(0)
	for i := range int(s.count) {
		e := t.in(s, b, a, i)
		rank := c.key.rank(unsafe.Add(e, t.key), t, a)
		if rank < least || from != nil && rank == least && !exact && order.Compare(c.keyBytes(e, a, &c.words[0]), from) < 0 {
			continue
		}
		sorted = sorted && last <= rank
		last = rank
		w.order = append(w.order, ranked{rank, uint32(i)})
	}
	switch {
	case sorted:
	case exact:
		slices.SortFunc(w.order, func(x, y ranked) int { return cmp.Compare(x.rank, y.rank) })
	default:
		slices.SortFunc(w.order, func(x, y ranked) int { return c.compareRanked(s, x, y) })
	}
}

// compareRanked orders two entries of a map.
func (c *mapCell[K, V]) compareRanked(s *slot, x, y ranked) int {
	if x.rank != y.rank {
		return cmp.Compare(x.rank, y.rank)
	}
	a, t := c.cur.Arena, &c.table
	return c.key.order.Compare(c.keyBytes(t.at(s, a, int(x.at)), a, &c.words[0]), c.keyBytes(t.at(s, a, int(y.at)), a, &c.words[1]))
}

// keyBytes returns the encoded key of an entry, in w if it is a word.
func (c *mapCell[K, V]) keyBytes(e unsafe.Pointer, a *memory.Arena, w *[8]byte) []byte {
	at := unsafe.Add(e, c.table.key)
	if c.key.word {
		return c.key.wordBytes(w, at)
	}
	return c.table.keyView(at, a)
}
