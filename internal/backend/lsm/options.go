package lsm

import (
	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
)

const (
	// Format names the form of a database in a snapshot: rows as package heap
	// writes them, in files of formatVersion.
	Format        = "pebble/1"
	formatVersion = pebble.FormatValueSeparation
)

// options are those of the database in dir.
func (d *Disk) options(name, dir string, h *health) *pebble.Options {
	log := d.o.Logger.With("state", name)
	o := &pebble.Options{
		FS: watched{d.fs, dir, h}, Cache: d.cache, FileCache: d.files,
		DisableWAL: true, FormatMajorVersion: formatVersion,
		// Tier.awaitRoom waits in Pebble's place.
		MemTableSize: d.memTable(), MemTableStopWritesThreshold: 1 << 20,
		L0CompactionThreshold: d.levelZero(), L0StopWritesThreshold: 1000,
		MaxManifestFileSize:        256 << 10, // every snapshot has a copy
		LBaseMaxBytes:              64 << 20,
		CompactionConcurrencyRange: func() (int, int) { return 1, 2 },
		Logger:                     logger{log},
		EventListener:              h.listener(log),
	}
	o.TargetFileSizes[0] = 16 << 20
	o.Levels[0].BlockSize = 4 << 10
	o.Levels[0].FilterPolicy = bloom.FilterPolicy(10)
	// Of the 6 µs of a read that misses the block cache, decompression took one.
	o.ApplyCompressionSettings(func() pebble.DBCompressionSettings { return pebble.DBCompressionNone })
	o.EnsureDefaults()
	return o
}

// levelZero is twice as many files as may lie above one another before they are
// merged. Each checkpoint of the files adds one, and merging often costs more than
// it saves in reads, what is merged is uploaded anew: with 8 a changed row of 112
// bytes came to 283 written ones, with 16 to 230, with 32 to 200.
func (d *Disk) levelZero() int {
	if d.o.Incremental {
		return 16
	}
	return 4
}

// memTable is the size of a memtable: two for each store take half of Pebble's
// memory.
func (d *Disk) memTable() uint64 {
	n := d.o.Memory / pebbleShare / 4 / int64(max(d.o.Stores, 1))
	return uint64(min(max(n, minMemTable), maxMemTable))
}
