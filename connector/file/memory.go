package file

import (
	"slices"
	"strings"
	"time"
)

// memory tells new files from those that were found before. It remembers the
// files that were last written within a time before the newest one; of what is
// older it knows that it has been dealt with.
type memory struct {
	window  time.Duration
	seen    map[string]Info
	horizon time.Time
	// listed is the last listing of this attempt, nil before the first.
	listed map[string]struct{}
}

// oddity is a file that a person should know of.
type oddity struct {
	file Info
	what string
}

func newMemory(window time.Duration) memory {
	return memory{window: window, seen: map[string]Info{}}
}

func (m *memory) restore(e *Enumeration) {
	m.horizon = e.Horizon
	for _, f := range e.Seen {
		m.seen[f.Path] = f
	}
}

func (m *memory) store(e *Enumeration) {
	e.Horizon = m.horizon
	e.Seen = make([]Info, 0, len(m.seen))
	for _, f := range m.seen {
		e.Seen = append(e.Seen, f)
	}
	slices.SortFunc(e.Seen, func(a, b Info) int { return strings.Compare(a.Path, b.Path) })
}

// take returns the files of a listing that are new, and remembers them. A file
// is known by its path: one that was touched or written on is not new.
func (m *memory) take(found []Info, now time.Time) (fresh []Info, odd []oddity) {
	listed := make(map[string]struct{}, len(found))
	for _, f := range found {
		listed[f.Path] = struct{}{}
		known, ok := m.seen[f.Path]
		switch {
		case ok:
			if known.Size != f.Size {
				odd = append(odd, oddity{f, "a file has another size than when it was found; what was added is not read, file.QuietFor waits until files are complete"})
			}
			m.seen[f.Path] = f // a file that is touched is remembered for longer
		case f.ModTime.Before(m.horizon):
			if _, there := m.listed[f.Path]; m.listed != nil && !there {
				odd = append(odd, oddity{f, "a new file is too old to be told from those read long ago, and is not read; file.Remember makes the source remember longer"})
			}
		default:
			m.seen[f.Path] = f
			fresh = append(fresh, f)
		}
	}
	m.listed = listed
	m.forget(now)
	return fresh, odd
}

// forget moves the horizon. A file from the future does not move it beyond
// what may still come.
func (m *memory) forget(now time.Time) {
	var newest time.Time
	for _, f := range m.seen {
		if f.ModTime.After(newest) {
			newest = f.ModTime
		}
	}
	if newest.After(now) {
		newest = now
	}
	if h := newest.Add(-m.window); h.After(m.horizon) {
		m.horizon = h
	}
	for p, f := range m.seen {
		if f.ModTime.Before(m.horizon) {
			delete(m.seen, p)
		}
	}
}
