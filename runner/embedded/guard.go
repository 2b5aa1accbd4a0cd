package embedded

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/weirstream/weir/internal/stage"
)

// errGoexit is why a component ended whose code called runtime.Goexit, as
// testing.T.FailNow does.
var errGoexit = errors.New("code of the job ended its goroutine (runtime.Goexit)")

// guarded runs code of the job that no stage runs. A panic, which would end
// the process, becomes an error.
func guarded(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return f()
}

// guardedCommitter guards a sink's committer.
type guardedCommitter struct{ inner stage.Committer }

// Commit implements stage.Committer.
func (g guardedCommitter) Commit(ctx context.Context, committables [][]byte) error {
	return guarded(func() error { return g.inner.Commit(ctx, committables) })
}

// Inspect implements stage.Inspector.
func (g guardedCommitter) Inspect(ctx context.Context, committables [][]byte) error {
	inspector, ok := g.inner.(stage.Inspector)
	if !ok {
		return nil
	}
	return guarded(func() error { return inspector.Inspect(ctx, committables) })
}

// Sweep implements stage.Committer.
func (g guardedCommitter) Sweep(ctx context.Context, stillNewest func() error) error {
	return guarded(func() error { return g.inner.Sweep(ctx, stillNewest) })
}

// Close implements stage.Committer.
func (g guardedCommitter) Close() error { return guarded(g.inner.Close) }
