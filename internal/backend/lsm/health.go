package lsm

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"syscall"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// health tells whether a database can go on. What Pebble cannot write it tries
// again for ever, as on a full disk, and whoever waits for it would, too; and it
// ends the process where its manifest cannot be written or a block is damaged.
// Here the database is given up: the task fails, and begins anew with an empty
// directory.
type health struct {
	once sync.Once
	// ended is closed once cause is set.
	ended chan struct{}
	cause error
	// flushes has an element after a flush.
	flushes chan struct{}
}

func newHealth() *health {
	return &health{ended: make(chan struct{}), flushes: make(chan struct{}, 1)}
}

func (h *health) fail(err error) {
	err = advise(err)
	h.once.Do(func() {
		h.cause = err
		close(h.ended)
	})
}

// advise says what to do about a local disk that is full.
func advise(err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return fmt.Errorf("%w: make room there, or name another disk with state.backend.lsm.dir", err)
	}
	return err
}

// err is nil as long as the database can go on.
func (h *health) err() error {
	select {
	case <-h.ended:
		return h.cause
	default:
		return nil
	}
}

// wait waits for a flush. Its channel is nil if there is none.
func (h *health) wait(flushed <-chan struct{}) error {
	if flushed != nil {
		select {
		case <-flushed:
		case <-h.ended:
		}
	}
	return h.err()
}

// listener hears of it from Pebble.
func (h *health) listener(log *slog.Logger) *pebble.EventListener {
	return &pebble.EventListener{
		FlushEnd: func(i pebble.FlushInfo) {
			if i.Err != nil {
				h.fail(fmt.Errorf("write what was in memory: %w", i.Err))
				return
			}
			select {
			case h.flushes <- struct{}{}:
			default:
			}
		},
		DataCorruption: func(i pebble.DataCorruptionInfo) {
			h.fail(fmt.Errorf("file %s is damaged: %w", i.Path, i.Details))
		},
		BackgroundError: func(err error) {
			if h.err() == nil { // else it is tried again at once, and again
				log.Error("writing local state in the background", "error", err)
			}
		},
	}
}

// watched is a file system that tells where the manifest of the database in dir
// cannot be written.
type watched struct {
	vfs.FS
	dir    string
	health *health
}

func (w watched) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := w.FS.Create(name, c)
	if err != nil || w.PathDir(name) != w.dir || !strings.HasPrefix(w.PathBase(name), manifestPrefix) {
		return f, err
	}
	return watchedFile{f, w.health}, nil
}

func (w watched) Unwrap() vfs.FS { return w.FS }

// watchedFile is a manifest. Pebble goes on as if it had been written, which
// nobody sees any more.
type watchedFile struct {
	vfs.File
	health *health
}

func (f watchedFile) Write(p []byte) (int, error) {
	if _, err := f.File.Write(p); err != nil {
		f.health.fail(fmt.Errorf("write the manifest: %w", err))
	}
	return len(p), nil
}
