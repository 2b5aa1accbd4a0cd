package splitreader

import (
	"fmt"
	"log/slog"
	"runtime/debug"

	"github.com/weirstream/weir/codec"
)

// DecodeTogether appends the values that srcs encode to into.Vals, by one call
// of the codec; times and ends are left to the caller. It returns false, and
// appends nothing, if the codec fails or panics: decoding one by one then finds
// the record at fault. The error is that of a codec which cannot be used.
func DecodeTogether[T any](c codec.BatchDecoder[T], into *Batch[T], srcs [][]byte, w *PanicWarning) (ok bool, err error) {
	defer func() {
		if p := recover(); p != nil {
			ok, err = false, nil
			w.give(c, p)
		}
	}()
	vals, err := c.DecodeBatch(into.Vals, srcs)
	if err != nil {
		return false, nil // decoding one by one has it again
	}
	if got := len(vals) - len(into.Vals); got != len(srcs) {
		return false, fmt.Errorf("codec %T: DecodeBatch appended %d values for %d records: it must append one for each", c, got, len(srcs))
	}
	into.Vals = vals
	return true, nil
}

// PanicWarning logs, once, that a codec panics in DecodeBatch: if it then
// decodes the records one by one, nothing else would tell. It is used by one
// goroutine; nil warns of nothing.
type PanicWarning struct {
	Log   *slog.Logger
	given bool
}

func (w *PanicWarning) give(c, p any) {
	if w == nil || w.given {
		return
	}
	w.given = true
	w.Log.Warn("DecodeBatch panicked; its records are decoded one by one, which is slower",
		"codec", fmt.Sprintf("%T", c), "panic", p, "stack", string(debug.Stack()))
}
