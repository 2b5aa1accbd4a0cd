// Package alignment holds back the sources of a job that are ahead in event
// time, so that what joins them need not keep what is between (Flink's
// watermark alignment, FLIP-182 and FLIP-217).
//
// The sources' subtasks are members of named groups. Each reports its watermark
// now and then; the least of the others, plus a member's drift, is how far that
// member may be. Its own does not count: it would hold the member back until it
// is reported again. Nor do idle members, and those that have ended.
package alignment

import (
	"math"
	"sync"
	"sync/atomic"
)

// Groups are the groups of one attempt. It is safe for concurrent use.
type Groups struct {
	mu     sync.Mutex
	groups map[string]*group
}

// group has one lock: a member takes it once an interval.
type group struct {
	mu      sync.Mutex
	members map[*Member]int64
}

// Member is a subtask of a source. One goroutine uses it.
type Member struct {
	group *group
	drift int64
	wake  func()
	// others is the least watermark of the others.
	others atomic.Int64
}

// notYet is the watermark of a member before its first.
const notYet = math.MinInt64

// Join adds a member to a group, whose watermark is not known yet: that holds
// back the others. drift is in milliseconds. wake is called, from any goroutine,
// when Limit has risen.
func (g *Groups) Join(name string, drift int64, wake func()) *Member {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.groups == nil {
		g.groups = map[string]*group{}
	}
	if g.groups[name] == nil {
		g.groups[name] = &group{members: map[*Member]int64{}}
	}
	m := &Member{group: g.groups[name], drift: drift, wake: wake}
	m.set(notYet)
	return m
}

// Report tells the member's watermark, and whether it is idle.
func (m *Member) Report(watermark int64, idle bool) {
	if idle {
		watermark = math.MaxInt64
	}
	m.set(watermark)
}

// Leave ends the membership. Calls after the first do nothing.
func (m *Member) Leave() {
	m.group.mu.Lock()
	defer m.group.mu.Unlock()
	delete(m.group.members, m)
	m.group.settle()
}

// Limit is the watermark up to which the member may read on.
func (m *Member) Limit() int64 {
	others := m.others.Load()
	if others > math.MaxInt64-m.drift {
		return math.MaxInt64
	}
	return others + m.drift
}

func (m *Member) set(watermark int64) {
	m.group.mu.Lock()
	defer m.group.mu.Unlock()
	m.group.members[m] = watermark
	m.group.settle()
}

// settle finds the least watermark for each member, and wakes those for which it
// has risen.
func (g *group) settle() {
	least, second := int64(math.MaxInt64), int64(math.MaxInt64)
	var last *Member
	for m, w := range g.members {
		if w < least {
			least, second, last = w, least, m
		} else {
			second = min(second, w)
		}
	}
	for m := range g.members {
		others := least
		if m == last {
			others = second
		}
		if before := m.others.Swap(others); others > before {
			m.wake()
		}
	}
}
