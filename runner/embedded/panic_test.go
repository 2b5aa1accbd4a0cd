package embedded_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirstream/weir/checkpoint"
	"github.com/weirstream/weir/codec"
	"github.com/weirstream/weir/connector"
	"github.com/weirstream/weir/connector/collect"
	"github.com/weirstream/weir/runner/embedded"
	"github.com/weirstream/weir/state"
	"github.com/weirstream/weir/stream"
)

// bomb panics the first time that code passes the place it lies at.
type bomb struct {
	place string
	// twice lets the first pass go by.
	skip atomic.Int32
	gone atomic.Bool
}

func (b *bomb) at(place string) {
	if place == b.place && b.skip.Add(-1) < 0 && b.gone.CompareAndSwap(false, true) {
		panic("bomb at " + place)
	}
}

// mined is a function, a state type and a sink full of places for a bomb.
type mined struct {
	b *bomb
	n state.Value[minedCount]
	t state.Timers
}

type minedCount struct {
	N  int64
	On map[string]string
}

func (f *mined) Initialize(*stream.Runtime) error { f.b.at("Initialize"); return nil }
func (f *mined) Open(*stream.Runtime) error       { f.b.at("Open"); return nil }
func (f *mined) Snapshot() error                  { f.b.at("Snapshot"); return nil }
func (f *mined) Close() error                     { f.b.at("Close"); return nil }

func (f *mined) EndInput(*stream.Ctx[string, string]) error { f.b.at("EndInput"); return nil }

func (f *mined) OnTimer(c *stream.Ctx[string, string], _ time.Time) error {
	f.b.at("OnTimer")
	c.Emit("timer of " + c.Key())
	return nil
}

func (f *mined) Process(c *stream.Ctx[string, string], v string) error {
	f.b.at("Process")
	n, err := f.n.Get()
	if err != nil {
		return err
	}
	n.N++
	c.Emit(fmt.Sprintf("%s=%d", c.Key(), n.N))
	return errors.Join(f.n.Set(n), f.t.Set(time.UnixMilli(100)))
}

type minedCodec struct{ b *bomb }

func (c minedCodec) Format() codec.Format { return codec.Format{ID: "mined", Version: 1} }
func (c minedCodec) Append(dst []byte, v minedCount) ([]byte, error) {
	c.b.at("codec")
	data, err := json.Marshal(v)
	return append(dst, data...), err
}

func (c minedCodec) Decode(src []byte) (v minedCount, err error) {
	return v, json.Unmarshal(src, &v)
}

type minedSink struct {
	*collect.Sink[string]
	b *bomb
}

func (s minedSink) NewCommitter(c connector.CommitterContext) (connector.Committer[collect.Committable], error) {
	s.b.at("NewCommitter")
	inner, err := s.Sink.NewCommitter(c)
	return minedCommitter{inner, s.b}, err
}

func (s minedSink) NewWriter(c connector.SinkContext) (connector.Writer[string, collect.Committable], error) {
	s.b.at("NewWriter")
	inner, err := s.Sink.NewWriter(c)
	return minedWriter{inner, s.b}, err
}

type minedCommitter struct {
	connector.Committer[collect.Committable]
	b *bomb
}

func (c minedCommitter) Commit(ctx context.Context, cs []collect.Committable) error {
	c.b.at("Commit")
	return c.Committer.Commit(ctx, cs)
}

func (c minedCommitter) Sweep(ctx context.Context, still func() error) error {
	c.b.at("Sweep")
	return c.Committer.Sweep(ctx, still)
}

func (c minedCommitter) Close() error {
	c.b.at("CommitterClose")
	return c.Committer.Close()
}

type minedWriter struct {
	connector.Writer[string, collect.Committable]
	b *bomb
}

func (w minedWriter) Write(vals []string, times []int64) error {
	w.b.at("Write")
	return w.Writer.Write(vals, times)
}

func (w minedWriter) Flush(ctx context.Context) error {
	w.b.at("Flush")
	return w.Writer.Flush(ctx)
}

func (w minedWriter) PreCommit(id int64) ([]collect.Committable, error) {
	w.b.at("PreCommit")
	return w.Writer.PreCommit(id)
}

func (w minedWriter) Committed(id int64) error {
	w.b.at("Committed")
	return w.Writer.Committed(id)
}

func (w minedWriter) Close() error {
	w.b.at("WriterClose")
	return w.Writer.Close()
}

// syncBuffer is a buffer for the lines of a log.
type syncBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// TestPanics has a panic in every place where code of the user runs: the
// process lives, the job restarts, the output is exact, and no state memory
// is lost.
func TestPanics(t *testing.T) {
	places := []string{
		"NewEnumerator", "NewReader", "Start", "call", "handle", "AddReader", "EnumeratorSnapshot", "EnumeratorComplete", "EnumeratorClose",
		"Poll", "ReaderSnapshot", "ReaderComplete", "ReaderClose", "key",
		"constructor", "Initialize", "Open", "Process", "OnTimer", "Snapshot", "EndInput", "Close", "codec",
		"NewCommitter", "NewWriter", "Commit", "Sweep", "CommitterClose", "Write", "Flush", "PreCommit", "Committed", "WriterClose",
	}
	for _, place := range places {
		for skip := range int32(2) {
			t.Run(fmt.Sprintf("%s %d", place, skip), func(t *testing.T) {
				b := &bomb{place: place}
				b.skip.Store(skip)
				panicAt(t, b)
			})
		}
	}
}

func panicAt(t *testing.T, b *bomb) {
	src, out := &shots{at: b.at, first: []int{1, 2, 3, 4, 5, 6}, last: true}, collect.NewExactlyOnce[string]()
	var log syncBuffer
	r := launch(t, t.TempDir(), embedded.Options{
		Parallelism: 2, Logger: slog.New(slog.NewTextHandler(&log, nil)), Restart: checkpoint.FixedDelay{Attempts: 3, Delay: ms},
		Checkpoint: checkpoint.Options{Interval: 2 * ms, TolerableFailures: checkpoint.Unlimited},
	}, func(j *stream.Job) {
		s := stream.KeyBy(stream.From[string](j, "in", src), func(v string) string { b.at("key"); return v })
		built := false
		p := stream.Process(s, "mined", func(r *state.Registry) *mined {
			if built {
				b.at("constructor")
			}
			return &mined{b, state.ValueIn[minedCount](r, "n", state.Codec[minedCount](minedCodec{b})), state.EventTimers(r)}
		})
		built = true
		stream.To(p, "out", minedSink{out, b})
	})
	r.end()
	if strings.Contains(log.String(), "state memory was not given back") {
		t.Errorf("state memory is lost:\n%s", log.String())
	}
	var all []string
	for n := range 6 {
		all = append(all, fmt.Sprintf("v%d=1", n+1), fmt.Sprintf("timer of v%d", n+1))
	}
	want(t, "results", out.Values(), all...)
	// Some come only when the job has ended.
	if !slices.Contains([]string{"call", "handle", "EnumeratorComplete", "EnumeratorClose", "ReaderClose", "Close", "CommitterClose", "WriterClose"}, b.place) && b.gone.Load() {
		r.mu.Lock()
		defer r.mu.Unlock()
		failed := slices.IndexFunc(r.events, func(e embedded.Event) bool { return e.Kind == embedded.Failed })
		if failed < 0 {
			t.Fatalf("the attempt did not fail; events %v", r.events)
		}
		wantError(t, r.events[failed].Err, "panic: bomb at "+b.place)
	}
}
