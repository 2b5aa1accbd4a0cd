package connector

import "errors"

// ErrFatal marks an error that starting the job again does not mend, such as
// a topic that does not exist: the job ends with it, whatever its restart
// strategy. Fatal marks an error; an error type takes part with a method
//
//	func (*MyError) Is(target error) bool { return target == connector.ErrFatal }
var ErrFatal = errors.New("starting again does not help")

// Fatal marks err, which is not nil, as ErrFatal. Its message stays.
func Fatal(err error) error { return fatalError{err} }

type fatalError struct{ error }

func (e fatalError) Unwrap() error      { return e.error }
func (fatalError) Is(target error) bool { return target == ErrFatal }
