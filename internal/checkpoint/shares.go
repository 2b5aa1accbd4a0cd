package checkpoint

import (
	"slices"
	"sync"

	"github.com/weirstream/weir/internal/snapshot"
)

// shares counts which snapshots refer to which shared files of a job, and tells
// which files nobody needs any more. It holds the snapshots whose _metadata
// stood in the job's directory at the start, and those of this attempt from
// their first acknowledgement on. Its methods may be called from any goroutine.
type shares struct {
	attempt int64
	// keepEarlier keeps files of earlier attempts: what the start could not
	// read may need them.
	keepEarlier bool
	without     rules

	mu sync.Mutex
	// refs are the snapshots, by directory, that refer to a file, by its name
	// in the storage; held is the same the other way round.
	refs map[string]int
	held map[string][]string
	// open are the checkpoints that were triggered and of which a task's part is
	// still to come: it may refer to what the newest completed checkpoint lists,
	// or listed when the upload began.
	open map[int64]bool
	// waiting are files without references, with the newest checkpoint that was
	// open when the last reference went.
	waiting map[string]int64
}

func newShares(attempt int64, without rules) *shares {
	return &shares{
		attempt: attempt, without: without, refs: map[string]int{}, held: map[string][]string{}, open: map[int64]bool{}, waiting: map[string]int64{},
	}
}

// hold notes files that the snapshot in dir refers to, beside those it holds.
func (s *shares) hold(dir string, names []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range names {
		if !slices.Contains(s.held[dir], name) {
			s.held[dir] = append(s.held[dir], name)
			s.refs[name]++
		}
	}
}

// drop notes that the snapshot in dir is gone, and returns the files that may go
// now.
func (s *shares) drop(dir string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var newest int64
	for id := range s.open {
		newest = max(newest, id)
	}
	for _, name := range s.held[dir] {
		if s.refs[name]--; s.refs[name] == 0 || s.without.off(countReferences) {
			delete(s.refs, name)
			s.waiting[name] = newest
		}
	}
	delete(s.held, dir)
	return s.freeLocked()
}

// opened notes that a checkpoint is triggered, closed that no part of it is
// still to come, or counts; closed returns the files that may go now.
func (s *shares) opened(id int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open[id] = true
}

func (s *shares) closed(id int64) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.open[id] {
		return nil
	}
	delete(s.open, id)
	return s.freeLocked()
}

// freeLocked takes the files that wait for nothing any more.
func (s *shares) freeLocked() (names []string) {
	for _, name := range sortedKeys(s.waiting) {
		_, attempt, _ := snapshot.SharedWriter(name)
		switch {
		case s.refs[name] > 0:
			delete(s.waiting, name)
		case s.keepEarlier && attempt != s.attempt:
		case !s.awaitedLocked(s.waiting[name]):
			delete(s.waiting, name)
			names = append(names, name)
		}
	}
	return names
}

// awaitedLocked tells whether a checkpoint up to id is open.
func (s *shares) awaitedLocked(id int64) bool {
	for open := range s.open {
		if open <= id {
			return true
		}
	}
	return false
}

// knows reports whether a file is referred to, or is about to be deleted.
func (s *shares) knows(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, waits := s.waiting[name]
	return waits || s.refs[name] > 0
}
