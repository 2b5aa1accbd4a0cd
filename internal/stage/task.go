package stage

import (
	"context"
	"math"
	"time"

	"github.com/weirstream/weir/connector"
	"github.com/weirstream/weir/watermark"
)

// advanceBudget is how many timers fire between two looks at control
// messages.
const advanceBudget = 1024

// Host is what a task reports to. Its methods are called on the task's
// goroutine and must not block.
type Host interface {
	// Snapshot takes over the parts of a snapshot; took is the time spent on
	// the task's goroutine since the barrier was complete.
	Snapshot(t TaskID, b *Barrier, parts []Part, took time.Duration)
	// Ended says that all input has been processed.
	Ended(t TaskID)
}

// TaskConfig describes a task.
type TaskConfig struct {
	ID TaskID
	// Operators in chain order and a context for each.
	Operators []Operator
	Contexts  []*Context
	// Inputs are empty for a stage headed by a source.
	Inputs []Input
	// Second tells which of the inputs lead to the second input of the first
	// operator; nil if none does.
	Second  []bool
	Outputs []Writer
	Waker   *Waker
	Host    Host
	Load    *Load
	// BufferTimeout bounds how long a record waits for its batch to fill.
	BufferTimeout time.Duration
	// WatermarkInterval is the period of source watermarks; 0 is after each batch.
	WatermarkInterval time.Duration
	// Batch lets neither event time nor processing time pass until the input
	// ends.
	Batch bool
	// Now is the wall clock in ms.
	Now func() int64
}

// Task runs a stage's operators in one subtask. Run owns the goroutine; the
// methods named Post… may be called from any.
type Task struct {
	TaskConfig
	mail     mailbox
	putOff   []letter // taken from mail, for later
	source   Source
	heads    []any // the receiver of each input
	blocked  []bool
	ended    []bool
	combiner *watermark.Combiner
	align    *aligner
	aligning int64
	next     int // input polled next

	wm        int64 // event time passed on
	idle      bool
	idleNext  bool // idle once the advance is done
	advancing bool
	at        int // operator the advance has come to
	closing   bool
	done      bool // input ended and processed
	stopped   bool // a stop barrier has passed

	start         time.Time
	last          time.Time
	lastFlush     time.Time
	lastWatermark time.Time
	held          bool // back-pressured since the last source watermark
	lastWork      time.Time
	streak        bool // no wait since lastWork
	timer         *time.Timer
}

// NewTask makes a task.
func NewTask(c TaskConfig) *Task {
	t := &Task{TaskConfig: c, wm: math.MinInt64, align: newAligner(len(c.Inputs))}
	t.mail.waker = c.Waker
	t.blocked, t.ended = make([]bool, len(c.Inputs)), make([]bool, len(c.Inputs))
	t.combiner = watermark.NewCombiner(len(c.Inputs))
	if s, ok := c.Operators[0].(Source); ok && len(c.Inputs) == 0 {
		t.source = s
		s.OnActive(func() { t.idleNext = false; t.setIdle(false) })
	}
	t.heads = receivers(&c)
	return t
}

// receivers returns the receiver of each input.
func receivers(c *TaskConfig) []any {
	heads := make([]any, len(c.Inputs))
	first := c.Operators[0].Input()
	two, _ := c.Operators[0].(TwoInput)
	for i := range heads {
		heads[i] = first
		if two != nil && i < len(c.Second) && c.Second[i] {
			heads[i] = two.SecondInput()
		}
	}
	return heads
}

// PostTrigger injects a barrier into a source's task.
func (t *Task) PostTrigger(b *Barrier) { t.mail.post(letter{trigger: b}) }

// PostDrain ends the input of a source's task.
func (t *Task) PostDrain() { t.mail.post(letter{drain: true}) }

// PostComplete tells the operators that a checkpoint is complete.
func (t *Task) PostComplete(id int64) { t.mail.post(letter{complete: id}) }

// PostAborted tells them that it will not be.
func (t *Task) PostAborted(id int64) { t.mail.post(letter{aborted: id}) }

// PostCommitted passes on Operator.Committed.
func (t *Task) PostCommitted(id int64) { t.mail.post(letter{committed: id}) }

// PostEvent delivers a message of the enumerator to a source's task.
func (t *Task) PostEvent(e SourceEvent) { t.mail.post(letter{event: &e}) }

// Run opens the operators, works until ctx ends or something fails, and
// closes them. It returns the first error, or the cause of ctx's end.
func (t *Task) Run(ctx context.Context) (err error) {
	defer t.close(func(c *Context, err error) { c.Logger.Warn("closing an operator", "error", err) })
	defer t.recovered(&err)
	if err := t.open(); err != nil {
		return err
	}
	return t.loop(ctx)
}

func (t *Task) open() error {
	for i := len(t.Operators) - 1; i >= 0; i-- {
		if err := t.Operators[i].Open(t.Contexts[i]); err != nil {
			return err
		}
	}
	t.start = time.Now()
	t.last, t.lastFlush, t.lastWatermark = t.start, t.start, t.start
	return nil
}

func (t *Task) close(failed func(*Context, error)) {
	for i, op := range t.Operators {
		if err := closeOperator(op); err != nil {
			failed(t.Contexts[i], err)
		}
	}
}

// outcome is what a step of the loop came to.
type outcome int

const (
	worked outcome = iota
	dry            // nothing to read
	full           // an output has no room
)

func (t *Task) loop(ctx context.Context) error {
	t.timer = time.NewTimer(time.Hour)
	defer t.timer.Stop()
	dozing := false
	for {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		now := time.Now()
		if err := t.letters(); err != nil {
			return err
		}
		o, err := t.step(now)
		if err != nil {
			return err
		}
		if o == worked {
			if dozing {
				t.Waker.Rouse()
				dozing = false
			}
			if t.streak {
				t.Load.Gaps.Add(int64(now.Sub(t.lastWork)))
			}
			t.lastWork, t.streak = now, true
			if now.Sub(t.lastFlush) >= t.BufferTimeout {
				t.Load.Busy.Add(int64(now.Sub(t.last)))
				t.last = now
				if err := t.flush(now); err != nil {
					return err
				}
			}
			continue
		}
		if !dozing {
			if o == dry {
				if err := t.flush(now); err != nil {
					return err
				}
			}
			t.Waker.Doze()
			dozing = true
			continue // look once more before waiting
		}
		t.wait(ctx, o)
		dozing, t.streak = false, false
	}
}

// wait sleeps until woken, or until a timer is due.
func (t *Task) wait(ctx context.Context, o outcome) {
	now := time.Now()
	t.Load.Busy.Add(int64(now.Sub(t.last)))
	t.timer.Reset(t.patience(o))
	select {
	case <-t.Waker.C:
	case <-t.timer.C:
	case <-ctx.Done():
	}
	t.Waker.Rouse()
	t.last = time.Now()
	waited := int64(t.last.Sub(now))
	if o == full {
		t.held = true
		t.Load.BackPressured.Add(waited)
	} else {
		t.Load.Idle.Add(waited)
	}
}

// patience is how long the task may sleep without being woken. While outputs
// are full no timer fires.
func (t *Task) patience(o outcome) time.Duration {
	d := time.Hour
	if o == full || t.resting() {
		return d
	}
	if t.source != nil {
		d = max(t.WatermarkInterval, time.Millisecond)
	}
	if t.Batch {
		return d
	}
	wall := t.Now()
	for _, op := range t.Operators {
		if at, ok := op.NextProcessingTime(); ok && at < wall+d.Milliseconds() {
			d = time.Duration(max(at, wall)-wall) * time.Millisecond
		}
	}
	return d
}

// step does one piece of work: fires timers that are due, or reads one
// element. It reads nothing while an output has no room.
func (t *Task) step(now time.Time) (outcome, error) {
	for _, w := range t.Outputs {
		if !w.HasRoom() {
			return full, nil
		}
	}
	if more, err := t.processingTime(); more || err != nil {
		return worked, err
	}
	if t.advancing && !t.stopped {
		return worked, t.advance()
	}
	if t.source != nil {
		return t.pollSource(now)
	}
	return t.pollInputs()
}

// resting tells that the task emits nothing of its own accord any more: its
// input has ended, or what it emitted would lie behind the last snapshot.
func (t *Task) resting() bool { return t.done || t.stopped }

// processingTime fires due timers; did tells that there were any.
func (t *Task) processingTime() (did bool, err error) {
	if t.resting() || t.Batch {
		return false, nil
	}
	wall := int64(math.MinInt64)
	for _, op := range t.Operators {
		at, ok := op.NextProcessingTime()
		if !ok {
			continue
		}
		if wall == math.MinInt64 {
			wall = t.Now()
		}
		if at > wall {
			continue
		}
		did = true
		if _, err := op.ProcessingTime(wall, advanceBudget); err != nil {
			return true, err
		}
	}
	return did, nil
}

func (t *Task) pollSource(now time.Time) (outcome, error) {
	if t.done || t.stopped {
		return dry, nil
	}
	st, forward, err := t.source.Poll()
	if err != nil {
		return worked, err
	}
	if st == connector.End {
		t.closing = true
		return worked, t.beginAdvance(math.MaxInt64)
	}
	if !t.Batch && (forward || st == connector.Nothing || now.Sub(t.lastWatermark) >= t.WatermarkInterval) {
		if err := t.sourceWatermark(now); err != nil {
			return worked, err
		}
	}
	if st == connector.Nothing && !t.advancing {
		return dry, nil
	}
	return worked, nil
}

func (t *Task) sourceWatermark(now time.Time) error {
	t.lastWatermark = now
	wm, idle := t.source.Watermark(now.Sub(t.start).Milliseconds(), t.held)
	t.held = false
	return t.eventTime(wm, idle)
}

// eventTime passes on a change of event time: active, then the watermark,
// then idle.
func (t *Task) eventTime(wm int64, idle bool) error {
	if t.closing {
		return nil
	}
	t.idleNext = idle
	if t.idle && !idle {
		t.setIdle(false)
	}
	if wm > t.wm {
		return t.beginAdvance(wm)
	}
	if idle && !t.idle && !t.advancing {
		t.setIdle(true)
	}
	return nil
}

func (t *Task) setIdle(idle bool) {
	t.idle = idle
	e := Element{Kind: Active}
	if idle {
		e.Kind = Idle
	}
	for _, w := range t.Outputs {
		w.Control(e)
	}
}

func (t *Task) pollInputs() (outcome, error) {
	for range t.Inputs {
		i := t.next
		t.next++
		if t.next == len(t.Inputs) {
			t.next = 0
		}
		if t.blocked[i] {
			continue
		}
		e, ok := t.Inputs[i].Poll()
		if !ok {
			continue
		}
		return worked, t.receive(i, e)
	}
	return dry, nil
}

func (t *Task) receive(ch int, e Element) error {
	switch e.Kind {
	case Data:
		err := e.Batch.DeliverTo(t.heads[ch])
		e.Batch.Recycle()
		return err
	case Watermark:
		t.combiner.Advance(ch, e.Time)
		return t.eventTime(t.combiner.Watermark(), t.combiner.Idle())
	case Idle:
		t.combiner.SetIdle(ch)
		return t.eventTime(t.combiner.Watermark(), t.combiner.Idle())
	case Active:
		t.combiner.SetActive(ch)
		return t.eventTime(t.combiner.Watermark(), t.combiner.Idle())
	case End:
		t.ended[ch] = true
		t.closing = true
		for _, end := range t.ended {
			t.closing = t.closing && end
		}
		if t.closing {
			return t.beginAdvance(math.MaxInt64)
		}
		t.combiner.Ended(ch)
		return t.eventTime(t.combiner.Watermark(), t.combiner.Idle())
	case Mark:
		v := t.align.barrier(ch, e.Barrier)
		if v.unblock {
			t.unblock()
		}
		if v.block {
			t.blocked[ch] = true
			t.aligning = e.Barrier.ID
		}
		if v.done {
			return t.barrier(e.Barrier)
		}
	}
	return nil
}

// beginAdvance moves event time, operator by operator.
func (t *Task) beginAdvance(wm int64) error {
	t.wm, t.advancing, t.at = wm, true, 0
	return t.advance()
}

func (t *Task) advance() error {
	for t.at < len(t.Operators) {
		op := t.Operators[t.at]
		more, err := op.Advance(t.wm, advanceBudget)
		if err == nil && !more && t.Batch && t.closing {
			more, err = op.ProcessingTime(math.MaxInt64, advanceBudget)
		}
		if err != nil {
			return err
		}
		if more {
			return nil
		}
		if err := op.Flush(); err != nil {
			return err
		}
		t.Contexts[t.at].Metrics.Watermark.Store(t.wm)
		t.at++
	}
	t.advancing = false
	for _, w := range t.Outputs {
		w.Control(Element{Kind: Watermark, Time: t.wm})
	}
	if t.closing && !t.done {
		return t.finish()
	}
	if t.idleNext && !t.idle {
		t.setIdle(true)
	}
	return nil
}

// finish ends the input of the chain.
func (t *Task) finish() error {
	for _, op := range t.Operators {
		if err := op.EndInput(); err != nil {
			return err
		}
		if err := op.Flush(); err != nil {
			return err
		}
	}
	for _, w := range t.Outputs {
		w.Control(Element{Kind: End})
	}
	t.done = true
	t.Host.Ended(t.ID)
	return nil
}

// flush passes on everything collected.
func (t *Task) flush(now time.Time) error {
	t.lastFlush = now
	for _, op := range t.Operators {
		if err := op.Flush(); err != nil {
			return err
		}
	}
	for _, w := range t.Outputs {
		w.Flush()
	}
	return nil
}
