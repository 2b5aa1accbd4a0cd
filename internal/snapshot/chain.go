package snapshot

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"

	"github.com/weirstream/weir/internal/keygroup"
	"github.com/weirstream/weir/internal/storage"
)

// Chain reads the keyed state of a subtask from a data file and the files of
// changes that complete it, as if it were one file. It may be used from
// several goroutines.
type Chain struct {
	// files are oldest first.
	files []*FileReader
}

// readAhead bounds how much of files of changes is read together and kept:
// they are many and small.
const readAhead = 32 << 20

// OpenChain opens the files of a subtask, oldest first, of the snapshot in dir;
// groups are those that will be read.
func OpenChain(ctx context.Context, blobs storage.Blobs, dir string, files []File, groups keygroup.Range) (*Chain, error) {
	c := &Chain{}
	left := int64(readAhead)
	for i, want := range files {
		f, err := OpenFile(ctx, blobs, path.Join(dir, want.Name), want)
		if err != nil {
			return nil, err
		}
		if i > 0 && !f.changes {
			return nil, f.wrap(malformed("it holds all state, and is to complete other files"))
		}
		if i > 0 {
			if err := f.readTogether(ctx, groups, &left); err != nil {
				return nil, f.wrap(err)
			}
		}
		c.files = append(c.files, f)
	}
	return c, nil
}

// readTogether reads the payloads of the groups at once if they take no more
// than left.
func (f *FileReader) readTogether(ctx context.Context, groups keygroup.Range, left *int64) (err error) {
	from, to := f.want.Size, int64(0)
	for _, g := range f.groups {
		if groups.Contains(g.group) {
			from, to = min(from, g.offset), max(to, g.offset+g.length)
		}
	}
	if n := to - from; n > 0 && n <= *left {
		*left -= n
		f.ahead, err = f.read(ctx, from, n)
		f.aheadAt = from
	}
	return err
}

// Groups returns the key groups in the files, ascending.
func (c *Chain) Groups() []int {
	var groups []int
	for _, f := range c.files {
		groups = append(groups, f.Groups()...)
	}
	slices.Sort(groups)
	return slices.Compact(groups)
}

// Operators returns the ids of the operators that have, or had, state in the
// files, sorted.
func (c *Chain) Operators() []string {
	var ids []string
	for _, f := range c.files {
		ids = append(ids, f.Operators()...)
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// ReadOperator reads the state of one operator in a key group. An operator that
// has none there gives a reader at its end.
func (c *Chain) ReadOperator(ctx context.Context, g int, operator string) (*GroupReader, error) {
	r := &GroupReader{Group: g}
	var newer keyList
	var sections []mergedSection
	for i := len(c.files) - 1; i >= 0; i-- {
		f := c.files[i]
		if len(c.files) == 1 && !f.changes {
			return f.readAny(ctx, g, operator)
		}
		p, err := f.part(ctx, g, operator)
		if err == nil {
			err = p.drop(newer, i == len(c.files)-1)
		}
		if err != nil {
			return nil, f.wrap(fmt.Errorf("key group %d, operator %s: %w", g, operator, err))
		}
		if sections, err = mergeSections(sections, p.sections); err != nil {
			return nil, f.wrap(fmt.Errorf("key group %d, operator %s: %w", g, operator, err))
		}
		if p.whole {
			r.merged = sections
			return r, nil
		}
		newer = newer.with(p.changed)
	}
	return nil, fmt.Errorf("snapshot file %s: %w", c.name(), malformed("key group %d, operator %s: no file holds all of it", g, operator))
}

func (c *Chain) name() string {
	if len(c.files) == 0 {
		return "(none)"
	}
	return c.files[0].name
}

// readAny is ReadOperator for a key group that the file may not have.
func (f *FileReader) readAny(ctx context.Context, g int, operator string) (*GroupReader, error) {
	if !slices.ContainsFunc(f.groups, func(x groupIndex) bool { return x.group == g }) {
		return &GroupReader{Group: g}, nil
	}
	return f.ReadOperator(ctx, g, operator)
}

// chainPart is what a file has of an operator in a key group.
type chainPart struct {
	sections []mergedSection
	// changed are the keys of which older files count no more; whole says that
	// none does.
	changed keyList
	whole   bool
}

func (f *FileReader) part(ctx context.Context, g int, operator string) (*chainPart, error) {
	r, err := f.readAny(ctx, g, operator)
	if err != nil {
		return nil, err
	}
	p := &chainPart{whole: !f.changes}
	for {
		h, data, err := r.Next()
		if errors.Is(err, io.EOF) {
			return p, nil
		}
		if err != nil {
			return nil, err
		}
		switch h.State.Kind {
		case ChangedKeys:
			if p.changed != nil || p.whole {
				return nil, malformed("the keys that have changed come twice")
			}
			if p.changed, err = changedKeys(h, data); err != nil {
				return nil, err
			}
		case AllKeys:
			p.whole = true
		case RawKind:
			p.sections = append(p.sections, mergedSection{h, data})
		default:
			if !p.whole && p.changed == nil {
				return nil, malformed("state %q stands before the keys that have changed", h.State.Name)
			}
			p.sections = append(p.sections, mergedSection{h, data})
		}
	}
}

// drop drops what newer files have another form of.
func (p *chainPart) drop(newer keyList, newest bool) error {
	kept := p.sections[:0]
	for _, s := range p.sections {
		if s.head.State.Kind == RawKind {
			if newest {
				kept = append(kept, s)
			}
			continue
		}
		if err := s.drop(newer); err != nil {
			return fmt.Errorf("state %q: %w", s.head.State.Name, err)
		}
		if s.head.Count > 0 {
			kept = append(kept, s)
		}
	}
	p.sections = kept
	return nil
}

// drop drops the entries of keys from a section.
func (s *mergedSection) drop(keys keyList) error {
	if len(keys) == 0 {
		return nil
	}
	kept, count := make([]byte, 0, len(s.data)), 0
	c := newSectionCursor(*s)
	for ; c.err == nil && !c.done; c.advance() {
		for len(keys) > 0 && keys[0].compare(c.key) < 0 {
			keys = keys[1:]
		}
		if len(keys) > 0 && keys[0].compare(c.key) == 0 {
			continue
		}
		kept = append(kept, c.entry...)
		count++
	}
	s.data, s.head.Count = kept, count
	return c.err
}

// hashedKey is an encoded key with its hash.
type hashedKey struct {
	hash uint32
	key  []byte
}

func (k hashedKey) compare(o hashedKey) int {
	if k.hash != o.hash {
		return cmp.Compare(k.hash, o.hash)
	}
	return bytes.Compare(k.key, o.key)
}

// keyList is in order, each key once.
type keyList []hashedKey

// changedKeys takes a section of kind ChangedKeys apart. The list is not nil.
func changedKeys(h SectionHeader, data []byte) (keyList, error) {
	if h.Count > len(data)/max(h.KeyFormat.Size, 1) {
		return nil, malformed("%d changed keys in %d bytes", h.Count, len(data))
	}
	keys := make(keyList, 0, h.Count)
	for n := range h.Count {
		key, rest, err := Item(data, h.KeyFormat.Size)
		if err != nil {
			return nil, malformed("changed key %d of %d: %v", n+1, h.Count, err)
		}
		k := hashedKey{keygroup.HashEncoded(key), key}
		if n > 0 && keys[n-1].compare(k) >= 0 {
			return nil, malformed("changed key %d of %d is out of order", n+1, h.Count)
		}
		keys, data = append(keys, k), rest
	}
	if len(data) > 0 {
		return nil, malformed("%d bytes behind the last of %d changed keys", len(data), h.Count)
	}
	return keys, nil
}

// with merges two lists.
func (l keyList) with(o keyList) keyList {
	if len(l) == 0 {
		return o
	}
	out := make(keyList, 0, len(l)+len(o))
	for len(l) > 0 && len(o) > 0 {
		switch c := l[0].compare(o[0]); {
		case c < 0:
			out, l = append(out, l[0]), l[1:]
		case c > 0:
			out, o = append(out, o[0]), o[1:]
		default:
			out, l, o = append(out, l[0]), l[1:], o[1:]
		}
	}
	return append(append(out, l...), o...)
}

// isChange tells whether a kind belongs into files of changes.
func isChange(kind string) bool { return kind == ChangedKeys || kind == AllKeys }
