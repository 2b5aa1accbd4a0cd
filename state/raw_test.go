package state

import (
	"errors"
	"io"
	"slices"
	"testing"

	"github.com/weirstream/weir/internal/entry"
	"github.com/weirstream/weir/internal/keygroup"
)

func says(s string) func(io.Writer) error {
	return func(w io.Writer) error {
		for _, c := range []byte(s) { // in several writes
			if _, err := w.Write([]byte{c}); err != nil {
				return err
			}
		}
		return nil
	}
}

var errHalf = errors.New("half of it")

func half(w io.Writer) error {
	if _, err := io.WriteString(w, "half"); err != nil {
		return err
	}
	return errHalf
}

func partsOf(t *testing.T, s Raw) []string {
	t.Helper()
	var parts []string
	for r := range s.Parts() {
		b, err := io.ReadAll(r)
		ok(t, err)
		parts = append(parts, string(b))
	}
	return parts
}

func TestRaw(t *testing.T) {
	r := NewRegistry("op")
	raw := RawIn(r, "model")
	ok(t, r.Err())
	ok(t, raw.Add(says("one")))
	err := raw.Add(half)
	wants(t, err, `raw state "model"`, "half of it")
	if !errors.Is(err, errHalf) {
		t.Errorf("%v does not wrap the error of the function", err)
	}
	ok(t, raw.Add(says("")))
	ok(t, raw.Add(says("three")))
	equals(t, "length", raw.Len(), 3)
	lists, err := r.SnapshotLists()
	ok(t, err)
	raw.Clear()
	ok(t, raw.Add(says("later")))
	equals(t, "later", partsOf(t, raw), []string{"later"})

	next := NewRegistry("op")
	raw = RawIn(next, "model")
	ok(t, next.RestoreLists(lists))
	equals(t, "restored", partsOf(t, raw), []string{"one", "", "three"})
	for range raw.Parts() {
		raw.Clear()
	}
	equals(t, "cleared", partsOf(t, raw), []string(nil))
	ok(t, next.RestoreLists(nil))
	equals(t, "restored from nothing", raw.Len(), 0)
}

func bytesOf(t *testing.T, s KeyedRaw, group int) string {
	t.Helper()
	r, err := s.Reader(group)
	ok(t, err)
	b, err := io.ReadAll(r)
	ok(t, err)
	return string(b)
}

func TestKeyedRaw(t *testing.T) {
	declared := NewRegistry("op")
	early := KeyedRawIn(declared, "sketches")
	ok(t, declared.Err())
	for range early.Groups() {
		t.Error("there are groups before the subtask has any")
	}
	if _, err := early.Reader(0); !errors.Is(err, ErrNoGroup) {
		t.Errorf("a read before the subtask has groups: %v", err)
	}

	cur := new(entry.Cursor)
	r := declared.Bind(cur)
	raw := KeyedRawIn(r, "sketches")
	ok(t, r.Err())
	r.BindGroups(keygroup.Range{First: 4, Last: 6}, 10)
	equals(t, "groups", slices.Collect(raw.Groups()), []int{4, 5, 6})
	if _, err := raw.Group(); !errors.Is(err, ErrNoKey) {
		t.Errorf("the group of no key: %v", err)
	}
	ok(t, raw.Write(4, says("four")))
	ok(t, raw.Write(6, says("six")))
	frozen := r.FreezeRaw()
	ok(t, raw.Write(6, says("")))
	err := raw.Write(4, half)
	wants(t, err, `raw state "sketches"`, "key group 4", "half of it")
	equals(t, "after a failed write", bytesOf(t, raw, 4), "four")
	equals(t, "emptied", bytesOf(t, raw, 6), "")
	equals(t, "never written", bytesOf(t, raw, 5), "")
	for _, g := range []int{-1, 3, 7} {
		err := raw.Write(g, says("x"))
		if !errors.Is(err, ErrNoGroup) {
			t.Errorf("a write to group %d: %v", g, err)
		}
		if _, err := raw.Reader(g); !errors.Is(err, ErrNoGroup) {
			t.Errorf("a read of group %d: %v", g, err)
		}
	}

	next := declared.Bind(cur)
	restored := KeyedRawIn(next, "sketches")
	next.BindGroups(keygroup.Range{First: 6, Last: 9}, 10)
	ok(t, next.RestoreRaw(6, frozen[0].State, frozen[0].Group(6)))
	equals(t, "as of the barrier", bytesOf(t, restored, 6), "six")
	if err := next.RestoreRaw(4, frozen[0].State, []byte("four")); !errors.Is(err, ErrNoGroup) {
		t.Errorf("a restore of a group of another subtask: %v", err)
	}
	frozen[0].State.Name = "gone"
	wants(t, next.RestoreRaw(6, frozen[0].State, nil), `operator "op"`, `no raw state "gone"`)
}
