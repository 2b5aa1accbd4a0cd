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

// Containers may have one host name, and the process the same id in each: the
// restart in one is no restart in the other, and the record says so.
func TestRestartOfANamesake(t *testing.T) {
	blobs := mem.New()
	start := func(process string, after int64) error {
		_, err := Start(t.Context(), StartOptions{Job: "job", Blobs: blobs, Host: "job-0", PID: 1, Process: process, After: after})
		return err
	}
	if err := errors.Join(start("one", 0), start("two", 0), start("two", 1)); err != nil {
		t.Fatal(err)
	}
	if err := start("one", 1); !errors.Is(err, ErrFenced) {
		t.Errorf("it took the job back: %v", err)
	}
	line, err := Look(t.Context(), LookOptions{Job: "job", Blobs: blobs})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"ended without a word before attempt 2", "failed, and was restarted in the process as attempt 3"} {
		if got := line.Attempts[i].End; got != want {
			t.Errorf("attempt %d: %q, want %q", i+1, got, want)
		}
	}
}
