package stage

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"
)

// ticking is an operator with processing-time timers that are always due. It stops its task once it was asked often enough.
type ticking struct {
	Operator
	ticks    int
	snapshot func() (Part, error)
}

func (o *ticking) Input() any                        { return o }
func (o *ticking) Open(*Context) error               { return nil }
func (o *ticking) Close() error                      { return nil }
func (o *ticking) Flush() error                      { return nil }
func (o *ticking) PrepareSnapshot(*Barrier) error    { return nil }
func (o *ticking) NextProcessingTime() (int64, bool) { return 0, true }
func (o *ticking) Snapshot(*Barrier) (Part, error)   { return o.snapshot() }
func (o *ticking) ProcessingTime(int64, int) (bool, error) {
	o.ticks++
	return false, nil
}

// queue is an input that holds elements.
type queue []Element

func (q *queue) Poll() (Element, bool) {
	if len(*q) == 0 {
		return Element{}, false
	}
	e := (*q)[0]
	*q = (*q)[1:]
	return e, true
}

type noHost struct{ snapshots int }

func (h *noHost) Ended(TaskID) {}
func (h *noHost) Snapshot(_ TaskID, _ *Barrier, parts []Part, _ time.Duration) {
	h.snapshots++
	releaseParts(parts)
}

func tickingTask(inputs []Input, ops ...Operator) (*Task, *noHost) {
	h := &noHost{}
	c := TaskConfig{Operators: ops, Inputs: inputs, Waker: NewWaker(), Load: &Load{}, Host: h, Now: func() int64 { return 1000 }}
	for range ops {
		c.Contexts = append(c.Contexts, &Context{Logger: slog.New(slog.DiscardHandler), Metrics: &Metrics{}})
	}
	return NewTask(c), h
}

func (t *Task) steps(tb testing.TB, steps int) {
	tb.Helper()
	for range steps {
		if _, err := t.step(time.Now()); err != nil {
			tb.Fatal(err)
		}
	}
}

// What a timer emitted behind the last snapshot would be emitted again after
// the restore.
func TestNoTimersAfterAStopBarrier(t *testing.T) {
	op := &ticking{snapshot: func() (Part, error) { return Part{}, nil }}
	in := &queue{{Kind: Mark, Barrier: &Barrier{ID: 1, Stop: true}}, {Kind: Mark, Barrier: &Barrier{ID: 2, Stop: true}}}
	task, host := tickingTask([]Input{in}, op)
	task.steps(t, 1)
	if op.ticks != 1 || host.snapshots != 0 {
		t.Fatalf("before the barrier: %d ticks, %d snapshots", op.ticks, host.snapshots)
	}
	if err := task.receive(0, (*in)[0]); err != nil {
		t.Fatal(err)
	}
	*in = (*in)[1:]
	task.steps(t, 3)
	if op.ticks != 1 {
		t.Errorf("%d ticks after the stop barrier", op.ticks-1)
	}
	if host.snapshots != 2 {
		t.Errorf("%d snapshots, want 2: the last snapshot may have to be repeated", host.snapshots)
	}
}

// A task whose timers are due and cannot fire must sleep, not spin.
func TestPatienceOfTasksThatFireNothing(t *testing.T) {
	for name, set := range map[string]func(*Task){
		"ended":   func(t *Task) { t.done = true },
		"stopped": func(t *Task) { t.stopped = true },
	} {
		task, _ := tickingTask([]Input{&queue{}}, &ticking{})
		set(task)
		if d := task.patience(dry); d != time.Hour {
			t.Errorf("%s: sleeps for %v", name, d)
		}
	}
	task, _ := tickingTask([]Input{&queue{}}, &ticking{})
	if d := task.patience(full); d != time.Hour {
		t.Errorf("back-pressured: sleeps for %v", d)
	}
	if d := task.patience(dry); d != 0 {
		t.Errorf("with a timer due: sleeps for %v", d)
	}
}

type held struct {
	KeyedPart
	released int
}

func (h *held) Release() { h.released++ }

// Frozen state of an operator is given up when another one in the chain
// cannot take its part.
func TestPartsAreReleasedOnFailure(t *testing.T) {
	broken := errors.New("broken")
	for name, last := range map[string]func() (Part, error){
		"error": func() (Part, error) { return Part{}, broken },
		"panic": func() (Part, error) { panic(broken) },
	} {
		h := &held{}
		first := &ticking{snapshot: func() (Part, error) { return Part{Keyed: h}, nil }}
		in := &queue{{Kind: Mark, Barrier: &Barrier{ID: 1}}}
		task, host := tickingTask([]Input{in}, &quiet{first}, &quiet{&ticking{snapshot: last}})
		if err := task.Run(context.Background()); err == nil {
			t.Errorf("%s: the task ended without error", name)
		}
		if h.released != 1 || host.snapshots != 0 {
			t.Errorf("%s: released %d times, %d snapshots", name, h.released, host.snapshots)
		}
	}
}

// quiet is without timers.
type quiet struct{ *ticking }

func (quiet) NextProcessingTime() (int64, bool) { return 0, false }
