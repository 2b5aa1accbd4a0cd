package storage

import (
	"errors"
	"fmt"
	"io"
)

// ErrPastEnd is what reading past the end of a blob fails with. It wraps
// io.ErrUnexpectedEOF, which tells readers that the blob is cut off.
var ErrPastEnd = fmt.Errorf("past the end: %w", io.ErrUnexpectedEOF)

// BrokenOff is err, but not if a connection ended early: that is io.EOF to its
// client, and would be the good end of a listing or a file, or a blob that is
// cut off, to whoever reads.
func BrokenOff(err error) error {
	if errors.Is(err, ErrPastEnd) || !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return err
	}
	return brokenOff{err}
}

// brokenOff is all that the error is but an end.
type brokenOff struct{ err error }

func (b brokenOff) Error() string { return "the connection broke off: " + b.err.Error() }

func (b brokenOff) Is(target error) bool {
	return target != io.EOF && target != io.ErrUnexpectedEOF && errors.Is(b.err, target)
}

func (b brokenOff) As(target any) bool { return errors.As(b.err, target) }
