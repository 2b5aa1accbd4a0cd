package file

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/weirstream/weir/connector"
)

// enumerator finds files and gives each reader that asks the next split.
type enumerator struct {
	ctx    connector.EnumeratorContext[Split]
	config *sourceConfig
	// split is the size of splits, 0 for whole files.
	split int64

	started    bool // the first discovery of the job is done
	ready      bool // ... of this attempt
	memory     memory
	unassigned []Split
	waiting    []int // subtasks that asked in vain
}

func newEnumerator(ctx connector.EnumeratorContext[Split], c *sourceConfig, splittable bool, restored *Enumeration) *enumerator {
	e := &enumerator{ctx: ctx, config: c, memory: newMemory(c.remember)}
	if splittable {
		e.split = c.splitSize
	}
	if restored != nil {
		e.started = restored.Started
		e.unassigned = slices.Clone(restored.Unassigned)
		e.memory.restore(restored)
	}
	return e
}

func (e *enumerator) Start() error {
	switch {
	case e.config.every > 0:
		e.ctx.CallAsync(e.discover, e.discovered, 0, e.config.every)
	case e.started:
		e.ready = true // a bounded source looks once
	default:
		e.ctx.CallAsync(e.discover, e.discovered, 0, 0)
	}
	return nil
}

// discover lists the files asked for, each once, in the order of their paths.
func (e *enumerator) discover(ctx context.Context) (any, error) {
	var found []Info
	for _, t := range e.config.targets {
		err := e.config.storage.List(ctx, t.dir, t.deep(), func(f Info) error {
			if t.matches(f.Path) && !e.config.ignores(f.Path) {
				found = append(found, f)
			}
			return nil
		})
		if err != nil {
			return nil, &discoveryError{t.where, err}
		}
	}
	slices.SortStableFunc(found, func(a, b Info) int { return strings.Compare(a.Path, b.Path) })
	return slices.CompactFunc(found, func(a, b Info) bool { return a.Path == b.Path }), nil
}

// discoveryError is a listing that failed.
type discoveryError struct {
	where string
	err   error
}

func (e *discoveryError) Unwrap() error { return e.err }

func (e *discoveryError) Error() string {
	if errors.Is(e.err, fs.ErrNotExist) {
		return fmt.Sprintf("file source: there is no file or directory %s; create it or correct its name", e.where)
	}
	return fmt.Sprintf("file source: cannot list %s: %v", e.where, e.err)
}

func (e *enumerator) discovered(result any, err error) error {
	if err != nil {
		return e.failed(err)
	}
	found := result.([]Info)
	quiet := found
	if e.config.quiet > 0 {
		quiet = e.quiet(found, time.Now())
	}
	fresh, odd := quiet, []oddity(nil)
	if e.config.every > 0 {
		fresh, odd = e.memory.take(quiet, time.Now())
	}
	for _, o := range odd {
		e.ctx.Logger().Warn("file source: "+o.what, "file", o.file.Path, "size", o.file.Size, "modified", o.file.ModTime)
	}
	if len(fresh) == 0 && !e.started {
		e.ctx.Logger().Warn("file source found no files", "where", e.config.where())
	}
	for _, f := range fresh {
		e.unassigned = append(e.unassigned, e.cut(f)...)
	}
	e.started, e.ready = true, true
	return e.serveWaiting()
}

// quiet leaves out the files that may still be written.
func (e *enumerator) quiet(found []Info, now time.Time) []Info {
	latest := now.Add(-e.config.quiet)
	var quiet []Info
	for _, f := range found {
		if !f.ModTime.After(latest) {
			quiet = append(quiet, f)
		} else if e.config.every <= 0 {
			e.ctx.Logger().Warn("file source leaves out a file that is not quiet yet", "file", f.Path, "modified", f.ModTime)
		}
	}
	return quiet
}

// cut makes the splits of a file.
func (e *enumerator) cut(f Info) []Split {
	if e.config.compression.of(f.Path) == Uncompressed {
		return cut(f, e.split)
	}
	return []Split{{Info: f, To: Whole, Next: Begin}}
}

// failed decides about a discovery that failed: once the source runs, the
// next one may succeed.
func (e *enumerator) failed(err error) error {
	switch {
	case !e.started && errors.Is(err, fs.ErrNotExist):
		return connector.Fatal(err)
	case !e.ready:
		return err
	}
	if e.ctx.Context().Err() == nil {
		e.ctx.Logger().Warn("file source could not look for new files; it will try again", "error", err)
	}
	return nil
}

// AddReader forgets what an earlier reader of the subtask asked for.
func (e *enumerator) AddReader(subtask int) error {
	e.forget(subtask)
	return nil
}

// forget drops what a subtask's reader asked for.
func (e *enumerator) forget(subtask int) {
	e.waiting = slices.DeleteFunc(e.waiting, func(s int) bool { return s == subtask })
}

func (e *enumerator) HandleSplitRequest(subtask int, _ string) error {
	e.waiting = append(e.waiting, subtask)
	if !e.ready {
		return nil
	}
	return e.serveWaiting()
}

// serveWaiting answers the readers that asked, as far as there are answers.
func (e *enumerator) serveWaiting() error {
	var still []int
	for _, subtask := range e.waiting {
		switch {
		case len(e.unassigned) > 0:
			next := e.unassigned[0]
			e.unassigned = e.unassigned[1:]
			if err := e.ctx.Assign(subtask, next); err != nil {
				return err
			}
		case e.config.every <= 0:
			if err := e.ctx.NoMoreSplits(subtask); err != nil {
				return err
			}
		default:
			// A reader that has no file must not hold back event time.
			if err := e.ctx.Assign(subtask); err != nil {
				return err
			}
			still = append(still, subtask)
		}
	}
	e.waiting = still
	return nil
}

// AddSplitsBack puts the splits before the others: they are older. Their reader,
// which may have asked for more, is gone.
func (e *enumerator) AddSplitsBack(splits []Split, subtask int) error {
	e.forget(subtask)
	e.unassigned = append(slices.Clone(splits), e.unassigned...)
	if !e.ready {
		return nil
	}
	return e.serveWaiting()
}

func (e *enumerator) Snapshot(int64) (Enumeration, error) {
	s := Enumeration{Started: e.started, Unassigned: slices.Clone(e.unassigned)}
	e.memory.store(&s)
	return s, nil
}

func (e *enumerator) HandleSourceEvent(int, any) error { return nil }
func (e *enumerator) CheckpointComplete(int64) error   { return nil }
func (e *enumerator) Close() error                     { return nil }
