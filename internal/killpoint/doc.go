// Package killpoint marks moments at which the process may die, so that a
// test can let it die exactly there.
//
// Without the build tag killpoints its functions are empty and compile to
// nothing. With the tag, the environment variable Variable names a label, how
// many times it must be reached, and what then happens:
//
//	WEIR_KILLPOINT=metadata.stored,3        SIGKILL at the third time
//	WEIR_KILLPOINT=metadata.stored,3,stop   SIGSTOP: SIGCONT lets it go on
//
// Several are separated by semicolons. A value with a mistake, or a label that
// does not exist, ends the process with a panic when it comes to its first kill
// point.
//
// Labels lists all labels; a test compares them with the code.
package killpoint

// Variable is the name of the environment variable.
const Variable = "WEIR_KILLPOINT"
