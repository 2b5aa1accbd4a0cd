package killmatrix

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// account is what the tests of one run have done.
type account struct {
	kills, halts, zombies, leaders, records atomic.Int64

	mu     sync.Mutex
	points map[string]int
}

var all = account{points: map[string]int{}}

// at notes a kill at a kill point.
func (a *account) at(label string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.points[label]++
}

// missing are the labels at which nothing was killed.
func (a *account) missing(labels []string) []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(labels), func(l string) bool { return a.points[l] > 0 })
}

func (a *account) String() string {
	if a.kills.Load() == 0 {
		return ""
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	where := "a broker inside the test"
	if *servers != "" {
		where = *servers
	}
	if *onDisk {
		where += ", state on local disk"
	}
	atPoints := 0
	for _, n := range a.points {
		atPoints += n
	}
	parts := []string{
		fmt.Sprintf("kill matrix on %s: %d kills, %d of them at %d kill points", where, a.kills.Load(), atPoints, len(a.points)),
		fmt.Sprintf("%d stops, %d paused processes overtaken", a.halts.Load(), a.zombies.Load()),
	}
	if n := a.leaders.Load(); n > 0 {
		parts = append(parts, fmt.Sprintf("%d brokers killed", n))
	}
	return strings.Join(append(parts, fmt.Sprintf("%d records exact", a.records.Load())), "; ")
}
