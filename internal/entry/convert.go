package entry

import (
	"errors"
	"fmt"

	"github.com/weirstream/weir/codec"
	"github.com/weirstream/weir/internal/snapshot"
)

// Conversion is how stored values of a field become what Load takes.
type Conversion struct {
	// Append appends the converted value that src is exactly; nil if stored
	// values are taken as they are. One goroutine at a time may call it.
	Append func(dst, src []byte) ([]byte, error)
	// Notes say in words what becomes of fields of structs.
	Notes []string
}

// Same tells that values are stored in the form that they have now.
func (c Conversion) Same() bool { return c.Append == nil }

// ErrKind is wrapped by the error of Conversion for a state of another kind.
var ErrKind = errors.New("the kind of a state cannot change")

// Conversion returns how values of a stored state become values of the field.
// The error says why they cannot, in words that follow upon what the two are.
func (f *Field) Conversion(stored snapshot.State) (Conversion, error) {
	if stored.Kind != string(f.Kind) {
		return Conversion{}, ErrKind
	}
	if f.Kind == EventTimers || f.Kind == ProcessingTimers {
		return Conversion{}, nil // the backend's own form
	}
	if stored.Detail == f.Detail && SameFormat(stored.Format, f.Format) && SameFormat(stored.Key, f.Key) {
		return Conversion{}, nil
	}
	if f.Convert == nil {
		return Conversion{}, fmt.Errorf("a state of kind %s has one form only", f.Kind)
	}
	return f.Convert(stored)
}

// SameFormat compares formats without the size, which follows from the rest and
// the TTL.
func SameFormat(a, b codec.Format) bool {
	return a.ID == b.ID && a.Version == b.Version && a.Schema == b.Schema
}
