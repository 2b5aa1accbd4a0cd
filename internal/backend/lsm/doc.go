// Package lsm keeps on local disk what of a job's keyed state does not fit
// into memory.
//
// A Disk is what one attempt of a job uses: a directory of its own, a block
// cache, and the memory that its stores may take. Each store has a Tier there,
// a Pebble database: see heap.Tier.
//
// Nothing here outlives the attempt: durability is the checkpoint. So the
// write-ahead log is off and no file is synced; a directory that a killed
// process left is removed by the next that opens the same root.
package lsm
