// Package storage holds checkpoints and the ledger as named blobs.
//
// Names are slash-separated paths relative to the root of the storage, for
// example "page-latency/chk-7/_metadata". Every implementation passes the
// acceptance suite of internal/storage/storagetest.
package storage

import "github.com/weirstream/weir/storage"

// The errors of Blobs.
var (
	ErrNotFound = storage.ErrNotFound
	ErrExists   = storage.ErrExists
	ErrFatal    = storage.ErrFatal
)

// Blobs is a flat namespace of immutable blobs.
type Blobs = storage.Blobs

// Scheme is a kind of storage that URLs name.
type Scheme = storage.Scheme

// Placed is implemented by Blobs whose name does not tell where they are.
type Placed interface {
	// Place is the server or account, without secrets.
	Place() string
}

// Identity tells the storage from all others: it stands in the ledger, so that
// a directory that was copied elsewhere is found out.
func Identity(b Blobs) string {
	if p, ok := b.(Placed); ok && p.Place() != "" {
		return b.String() + " at " + p.Place()
	}
	return b.String()
}
