// Package storage holds checkpoints and the ledger as named blobs.
//
// Names are slash-separated paths relative to the root of the storage, for
// example "page-latency/chk-7/_metadata". Every implementation passes the
// acceptance suite of internal/storage/storagetest.
package storage

import (
	"context"
	"errors"
	"io"
)

var (
	// ErrNotFound says that no blob has the name.
	ErrNotFound = errors.New("storage: not found")
	// ErrExists says that PutIfAbsent found a blob of that name.
	ErrExists = errors.New("storage: already exists")
)

// Blobs is a flat namespace of immutable blobs. All methods may be called
// from any goroutine. Errors wrap ErrNotFound and ErrExists where they apply;
// every other error is a failure of the storage and may be retried.
type Blobs interface {
	// Put writes a blob in whole or not at all: write is called once with a
	// writer whose content becomes visible, and durable, only when Put
	// returns nil. An existing blob is replaced.
	Put(ctx context.Context, name string, write func(io.Writer) error) error
	// PutIfAbsent writes a small blob if the name is free, else ErrExists.
	// Of any number of concurrent callers exactly one succeeds.
	PutIfAbsent(ctx context.Context, name string, data []byte) error
	// Get returns the whole blob.
	Get(ctx context.Context, name string) ([]byte, error)
	// GetRange returns n bytes from offset off. Reading past the end is an error.
	GetRange(ctx context.Context, name string, off, n int64) ([]byte, error)
	// List calls fn with the name and size of each blob below prefix, in
	// ascending order of names. fn's error ends the listing and is returned.
	List(ctx context.Context, prefix string, fn func(name string, size int64) error) error
	// Delete removes a blob; deleting one that is not there is no error.
	Delete(ctx context.Context, name string) error
	// String names the storage for messages, as a user would write it
	// ("/var/lib/weir", "memory:").
	String() string
}
