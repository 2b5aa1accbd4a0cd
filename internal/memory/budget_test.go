package memory

import "testing"

func TestBudgetGuaranteesHalfInEqualParts(t *testing.T) {
	b := NewBudget(1000, 2)
	first, second := b.Share(), b.Share()
	left := func(name string, s *Share, n int64) {
		t.Helper()
		if !s.Fits(n) || s.Fits(n+1) {
			t.Fatalf("%s: not exactly %d bytes are there", name, n)
		}
	}
	left("at first: its own 250 and the common 500", first, 750)
	first.Add(750)
	left("all but what is guaranteed to the other is taken", first, 0)
	left("its own part only", second, 250)
	second.Add(250)
	first.Add(-100)
	left("what the other gave back", second, 100)
	second.Add(130)
	left("more is taken than there is", second, 0)
	left("more is taken than there is", first, 0)
	second.Add(-130)
	left("back again", first, 100)
	first.Close()
	second.Close()
	third := b.Share()
	left("all closed", third, 750)
	third.Add(10)
	left("with something taken", third, 740)
}
