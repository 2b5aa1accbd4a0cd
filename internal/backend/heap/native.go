package heap

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/weirstream/weir/internal/snapshot"
)

// storedFiles are the names in storage of the tier's lasting files. Snapshots
// that are stored at the same time may each have a name for the same file.
type storedFiles struct {
	mu    sync.Mutex
	names map[string][]string
}

func (s *storedFiles) init(stored []snapshot.NativeFile) {
	s.names = map[string][]string{}
	for _, f := range stored {
		s.names[f.Local] = []string{f.File}
	}
}

// usable finds a file that a snapshot may refer to.
func (s *storedFiles) usable(up *snapshot.Upload, local string) (snapshot.File, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range s.names[local] {
		if f, ok := up.Usable(name); ok {
			return f, true
		}
	}
	return snapshot.File{}, false
}

// put adds the name of a file, unless it is a savepoint's, to which no other
// snapshot may refer. Older ones than the last few will not be usable any more.
func (s *storedFiles) put(local, name string) {
	const most = 8
	if !snapshot.IsShared(name) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	names := append(s.names[local], name)
	s.names[local] = names[max(len(names)-most, 0):]
}

// keep forgets all files but those that are there.
func (s *storedFiles) keep(files []TierFile) {
	there := make(map[string]bool, len(files))
	for _, f := range files {
		there[f.Name] = true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for local := range s.names {
		if !there[local] {
			delete(s.names, local)
		}
	}
}

// IsInMemory tells whether all that the snapshot holds lay in memory: such a
// snapshot can be stored by a Chain.
func (f *Frozen) IsInMemory() bool { return f.settling == nil }

// HasFiles tells whether the snapshot can be stored as files of the tier.
func (f *Frozen) HasFiles() bool { return f.settling != nil && f.core.below.settles }

// StoreNative stores a snapshot that was settled as files.
func (f *Frozen) StoreNative(ctx context.Context, up *snapshot.Upload) (*snapshot.Native, error) {
	if err := f.Settle(true); err != nil {
		return nil, err
	}
	files := f.settling.files
	if files == nil {
		return nil, errors.New("the snapshot has no files")
	}
	stored := &f.core.below.stored
	n := &snapshot.Native{Format: files.Format(), States: f.core.states}
	list := files.List()
	for _, file := range list {
		name, err := f.storeFile(ctx, up, file)
		if err != nil {
			return nil, fmt.Errorf("snapshot of operator %q: %w", f.core.operator, err)
		}
		n.Files = append(n.Files, snapshot.NativeFile{Local: file.Name, File: name})
	}
	stored.keep(list)
	return n, nil
}

// storeFile stores a file, unless the snapshot may refer to it, and returns its
// name in storage.
func (f *Frozen) storeFile(ctx context.Context, up *snapshot.Upload, file TierFile) (string, error) {
	stored := &f.core.below.stored
	write := func(w io.Writer) error {
		r, err := f.settling.files.Open(file.Name)
		if err != nil {
			return fmt.Errorf("%w: %w", ErrTier, err)
		}
		defer r.Close()
		_, err = io.Copy(w, contextReader{ctx, r})
		return err
	}
	if !file.Lasting {
		s, err := up.PutOwn(ctx, write)
		return s.Name, err
	}
	if s, ok := stored.usable(up, file.Name); ok {
		up.Refer(s)
		return s.Name, nil
	}
	s, err := up.Put(ctx, write)
	if err == nil {
		stored.put(file.Name, s.Name)
	}
	return s.Name, err
}

// contextReader fails when the context has ended, and tells a failure of what
// is read from one of what is written to.
type contextReader struct {
	ctx context.Context
	r   io.Reader
}

func (c contextReader) Read(p []byte) (int, error) {
	if c.ctx.Err() != nil {
		return 0, context.Cause(c.ctx)
	}
	n, err := c.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = fmt.Errorf("%w: %w", ErrTier, err)
	}
	return n, err
}
