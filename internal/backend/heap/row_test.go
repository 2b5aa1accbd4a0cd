package heap

import (
	"bytes"
	"strings"
	"testing"
	"unsafe"

	"github.com/weirstream/weir/internal/entry"
	"github.com/weirstream/weir/internal/memory"
)

// noTier is a tier that is never asked for anything.
type noTier struct{ Tier }

func (noTier) Close() {}

// Any bytes are a row or an error, and what is a row is one again.
func FuzzRow(f *testing.F) {
	f.Add([]byte{0})
	f.Add([]byte{1, 1, 2, 3, 4, 5, 6, 7, 8})
	f.Add([]byte{2, 10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 'h', 'i'})
	f.Add([]byte{4, 9, 0, 0, 0, 1, 5, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0})
	f.Add([]byte{0xFF, 0xFF, 0xFF, 0xFF, 0x0F})
	pool := memory.NewPool(0)
	n, s := newNumber("n"), newText("s", 0)
	store, err := New[int64](Options{Operator: "op", Fields: []*entry.Field{n.Field, s.Field, NewTimerField(entry.EventTime)},
		Cursor: &entry.Cursor{}, MaxParallelism: 1, Range: whole(1), Pool: pool, Tier: noTier{}, Share: memory.NewBudget(0, 1).Share()})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, row []byte) {
		load := func(row []byte) (unsafe.Pointer, error) {
			words := make([]uint64, store.size/8)
			p := unsafe.Pointer(unsafe.SliceData(words))
			return p, store.loadRow(p, row)
		}
		p, err := load(row)
		if err != nil {
			return
		}
		again, err := store.appendRow(nil, p, store.arena.View())
		if err != nil {
			t.Fatal(err)
		}
		q, err := load(again)
		if err != nil {
			t.Fatalf("%x was read and written as %x, which is refused: %v", row, again, err)
		}
		third, err := store.appendRow(nil, q, store.arena.View())
		if err != nil || !bytes.Equal(again, third) {
			t.Fatalf("%x became %x, error %v", again, third, err)
		}
		for _, p := range []unsafe.Pointer{p, q} {
			for _, f := range store.fields {
				if f.Has(p) {
					f.Clear(p, store.arena)
				}
			}
		}
	})
}

func TestRowValueTooLarge(t *testing.T) {
	if err := checkRowValue(mostRowValue); err != nil {
		t.Error(err)
	}
	err := checkRowValue(mostRowValue + 1)
	if err == nil || !strings.Contains(err.Error(), "1073741825 bytes") || !strings.Contains(err.Error(), "part of the key") {
		t.Errorf("error %v", err)
	}
}
