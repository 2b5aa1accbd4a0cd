package checkpoint

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirstream/weir/checkpoint"
)

// TestRule07SweptAgain: a running attempt looks again, once a minute, for what
// an earlier one opened after the start had looked; a failure is no reason to
// end.
func TestRule07SweptAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := launch(t, newStore(), checkpoint.Options{Interval: 10 * second})
		time.Sleep(55 * second)
		synctest.Wait()
		if n := j.sink.sweeps(); n != 1 {
			t.Errorf("%d sweeps in the first minute, want that of the start", n)
		}
		time.Sleep(3 * time.Minute)
		synctest.Wait()
		if n := j.sink.sweeps(); n != 4 {
			t.Errorf("%d sweeps in four minutes, want 4", n)
		}
		j.sink.mu.Lock()
		j.sink.sweepErr = errors.New("broker away")
		j.sink.mu.Unlock()
		time.Sleep(time.Minute + 10*second)
		synctest.Wait()
		if n := j.sink.sweeps(); n < 5 || n > 6 {
			t.Errorf("%d sweeps in five minutes, want 5 or 6", n)
		}
		if text := j.log.String(); !strings.Contains(text, "broker away") || !strings.Contains(text, "sink=rows") {
			t.Errorf("log: %s", text)
		}
		j.checkpoint()
		j.crash()
	})
}

// TestRule07FencedSweepsNothing: once another start has claimed the job, the
// sweep of a running attempt is told so.
func TestRule07FencedSweepsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := launch(t, newStore(), checkpoint.Options{})
		time.Sleep(2 * time.Minute)
		j.sink.mu.Lock()
		j.sink.onSweep = func() { prepare(t, j.blobs, checkpoint.Options{}) } // behind the checkpoint, before the abort
		j.sink.mu.Unlock()
		j.checkpoint()
		j.sink.mu.Lock()
		if err := j.sink.sweptWith; j.sink.swept != 2 || !errors.Is(err, ErrFenced) {
			t.Errorf("%d sweeps, the ledger says %v", j.sink.swept, err)
		}
		j.sink.mu.Unlock()
		j.crash()
	})
}
