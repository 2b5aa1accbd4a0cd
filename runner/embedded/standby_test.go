package embedded_test

import (
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/weirstream/weir/connector/collect"
	"github.com/weirstream/weir/internal/jobtest"
	"github.com/weirstream/weir/internal/storage/file"
	"github.com/weirstream/weir/runner/embedded"
)

// A standby starts when the first has died, from its last checkpoint.
func TestRule16StandbyTakesOver(t *testing.T) {
	dir, gate, out := t.TempDir(), jobtest.NewGate(), collect.NewExactlyOnce[string]()
	build := countJob(out, script(records("a", "b"), hold(gate), records("a")))
	first := launch(t, dir, embedded.Options{}, build)
	first.reach(gate)
	standby := launch(t, dir, embedded.Options{Standby: true}, build)
	e := standby.wait(embedded.StandingBy)
	held := (*file.LockedError)(nil)
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	if !errors.As(e.Err, &held) || held.Holder != fmt.Sprintf("host %s, pid %d", host, os.Getpid()) {
		t.Errorf("the holder is %v", e.Err)
	}
	if s := standby.job.Status().State; s != "standing by" {
		t.Errorf("the standby is %q", s)
	}
	chk := first.checkpoint() // it is not disturbed
	first.kill()
	gate.Open()
	standby.wait(embedded.TakingOver)
	if e := standby.wait(embedded.Started); e.Checkpoint != chk || e.Attempt != 2 {
		t.Errorf("start %d from checkpoint %d, want 2 from %d", e.Attempt, e.Checkpoint, chk)
	}
	standby.end()
	want(t, "output", out.Values(), "a=1", "b=1", "a=2")
}

// A standby that is stopped has done nothing, and leaves the lock alone.
func TestRule16StandbyIsStopped(t *testing.T) {
	dir, gate, out := t.TempDir(), jobtest.NewGate(), collect.NewExactlyOnce[string]()
	build := countJob(out, script(records("a"), hold(gate), records("b")))
	first := launch(t, dir, embedded.Options{}, build)
	first.reach(gate)
	standby := launch(t, dir, embedded.Options{Standby: true}, build)
	standby.wait(embedded.StandingBy)
	standby.suspend()
	standby.wait(embedded.Suspended)
	canceled := launch(t, dir, embedded.Options{Standby: true}, build)
	canceled.wait(embedded.StandingBy)
	canceled.kill()
	if s := canceled.job.Status().State; s != "canceled" {
		t.Errorf("the canceled standby is %q", s)
	}
	first.checkpoint()
	gate.Open()
	first.end()
	want(t, "output", out.Values(), "a=1", "b=1")
}
