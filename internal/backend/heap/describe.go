package heap

import (
	"github.com/weirstream/weir/codec"
	"github.com/weirstream/weir/internal/entry"
	"github.com/weirstream/weir/internal/snapshot"
)

// States describes the fields as snapshots do, in their order.
func (c *core) States() []snapshot.State { return c.states }

// KeyFormat is how keys are encoded in snapshots.
func (s *Store[K]) KeyFormat() codec.Format { return s.encoding.Format() }

// NextTimer is the earliest timer of the current key in a domain of the
// store; ok is false if it has none.
func (c *core) NextTimer(at entry.Domain) (millis int64, ok bool) {
	d, p := c.timersOf(at)
	if !d.field.Has(p) {
		return 0, false
	}
	return (*timers)(d.field.At(p)).next, true
}
