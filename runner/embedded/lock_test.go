package embedded

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirstream/weir/checkpoint"
	"github.com/weirstream/weir/internal/graph"
	"github.com/weirstream/weir/internal/storage/file"
	"github.com/weirstream/weir/internal/storage/mem"
)

// heldLock is a lock that is held for some tries, then gives last.
type heldLock struct {
	tries, held int
	last        error
}

func (l *heldLock) LockDir(string) (func() error, error) {
	if l.tries++; l.tries <= l.held {
		return nil, &file.LockedError{Dir: "/dir/test", Holder: "host other, pid 4711"}
	}
	return func() error { return nil }, l.last
}

// lockJob is a job to lock with, what it logs and what it tells.
func lockJob(standby bool) (j *Job, log *bytes.Buffer, events *[]EventKind) {
	log, events = &bytes.Buffer{}, new([]EventKind)
	j = &Job{
		graph: &graph.Graph{Job: "test"}, log: slog.New(slog.NewTextHandler(log, nil)),
		opts: Options{Standby: standby, OnEvent: func(e Event) { *events = append(*events, e.Kind) }},
	}
	return j, log, events
}

func TestStandbyWaitsForTheLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j, log, events := lockJob(true)
		began, l := time.Now(), &heldLock{held: 5}
		unlock, err := j.lock(t.Context(), l)
		if err != nil || unlock == nil || time.Since(began) != 5*standbyEvery {
			t.Errorf("after %v: %v, want the lock after %v", time.Since(began), err, 5*standbyEvery)
		}
		if text := log.String(); strings.Count(text, "\n") != 2 || strings.Count(text, "host other, pid 4711") != 1 {
			t.Errorf("want one line that names the holder, and one at the start:\n%s", text)
		}
		if len(*events) != 2 || (*events)[0] != StandingBy || (*events)[1] != TakingOver {
			t.Errorf("events %v", *events)
		}
	})
}

func TestStandbyFailsWithTheLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j, _, _ := lockJob(true)
		gone := errors.New("the disk is gone")
		if _, err := j.lock(t.Context(), &heldLock{held: 2, last: gone}); !errors.Is(err, gone) || !strings.Contains(err.Error(), `"test"`) {
			t.Errorf("got %v", err)
		}
	})
}

func TestStandbyEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, want := range []error{errSuspended, errors.New("enough")} {
			j, _, events := lockJob(true)
			ctx, cancel := context.WithCancelCause(t.Context())
			done := make(chan error)
			go func() {
				_, err := j.lock(ctx, &heldLock{held: 1 << 30})
				done <- err
			}()
			synctest.Wait()
			if errors.Is(want, errSuspended) {
				j.Suspend()
			} else {
				cancel(want)
			}
			began := time.Now()
			if err := <-done; !errors.Is(err, want) || time.Since(began) != 0 {
				t.Errorf("after %v: %v, want %v at once", time.Since(began), err, want)
			}
			if len(*events) != 1 {
				t.Errorf("events %v", *events)
			}
			cancel(nil)
		}
	})
}

func TestWithoutLocks(t *testing.T) {
	none := &heldLock{last: errors.ErrUnsupported}
	j, _, _ := lockJob(true)
	if _, err := j.lock(t.Context(), none); err == nil || !strings.Contains(err.Error(), "a standby is not possible") {
		t.Errorf("standby: %v", err)
	}
	j, log, _ := lockJob(false)
	if unlock, err := j.lock(t.Context(), none); err != nil || unlock != nil || !strings.Contains(log.String(), "cannot be locked") {
		t.Errorf("got %v, log %s; want a warning", err, log)
	}
	j, _, _ = lockJob(false)
	if _, err := j.lock(t.Context(), &heldLock{held: 1}); err == nil || !strings.Contains(err.Error(), "pid 4711") || !strings.Contains(err.Error(), "--standby") {
		t.Errorf("got %v", err)
	}
}

func TestStandbyThatCannotBe(t *testing.T) {
	dir := checkpoint.Options{Dir: t.TempDir()}
	for name, test := range map[string]struct {
		o    Options
		want string
	}{
		"a directory":  {Options{Checkpoint: dir}, ""},
		"none":         {Options{}, "not possible"},
		"memory":       {Options{Checkpoint: checkpoint.Options{Dir: checkpoint.Memory}}, "not possible"},
		"own storage":  {Options{Checkpoint: dir, Storage: mem.New()}, "not possible"},
		"from nothing": {Options{Checkpoint: dir, Fresh: true}, "--fresh"},
	} {
		test.o.Standby = true
		err := checkStandby(test.o)
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
		if _, err := New(&graph.Graph{}, test.o); test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s: New: %v", name, err)
		}
	}
}
