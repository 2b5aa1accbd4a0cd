package alignment_test

import (
	"math"
	"testing"

	"github.com/weirstream/weir/internal/alignment"
)

func TestLimit(t *testing.T) {
	var groups alignment.Groups
	woken := map[string]int{}
	join := func(name string, drift int64) *alignment.Member {
		return groups.Join("g", drift, func() { woken[name]++ })
	}
	want := func(what string, m *alignment.Member, limit int64) {
		t.Helper()
		if got := m.Limit(); got != limit {
			t.Errorf("%s: the limit is %d, want %d", what, got, limit)
		}
	}
	wantWoken := func(what string, a, b int) {
		t.Helper()
		if woken["a"] != a || woken["b"] != b {
			t.Errorf("%s: woken %v, want %d and %d", what, woken, a, b)
		}
	}
	a := join("a", 10)
	want("a is alone", a, math.MaxInt64)
	b := join("b", 25)
	other := groups.Join("other", 5, func() {})
	a.Report(100, false)
	want("b has no watermark yet", a, math.MinInt64+10)
	want("the drift is b's own", b, 125)
	wantWoken("only b may go on", 1, 1)
	b.Report(40, false)
	want("b is behind", a, 50)
	wantWoken("only a may go on", 2, 1)
	b.Report(90, true)
	want("b is idle", a, math.MaxInt64)
	b.Report(90, false)
	want("b is active again", a, 100)
	c := groups.Join("g", 0, func() {})
	want("one that joins holds back the others", a, math.MinInt64+10)
	want("all of them", b, math.MinInt64+25)
	c.Report(95, false)
	want("b is the last", a, 100)
	want("c is the last of the others", b, 120)
	c.Report(math.MaxInt64-3, false)
	a.Report(math.MaxInt64-3, false)
	want("the sum is bounded", b, math.MaxInt64)
	c.Leave()
	c.Leave()
	a.Leave()
	want("all others have left", b, math.MaxInt64)
	want("a group of its own", other, math.MaxInt64)
}
