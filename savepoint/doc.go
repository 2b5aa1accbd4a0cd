// Package savepoint reads and writes snapshots without a running job: to look
// into the state of a job, to repair it, and to give a new job the state it
// begins with.
//
// Open opens a savepoint or checkpoint. Entries iterates over a state by what
// the snapshot says of itself, without the job's types; Each gives the state
// of one key after the other to the handles that the job's own functions declare.
//
// New and From begin a new savepoint, empty or with what another one holds.
// Bootstrap and Edit fill and change operators by the job's own handles;
// Writer.Rename, Writer.Drop and Writer.DropState need no types. Writer.Write
// writes a canonical savepoint, from which a job starts with -s.
package savepoint
