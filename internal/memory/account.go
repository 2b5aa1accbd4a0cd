package memory

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
)

// Account says how much of a pool one state of an operator takes in one
// subtask. The pool's error names the largest when its budget is used up. It
// is safe for concurrent use.
type Account struct {
	name  string
	bytes atomic.Int64
}

// Set says how much it is now.
func (a *Account) Set(bytes int64) { a.bytes.Store(bytes) }

// OpenAccount returns a new account with nothing taken. Accounts with the same
// name are told of as one.
func (p *Pool) OpenAccount(name string) *Account {
	a := &Account{name: name}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.accounts = append(p.accounts, a)
	return a
}

// CloseAccount ends an account.
func (p *Pool) CloseAccount(a *Account) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if i := slices.Index(p.accounts, a); i >= 0 {
		p.accounts = slices.Delete(p.accounts, i, i+1)
	}
}

// largest tells of the accounts that take most, "" if there are none. p.mu is
// held.
func (p *Pool) largest() string {
	const few = 5
	sums := map[string]int64{}
	for _, a := range p.accounts {
		sums[a.name] += a.bytes.Load()
	}
	names := make([]string, 0, len(sums))
	for name, n := range sums {
		if n > 0 {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, func(x, y string) int {
		return cmp.Or(cmp.Compare(sums[y], sums[x]), cmp.Compare(x, y))
	})
	for i, name := range names {
		names[i] = fmt.Sprintf("%s %d", name, sums[name])
	}
	if len(names) > few {
		names = append(names[:few], "others")
	}
	return strings.Join(names, ", ")
}

// exceeded is the error of an allocation that the budget has no room for. p.mu
// is held.
func (p *Pool) exceeded(more int) error {
	text := ""
	if largest := p.largest(); largest != "" {
		text = "; the largest, in bytes: " + largest
	}
	return fmt.Errorf("%w: %d of %d bytes are in use and %d more are wanted%s. Raise state.backend.heap.memory if the process may have more, "+
		"or set state.backend.type to lsm, which keeps on local disk what does not fit", ErrBudget, p.inUse, p.budget, more, text)
}
