package runner

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/weirstream/weir/runner/embedded"
)

const (
	liveEvery  = 500 * time.Millisecond
	plainEvery = 5 * time.Second
	jsonEvery  = time.Second
)

// reporter tells people, or programs, how a job is getting on.
type reporter struct {
	name   string
	x      *execution
	screen *console
	// json gets one object a line instead of text to screen.
	json  io.Writer
	quiet bool

	began, last sample
	// printed is the last plain line.
	printed string
}

// sample is how many records there were at a time.
type sample struct {
	at      time.Time
	in, out int64
}

func newReporter(name string, x *execution, screen *console) *reporter {
	r := &reporter{name: name, x: x, screen: screen}
	r.began.at = time.Now()
	r.last = r.began
	return r
}

// run reports at intervals until stop is closed.
func (r *reporter) run(stop <-chan struct{}) {
	every := plainEvery
	switch {
	case r.json != nil:
		every = jsonEvery
	case r.screen.width != nil:
		every = liveEvery
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-stop:
			r.screen.setStatus("")
			r.writeEvents()
			return
		case <-r.x.tracker.more:
			r.writeEvents()
		case <-tick.C:
			r.progress()
		}
	}
}

// note tells something once.
func (r *reporter) note(text string) {
	if !r.quiet {
		fmt.Fprintf(r.screen, "%s: %s\n", r.name, text)
	}
}

func (r *reporter) sample() sample {
	in, out := r.x.engine.Records()
	return sample{at: time.Now(), in: in, out: out}
}

// rates are records per second from one sample to the next.
func rates(from, to sample) (in, out float64) {
	s := to.at.Sub(from.at).Seconds()
	if s <= 0 {
		return 0, 0
	}
	return float64(to.in-from.in) / s, float64(to.out-from.out) / s
}

func (r *reporter) progress() {
	now := r.sample()
	in, out := rates(r.last, now)
	r.last = now
	switch {
	case r.json != nil:
		r.write(r.line("progress", now, in, out))
	case r.quiet:
	case r.screen.width != nil:
		r.screen.setStatus(status(r.x.tracker.snapshot(), now, in, out))
	default:
		if text := status(r.x.tracker.snapshot(), now, in, out); text != r.printed {
			fmt.Fprintf(r.screen, "%s: %s\n", r.name, text)
			r.printed = text
		}
	}
}

// status is the line of text that progress shows.
func status(c counts, s sample, in, out float64) string {
	parts := []string{
		fmt.Sprintf("%s, in %s at %s, out %s at %s", c.State, thousands(s.in), perSecond(in), thousands(s.out), perSecond(out)),
	}
	if c.Checkpoints > 0 {
		parts = append(parts, fmt.Sprintf("%s, last %d took %s, %s", plural(c.Checkpoints, "checkpoint"), c.LastID, short(c.LastDuration), size(c.LastBytes)))
	}
	if c.Failed > 0 {
		parts = append(parts, plural(c.Failed, "failed checkpoint"))
	}
	if c.Restarts > 0 {
		parts = append(parts, plural(c.Restarts, "restart"))
	}
	return strings.Join(parts, " | ")
}

// end is the last word: how the job ended, and what it did.
func (r *reporter) end(finishedBefore bool, err error) {
	c, now := r.x.tracker.snapshot(), r.sample()
	in, out := rates(r.began, now)
	switch {
	case r.json != nil:
		l := r.line("end", now, in, out)
		l.FinishedBefore = finishedBefore
		if err != nil {
			l.Error = err.Error()
		}
		r.write(l)
	case r.quiet:
	case finishedBefore:
		r.note("already finished in an earlier run, nothing to do; --fresh begins anew")
	case c.State == suspended && c.Attempt == 0:
		r.note("ended before it started the job; the same command starts it")
	default:
		text := fmt.Sprintf("%s after %s: %s in at %s, %s out", c.State, short(now.at.Sub(r.began.at)),
			plural(now.in, "record"), perSecond(in), thousands(now.out))
		text += fmt.Sprintf(", %s, %s", plural(c.Checkpoints, "checkpoint"), plural(c.Restarts, "restart"))
		if c.State == suspended {
			text += "; the same command goes on from here"
		}
		r.note(text)
	}
}

// line is an object of the JSON form of progress. Fields are only ever added.
type line struct {
	Time time.Time `json:"time"`
	Job  string    `json:"job"`
	// Event is standing by, taking over, started, checkpoint, checkpoint
	// failed, failed, restarting, region failed, region restarted, progress
	// (every second) or end (the last line).
	Event    string   `json:"event"`
	State    jobState `json:"state"`
	Attempt  int64    `json:"attempt"`
	Restarts int64    `json:"restarts"`
	// Records so far; rates since the last progress line, at the end since
	// the start.
	RecordsIn           int64   `json:"records_in"`
	RecordsOut          int64   `json:"records_out"`
	RecordsInPerSecond  float64 `json:"records_in_per_second"`
	RecordsOutPerSecond float64 `json:"records_out_per_second"`
	Checkpoints         int64   `json:"checkpoints"`
	CheckpointsFailed   int64   `json:"checkpoints_failed"`
	// The checkpoint that the event is about, else the last completed one.
	Checkpoint   int64   `json:"checkpoint"`
	CheckpointMS float64 `json:"checkpoint_ms"`
	Bytes        int64   `json:"checkpoint_bytes"`
	// FinishedBefore says that an earlier run had finished the job.
	FinishedBefore bool   `json:"finished_before,omitempty"`
	Error          string `json:"error,omitempty"`
}

func (r *reporter) line(event string, s sample, in, out float64) line {
	c := r.x.tracker.snapshot()
	return line{
		Time: s.at.UTC(), Job: r.name, Event: event, State: c.State, Attempt: c.Attempt, Restarts: c.Restarts,
		RecordsIn: s.in, RecordsOut: s.out, RecordsInPerSecond: in, RecordsOutPerSecond: out,
		Checkpoints: c.Checkpoints, CheckpointsFailed: c.Failed,
		Checkpoint: c.LastID, CheckpointMS: float64(c.LastDuration) / 1e6, Bytes: c.LastBytes,
	}
}

// writeEvents writes what has happened since the last call; the end has a
// line of its own.
func (r *reporter) writeEvents() {
	for _, e := range r.x.tracker.take() {
		if e.Kind == embedded.Finished || e.Kind == embedded.Suspended || r.json == nil {
			continue
		}
		now := r.sample()
		in, out := rates(r.last, now)
		l := r.line(eventName(e.Kind), now, in, out)
		l.Time = e.Time.UTC()
		l.Checkpoint, l.CheckpointMS, l.Bytes = e.Checkpoint, float64(e.Duration)/1e6, e.Bytes
		if e.Err != nil {
			l.Error = e.Err.Error()
		}
		r.write(l)
	}
}

func eventName(k embedded.EventKind) string {
	if k == embedded.CheckpointCompleted {
		return "checkpoint"
	}
	return string(k)
}

func (r *reporter) write(l line) {
	data, err := json.Marshal(l)
	if err == nil {
		_, err = r.json.Write(append(data, '\n'))
	}
	if err != nil {
		r.x.log.Warn("writing progress", "error", err)
	}
}
