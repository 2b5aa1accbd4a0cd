package snapshot

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/weirstream/weir/internal/keygroup"
)

// mergedSection is a section of a Chain.
type mergedSection struct {
	head SectionHeader
	data []byte
}

// mergeSections adds sections to others, which have no key of a state in
// common.
func mergeSections(to, add []mergedSection) ([]mergedSection, error) {
	for _, s := range add {
		i := slices.IndexFunc(to, func(o mergedSection) bool {
			return o.head.State == s.head.State && o.head.KeyFormat == s.head.KeyFormat
		})
		if i < 0 || s.head.State.Kind == RawKind {
			to = append(to, s)
			continue
		}
		merged, err := merge(to[i], s)
		if err != nil {
			return nil, fmt.Errorf("state %q: %w", s.head.State.Name, err)
		}
		to[i] = merged
	}
	return to, nil
}

// merge merges two sections of a state, each in order.
func merge(a, b mergedSection) (mergedSection, error) {
	out := mergedSection{a.head, make([]byte, 0, len(a.data)+len(b.data))}
	x, y := newSectionCursor(a), newSectionCursor(b)
	for {
		if x.err != nil || y.err != nil {
			return out, cmp.Or(x.err, y.err)
		}
		next := &x
		switch {
		case x.done && y.done:
			out.head.Count = a.head.Count + b.head.Count
			return out, nil
		case x.done, !y.done && y.key.compare(x.key) < 0:
			next = &y
		}
		out.data = append(out.data, next.entry...)
		next.advance()
	}
}

// sectionCursor goes through the entries of a section.
type sectionCursor struct {
	head        SectionHeader
	key         hashedKey
	entry, rest []byte
	n           int
	done        bool
	err         error
}

func newSectionCursor(s mergedSection) sectionCursor {
	c := sectionCursor{head: s.head, rest: s.data}
	c.advance()
	return c
}

// advance goes to the next entry, which must come after the one before.
func (c *sectionCursor) advance() {
	if c.n == c.head.Count {
		if c.done = true; len(c.rest) > 0 {
			c.err = malformed("%d bytes behind the last of %d entries", len(c.rest), c.head.Count)
		}
		return
	}
	c.n++
	key, behind, err := Item(c.rest, c.head.KeyFormat.Size)
	after := behind
	if err == nil {
		_, after, err = Item(behind, c.head.State.Format.Size)
	}
	if err != nil {
		c.err = malformed("entry %d of %d: %v", c.n, c.head.Count, err)
		return
	}
	k := hashedKey{keygroup.HashEncoded(key), key}
	if c.n > 1 && c.key.compare(k) >= 0 {
		c.err = malformed("entry %d of %d is out of order", c.n, c.head.Count)
		return
	}
	c.key, c.entry = k, c.rest[:len(c.rest)-len(after)]
	c.rest = after
}
