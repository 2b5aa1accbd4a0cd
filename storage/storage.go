// Package storage is what a storage of checkpoints and savepoints implements.
// Directories need nothing from here. For others a job passes a Scheme to
// runner.WithStorage, which makes URLs work wherever a directory does; Weir has
// some in the modules storage/s3, storage/gcs, storage/azure and storage/hdfs.
package storage

import (
	"context"
	"errors"
	"io"
	"net/url"
)

var (
	// ErrNotFound says that no blob has the name.
	ErrNotFound = errors.New("storage: not found")
	// ErrExists says that PutIfAbsent found a blob of that name.
	ErrExists = errors.New("storage: already exists")
	// ErrFatal says that the storage will go on failing until somebody does
	// something, for credentials that are wrong or a bucket that is not there:
	// the job ends whatever its restart strategy.
	ErrFatal = errors.New("storage: not usable")
)

// Scheme is a kind of storage that URLs name. All methods may be called from
// any goroutine.
type Scheme interface {
	// Schemes are the URL schemes that it serves, in small letters: "s3".
	Schemes() []string
	// Open opens the storage whose names are relative to location, which need
	// not exist yet. The query of location holds parameters; one that is not
	// known is an error. If the Blobs are an io.Closer they are closed when the
	// job ends. If they have a method Place() string, it tells two storages of
	// one URL apart, for example by the server.
	Open(ctx context.Context, location *url.URL) (Blobs, error)
}

// Blobs is a flat namespace of immutable blobs. All methods may be called
// from any goroutine. Errors wrap ErrNotFound, ErrExists and ErrFatal where
// they apply, and the end of ctx; every other error is a failure of the storage
// that may pass; but for reading past an end, none wraps io.EOF or
// io.ErrUnexpectedEOF. Implementations bound their own retries.
//
// Names are slash-separated relative paths, valid for fs.ValidPath, without
// elements that begin with a dot, and without NUL and backslash. A name may be
// the beginning of no other: there is no blob "a" beside "a/b".
type Blobs interface {
	// Put writes a blob in whole or not at all: write is called once with a
	// writer whose content becomes visible, and durable, only when Put
	// returns nil. An existing blob is replaced.
	Put(ctx context.Context, name string, write func(io.Writer) error) error
	// PutIfAbsent writes a small blob if the name is free, else ErrExists.
	// Of any number of concurrent callers, in any process, exactly one
	// succeeds, and no reader sees part of the blob. That a job is
	// exactly-once rests on it.
	PutIfAbsent(ctx context.Context, name string, data []byte) error
	// Get returns the whole blob.
	Get(ctx context.Context, name string) ([]byte, error)
	// GetRange returns n bytes from offset off. Reading past the end is an
	// error that wraps io.ErrUnexpectedEOF.
	GetRange(ctx context.Context, name string, off, n int64) ([]byte, error)
	// List calls fn with the name and size of each blob below the directory
	// prefix, "" for all, in ascending order of names. What was put before the
	// call is listed. fn may call the storage; its error ends the listing and is
	// returned.
	List(ctx context.Context, prefix string, fn func(name string, size int64) error) error
	// Delete removes a blob; deleting one that is not there is no error.
	Delete(ctx context.Context, name string) error
	// String names the storage for messages and in -s, as a user would write
	// it ("/var/lib/weir", "s3://bucket/weir"), without parameters.
	String() string
}
