package state

import (
	"errors"
	"slices"
	"time"

	"github.com/weirstream/weir/internal/entry"
)

const (
	eventTimers      = string(entry.EventTimers)
	processingTimers = string(entry.ProcessingTimers)
)

func timerKind(d entry.Domain) entry.Kind {
	if d == entry.ProcessingTime {
		return entry.ProcessingTimers
	}
	return entry.EventTimers
}

var errNoTimers = errors.New("state: the engine keeps no timers for this operator")

// Timers sets and deletes the timers of the current key in one time domain.
// There is at most one timer per key, domain and millisecond.
type Timers struct {
	cur    *entry.Cursor
	domain entry.Domain
}

// EventTimers declares timers that fire when the watermark has reached them.
func EventTimers(r *Registry) Timers { return r.timers(entry.EventTime) }

// ProcessingTimers declares timers that fire when the wall clock has reached
// them.
func ProcessingTimers(r *Registry) Timers { return r.timers(entry.ProcessingTime) }

func (r *Registry) timers(d entry.Domain) Timers {
	if !slices.Contains(r.domains, d) {
		r.domains = append(r.domains, d)
		slices.Sort(r.domains)
	}
	return Timers{r.cur, d}
}

// Set sets a timer at t, cut to the millisecond. Setting it again changes
// nothing. In the past, a processing-time timer fires at once, after the
// record, and an event-time timer when the watermark moves next.
func (t *Timers) Set(at time.Time) error { return t.SetMillis(at.UnixMilli()) }

// Delete deletes the timer at t, cut to the millisecond, if there is one.
func (t *Timers) Delete(at time.Time) error { return t.DeleteMillis(at.UnixMilli()) }

// SetMillis is Set with milliseconds since the epoch.
func (t *Timers) SetMillis(at int64) error {
	if err := t.check(); err != nil {
		return err
	}
	t.cur.Timers.Set(t.domain, at)
	return nil
}

// DeleteMillis is Delete with milliseconds since the epoch.
func (t *Timers) DeleteMillis(at int64) error {
	if err := t.check(); err != nil {
		return err
	}
	t.cur.Timers.Delete(t.domain, at)
	return nil
}

func (t *Timers) check() error {
	if t.cur.P == nil {
		return ErrNoKey
	}
	if t.cur.Timers == nil {
		return errNoTimers
	}
	return nil
}
