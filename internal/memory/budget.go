package memory

import "sync/atomic"

// Budget divides an amount of memory among those who share it. Half of it is
// guaranteed to the shares in equal parts, the other half goes to whoever
// takes it first. It counts what it is told and refuses nothing: shares ask
// before they grow. It is safe for concurrent use.
type Budget struct {
	each int64
	// rest is what of the common half is not taken. It is negative if more was
	// taken than there was.
	rest atomic.Int64
}

// NewBudget returns a budget of total bytes for a number of shares.
func NewBudget(total int64, shares int) *Budget {
	n := int64(max(shares, 1))
	b := &Budget{each: total / 2 / n}
	b.rest.Store(total - b.each*n)
	return b
}

// Share is one part of a budget. One goroutine owns it.
type Share struct {
	budget *Budget
	taken  int64
}

// Share returns a new share, with nothing taken.
func (b *Budget) Share() *Share { return &Share{budget: b} }

// Fits tells whether n more bytes are there.
func (s *Share) Fits(n int64) bool {
	return s.common(n)-s.common(0) <= max(s.budget.rest.Load(), 0)
}

// Add takes n bytes, or gives them back if n is negative.
func (s *Share) Add(n int64) {
	s.budget.rest.Add(s.common(0) - s.common(n))
	s.taken += n
}

// common is what of the common half the share has with n more bytes.
func (s *Share) common(n int64) int64 { return max(s.taken+n-s.budget.each, 0) }

// Close gives everything back.
func (s *Share) Close() { s.Add(-s.taken) }
