package stage

// aligner tells when a barrier has come on all channels of a subtask. It is
// pure: it decides, the task acts.
type aligner struct {
	channels int
	// last is the id of the newest barrier that is done or was given up.
	last int64
	// seen counts, per id not done, the channels that delivered it.
	seen map[int64][]bool
	// dead are the ids of aborted barriers whose rest may still come.
	dead map[int64]bool
}

// verdict is what to do about a barrier.
type verdict struct {
	// done: the barrier has come on all channels.
	done bool
	// block: read no more from this channel until the barrier is done.
	block bool
}

func newAligner(channels int) *aligner {
	return &aligner{channels: channels, seen: map[int64][]bool{}, dead: map[int64]bool{}}
}

// barrier notes that a barrier came on a channel. A newer barrier that is
// done makes older ones, whose rest can no longer come, void.
func (a *aligner) barrier(ch int, b *Barrier) verdict {
	if b.ID <= a.last || a.dead[b.ID] {
		return verdict{}
	}
	s := a.seen[b.ID]
	if s == nil {
		s = make([]bool, a.channels)
		a.seen[b.ID] = s
	}
	s[ch] = true
	for _, ok := range s {
		if !ok {
			return verdict{block: !b.AtLeastOnce}
		}
	}
	a.last = b.ID
	for id := range a.seen {
		if id <= b.ID {
			delete(a.seen, id)
		}
	}
	for id := range a.dead {
		if id <= b.ID {
			delete(a.dead, id)
		}
	}
	return verdict{done: true}
}

// abort gives up a barrier: what is still to come of it counts for nothing.
func (a *aligner) abort(id int64) {
	if id > a.last {
		delete(a.seen, id)
		a.dead[id] = true
	}
}
