package codec

import (
	"errors"
	"fmt"
)

// DecodeError says that bytes are not a value in a format.
type DecodeError struct {
	// Format is the id of the format.
	Format string
	// Offset is the position in the bytes where decoding failed, as far as the
	// format can tell, else the number of bytes there were.
	Offset int
	// Err is the cause.
	Err error
}

// Error names format, place and cause.
func (e *DecodeError) Error() string {
	return fmt.Sprintf("decode %s: at byte %d: %v", e.Format, e.Offset, e.Err)
}

// Unwrap returns Err.
func (e *DecodeError) Unwrap() error { return e.Err }

// ErrIncompatible is wrapped by the error of Resolve for a stored format that
// the codec at hand cannot read.
var ErrIncompatible = errors.New("incompatible formats")

// ErrUnavailable is wrapped by errors of codecs that could not do their work for
// a reason outside of the bytes or the value, such as a schema registry that does
// not answer. A source must not take the bytes for undecodable.
var ErrUnavailable = errors.New("what the codec needs is not available")

func wrongSize(format string, got, want int) error {
	return &DecodeError{Format: format, Offset: min(got, want), Err: fmt.Errorf("%d bytes instead of %d", got, want)}
}
