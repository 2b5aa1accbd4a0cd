package savepoint

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/weirstream/weir/internal/keygroup"
	"github.com/weirstream/weir/internal/snapshot"
)

// sections checks those of one operator in a key group, and returns their
// bytes.
func (v *verifier) sections(sc *snapshot.Scanner, at string, g int, op *snapshot.Operator) (uint64, error) {
	defer sc.Close()
	seen := map[string]bool{}
	for {
		h, err := sc.Next()
		if errors.Is(err, io.EOF) {
			return sc.Total(), nil
		}
		if err != nil {
			return 0, err
		}
		name := h.State.Name
		if seen[name] {
			v.wrong("%s: state %q is there twice", at, name)
		}
		seen[name] = true
		if h.State.Kind == snapshot.ChangedKeys || h.State.Kind == snapshot.AllKeys {
			if err := v.changed(sc, g, op, h); err != nil {
				if !errors.Is(err, errEntry) {
					return 0, err
				}
				v.wrong("%s, keys that have changed: %v", at, err)
			}
			continue
		}
		if what := v.header(h, op); what != "" {
			v.wrong("%s, state %q: %s", at, name, what)
			continue
		}
		if err := v.entries(sc, g, op, h); err != nil {
			if !errors.Is(err, errEntry) {
				return 0, err
			}
			v.wrong("%s, state %q: %v", at, name, err)
		}
	}
}

// header compares a section's header with what _metadata lists.
func (v *verifier) header(h snapshot.SectionHeader, op *snapshot.Operator) string {
	if h.Operator != op.ID {
		return fmt.Sprintf("it is of operator %q", h.Operator)
	}
	i := slices.IndexFunc(op.States, func(s snapshot.State) bool { return s.Name == h.State.Name })
	if i < 0 {
		return "it is not listed in " + snapshot.MetadataName
	}
	listed := op.States[i]
	listed.ItemSize = 0
	if op.KeyFormat == nil || h.KeyFormat != *op.KeyFormat || h.State != listed {
		return "its form is not the one in " + snapshot.MetadataName
	}
	return ""
}

// grouped tells whether the key group of a key can be told.
func (v *verifier) grouped(op *snapshot.Operator) bool {
	return keygroup.Check(1, op.MaxParallelism) == nil && v.s.meta.KeyHash == keygroup.HashName
}

// errEntry is damage of entries; those that follow are not looked at, sections
// are.
var errEntry = errors.New("entries")

// changed checks the keys that a file of changes has another form of.
func (v *verifier) changed(sc *snapshot.Scanner, g int, op *snapshot.Operator, h snapshot.SectionHeader) error {
	n, lastHash := 0, uint32(0)
	for ; ; n++ {
		key, err := sc.Item(h.KeyFormat.Size)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		hash := keygroup.HashEncoded(key)
		switch {
		case v.grouped(op) && keygroup.Group(hash, op.MaxParallelism) != g:
			return fmt.Errorf("%w: key %d belongs to key group %d", errEntry, n+1, keygroup.Group(hash, op.MaxParallelism))
		case n > 0 && (hash < lastHash || hash == lastHash && bytes.Compare(key, v.last) <= 0):
			return fmt.Errorf("%w: key %d is not in order, or there twice", errEntry, n+1)
		}
		lastHash, v.last = hash, append(v.last[:0], key...)
	}
	if n != h.Count {
		return fmt.Errorf("%w: there are %d keys, the header says %d", errEntry, n, h.Count)
	}
	return nil
}

// entries checks the entries of a section.
func (v *verifier) entries(sc *snapshot.Scanner, g int, op *snapshot.Operator, h snapshot.SectionHeader) error {
	if h.State.Kind == snapshot.RawKind {
		if h.Count != 1 {
			return fmt.Errorf("%w: raw state counts %d", errEntry, h.Count)
		}
		for sc.Left() > 0 {
			if _, err := sc.Item(min(sc.Left(), 1<<20)); err != nil {
				return err
			}
		}
		v.report.Entries++
		return nil
	}
	st := h.State
	for _, s := range op.States {
		if s.Name == st.Name {
			st.ItemSize = s.ItemSize
		}
	}
	if !v.grouped(op) {
		return nil // that is said already, and no key group can be told
	}
	d := v.s.newEntryDecoder(op, st)
	n, lastHash := 0, uint32(0)
	for {
		key, err := sc.Item(h.KeyFormat.Size)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		v.key = append(v.key[:0], key...)
		hash := keygroup.HashEncoded(v.key)
		switch {
		case keygroup.Group(hash, op.MaxParallelism) != g:
			return fmt.Errorf("%w: entry %d: its key belongs to key group %d", errEntry, n+1, keygroup.Group(hash, op.MaxParallelism))
		case n > 0 && (hash < lastHash || hash == lastHash && bytes.Compare(v.key, v.last) <= 0):
			return fmt.Errorf("%w: entry %d is not in order, or there twice", errEntry, n+1)
		}
		value, err := sc.Item(h.State.Format.Size)
		if errors.Is(err, io.EOF) {
			return fmt.Errorf("%w: entry %d has no value", errEntry, n+1)
		}
		if err != nil {
			return err
		}
		if err := d.parts(st, value, func(part) bool { return true }); err != nil {
			return fmt.Errorf("%w: entry %d: %w", errEntry, n+1, err)
		}
		lastHash = hash
		v.last = append(v.last[:0], v.key...)
		n++
		v.report.Entries++
	}
	if n != h.Count {
		return fmt.Errorf("%w: there are %d, its header says %d", errEntry, n, h.Count)
	}
	return nil
}
