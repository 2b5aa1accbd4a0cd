package pane

import (
	"strings"
	"testing"
	"time"

	"github.com/weirstream/weir/codec"
	"github.com/weirstream/weir/internal/entry"
	"github.com/weirstream/weir/internal/snapshot"
	"github.com/weirstream/weir/window"
)

func storedSums(t *testing.T, w window.Assigner) (snapshot.State, []byte) {
	k := newKey(t, sumConfig, w, 0)
	*k.At(0) = 5
	k.Keep()
	*k.At(10) = 7
	k.Keep()
	f := k.field
	return snapshot.State{Name: f.Name, Kind: string(f.Kind), Format: f.Format, Detail: f.Detail}, k.encode(t, k.mem, k.cur.Arena.View())
}

// Stored slices of another accumulator are converted one by one.
func TestConvertSlices(t *testing.T) {
	w := window.Tumbling(10 * time.Millisecond)
	st, stored := storedSums(t, w)
	var asked codec.Format
	var asSame bool
	c := logConfig // bytes: two of each byte of the sum
	c.Kind = "sum"
	c.Convert = func(stored codec.Format, same bool) (int, entry.Conversion, error) {
		asked, asSame = stored, same
		return 8, entry.Conversion{Append: func(dst, src []byte) ([]byte, error) { return append(append(dst, src...), src...), nil }}, nil
	}
	k := newKey(t, c, w, 0)
	conv, err := k.field.Conversion(st)
	if err != nil {
		t.Fatal(err)
	}
	if asked.ID != "int64" || !asSame {
		t.Errorf("asked for %+v, %v", asked, asSame)
	}
	b, err := conv.Append(nil, stored)
	if err != nil {
		t.Fatal(err)
	}
	if err := k.field.Load(b, false, k.cur.P, k.cur.Arena, 0); err != nil {
		t.Fatal(err)
	}
	for start, want := range map[int64]byte{0: 5, 10: 7} {
		if acc := *k.At(start); len(acc) != 16 || acc[0] != want || acc[8] != want {
			t.Errorf("slice %d: %v", start, acc)
		}
		k.Keep()
	}
	for cut := range len(stored) {
		if _, err := conv.Append(nil, stored[:cut]); err == nil {
			t.Errorf("%d of %d bytes: no error", cut, len(stored))
		}
	}
}

func TestConvertRefuses(t *testing.T) {
	st, _ := storedSums(t, window.Tumbling(10*time.Millisecond))
	c := sumConfig
	c.Convert = func(codec.Format, bool) (int, entry.Conversion, error) {
		t.Error("asked for a conversion")
		return 0, entry.Conversion{}, nil
	}
	k := newKey(t, c, window.Tumbling(20*time.Millisecond), 0)
	if _, err := k.field.Conversion(st); err == nil || !strings.Contains(err.Error(), "windows of an operator cannot change") {
		t.Errorf("error %v", err)
	}
}
