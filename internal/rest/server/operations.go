package server

import (
	"context"
	"sync"
	"time"

	"github.com/weirstream/weir/internal/rest"
)

// keep is how long what came of an operation can be asked for.
const keep = 5 * time.Minute

// operations are what was asked for and goes on by itself.
type operations struct {
	ctx    context.Context
	cancel context.CancelFunc
	group  sync.WaitGroup
	now    func() time.Time

	mu  sync.Mutex
	ops map[string]*operation
	// changed is closed and made anew when an operation ends or is seen.
	changed chan struct{}
}

type operation struct {
	// result is nil while it is under way.
	result *rest.Operation
	ended  time.Time
	// seen tells that the result was told.
	seen bool
}

func newOperations(now func() time.Time) *operations {
	o := &operations{now: now, ops: map[string]*operation{}, changed: make(chan struct{})}
	o.ctx, o.cancel = context.WithCancel(context.Background())
	return o
}

// start runs an operation, unless the id is known.
func (o *operations) start(id string, do func(context.Context) rest.Operation) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for known, op := range o.ops {
		if op.result != nil && o.now().Sub(op.ended) > keep {
			delete(o.ops, known)
		}
	}
	if o.ops[id] != nil {
		return
	}
	op := &operation{}
	o.ops[id] = op
	o.group.Go(func() {
		result := do(o.ctx)
		o.change(func() { op.result, op.ended = &result, o.now() })
	})
}

// change changes operations and tells who waits.
func (o *operations) change(f func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	f()
	close(o.changed)
	o.changed = make(chan struct{})
}

func (o *operations) status(id string) (st rest.TriggerStatus, known bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	op := o.ops[id]
	if op == nil {
		return st, false
	}
	st.Status.ID = rest.TriggerInProgress
	if op.result != nil {
		st.Status.ID, st.Operation = rest.TriggerCompleted, op.result
	}
	return st, true
}

func (o *operations) seen(id string) {
	o.change(func() {
		if op := o.ops[id]; op != nil {
			op.seen = true
		}
	})
}

// unseen reports whether there is a result that nobody has been told, and what
// is closed when that changes.
func (o *operations) unseen() (bool, <-chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, op := range o.ops {
		if !op.seen && (op.result == nil || o.now().Sub(op.ended) <= keep) {
			return true, o.changed
		}
	}
	return false, o.changed
}

func (o *operations) linger(ctx context.Context) {
	for {
		unseen, changed := o.unseen()
		if !unseen {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

func (o *operations) close() {
	o.cancel()
	o.group.Wait()
}
