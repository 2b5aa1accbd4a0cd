// Command keyedhistory keeps a list per key: every record emits the whole
// history of its key so far.
//
//	go run ./examples/keyedhistory run
package main

import (
	"fmt"
	"strings"

	"github.com/weirstream/weir/runner"
	"github.com/weirstream/weir/state"
	"github.com/weirstream/weir/stream"
)

// reading is a value that a user sent.
type reading struct {
	User  string
	Value int
}

func (r reading) String() string { return fmt.Sprintf("(%s,%d)", r.User, r.Value) }

// history is what one user has sent so far.
type history []reading

func (h history) String() string {
	s := make([]string, len(h))
	for i, r := range h {
		s[i] = r.String()
	}
	return "[" + strings.Join(s, ",") + "]"
}

// remember appends each record to its key's list and emits the list.
type remember struct{ seen state.List[int] }

func newRemember(r *state.Registry) *remember {
	return &remember{seen: state.ListIn[int](r, "seen")}
}

func (f *remember) Process(ctx *stream.Ctx[string, history], r reading) error {
	if err := f.seen.Add(r.Value); err != nil {
		return err
	}
	values, err := f.seen.Get()
	if err != nil {
		return err
	}
	h := make(history, len(values))
	for i, v := range values {
		h[i] = reading{ctx.Key(), v}
	}
	ctx.Emit(h)
	return nil
}

func histories(job *stream.Job) stream.Stream[history] {
	job.Parallelism(2)
	readings := stream.FromSlice(job, "readings", []reading{
		{"userA", 10}, {"userB", 15}, {"userC", 5},
		{"userA", 20}, {"userB", 25}, {"userC", 15},
		{"userA", 30}, {"userB", 35}, {"userC", 25},
	})
	byUser := stream.KeyBy(readings, func(r reading) string { return r.User })
	return stream.Process(byUser, "history", newRemember)
}

func build(job *stream.Job) { stream.Print(histories(job), "history") }

func main() { runner.Main("keyedhistory", build) }
