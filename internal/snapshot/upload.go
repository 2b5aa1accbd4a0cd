package snapshot

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"path"
	"sync"

	"github.com/weirstream/weir/internal/storage"
)

// Writer names the subtask that writes files, and the attempt.
type Writer struct {
	Lineage string
	Attempt int64
	Stage   string
	Subtask int
}

// Uploads are the files that a subtask writes in an attempt, and knows which of
// them a later checkpoint may refer to: those that the newest completed one
// lists. What others list may be deleted at any time. Its methods may be called
// from any goroutine.
type Uploads struct {
	writer Writer

	mu        sync.Mutex
	seq       int64
	completed int64
	usable    map[string]File
	// done are the uploads of checkpoints of which it is not known yet whether
	// they complete.
	done map[int64][]File
}

// NewUploads returns the uploads of a subtask. restored are the files of the
// snapshot that the attempt began from, as far as they may be referred to.
func NewUploads(w Writer, restored []File) *Uploads {
	u := &Uploads{writer: w, usable: map[string]File{}, done: map[int64][]File{}}
	for _, f := range restored {
		if IsShared(f.Name) {
			u.usable[f.Name] = f
		}
	}
	return u
}

// Complete tells that a checkpoint is completed. It comes before the trigger of
// any later one.
func (u *Uploads) Complete(checkpoint int64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	files, ok := u.done[checkpoint]
	if !ok || checkpoint <= u.completed {
		return // a savepoint
	}
	u.completed, u.usable = checkpoint, map[string]File{}
	for _, f := range files {
		u.usable[f.Name] = f
	}
	for id := range u.done {
		if id <= checkpoint {
			delete(u.done, id)
		}
	}
}

// Begin returns the upload of a snapshot to the directory dir. Its files are
// shared with later snapshots if share is set; without, it refers to none of
// earlier ones either, and dir has all of it.
func (u *Uploads) Begin(checkpoint int64, blobs storage.Blobs, dir string, share bool) *Upload {
	u.mu.Lock()
	defer u.mu.Unlock()
	up := &Upload{all: u, id: checkpoint, blobs: blobs, dir: dir, share: share}
	if share {
		up.usable = u.usable // replaced, not changed
	}
	return up
}

func (u *Uploads) name(share bool) string {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.seq++
	w := u.writer
	if share {
		return SharedName(w.Lineage, w.Attempt, w.Stage, w.Subtask, u.seq)
	}
	return fmt.Sprintf("%s-%d", Name(w.Stage, w.Subtask, w.Attempt), u.seq)
}

// Upload is a subtask's part of one snapshot: the files that it writes, and
// those that it refers to. One goroutine uses it.
type Upload struct {
	all    *Uploads
	id     int64
	blobs  storage.Blobs
	dir    string
	share  bool
	usable map[string]File

	files   []File
	written []string
	bytes   int64
	// failed tells that the storage did.
	failed bool
}

// Usable tells whether the snapshot may refer to a file that an earlier one
// lists, and what size and checksum that has.
func (u *Upload) Usable(name string) (File, bool) {
	f, ok := u.usable[name]
	return f, ok
}

// Refer adds a file that is Usable.
func (u *Upload) Refer(f File) { u.files = append(u.files, f) }

// Put writes a file and adds it. Its name is the upload's to choose.
func (u *Upload) Put(ctx context.Context, write func(io.Writer) error) (File, error) {
	return u.PutAs(ctx, u.all.name(u.share), write)
}

// PutOwn is Put of a file that is of this snapshot only, and lies in its
// directory.
func (u *Upload) PutOwn(ctx context.Context, write func(io.Writer) error) (File, error) {
	return u.PutAs(ctx, u.all.name(false), write)
}

// PutAs is Put with a name of the caller's in the directory of the snapshot.
func (u *Upload) PutAs(ctx context.Context, name string, write func(io.Writer) error) (File, error) {
	at := path.Join(u.dir, name)
	out := &summed{}
	u.written = append(u.written, at) // it may stand although Put fails
	var failed error
	err := u.blobs.Put(ctx, at, func(w io.Writer) error {
		*out = summed{w: w}
		failed = write(out)
		return failed
	})
	if err != nil {
		u.failed = failed == nil || out.err != nil
		return File{}, fmt.Errorf("%s: %w", at, err)
	}
	f := File{Name: name, Size: out.size, CRC: out.sum}
	u.files = append(u.files, f)
	u.bytes += f.Size
	return f, nil
}

// summed keeps size and checksum of what is written, and whether the storage
// failed.
type summed struct {
	w    io.Writer
	size int64
	sum  uint32
	err  error
}

func (s *summed) Write(p []byte) (int, error) {
	n, err := s.w.Write(p)
	s.size += int64(n)
	s.sum = crc32.Update(s.sum, castagnoli, p[:n])
	if err != nil {
		s.err = err
	}
	return n, err
}

// Files are all that the snapshot refers to.
func (u *Upload) Files() []File { return u.files }

// Bytes is the size of those written for it.
func (u *Upload) Bytes() int64 { return u.bytes }

// StorageFailed tells that an error of Put is the storage's, and not that of
// what was to be written.
func (u *Upload) StorageFailed() bool { return u.failed }

// Done says that all is written: once the checkpoint is completed later ones may
// refer to its files.
func (u *Upload) Done() {
	if !u.share {
		return
	}
	u.all.mu.Lock()
	defer u.all.mu.Unlock()
	if u.id > u.all.completed {
		u.all.done[u.id] = u.files
	}
}

// Abandon deletes what was written for a snapshot that nobody will hear of.
func (u *Upload) Abandon(ctx context.Context) error {
	var errs []error
	for _, name := range u.written {
		errs = append(errs, u.blobs.Delete(ctx, name))
	}
	return errors.Join(errs...)
}
