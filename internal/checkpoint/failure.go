package checkpoint

import (
	"errors"

	"github.com/weirstream/weir/connector"
	"github.com/weirstream/weir/internal/storage"
)

// fatalError marks an error that a restart does not mend.
type fatalError struct{ error }

func (f fatalError) Unwrap() error { return f.error }

// AsFatal marks err, if it is one, as final for the job: Fatal reports true
// for what wraps it.
func AsFatal(err error) error {
	if err == nil {
		return nil
	}
	return fatalError{err}
}

// Fatal reports whether starting the job again cannot help, or must not be
// done without a decision: err was marked by AsFatal, is ErrFinished,
// ErrRefused, ErrFenced, a connector.ErrFatal, a storage.ErrFatal, an UncommittedError, or tells of
// transactions that are lost or whose outcome is unknown, and of nothing beside
// them that may pass: then another start has to see what is left. A damaged
// ledger is marked so.
func Fatal(err error) bool {
	var marked fatalError
	var uncommitted *UncommittedError
	if errors.As(err, &marked) || errors.As(err, &uncommitted) {
		return true
	}
	for _, final := range []error{ErrFinished, ErrRefused, ErrFenced, connector.ErrFatal, storage.ErrFatal} {
		if errors.Is(err, final) {
			return true
		}
	}
	return outcomeOf(err) != "" && settles(err)
}
