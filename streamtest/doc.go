// Package streamtest tests functions and jobs of package stream.
//
// # A function, or a part of a job, by hand
//
// A Harness runs what a job applies to one of its streams:
//
//	h := streamtest.Process(t, Click.RequestID, newDedupe)
//	h.Push(a, b, a)
//	h.Expect(a, b)
//
// Process and ProcessUnkeyed take a function as stream.Process does, New takes
// any part of a job. KeyedBroadcastProcess, BroadcastProcess and NewConnected are
// the same for what has two inputs. What runs is the engine: its plan, its operators on the
// heap backend, its routing by key group, the loop of its stages. Only the
// goroutines are missing: everything happens on the goroutine of the test,
// while a step runs, and when a step returns all that follows from it is in
// the outputs. A test has the same outcome every time.
//
// The steps are Push and PushAt, Watermark, AdvanceClock, End, Snapshot,
// Restore and Rescale. Both clocks are virtual and move only by a step: event
// time by Watermark, the wall clock, which processing-time timers and times to
// live go by, by AdvanceClock.
//
// Outputs are taken: Take, TakeRecords and Expect of an Output see what was
// emitted since the last of them. Side gives a side output. Late and Counter
// count. What functions log is in the log of the test.
//
// State is looked at by name and key, with Value, List, Map, Aggregating and
// Keys; that of subtasks by name, with OperatorList, UnionList, Broadcast, Raw and
// KeyedRaw; timers with Timers. A look changes nothing: it runs no hook and renews
// no time to live.
//
// A snapshot is taken by a barrier and has the format of checkpoints. Rescale
// takes one and restores it, with every function made anew: what a function
// keeps in a field instead of a state is then gone, and a test that goes on
// finds out. From begins from the snapshot of another harness, for example of
// the version of the job before. An input that had ended in a snapshot has ended
// after a Restore, and EndInput does not run again.
//
// # A whole job
//
// Run runs a job as it runs in earnest, on goroutines, in this process, with
// checkpoints in memory, and returns what it emitted. Survives runs it again with
// crashes, at AtRecord, AfterCheckpoint or AtRandom, perhaps with another
// parallelism from there on, and compares the records.
//
// # Failures
//
// A wrong use, and an error or panic of the code under test, fails the test at
// once, with the id of the operator, the key where there is one and, for a
// panic, the stack. Try returns the error instead. A function may end the test
// itself when it runs in a harness; it may not call the steps and looks of the
// harness that runs it. Harnesses are closed when the test ends, and an error of
// a function's Close fails it.
package streamtest
