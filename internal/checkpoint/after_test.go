package checkpoint

import (
	"errors"
	"testing"

	"github.com/weirstream/weir/internal/storage/mem"
)

// A process that restarts its attempt must not take the job back from one
// that has claimed it meanwhile, as a paused zombie would.
func TestRestartAfterAnotherProcessClaimed(t *testing.T) {
	blobs := mem.New()
	start := func(pid int, after int64) (int64, error) {
		a, err := Start(t.Context(), StartOptions{Job: "job", Blobs: blobs, Host: "h", PID: pid, After: after})
		if err != nil {
			return 0, err
		}
		return a.Number, nil
	}
	for _, step := range []struct {
		pid         int
		after, want int64 // 0: fenced
	}{
		{pid: 1, want: 1},
		{pid: 1, after: 1, want: 2},
		{pid: 1, after: 1, want: 3}, // the answer to its claim 2 was lost
		{pid: 2, want: 4},
		{pid: 1, after: 3},
		{pid: 2, after: 4, want: 5},
		{pid: 1, want: 6}, // started anew, on purpose
		{pid: 2, after: 5},
	} {
		got, err := start(step.pid, step.after)
		if got != step.want || (step.want == 0) != errors.Is(err, ErrFenced) {
			t.Errorf("%+v: attempt %d, %v", step, got, err)
		}
	}
}
