package embedded

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"

	"github.com/weirstream/weir/internal/backend/heap"
	"github.com/weirstream/weir/internal/backend/lsm"
	"github.com/weirstream/weir/internal/stage"
)

// Backend is where keyed state lives.
type Backend string

const (
	// Heap keeps all of it in memory. It is the default.
	Heap Backend = "heap"
	// LSM keeps what does not fit into memory on local disk.
	LSM Backend = "lsm"
)

// Of the memory there is, LSM takes a part by default, and an amount where the
// limit is not known.
const (
	lsmPercent      = 40
	lsmUnknownLimit = 1 << 30
)

// settleBackend completes and checks the options of the state backend.
func (o *Options) settleBackend(limit int64) error {
	switch o.StateBackend {
	case "":
		o.StateBackend = Heap
	case Heap, LSM:
	default:
		return fmt.Errorf("state backend %q: it is %s or %s", o.StateBackend, Heap, LSM)
	}
	if o.StateBackend == Heap {
		return o.settleHeap(limit, debug.SetMemoryLimit(-1))
	}
	o.HeapMemory = 0
	if o.LSMDir == "" {
		o.LSMDir = filepath.Join(os.TempDir(), "weir-state")
	}
	if o.LSMMemory == 0 {
		o.LSMMemory = lsmUnknownLimit
		if limit > 0 {
			o.LSMMemory = limit / 100 * lsmPercent
		}
	}
	if limit > 0 && o.LSMMemory > limit {
		return fmt.Errorf("state.backend.lsm.memory is %d bytes, but this process may have %d only: give it at most half of that", o.LSMMemory, limit)
	}
	return nil
}

// settleHeap completes and checks the memory of Heap. State lies beside Go's
// heap, which needs some, too: goLimit is what that may take, if it is less than
// the process's limit.
func (o *Options) settleHeap(limit, goLimit int64) error {
	switch {
	case limit <= 0:
	case o.HeapMemory > limit:
		return fmt.Errorf("state.backend.heap.memory is %d bytes, but this process may have %d only: give it at most three quarters of that, or use the lsm backend", o.HeapMemory, limit)
	case o.HeapMemory == 0 && goLimit < limit:
		o.HeapMemory = max(limit-goLimit, limit/2)
	case o.HeapMemory == 0:
		o.HeapMemory = limit / 4 * 3
	}
	return nil
}

// openDisk opens the local disk of the attempt, if state may lie there.
func (a *attempt) openDisk() (err error) {
	if a.opts.StateBackend != LSM {
		return nil
	}
	stores := 0
	for _, s := range a.plan.Stages {
		for _, n := range s.Nodes {
			if n.Keyed {
				stores += s.Parallelism
			}
		}
	}
	if stores == 0 {
		return nil
	}
	a.disk, err = lsm.Open(lsm.Options{Dir: a.opts.LSMDir, Memory: a.opts.LSMMemory, Stores: stores, Incremental: a.opts.incremental(), Logger: a.job.log})
	return err
}

func (a *attempt) closeDisk() {
	if a.disk == nil {
		return
	}
	if err := a.disk.Close(); err != nil {
		a.job.log.Warn("removing local state", "dir", a.disk.Dir(), "error", err)
	}
}

// settle prepares the frozen state of parts for being stored, or encoded. Its
// error is an encodeError unless the local disk failed.
func settle(parts []stage.Part, store bool) error {
	for _, p := range parts {
		if p.Keyed == nil {
			continue
		}
		err := guarded(func() error { return p.Keyed.Settle(store) })
		switch {
		case errors.Is(err, heap.ErrTier):
			return err
		case err != nil:
			return encodeError{err}
		}
	}
	return nil
}

// incremental tells whether checkpoints are the files of the backend.
func (o *Options) incremental() bool { return o.StateBackend == LSM }
