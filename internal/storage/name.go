package storage

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
)

// ErrName says that a name cannot be that of a blob.
var ErrName = errors.New("storage: invalid name")

// CheckName returns an error that wraps ErrName unless name is a relative,
// slash-separated path in plain form: no empty element, no "." or "..", no
// leading or trailing slash. Elements that begin with a dot are kept for the
// storage's own files.
func CheckName(name string) error {
	var reason string
	switch {
	case name == "" || name == ".":
		reason = "it is empty"
	case !fs.ValidPath(name):
		reason = "it must be a relative path in UTF-8 without empty elements, \".\" and \"..\""
	case strings.HasPrefix(name, ".") || strings.Contains(name, "/."):
		reason = "no element may begin with a dot"
	case strings.ContainsAny(name, "\x00\\"):
		reason = "it holds a NUL or a backslash"
	default:
		return nil
	}
	return fmt.Errorf("%w %q: %s", ErrName, name, reason)
}
