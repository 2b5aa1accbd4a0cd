package watermark

import (
	"fmt"
	"time"
)

// Alignment is how far a source may be ahead of others.
type Alignment struct {
	// Group is the name of the group, "" without alignment.
	Group string
	// Drift is how far a watermark may be ahead of the group's least, Interval
	// how often it is compared, in milliseconds.
	Drift, Interval int64
	// UnalignedSplits accepts readers that cannot pause single splits.
	UnalignedSplits bool
}

// alignInterval is the default of AlignInterval.
const alignInterval = time.Second

// Align stops reading while the watermark is more than drift ahead of the least
// in a group: of all sources of the job that name the group, each subtask and,
// within these, each split. So what joins a fast and a slow source holds a
// bounded part of the fast one. Idle splits and sources that have ended do not count; a
// source without a watermark yet holds back the others, and so does a silent
// one that has no Idle timeout. drift is a whole number of milliseconds, not
// negative.
//
// What was read since watermarks were last compared may go beyond the drift: see
// AlignInterval.
func (s Strategy[T]) Align(group string, drift time.Duration) Strategy[T] {
	var err error
	s.align.Group = group
	s.align.Drift, err = millis("drift of a watermark alignment", drift)
	if s.align.Interval == 0 {
		s.align.Interval = alignInterval.Milliseconds()
	}
	switch {
	case err != nil:
	case group == "":
		err = fmt.Errorf("a watermark alignment needs the name of a group")
	case s.generate == nil:
		err = fmt.Errorf("watermark alignment %q: the strategy makes no watermarks; begin with watermark.Bounded, Monotonous or Custom", group)
	}
	return s.failed(err)
}

// AlignInterval is how often the watermarks of a group are compared. Default 1 s. It
// follows Align.
func (s Strategy[T]) AlignInterval(d time.Duration) Strategy[T] {
	var err error
	if s.align.Interval, err = millis("interval of a watermark alignment", d); err == nil && d == 0 {
		err = fmt.Errorf("interval 0s of a watermark alignment: it must be positive")
	}
	return s.failed(err)
}

// AlignUnalignedSplits accepts a source whose readers cannot pause single splits: the
// source as a whole is aligned then, by the least of its splits. Without it such a source fails as soon
// as one of its splits is ahead. It follows Align.
func (s Strategy[T]) AlignUnalignedSplits() Strategy[T] {
	s.align.UnalignedSplits = true
	return s
}

// Alignment returns what Align and its options have set.
func (s Strategy[T]) Alignment() Alignment { return s.align }

// Align calls pause and resume with the ids of splits that are ahead of limit, or are not
// any more: each once, until that changes. With a single split nothing is paused: the
// source as a whole is then what is ahead.
func (s *Splits[T]) Align(limit int64, change func(pause, resume []string) error) error {
	var pause, resume []string
	for _, sp := range s.order {
		c := &s.combined.channels[sp.channel]
		ahead := len(s.order) > 1 && c.state != idle && c.watermark > limit
		switch {
		case ahead && !sp.paused:
			pause = append(pause, sp.id)
		case !ahead && sp.paused:
			resume = append(resume, sp.id)
		default:
			continue
		}
		sp.paused = ahead
	}
	if len(pause)+len(resume) == 0 {
		return nil
	}
	return change(pause, resume)
}
