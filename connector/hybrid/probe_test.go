package hybrid_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/weirstream/weir/connector"
	"github.com/weirstream/weir/connector/datagen"
)

// journal notes what happens to the members of a run, in order.
type journal struct{ lines []string }

func (j *journal) add(format string, args ...any) {
	j.lines = append(j.lines, fmt.Sprintf(format, args...))
}

// has says whether something has happened.
func (j *journal) has(line string) bool { return slices.Contains(j.lines, line) }

// index fails the test if the line is not there.
func (j *journal) index(t *testing.T, line string) int {
	t.Helper()
	i := slices.Index(j.lines, line)
	if i < 0 {
		t.Fatalf("%q did not happen, but %q", line, j.lines)
	}
	return i
}

// probe is a sequence that tells what is done to it, and whose reader and
// enumerator talk to each other.
type probe struct {
	*datagen.Sequence[int64]
	name    string
	journal *journal
	// poll is called by the enumerator again and again, if it is set.
	poll func(ctx context.Context) (any, error)
	// once makes it call just once.
	once bool
}

func (p *probe) NewEnumerator(ctx connector.EnumeratorContext[datagen.Split], restored *datagen.Enumeration) (connector.Enumerator[datagen.Split, datagen.Enumeration], error) {
	e, err := p.Sequence.NewEnumerator(ctx, restored)
	return &probeEnumerator{e, p, ctx}, err
}

func (p *probe) NewReader(ctx connector.ReaderContext) (connector.Reader[int64, datagen.Split], error) {
	r, err := p.Sequence.NewReader(ctx)
	ctx.SendEvent("hello")
	ctx.RequestSplit()
	return &probeReader{r, p, ctx}, err
}

type probeEnumerator struct {
	connector.Enumerator[datagen.Split, datagen.Enumeration]
	*probe
	ctx connector.EnumeratorContext[datagen.Split]
}

func (e *probeEnumerator) Start() error {
	if e.poll != nil {
		period := time.Nanosecond
		if e.once {
			period = 0
		}
		e.ctx.CallAsync(e.poll, func(any, error) error {
			e.journal.add("%s called", e.name)
			return nil
		}, 0, period)
	}
	return e.Enumerator.Start()
}

func (e *probeEnumerator) AddReader(subtask int) error {
	e.journal.add("%s has reader %d", e.name, subtask)
	return e.Enumerator.AddReader(subtask)
}

func (e *probeEnumerator) HandleSplitRequest(subtask int, host string) error {
	e.journal.add("%s asked by %d on %s", e.name, subtask, host)
	return nil
}

func (e *probeEnumerator) HandleSourceEvent(subtask int, event any) error {
	e.journal.add("%s told %v by %d", e.name, event, subtask)
	return e.ctx.SendEvent(subtask, "welcome")
}

func (e *probeEnumerator) CheckpointComplete(checkpoint int64) error {
	e.journal.add("%s completes %d", e.name, checkpoint)
	return nil
}

func (e *probeEnumerator) Close() error {
	e.journal.add("%s closed: %v", e.name, e.ctx.Context().Err())
	return e.Enumerator.Close()
}

type probeReader struct {
	connector.Reader[int64, datagen.Split]
	*probe
	ctx connector.ReaderContext
}

func (r *probeReader) HandleEvent(event any) error {
	r.journal.add("%s tells %v to %d", r.name, event, r.ctx.Subtask())
	r.ctx.SetGauge("pending", "0", 7)
	return nil
}

func (r *probeReader) CheckpointComplete(checkpoint int64) error {
	r.journal.add("%s reader %d completes %d", r.name, r.ctx.Subtask(), checkpoint)
	return nil
}

func (r *probeReader) Close() error {
	r.journal.add("%s reader %d closed", r.name, r.ctx.Subtask())
	return r.Reader.Close()
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
