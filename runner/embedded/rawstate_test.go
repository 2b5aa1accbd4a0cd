package embedded_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/weirstream/weir/state"
	"github.com/weirstream/weir/stream"
)

// census counts the records of each key in maps of its own, by key group, and
// writes them as JSON when a snapshot is taken.
type census struct {
	stored state.KeyedRaw
	counts map[int]map[string]int
}

func newCensus(r *state.Registry) *census {
	return &census{stored: state.KeyedRawIn(r, "counts"), counts: map[int]map[string]int{}}
}

func (f *census) Initialize(*stream.Runtime) error {
	for g := range f.stored.Groups() {
		r, err := f.stored.Reader(g)
		if err != nil {
			return err
		}
		counts := map[string]int{}
		if err := json.NewDecoder(r).Decode(&counts); err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		f.counts[g] = counts
	}
	return nil
}

func (f *census) Process(c *stream.Ctx[string, string], _ string) error {
	g, err := f.stored.Group()
	if err != nil {
		return err
	}
	f.counts[g][c.Key()]++
	c.EmitAt(fmt.Sprintf("%s=%d", c.Key(), f.counts[g][c.Key()]), time.UnixMilli(0))
	return nil
}

func (f *census) Snapshot() error {
	for g, counts := range f.counts {
		err := f.stored.Write(g, func(w io.Writer) error {
			if len(counts) == 0 {
				return nil
			}
			return json.NewEncoder(w).Encode(counts)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// bundle keeps records in bundles of three, each a part of raw state, and
// emits them at the end.
type bundle struct {
	stored state.Raw
	held   [][]string
}

func newBundle(r *state.Registry) *bundle { return &bundle{stored: state.RawIn(r, "bundles")} }

func (f *bundle) Initialize(*stream.Runtime) error {
	for r := range f.stored.Parts() {
		b, err := io.ReadAll(r)
		if err != nil {
			return err
		}
		f.held = append(f.held, strings.Split(string(b), "\n"))
	}
	return nil
}

func (f *bundle) Process(_ *stream.Ctx[stream.NoKey, string], v string) error {
	if n := len(f.held); n > 0 && len(f.held[n-1]) < 3 {
		f.held[n-1] = append(f.held[n-1], v)
	} else {
		f.held = append(f.held, []string{v})
	}
	return nil
}

func (f *bundle) Snapshot() error {
	f.stored.Clear()
	for _, b := range f.held {
		err := f.stored.Add(func(w io.Writer) error {
			_, err := io.WriteString(w, strings.Join(b, "\n"))
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (f *bundle) EndInput(c *stream.Ctx[stream.NoKey, string]) error {
	for _, b := range f.held {
		for _, v := range b {
			c.EmitAt(v, time.UnixMilli(0))
		}
	}
	f.held = nil
	return nil
}
