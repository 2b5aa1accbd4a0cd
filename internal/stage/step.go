package stage

import (
	"errors"
	"time"
)

// Open opens the operators of a task that its host drives by Work, on one
// goroutine, instead of by Run. Close must follow, also after an error.
func (t *Task) Open() (err error) {
	defer t.recovered(&err)
	return t.open()
}

// WorkSteps and WorkTimers bound one call of Work: the batches read, and the
// timers fired.
const (
	WorkSteps  = 100
	WorkTimers = WorkSteps * advanceBudget
)

// Work does what there is to do: what was posted, timers that are due,
// elements that can be read. did tells that there was anything, and that there
// may be more; when there was nothing, all that was emitted has been passed on.
// After an error only Close may be called.
func (t *Task) Work() (did bool, err error) {
	defer t.recovered(&err)
	for range WorkSteps {
		posted := t.mail.full.Load() || len(t.putOff) > 0
		if err := t.letters(); err != nil {
			return did, err
		}
		now := time.Now()
		o, err := t.step(now)
		if err != nil {
			return did, err
		}
		did = did || posted || o == worked
		if o != worked {
			return did, t.flush(now)
		}
	}
	return true, nil
}

// Close closes the operators and returns their errors.
func (t *Task) Close() error {
	var errs []error
	t.close(func(_ *Context, err error) { errs = append(errs, err) })
	return errors.Join(errs...)
}

// Firing says whose timers are due, and for which key one fired last; "" if none
// are.
func (t *Task) Firing() string {
	for i, op := range t.Operators {
		at, has := op.NextProcessingTime()
		if !(t.advancing && t.at == i) && !(has && at <= t.Now() && !t.resting() && !t.Batch) {
			continue
		}
		if w, ok := op.(Witness); ok {
			return describe(t.Contexts[i].Operator, w, true)
		}
	}
	return ""
}

// Alarm is the earliest time by the wall clock, in milliseconds, at which a
// processing-time timer may be due. Work at that time makes progress.
func (t *Task) Alarm() (millis int64, ok bool) {
	if t.resting() || t.Batch {
		return 0, false
	}
	for _, op := range t.Operators {
		if at, has := op.NextProcessingTime(); has && (!ok || at < millis) {
			millis, ok = at, true
		}
	}
	return millis, ok
}
