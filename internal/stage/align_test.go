package stage

import "testing"

// steps runs a script of barriers: channel, id, and the verdict wanted.
func TestAligner(t *testing.T) {
	type step struct {
		ch          int
		id          int64
		abort       int64
		done, block bool
		unblock     bool
	}
	cases := map[string]struct {
		channels    int
		atLeastOnce bool
		steps       []step
	}{
		"one channel needs no alignment": {1, false, []step{{ch: 0, id: 1, done: true}, {ch: 0, id: 2, done: true}}},
		"blocks until all have come": {3, false, []step{
			{ch: 1, id: 1, block: true}, {ch: 0, id: 1, block: true}, {ch: 2, id: 1, done: true},
			{ch: 2, id: 2, block: true}, {ch: 1, id: 2, block: true}, {ch: 0, id: 2, done: true},
		}},
		"at least once does not block": {2, true, []step{
			{ch: 0, id: 1}, {ch: 0, id: 2}, {ch: 1, id: 1, done: true}, {ch: 1, id: 2, done: true},
		}},
		"an aborted barrier counts for nothing": {2, false, []step{
			{ch: 0, id: 1, block: true}, {abort: 1}, {ch: 1, id: 1}, {ch: 0, id: 2, block: true}, {ch: 1, id: 2, done: true},
		}},
		"abort of one leaves another alone": {2, true, []step{
			{ch: 0, id: 1}, {ch: 0, id: 2}, {abort: 2}, {ch: 1, id: 1, done: true}, {ch: 1, id: 2}, {ch: 0, id: 3}, {ch: 1, id: 3, done: true},
		}},
		"a newer barrier that is done makes older ones void": {2, true, []step{
			{ch: 0, id: 1}, {ch: 0, id: 2}, {ch: 1, id: 2, done: true, unblock: true}, {ch: 1, id: 1},
		}},
		"a newer barrier overtakes one that was aborted on its way": {3, false, []step{
			{ch: 0, id: 1, block: true}, {ch: 1, id: 2, block: true, unblock: true}, {abort: 1},
			{ch: 0, id: 2, block: true}, {ch: 2, id: 1}, {ch: 2, id: 2, done: true},
		}},
		"a repeated barrier does nothing": {2, false, []step{
			{ch: 0, id: 1, block: true}, {ch: 1, id: 1, done: true}, {ch: 1, id: 1},
		}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			a := newAligner(c.channels)
			for i, s := range c.steps {
				if s.abort != 0 {
					a.abort(s.abort)
					continue
				}
				got := a.barrier(s.ch, &Barrier{ID: s.id, AtLeastOnce: c.atLeastOnce})
				if want := (verdict{done: s.done, block: s.block, unblock: s.unblock}); got != want {
					t.Fatalf("step %d, barrier %d on channel %d: got %+v, want %+v", i, s.id, s.ch, got, want)
				}
			}
			if len(a.dead) > 1 || len(a.seen) > 1 {
				t.Errorf("%d dead and %d seen barriers are kept", len(a.dead), len(a.seen))
			}
		})
	}
}
