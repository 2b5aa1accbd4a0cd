package stage

import (
	"math"
	"testing"
	"time"
)

// waiting is an operator with a processing-time timer.
type waiting struct {
	Operator
	at int64
}

func (w *waiting) Input() any                        { return nil }
func (w *waiting) NextProcessingTime() (int64, bool) { return w.at, true }

func TestPatienceWithDistantTimers(t *testing.T) {
	const wall = 1_700_000_000_000
	for at, want := range map[int64]time.Duration{
		wall + 5: 5 * time.Millisecond, wall: 0, wall - 1: 0, 0: 0, math.MinInt64: 0,
		wall + 7_200_000: time.Hour, math.MaxInt64: time.Hour,
	} {
		task := NewTask(TaskConfig{Operators: []Operator{&waiting{at: at}}, Waker: NewWaker(), Now: func() int64 { return wall }})
		if got := task.patience(dry); got != want {
			t.Errorf("timer at %d: sleeps for %v, want %v", at, got, want)
		}
	}
}
