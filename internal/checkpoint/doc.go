// Package checkpoint takes the snapshots of a job and decides what a start of
// it begins from.
//
// A start (Start) claims the job in the ledger, chooses and loads a snapshot,
// and gives an Attempt. Every restart, inside the process or by a new one, is
// such a start. While the job runs its Coordinator drives the pure Core, which
// decides when barriers go out, when a snapshot counts and what is deleted.
package checkpoint
