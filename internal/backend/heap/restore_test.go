package heap

import (
	"strings"
	"testing"

	"github.com/weirstream/weir/internal/entry"
	"github.com/weirstream/weir/internal/keygroup"
	"github.com/weirstream/weir/internal/memory"
	"github.com/weirstream/weir/internal/snapshot"
)

func TestRestoreRefusesBadSections(t *testing.T) {
	r := newRig[int64](t, 1, whole(1))
	n := snapshot.State{Name: "n", Kind: "value", Format: r.n.Format}
	one := make([]byte, 16)
	for name, c := range map[string]struct {
		group, count int
		st           snapshot.State
		data         []byte
		want         string
	}{
		"group":    {1, 1, n, one, "owns groups 0-0"},
		"state":    {0, 1, snapshot.State{Name: "other"}, one, "declares no such state"},
		"short":    {0, 2, n, one, "2 entries in 16 bytes"},
		"negative": {0, -1, n, one, "-1 entries"},
		"long":     {0, 1, n, make([]byte, 17), "1 bytes behind"},
		"twice":    {0, 2, n, make([]byte, 32), "comes twice"},
	} {
		o := newRig[int64](t, 1, whole(1))
		err := o.store.RestoreSection(c.group, c.st, c.count, c.data)
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), `operator "op"`) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	o := newRig[int64](t, 2, whole(2))
	g := 1 - keygroup.Group(o.hash(0), 2)
	if err := o.store.RestoreSection(g, n, 1, one); err == nil || !strings.Contains(err.Error(), "belongs to group") {
		t.Errorf("key in the wrong group: %v", err)
	}
}

// A value that has expired at restore leaves no entry.
func TestRestoreDropsExpired(t *testing.T) {
	x := newExpiring(t, 10)
	x.batch(100)
	x.now = 5
	x.batch(100)
	o := newExpiring(t, 10)
	o.now = 12
	o.has100(x)
}

// Neither does one in a section during which the table grows.
func TestRestoreDropsExpiredWhileGrowing(t *testing.T) {
	x := newExpiring(t, 10)
	x.batch(5000)
	o := newExpiring(t, 10)
	o.now, o.next = 5, 1_000_000
	o.batch(100)
	o.now = 12
	o.has100(x)
}

// has100 restores the state of another store, of which so many keys are young,
// or are there already.
func (x *expiring) has100(from *expiring) {
	x.t.Helper()
	sections, err := encodeAll(freezeAndRelease(x.t, from.store))
	if err != nil {
		x.t.Fatal(err)
	}
	for _, s := range sections {
		if err := x.store.RestoreSection(s.group, s.st, s.count, s.data); err != nil {
			x.t.Fatal(err)
		}
	}
	if got := x.store.Len(); got != 100 {
		x.t.Fatalf("%d keys, want the 100 that are young", got)
	}
}

func FuzzRestoreSection(f *testing.F) {
	restore := func(t *testing.T, data []byte, count int, state uint8) {
		pool := memory.NewPool(64 << 20)
		defer pool.Close()
		fields := []*entry.Field{newNumber("n").Field, newText("s", 0).Field, NewTimerField(entry.EventTime)}
		s, err := New[string](Options{Operator: "op", Fields: fields, Cursor: &entry.Cursor{}, MaxParallelism: 1,
			Range: whole(1), Pool: pool})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		field := fields[int(state)%len(fields)]
		if err := s.RestoreSection(0, snapshot.State{Name: field.Name, Format: field.Format}, count, data); err != nil {
			return
		}
		// What is accepted is written again, to the same number of entries.
		frozen := s.Freeze()
		defer frozen.Release()
		sections, err := encodeAll(frozen)
		if err != nil {
			t.Fatal(err)
		}
		if count > 0 && (len(sections) != 1 || sections[0].count != count) {
			t.Fatalf("%d entries restored, written %v", count, sections)
		}
		s.AdvanceEventTime(1<<63-1, 1000, func(int64) error { return nil })
	}
	f.Add([]byte("\x03abc12345678\x00abcdefgh"), 2, uint8(0))
	f.Add([]byte("\x03abc\x0a12345678xy"), 1, uint8(1))
	f.Add([]byte("\x01a\x09\x01\x05\x00\x00\x00\x00\x00\x00\x00"), 1, uint8(2))
	f.Add([]byte("\x01a\x11\x02\x05\x00\x00\x00\x00\x00\x00\x00\x06\x00\x00\x00\x00\x00\x00\x00"), 1, uint8(2))
	f.Fuzz(restore)
}
