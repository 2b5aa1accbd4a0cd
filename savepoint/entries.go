package savepoint

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"time"

	"github.com/weirstream/weir/codec"
	"github.com/weirstream/weir/internal/keygroup"
	"github.com/weirstream/weir/internal/snapshot"
)

// Entry is one value of a state: of a list each element is an Entry, of a map
// each of its entries, of timers each timer, of windows each slice.
//
// Key, MapKey and Value are of the types that codec.Untyped tells, time.Time
// for timers, or Undecoded.
type Entry struct {
	// Group is the key group, of keyed state.
	Group int
	// Subtask is whose it is, of operator state.
	Subtask int
	Key     any
	// Index is the position in a list.
	Index int
	// MapKey is the key within a map, or in broadcast state.
	MapKey any
	// Start and End are of a slice: part of the windows that cover it.
	Start, End time.Time
	Value      any
	// Accessed is the last access, of a state with a time to live.
	Accessed time.Time
}

// Undecoded is a value of a format that nothing here can decode, or one that
// is not as its format says.
type Undecoded struct {
	Format codec.Format `json:"format"`
	Bytes  []byte       `json:"bytes"`
	// Err says why, "" if only the format is unknown: see WithDecoder.
	Err string `json:"error,omitempty"`
}

// decoder decodes values of a format. It never fails.
func (s *Snapshot) decoder(f codec.Format) func([]byte) any {
	d := s.decoders[f.ID]
	if d == nil {
		d, _ = codec.Untyped(f)
	}
	if d == nil {
		return func(src []byte) any { return Undecoded{Format: f, Bytes: slices.Clone(src)} }
	}
	return func(src []byte) any {
		v, err := d(src)
		if err != nil {
			return Undecoded{f, slices.Clone(src), err.Error()}
		}
		return v
	}
}

// Entries iterates over a state of an operator: of keyed state in the order of
// the tables, which is that of key group, hash and encoded key; of operator
// state subtask by subtask, of broadcast state those of the first. It reads as it goes, a chunk at a time; only a
// key's own list or map is in memory as a whole. After an error it ends.
func (s *Snapshot) Entries(ctx context.Context, operator, state string) iter.Seq2[Entry, error] {
	return s.entries(ctx, operator, state, func(*snapshot.Operator) (*wanted, error) { return nil, nil })
}

// EntriesOf is Entries for one key, given as text (codec.ParseText). It reads
// only the key's own key group.
func (s *Snapshot) EntriesOf(ctx context.Context, operator, state, key string) iter.Seq2[Entry, error] {
	return s.entries(ctx, operator, state, func(op *snapshot.Operator) (*wanted, error) {
		if op.KeyFormat == nil {
			return nil, fmt.Errorf("operator %q has no keyed state", operator)
		}
		encoded, err := codec.ParseText(*op.KeyFormat, key)
		if err != nil {
			return nil, fmt.Errorf("operator %q, key %s: %w", operator, key, err)
		}
		if err := keygroup.Check(1, op.MaxParallelism); err != nil {
			return nil, fmt.Errorf("operator %q: %w", operator, err)
		}
		return &wanted{keygroup.Group(keygroup.HashEncoded(encoded), op.MaxParallelism), encoded}, nil
	})
}

// wanted is the one key that is asked for.
type wanted struct {
	group int
	key   []byte
}

func (s *Snapshot) entries(ctx context.Context, operator, state string, only func(*snapshot.Operator) (*wanted, error)) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		op, st, err := s.state(operator, state)
		var key *wanted
		if err == nil {
			key, err = only(op)
		}
		if err == nil && key != nil && !st.Keyed() {
			err = fmt.Errorf("state %q of operator %q belongs to no key: it is %s", state, operator, st.Kind)
		}
		switch {
		case err != nil:
			yield(Entry{}, err)
		case st.Keyed():
			s.keyedEntries(ctx, op, state, key, yield)
		default:
			s.listEntries(op, st, yield)
		}
	}
}

// state finds a state by name.
func (s *Snapshot) state(operator, state string) (*snapshot.Operator, *State, error) {
	op, err := s.operator(operator)
	if err != nil {
		return nil, nil, err
	}
	var names []string
	for _, st := range statesOf(op) {
		if st.Name == state {
			return op, &st, nil
		}
		names = append(names, st.Name)
	}
	return nil, nil, fmt.Errorf("%w: state %q of operator %q; there are %s", ErrUnknown, state, operator, quoted(names))
}

func (s *Snapshot) keyedEntries(ctx context.Context, op *snapshot.Operator, state string, only *wanted, yield func(Entry, error) bool) {
	var d *entryDecoder
	for raw, err := range s.rawEntries(ctx, op, state, only) {
		if err != nil {
			yield(Entry{}, err)
			return
		}
		if d == nil {
			d = s.newEntryDecoder(op, raw.state)
		}
		if more, err := d.decode(raw, yield); err != nil {
			yield(Entry{}, fmt.Errorf("operator %q, state %q, key group %d, key %v: %w", op.ID, state, raw.group, d.key(raw.key), err))
			return
		} else if !more {
			return
		}
	}
}

// rawEntry is an entry of a keyed state, encoded. It is good until the next one.
type rawEntry struct {
	group      int
	state      snapshot.State
	key, value []byte
}

// rawEntries iterates over the entries of a keyed state, of one key if only is
// not nil.
func (s *Snapshot) rawEntries(ctx context.Context, op *snapshot.Operator, state string, only *wanted) iter.Seq2[rawEntry, error] {
	return func(yield func(rawEntry, error) bool) {
		places, err := s.places(ctx, op)
		if err != nil {
			yield(rawEntry{}, err)
			return
		}
		e := entryScan{op: op, state: state, only: only, yield: yield}
		for _, p := range places {
			if only != nil && only.group != p.group {
				continue
			}
			if more, err := e.group(ctx, p); err != nil {
				yield(rawEntry{}, err)
				return
			} else if !more {
				return
			}
		}
	}
}

// entryScan reads the entries of a state.
type entryScan struct {
	op    *snapshot.Operator
	state string
	only  *wanted
	key   []byte
	yield func(rawEntry, error) bool
}

// group reads those of a key group; more is false if the reader wants no more.
func (e *entryScan) group(ctx context.Context, p place) (more bool, err error) {
	sc, err := p.scan(ctx, e.op.ID)
	if err != nil {
		return false, err
	}
	defer sc.Close()
	for {
		h, err := sc.Next()
		if errors.Is(err, io.EOF) {
			return true, nil
		}
		if err != nil {
			return false, err
		}
		if h.State.Name != e.state {
			continue
		}
		for _, st := range e.op.States {
			if st.Name == e.state {
				h.State.ItemSize = st.ItemSize
			}
		}
		if more, err := e.section(sc, p.group, h); err != nil || !more {
			return more, err
		}
	}
}

func (e *entryScan) section(sc *snapshot.Scanner, group int, h snapshot.SectionHeader) (more bool, err error) {
	if h.State.Kind == snapshot.RawKind {
		value, err := sc.Item(sc.Left())
		if errors.Is(err, io.EOF) {
			return true, nil
		}
		return err == nil && e.yield(rawEntry{group, h.State, nil, value}, nil), err
	}
	for {
		key, err := sc.Item(h.KeyFormat.Size)
		if errors.Is(err, io.EOF) {
			return true, nil
		}
		if err != nil {
			return false, err
		}
		e.key = append(e.key[:0], key...)
		value, err := sc.Item(h.State.Format.Size)
		if errors.Is(err, io.EOF) {
			err = fmt.Errorf("%w: a key without a value", snapshot.ErrMalformed)
		}
		if err != nil {
			return false, err
		}
		if e.only != nil && string(e.key) != string(e.only.key) {
			continue
		}
		if !e.yield(rawEntry{group, h.State, e.key, value}, nil) || e.only != nil {
			return e.only != nil, nil
		}
	}
}

// listEntries are those of operator state.
func (s *Snapshot) listEntries(op *snapshot.Operator, st *State, yield func(Entry, error) bool) {
	value := s.decoder(st.Format)
	for _, sub := range op.Subtasks {
		for _, l := range sub.Lists {
			if l.Name != st.Name {
				continue
			}
			if l.Kind == snapshot.BroadcastMap {
				s.broadcastEntries(sub.Index, op.ID, l, yield)
				return
			}
			for i, item := range l.Items {
				if !yield(Entry{Subtask: sub.Index, Index: i, Value: value(item)}, nil) {
					return
				}
			}
		}
	}
}

func (s *Snapshot) broadcastEntries(subtask int, operator string, l snapshot.ListState, yield func(Entry, error) bool) {
	keys, values := s.decoder(l.Key), s.decoder(l.Format)
	for _, data := range l.Items {
		for len(data) > 0 {
			k, rest, err := snapshot.Item(data, l.Key.Size)
			var v []byte
			if err == nil {
				v, rest, err = snapshot.Item(rest, l.Format.Size)
			}
			if err != nil {
				yield(Entry{}, fmt.Errorf("operator %q, broadcast state %q: %w", operator, l.Name, err))
				return
			}
			data = rest
			if !yield(Entry{Subtask: subtask, MapKey: keys(k), Value: values(v)}, nil) {
				return
			}
		}
	}
}
