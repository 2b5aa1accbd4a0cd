package connector

import "errors"

// ErrFatal marks an error that starting the job again does not mend, such as
// a topic that does not exist: the job ends with it, whatever its restart
// strategy. An error type takes part with a method
//
//	func (*MyError) Is(target error) bool { return target == connector.ErrFatal }
var ErrFatal = errors.New("starting again does not help")
