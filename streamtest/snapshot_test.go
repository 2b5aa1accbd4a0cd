package streamtest_test

import (
	"testing"
	"time"

	"github.com/weirstream/weir/state"
	"github.com/weirstream/weir/streamtest"
)

func TestASnapshotStaysAsItIs(t *testing.T) {
	h := streamtest.Process(t, word.self, newTally, streamtest.Parallelism(2))
	h.Push("a", "a")
	two := h.Snapshot()
	h.Push("a", "b")
	four := h.Snapshot()
	h.Expect("a 1", "a 2", "a 3", "b 1")
	h.Restore(two)
	h.Push("a", "b")
	h.Expect("a 3", "b 1")
	h.Restore(four, streamtest.Parallelism(1))
	h.Push("a", "b")
	h.Expect("a 4", "b 2")
	h.Restore(two)
	h.Push("a")
	h.Expect("a 3")
}

func TestAnotherVersionBeginsFromASnapshot(t *testing.T) {
	old := streamtest.Process(t, word.self, newTally)
	old.Push("a", "a")
	s := old.Snapshot()

	h := streamtest.Process(t, word.self, newTally, streamtest.From(s), streamtest.Parallelism(2))
	h.Push("a")
	h.Expect("a 3")

	message := failing(t, func(t testing.TB) {
		h := streamtest.Process(t, word.self, func(r *state.Registry) *forgetful {
			state.ValueIn[string](r, "n")
			return newForgetful(r)
		}, streamtest.From(s))
		h.Push("a")
	})
	mustSay(t, message, "the job failed", `operator "process"`, `state "n" is stored as value of int64 and declared as value of string`)
}

func TestEventTimeBeginsAnewAtARestore(t *testing.T) {
	h := streamtest.Process(t, alarm.key, newAlarms)
	h.Push(alarm{"a", at(20), false})
	h.Watermark(at(10))
	h.AdvanceClock(time.Minute)
	h.Rescale(2)
	h.Watermark(at(5)) // no step back: sources read again
	h.Expect()
	h.Watermark(at(20))
	h.Expect("a 20 event")
	if !h.Now().Equal(at(60)) {
		t.Errorf("the wall clock is at %v", h.Now())
	}
}

func TestASnapshotAfterTheEnd(t *testing.T) {
	h := streamtest.Process(t, alarm.key, newAlarms)
	h.Push(alarm{"a", at(20), false})
	h.End()
	h.Expect("a 20 event", "end")
	for _, parallelism := range []int{3, 1, 2} {
		h.Rescale(parallelism)
		h.Expect() // the end lies before the snapshot
	}
}

// The end is in a snapshot, whoever begins from it.
func TestFromASnapshotAfterTheEnd(t *testing.T) {
	old := streamtest.Process(t, alarm.key, newAlarms)
	old.Push(alarm{"a", at(20), false})
	old.End()
	s := old.Snapshot()
	for step, do := range map[string]func(*streamtest.Harness[alarm, string]){
		"Push":      func(h *streamtest.Harness[alarm, string]) { h.Push(alarm{"a", at(20), false}) },
		"Watermark": func(h *streamtest.Harness[alarm, string]) { h.Watermark(at(1)) },
		"End":       func(h *streamtest.Harness[alarm, string]) { h.End() },
	} {
		mustSay(t, failing(t, func(t testing.TB) {
			do(streamtest.Process(t, alarm.key, newAlarms, streamtest.From(s)))
		}), step)
	}
	h := streamtest.Process(t, alarm.key, newAlarms, streamtest.From(s))
	h.AdvanceClock(time.Second)
	h.Expect()
}

func TestTheClockGoesOnFromASnapshot(t *testing.T) {
	kept := func(r *state.Registry) *dedupe { return newDedupe(r) } // for 24 hours
	id := Click.RequestID
	old := streamtest.Process(t, id, kept, streamtest.StartAt(at(1000)))
	old.AdvanceClock(48*time.Hour + 1500*time.Microsecond)
	old.Push(Click{ID: "a"})
	s := old.Snapshot()
	stood := at(1000).Add(48*time.Hour + 1500*time.Microsecond)
	expired := func(h *streamtest.Harness[Click, Click], begins time.Time) {
		t.Helper()
		if !h.Now().Equal(begins) {
			t.Errorf("the clock begins at %v, want %v", h.Now(), begins)
		}
		h.Push(Click{ID: "a"})
		h.Expect()
		h.AdvanceClock(24 * time.Hour)
		h.Push(Click{ID: "a"})
		h.Expect(Click{ID: "a"})
	}
	expired(streamtest.Process(t, id, kept, streamtest.From(s)), stood)
	other := streamtest.Process(t, id, kept)
	other.Push(Click{ID: "b"})
	other.Take()
	expired(other.Restore(s), stood)
	later := streamtest.Process(t, id, kept, streamtest.From(s), streamtest.StartAt(stood.Add(time.Hour)))
	if !later.Now().Equal(stood.Add(time.Hour)) {
		t.Errorf("StartAt does not count: %v", later.Now())
	}
}
