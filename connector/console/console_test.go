package console

import (
	"bytes"
	"errors"
	"testing"

	"github.com/weirstream/weir/connector/connectortest"
)

func TestLines(t *testing.T) {
	type pair struct {
		A int
		B string
	}
	for label, want := range map[string]string{
		"out": "out:3> {1 x}\nout:3> {2 y}\n",
		"":    "3> {1 x}\n3> {2 y}\n",
	} {
		var buf bytes.Buffer
		w, err := Sink[pair](&buf, label).NewWriter(&connectortest.Context{SubtaskIndex: 3})
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Write([]pair{{1, "x"}}, []int64{0}); err != nil {
			t.Fatal(err)
		}
		if err := w.Write([]pair{{2, "y"}}, []int64{0}); err != nil {
			t.Fatal(err)
		}
		if got := buf.String(); got != want {
			t.Errorf("label %q: got %q, want %q", label, got, want)
		}
	}
}

type broken struct{ err error }

func (b broken) Write([]byte) (int, error) { return 0, b.err }

func TestWriteErrorIsReported(t *testing.T) {
	full := errors.New("no space left")
	w, err := Sink[int](broken{full}, "x").NewWriter(&connectortest.Context{})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Write([]int{1}, []int64{0}); !errors.Is(err, full) {
		t.Errorf("got %v, want %v", err, full)
	}
}
