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
	// unblock: first read again from all channels blocked so far.
	unblock bool
}

func newAligner(channels int) *aligner {
	return &aligner{channels: channels, seen: map[int64][]bool{}, dead: map[int64]bool{}}
}

// barrier notes that a barrier came on a channel. Barriers of a channel come
// in order: an older one that this channel has not delivered was aborted on
// its way here, and the notice of that may be still to come.
func (a *aligner) barrier(ch int, b *Barrier) verdict {
	if b.ID <= a.last || a.dead[b.ID] {
		return verdict{}
	}
	unblock := a.overtake(ch, b.ID)
	s := a.seen[b.ID]
	if s == nil {
		s = make([]bool, a.channels)
		a.seen[b.ID] = s
	}
	s[ch] = true
	for _, ok := range s {
		if !ok {
			return verdict{block: !b.AtLeastOnce, unblock: unblock}
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
	return verdict{done: true, unblock: unblock}
}

// overtake gives up the barriers before id that ch will not deliver any more.
func (a *aligner) overtake(ch int, id int64) (any bool) {
	for older, seen := range a.seen {
		if older < id && !seen[ch] {
			a.abort(older)
			any = true
		}
	}
	return any
}

// abort gives up a barrier: what is still to come of it counts for nothing.
func (a *aligner) abort(id int64) {
	if id > a.last {
		delete(a.seen, id)
		a.dead[id] = true
	}
}
