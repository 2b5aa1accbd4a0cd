package embedded

import (
	"math"
	"strings"
	"testing"
)

func TestMemoryOfHeap(t *testing.T) {
	const gb = 1 << 30
	for _, c := range []struct {
		name                      string
		set, limit, goLimit, want int64
		refused                   string
	}{
		{name: "default", limit: 8 * gb, goLimit: math.MaxInt64, want: 6 * gb},
		{name: "what GOMEMLIMIT leaves", limit: 8 * gb, goLimit: 1 * gb, want: 7 * gb},
		{name: "GOMEMLIMIT for nearly all", limit: 8 * gb, goLimit: 7 * gb, want: 4 * gb},
		{name: "no limit is known", goLimit: 1 * gb, want: 0},
		{name: "set", set: 3, limit: 8 * gb, goLimit: 1 * gb, want: 3},
		{name: "set, no limit is known", set: 9 * gb, want: 9 * gb},
		{name: "more than there is", set: 9 * gb, limit: 8 * gb, refused: "state.backend.heap.memory is 9663676416 bytes, but this process may have 8589934592 only"},
	} {
		o := Options{HeapMemory: c.set}
		err := o.settleHeap(c.limit, c.goLimit)
		if (err == nil) != (c.refused == "") || err != nil && !strings.Contains(err.Error(), c.refused) {
			t.Errorf("%s: error %v", c.name, err)
		}
		if err == nil && o.HeapMemory != c.want {
			t.Errorf("%s: %d, want %d", c.name, o.HeapMemory, c.want)
		}
	}
	o := Options{StateBackend: LSM, HeapMemory: 5}
	if err := o.settleBackend(8 * gb); err != nil || o.HeapMemory != 0 {
		t.Errorf("lsm: error %v, bound %d", err, o.HeapMemory)
	}
	o = Options{StateBackend: LSM, LSMMemory: 9 * gb}
	if err := o.settleBackend(8 * gb); err == nil || !strings.Contains(err.Error(), "state.backend.lsm.memory is 9663676416 bytes, but this process may have 8589934592 only") {
		t.Errorf("lsm with more than there is: %v", err)
	}
}
