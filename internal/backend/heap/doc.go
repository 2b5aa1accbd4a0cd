// Package heap is the keyed state backend that keeps all state in memory.
//
// A Store holds the state of one operator in one subtask: one open-addressing
// table per key group, whose positions hold the entries themselves (see
// package entry), with variable parts in an arena. A batch of keys is resolved
// at once by Bind; after that every access to state is a plain memory access
// to the current entry.
//
// # Layout of a table
//
// The home of a key is given by the high bits of its hash, so that the order
// of positions is the order of hashes. Collisions go to the next free
// position, at most maxProbe further on. What finds none there lies at a
// secondary home, given by a hash that is seeded per process, so that keys
// chosen to collide do not make probing long.
//
// # Snapshots
//
// Freeze marks all tables as part of a snapshot and copies nothing. A page is
// 64 positions. Each page has a word that says up to which snapshot its
// contents have been preserved. The encoder of a snapshot reads a page that
// is older than the snapshot from the table, under the lock bit of that word;
// the stage, before its first write to such a page, puts a copy aside for
// every pending snapshot that has not read it yet. Growing leaves the old
// array to the snapshots.
//
// # A tier below
//
// With a Tier the tables are a cache: a batch's keys without an entry are
// looked up there together (fetch.go), and entries not used for long leave for
// it (evict.go). Nothing else knows of it but timers (summon.go), snapshots
// (settle.go) and restores (restorebelow.go).
package heap
