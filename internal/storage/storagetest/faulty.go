package storagetest

import (
	"context"
	"fmt"
	"io"
	"path"
	"sync"
	"syscall"

	"github.com/weirstream/weir/internal/storage"
)

// Op names a method of storage.Blobs.
type Op string

// The operations that can fail.
const (
	Put         Op = "put"
	PutIfAbsent Op = "put-if-absent"
	Get         Op = "get"
	GetRange    Op = "get-range"
	List        Op = "list"
	Delete      Op = "delete"
)

// Fault is one scripted failure.
type Fault struct {
	// Op is the operation that fails.
	Op Op
	// Name restricts the fault to names that match it, in the syntax of
	// path.Match; "" matches all.
	Name string
	// Skip is how many matching calls succeed first.
	Skip int
	// Times is how many calls then fail; 0 is one, negative all.
	Times int
	// Err is the cause that the caller sees.
	Err error
	// After lets the operation happen before it fails, as when the answer of
	// a remote storage is lost.
	After bool
	// Partial is how many bytes a Put accepts before the writer fails.
	Partial int64
	// Wait, if set, holds the call up until it is closed, or the call is
	// cancelled; without Err the call goes on then.
	Wait <-chan struct{}
}

// Faulty is a storage that fails as scripted and otherwise passes everything
// on. All methods may be called from any goroutine.
type Faulty struct {
	storage.Blobs

	mu     sync.Mutex
	faults []*Fault
	room   int64 // bytes until the disk is full, negative for no end
	calls  map[Op]int
}

var _ storage.Blobs = (*Faulty)(nil)

// NewFaulty returns a storage in front of b that does not fail yet.
func NewFaulty(b storage.Blobs) *Faulty {
	return &Faulty{Blobs: b, room: -1, calls: map[Op]int{}}
}

// Script adds faults. Of several that match a call the first one counts.
func (f *Faulty) Script(faults ...Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, fault := range faults {
		if fault.Times == 0 {
			fault.Times = 1
		}
		f.faults = append(f.faults, &fault)
	}
}

// FullAfter makes every write fail with "no space left on device" once n more
// bytes have been written; negative takes the limit away.
func (f *Faulty) FullAfter(n int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.room = n
}

// Vanish removes a blob behind the back of whoever put it.
func (f *Faulty) Vanish(name string) error {
	return f.Blobs.Delete(context.Background(), name)
}

// Corrupt replaces the content of a blob by what edit makes of it.
func (f *Faulty) Corrupt(name string, edit func([]byte) []byte) error {
	ctx := context.Background()
	data, err := f.Blobs.Get(ctx, name)
	if err != nil {
		return err
	}
	return f.Blobs.Put(ctx, name, func(w io.Writer) error {
		_, err := w.Write(edit(data))
		return err
	})
}

// Calls returns how often an operation was called.
func (f *Faulty) Calls(op Op) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls[op]
}

// next counts a call and returns the fault that hits it, nil if none.
func (f *Faulty) next(op Op, name string) *Fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls[op]++
	for _, fault := range f.faults {
		if fault.Op != op || fault.Times == 0 || !matches(fault.Name, name) {
			continue
		}
		if fault.Skip > 0 {
			fault.Skip--
			continue
		}
		if fault.Times > 0 {
			fault.Times--
		}
		hit := *fault
		if hit.Err != nil {
			hit.Err = fmt.Errorf("%s %s: %w", op, name, fault.Err)
		}
		return &hit
	}
	return nil
}

func matches(pattern, name string) bool {
	if pattern == "" {
		return true
	}
	ok, err := path.Match(pattern, name)
	return ok && err == nil
}

// hold waits as a fault says.
func (f *Fault) hold(ctx context.Context) error {
	if f == nil || f.Wait == nil {
		return nil
	}
	select {
	case <-f.Wait:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// call runs do unless a fault comes first.
func (f *Faulty) call(ctx context.Context, op Op, name string, do func() error) error {
	fault := f.next(op, name)
	if err := fault.hold(ctx); err != nil {
		return err
	}
	if fault == nil || fault.Err == nil {
		return do()
	}
	if fault.After {
		if err := do(); err != nil {
			return err
		}
	}
	return fault.Err
}

// take claims room on the disk for up to n bytes and returns how many fit.
func (f *Faulty) take(n int) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.room < 0 {
		return n
	}
	fit := min(int64(n), f.room)
	f.room -= fit
	return int(fit)
}

// Put implements storage.Blobs.
func (f *Faulty) Put(ctx context.Context, name string, write func(io.Writer) error) error {
	fault := f.next(Put, name)
	if err := fault.hold(ctx); err != nil {
		return err
	}
	if fault != nil && fault.Err == nil {
		fault = nil // it was only slow
	}
	if fault != nil && !fault.After && fault.Partial == 0 {
		return fault.Err
	}
	err := f.Blobs.Put(ctx, name, func(w io.Writer) error {
		out := &faultyWriter{w: w, disk: f}
		if fault != nil && !fault.After {
			out.left, out.err = fault.Partial, fault.Err
		}
		if err := write(out); err != nil {
			return err
		}
		return out.err // also where write wrote less than Partial
	})
	if err == nil && fault != nil {
		return fault.Err
	}
	return err
}

// faultyWriter fails with err after left bytes, and when the disk is full.
type faultyWriter struct {
	w    io.Writer
	disk *Faulty
	left int64
	err  error
}

func (w *faultyWriter) Write(p []byte) (int, error) {
	fit, cause := len(p), error(nil)
	if w.err != nil && int64(fit) > w.left {
		fit, cause = int(w.left), w.err
	}
	if n := w.disk.take(fit); n < fit {
		fit, cause = n, syscall.ENOSPC
	}
	w.left -= int64(fit)
	n, err := w.w.Write(p[:fit])
	if err == nil {
		err = cause
	}
	return n, err
}

// PutIfAbsent implements storage.Blobs.
func (f *Faulty) PutIfAbsent(ctx context.Context, name string, data []byte) error {
	return f.call(ctx, PutIfAbsent, name, func() error {
		if f.take(len(data)) < len(data) {
			return fmt.Errorf("write %s: %w", name, syscall.ENOSPC)
		}
		return f.Blobs.PutIfAbsent(ctx, name, data)
	})
}

// Get implements storage.Blobs.
func (f *Faulty) Get(ctx context.Context, name string) (data []byte, err error) {
	err = f.call(ctx, Get, name, func() error {
		data, err = f.Blobs.Get(ctx, name)
		return err
	})
	return data, err
}

// GetRange implements storage.Blobs.
func (f *Faulty) GetRange(ctx context.Context, name string, off, n int64) (data []byte, err error) {
	err = f.call(ctx, GetRange, name, func() error {
		data, err = f.Blobs.GetRange(ctx, name, off, n)
		return err
	})
	return data, err
}

// List implements storage.Blobs; the prefix is the name a fault matches.
func (f *Faulty) List(ctx context.Context, prefix string, fn func(name string, size int64) error) error {
	return f.call(ctx, List, prefix, func() error { return f.Blobs.List(ctx, prefix, fn) })
}

// Delete implements storage.Blobs.
func (f *Faulty) Delete(ctx context.Context, name string) error {
	return f.call(ctx, Delete, name, func() error { return f.Blobs.Delete(ctx, name) })
}
