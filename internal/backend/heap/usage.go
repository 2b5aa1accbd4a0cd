package heap

import (
	"fmt"
	"unsafe"

	"github.com/weirstream/weir/internal/entry"
	"github.com/weirstream/weir/internal/memory"
)

// A store tells its pool how its memory divides among its states, for the error
// that names the largest. What an entry owns in the arena only its encoding
// tells, so that is measured on a few entries, whenever the memory has doubled.

const (
	// usageSample is how many entries are measured, usagePlaces how many
	// positions are looked at for them, and usageBytes how much is encoded.
	usageSample = 128
	usagePlaces = 1 << 14
	usageBytes  = 1 << 20
	// usageLeast is the memory from which on a store tells, and the step in
	// which it does.
	usageLeast = 64 << 10
)

// usage is what a store tells. Without accounts it tells nothing.
type usage struct {
	// arrays are the bytes of all arrays that are not given back.
	arrays int64
	// accounts are those of the fields, the last one is that of keys and of
	// positions without one.
	accounts []*memory.Account
	// shares are what each of them has of the sample.
	shares []float64
	// next is the memory at which the accounts are set again, and sample that at
	// which entries are measured again.
	next, sample int64
	scratch      []byte
}

func (c *core) openUsage() {
	u := &c.usage
	for _, f := range c.fields {
		u.accounts = append(u.accounts, c.pool.OpenAccount(fmt.Sprintf("operator %q state %q", c.operator, f.Name)))
	}
	u.accounts = append(u.accounts, c.pool.OpenAccount(fmt.Sprintf("operator %q keys", c.operator)))
	u.shares = make([]float64, len(u.accounts))
	u.next = usageLeast
}

func (c *core) closeUsage() {
	for _, a := range c.usage.accounts {
		c.pool.CloseAccount(a)
	}
	c.usage.accounts = nil
}

// tellUsage sets the accounts if the memory has grown. No batch is bound.
func (c *core) tellUsage() {
	u := &c.usage
	held := u.arrays + int64(c.arena.Extent())
	if u.accounts == nil || held < u.next {
		return
	}
	if held >= u.sample {
		c.sampleUsage()
		u.sample = 2 * held
	}
	u.next = held + max(held/16, usageLeast)
	u.tell(held)
}

func (u *usage) tell(held int64) {
	for i, a := range u.accounts {
		a.Set(int64(u.shares[i] * float64(held)))
	}
}

// exhausted sets the accounts as the pool is about to fail. An entry may be half
// written then: without an earlier sample the states whose size varies share the
// arena evenly.
func (c *core) exhausted() {
	u := &c.usage
	if u.accounts == nil {
		return
	}
	if u.sample == 0 {
		c.guessUsage()
	}
	u.tell(u.arrays + int64(c.arena.Extent()))
}

func (c *core) guessUsage() {
	u := &c.usage
	var outside []int
	rest := c.size
	tables := float64(u.arrays) / float64(c.size)
	for i, f := range c.fields {
		rest -= f.Size
		u.shares[i] = tables * float64(f.Size)
		if !isInline(f) {
			outside = append(outside, i)
		}
	}
	keys := len(c.fields)
	u.shares[keys] = tables * float64(rest)
	if len(outside) == 0 {
		outside = append(outside, keys)
	}
	for _, i := range outside {
		u.shares[i] += float64(c.arena.Extent()) / float64(len(outside))
	}
	u.normalize()
}

// normalize makes the shares add up to 1.
func (u *usage) normalize() {
	sum := 0.0
	for _, n := range u.shares {
		sum += n
	}
	for i := range u.shares {
		u.shares[i] /= max(sum, 1)
	}
}

// sampleUsage measures a few entries of the tables.
func (c *core) sampleUsage() {
	u := &c.usage
	clear(u.shares)
	left, places, encoded := usageSample, usagePlaces, 0
	each := max(usageSample/len(c.tables), 1)
	for i := range c.tables {
		t, taken := &c.tables[i], 0
		for pos := uint32(0); t.array != nil && pos <= t.mask && taken < each && left > 0 && places > 0 && encoded < usageBytes; pos++ {
			places--
			if p := c.at(t, pos); *entry.Bits(p)&entry.Used != 0 {
				encoded += c.measure(p)
				taken++
				left--
			}
		}
	}
	u.normalize()
}

// isInline tells whether all of a state lies in the entry.
func isInline(f *entry.Field) bool { return f.Format.Size != 0 && f.Touch == nil }

// measure adds what an entry takes to the shares, and returns how much of it
// was encoded.
func (c *core) measure(p unsafe.Pointer) (encoded int) {
	u := &c.usage
	rest := c.size
	for i, f := range c.fields {
		rest -= f.Size
		u.shares[i] += float64(f.Size)
		if isInline(f) || !f.Has(p) {
			continue
		}
		// A codec that fails here will fail in the next snapshot, and say so there.
		var err error
		if u.scratch, err = f.Append(u.scratch[:0], p, c.arena.View()); err == nil {
			u.shares[i] += float64(len(u.scratch))
			encoded += len(u.scratch)
		}
	}
	u.shares[len(c.fields)] += float64(rest)
	if key := len(c.encodedKey(p, c.arena.View())); c.form == formText && key > shortText {
		u.shares[len(c.fields)] += float64(key)
	}
	if cap(u.scratch) > usageBytes {
		u.scratch = nil
	}
	return encoded
}
