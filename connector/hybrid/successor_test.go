package hybrid

import (
	"slices"
	"testing"

	"github.com/weirstream/weir/connector"
)

type readers struct {
	connector.EnumeratorContext[Split]
	n int
}

func (r readers) Parallelism() int { return r.n }

// Restored splits stay with their readers, and are dealt out in turn if the
// number of those has changed.
func TestSuccessor(t *testing.T) {
	for _, c := range []struct {
		former, now    int
		subtasks, want []int
	}{
		{3, 3, []int{2, 2, 0, 1}, []int{2, 2, 0, 1}},
		{1, 3, []int{0, 0, 0, 0}, []int{0, 1, 2, 0}},
		{3, 2, []int{2, 2, 1}, []int{0, 1, 0}},
	} {
		e := enumerator[int]{ctx: readers{n: c.now}, state: Enumeration{Parallelism: c.former}}
		var got []int
		for _, subtask := range c.subtasks {
			got = append(got, e.successor(subtask))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("from %d readers to %d: splits of %v went to %v, want %v", c.former, c.now, c.subtasks, got, c.want)
		}
	}
}
