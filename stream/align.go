package stream

import (
	"errors"
	"fmt"
	"math"

	"github.com/weirstream/weir/connector"
	"github.com/weirstream/weir/internal/alignment"
	"github.com/weirstream/weir/internal/stage"
	"github.com/weirstream/weir/watermark"
)

// aligner is a source subtask's side of a watermark alignment. Without one it
// does nothing.
type aligner struct {
	watermark.Alignment
	member *alignment.Member
	// limit is the one that splits were last compared for.
	limit int64
	// dueSplits says that splits may have advanced since.
	dueSplits bool
	// reported is when the watermark was, and whether it was ever.
	reported int64
	known    bool
	// held says that the source is not read, wasHeld that it was not at some time
	// since the last watermark.
	held, wasHeld bool
}

func (a *aligner) join(c *stage.Context, to watermark.Alignment) {
	a.Alignment = to
	if to.Group != "" && c.Alignment != nil {
		a.member = c.Alignment.Join(to.Group, to.Drift, c.Wake)
		a.limit = a.member.Limit()
	}
}

// report tells the group the watermark, once an interval.
func (a *aligner) report(now, watermark int64, idle bool) {
	a.wasHeld, a.dueSplits = a.held, true
	if a.member == nil || a.known && now-a.reported < a.Interval || !idle && watermark == connector.NoTimestamp {
		return
	}
	a.reported, a.known = now, true
	a.member.Report(watermark, idle)
}

func (a *aligner) leave() {
	if a.member != nil {
		a.member.Leave()
	}
}

// isHeld tells whether the source has to wait for others, and lets splits wait
// that are ahead.
func (o *sourceOp[T, S, E]) isHeld() (bool, error) {
	a := &o.align
	if a.member == nil {
		return false, nil
	}
	own := o.splits.Watermark()
	if limit := a.member.Limit(); limit != a.limit || a.dueSplits {
		a.limit, a.dueSplits = limit, false
		if err := o.alignSplits(min(limit, after(own, a.Drift))); err != nil {
			return false, err
		}
	}
	before := a.held
	if a.held = own > a.limit; a.held && !before {
		a.member.Report(own, false) // others may be waiting for it
	}
	a.wasHeld = a.wasHeld || a.held
	return a.held, nil
}

// after is t + d, at most the largest time; d is not negative.
func after(t, d int64) int64 {
	if t > math.MaxInt64-d {
		return math.MaxInt64
	}
	return t + d
}

// alignSplits pauses the splits that are ahead of the slowest split of all sources.
func (o *sourceOp[T, S, E]) alignSplits(limit int64) error {
	err := o.splits.Align(limit, o.reader.PauseSplits)
	switch {
	case err == nil || errors.Is(err, errors.ErrUnsupported) && o.align.UnalignedSplits:
		return nil
	case errors.Is(err, errors.ErrUnsupported):
		err = fmt.Errorf("watermark alignment %q: %w: the reader cannot pause single splits; accept that with AlignUnalignedSplits, or read one split per subtask", o.align.Group, err)
	}
	return o.fail(connector.Fatal(err))
}
