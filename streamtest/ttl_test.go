package streamtest_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/weirstream/weir/state"
	"github.com/weirstream/weir/stream"
	"github.com/weirstream/weir/streamtest"
)

// lately tells what came for a key within the last 100 seconds.
type lately struct {
	list state.List[string]
	set  state.Map[string, bool]
}

func newLately(r *state.Registry) *lately {
	ttl := state.TTL(100*time.Second, state.CleanupIncremental(10))
	return &lately{state.ListIn[string](r, "list", ttl), state.MapIn[string, bool](r, "set", ttl)}
}

func (l *lately) Process(ctx *stream.Ctx[string, string], v mention) error {
	err := errors.Join(l.list.Add(v.Text), l.set.Put(v.Text, true))
	list, listErr := l.list.Get()
	n, mapErr := l.set.Len()
	ctx.Emit(fmt.Sprint(v.Key, list, n))
	return errors.Join(err, listErr, mapErr)
}

type mention struct{ Key, Text string }

func (m mention) key() string { return m.Key }

// Elements and entries expire one by one by the test's clock, also across a
// snapshot that another parallelism goes on from.
func TestTimeToLiveFollowsTheClock(t *testing.T) {
	h := streamtest.Process(t, mention.key, newLately)
	h.Push(mention{"a", "p"}, mention{"b", "p"})
	h.AdvanceClock(60 * time.Second)
	h.Push(mention{"a", "q"})
	h.Expect("a[p] 1", "b[p] 1", "a[p q] 2")
	h.AdvanceClock(39*time.Second + 999*time.Millisecond)
	h.Push(mention{"a", "r"})
	h.Expect("a[p q r] 3")
	h.AdvanceClock(time.Millisecond)
	h.Push(mention{"a", "s"})
	h.Expect("a[q r s] 3")
	h = h.Rescale(3)
	h.AdvanceClock(60 * time.Second)
	h.Push(mention{"a", "t"}, mention{"b", "u"})
	h.Expect("a[r s t] 3", "b[u] 1")
}
