package snapshot

import (
	"errors"
	"fmt"
)

// What can be wrong with a stored snapshot. Errors wrap one of these, name the
// file and say what was found.
var (
	// ErrNotSnapshot: the path or file is something else.
	ErrNotSnapshot = errors.New("not a snapshot")
	// ErrTruncated: the end is missing.
	ErrTruncated = errors.New("truncated")
	// ErrChecksum: bytes were changed after they were written.
	ErrChecksum = errors.New("checksum mismatch")
	// ErrMalformed: checksums are right, the content is not.
	ErrMalformed = errors.New("malformed")
	// ErrNewer: written by a newer version of Weir.
	ErrNewer = errors.New("written by a newer version")
)

func malformed(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrMalformed, fmt.Sprintf(format, args...))
}

// checkVersion refuses what this version cannot read.
func checkVersion(version, newest uint64) error {
	switch {
	case version > newest:
		return fmt.Errorf("%w of Weir: format version %d, this one reads up to %d; upgrade to read it", ErrNewer, version, newest)
	case version == 0:
		return malformed("format version 0")
	}
	return nil
}
