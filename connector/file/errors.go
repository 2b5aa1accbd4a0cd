package file

import (
	"errors"
	"fmt"

	"github.com/weirstream/weir/connector"
)

// invalid is a configuration that cannot work, however often it is started.
func invalid(message string) error { return connector.Fatal(errors.New(message)) }

// ReadError is the failure of a source at a file.
type ReadError struct {
	// Path is the file's.
	Path string
	// Err is the cause.
	Err error
}

func (e *ReadError) Error() string { return fmt.Sprintf("file source: %s: %v", e.Path, e.Err) }

// Unwrap returns the cause.
func (e *ReadError) Unwrap() error { return e.Err }

// UndecodableError is the failure of a source at a record that cannot be
// decoded.
type UndecodableError struct {
	// Path is the file's.
	Path string
	// Position is where the record begins: an offset of the file's content
	// (decompressed, if it is compressed), or as the format counts.
	Position int64
	// Err is the decoder's error.
	Err error
}

func (e *UndecodableError) Error() string {
	return fmt.Sprintf("file source: cannot decode the record of %s at position %d: %v; file.SkipUndecodable and file.OnUndecodable go on without it", e.Path, e.Position, e.Err)
}

// Unwrap returns the decoder's error.
func (e *UndecodableError) Unwrap() error { return e.Err }

// ChangedError says that a file is not the one any more that was found. It is
// fatal: positions in the one mean nothing in the other.
type ChangedError struct {
	// Found is the file as it was found, Now as it is.
	Found, Now Info
}

// Is makes it fatal.
func (e *ChangedError) Is(target error) bool { return target == connector.ErrFatal }

func (e *ChangedError) Error() string {
	const layout = "2006-01-02T15:04:05.999999999Z07:00"
	return fmt.Sprintf("file source: %s changed while it was to be read: it had %d bytes, written last at %s, when it was found, and has %d bytes, written last at %s, now; "+
		"files are read once and must be complete when they are found: write them under another name and rename them, or let file.QuietFor wait for them",
		e.Found.Path, e.Found.Size, e.Found.ModTime.Format(layout), e.Now.Size, e.Now.ModTime.Format(layout))
}

// same says whether two infos are of one content, as far as they can tell.
func same(a, b Info) bool { return a.Size == b.Size && a.ModTime.Equal(b.ModTime) }
