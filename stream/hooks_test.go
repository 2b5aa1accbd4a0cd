package stream

import (
	"strings"
	"testing"

	"github.com/weirstream/weir/connector"
	"github.com/weirstream/weir/state"
)

type halfPointer struct{}

func (halfPointer) Process(*Ctx[NoKey, int], int) error { return nil }
func (*halfPointer) Close() error                       { return nil }

// A hook with a pointer receiver is none of the value: it would never be
// called.
func TestHookOfPointerToValue(t *testing.T) {
	build := func(process func(Stream[int]) Stream[int]) error {
		j := NewJob("hooks")
		To(process(FromSlice(j, "numbers", []int{1})), "out", connector.Discard[int]())
		_, err := j.Build()
		return err
	}
	err := build(func(s Stream[int]) Stream[int] {
		return ProcessUnkeyed(s, "half", func(*state.Registry) halfPointer { return halfPointer{} })
	})
	if err == nil || !strings.Contains(err.Error(), "method Close has the name of a hook but is one of *stream.halfPointer") {
		t.Errorf("a value: %v", err)
	}
	err = build(func(s Stream[int]) Stream[int] {
		return ProcessUnkeyed(s, "half", func(*state.Registry) *halfPointer { return &halfPointer{} })
	})
	if err != nil {
		t.Errorf("a pointer: %v", err)
	}
}
