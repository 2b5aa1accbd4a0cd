package splitreader

import (
	"bytes"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/weirstream/weir/codec"
)

// lengths decodes batches as a function says.
type lengths struct {
	codec.Codec[int64]
	fn func(dst []int64, srcs [][]byte) ([]int64, error)
}

func (l lengths) DecodeBatch(dst []int64, srcs [][]byte) ([]int64, error) { return l.fn(dst, srcs) }

func TestDecodeTogether(t *testing.T) {
	srcs := [][]byte{[]byte("a"), []byte("bb")}
	for _, c := range []struct {
		name string
		fn   func([]int64, [][]byte) ([]int64, error)
		ok   bool
		want []int64
		err  string
	}{
		{"decodes", func(dst []int64, _ [][]byte) ([]int64, error) { return append(dst, 1, 2), nil }, true, []int64{7, 1, 2}, ""},
		{"fails", func(dst []int64, _ [][]byte) ([]int64, error) { return dst, errors.New("bad") }, false, []int64{7}, ""},
		{"panics", func([]int64, [][]byte) ([]int64, error) { panic("bad") }, false, []int64{7}, ""},
		{"too few", func(dst []int64, _ [][]byte) ([]int64, error) { return append(dst, 1), nil }, false, []int64{7}, "1 values for 2 records"},
		{"too many", func(dst []int64, _ [][]byte) ([]int64, error) { return append(dst, 1, 2, 3), nil }, false, []int64{7}, "3 values for 2 records"},
	} {
		b := Batch[int64]{Vals: []int64{7}}
		ok, err := DecodeTogether(lengths{codec.Int64(), c.fn}, &b, srcs, nil)
		if ok != c.ok || !slices.Equal(b.Vals, c.want) || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %t, %v, %v", c.name, ok, b.Vals, err)
		}
	}
}

func TestPanicIsWarnedOfOnce(t *testing.T) {
	var log bytes.Buffer
	w := &PanicWarning{Log: slog.New(slog.NewTextHandler(&log, nil))}
	c := lengths{codec.Int64(), func([]int64, [][]byte) ([]int64, error) { panic("too many") }}
	for range 2 {
		if ok, err := DecodeTogether(c, &Batch[int64]{}, nil, w); ok || err != nil {
			t.Errorf("%t, %v", ok, err)
		}
	}
	if got := log.String(); strings.Count(got, "level=WARN") != 1 || !strings.Contains(got, `panic="too many"`) || !strings.Contains(got, "codec=splitreader.lengths") {
		t.Errorf("logged %s", got)
	}
}
