package savepoint

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/weirstream/weir/internal/backend/heap"
	"github.com/weirstream/weir/internal/entry"
	"github.com/weirstream/weir/internal/keygroup"
	"github.com/weirstream/weir/internal/memory"
	"github.com/weirstream/weir/internal/snapshot"
	"github.com/weirstream/weir/state"
)

// Keys chooses the key whose state the handles work on.
type Keys[K comparable] struct {
	store  *heap.Store[K]
	hasher keygroup.Hasher[K]
	one    [1]K
	hash   [1]uint32
}

// Select makes key the current one for all handles of keyed state. A key under
// which nothing is written leaves nothing behind.
func (k *Keys[K]) Select(key K) {
	k.one[0], k.hash[0] = key, k.hasher.Hash(key)
	k.store.Bind(k.one[:], k.hash[:])
	k.store.Seek(0)
}

// declared is what a function declares, and its forms.
type declared[S any] struct {
	operator string
	reg      *state.Registry
	newS     func(*state.Registry) S
}

// declare runs the constructor once.
func declare[S any](operator string, newS func(*state.Registry) S) (*declared[S], error) {
	if newS == nil {
		return nil, fmt.Errorf("operator %q: its constructor is nil", operator)
	}
	d := &declared[S]{operator, state.NewRegistry(operator), newS}
	newS(d.reg)
	return d, d.reg.Err()
}

// store is the state of some key groups of an operator, as a job has it.
type store[K comparable, S any] struct {
	Keys[K]
	reg *state.Registry
	cur entry.Cursor
	// handles are what the constructor returned.
	handles S
}

// bind makes an empty store for key groups.
func bind[K comparable, S any](d *declared[S], groups keygroup.Range, max int, pool *memory.Pool, now func() int64) (*store[K, S], error) {
	s := &store[K, S]{}
	s.reg = d.reg.Bind(&s.cur)
	s.handles = d.newS(s.reg)
	err := s.reg.Err()
	if err != nil {
		return nil, err
	}
	if s.hasher, err = keygroup.NewHasher[K](); err != nil {
		return nil, fmt.Errorf("operator %q: %w", d.operator, err)
	}
	fields := slices.Clone(s.reg.Fields())
	for _, t := range s.reg.TimerDomains() {
		fields = append(fields, heap.NewTimerField(t))
	}
	s.reg.BindGroups(groups, max)
	s.reg.AllowBroadcast(true)
	s.store, err = heap.New[K](heap.Options{
		Operator: d.operator, Fields: fields, Cursor: &s.cur, MaxParallelism: max, Range: groups, Pool: pool, Clock: now,
	})
	return s, err
}

// claims are the states of an operator that are declared, in forms that fit.
func claims[K comparable, S any](d *declared[S], op *snapshot.Operator) (map[string]bool, error) {
	key, err := heap.KeyFormat[K]()
	if err != nil {
		return nil, fmt.Errorf("operator %q: %w", op.ID, err)
	}
	if op.KeyFormat != nil && !keygroup.SameKeys(*op.KeyFormat, key) {
		return nil, fmt.Errorf("operator %q: %w: its keys are stored as %s, not as %s", op.ID, state.ErrIncompatible, op.KeyFormat.Describe(), key.Describe())
	}
	var mine []snapshot.State
	names := map[string]bool{}
	for _, st := range op.States {
		if d.reg.Declares(st.Name) {
			mine, names[st.Name] = append(mine, st), true
		}
	}
	return names, d.reg.Check(mine)
}

// restore loads the declared states of a key group. others, unless nil, is
// given all other sections.
func (s *store[K, S]) restore(ctx context.Context, p place, op *snapshot.Operator, claimed map[string]bool, others func(snapshot.State, int, []byte) error) error {
	r, err := p.read(ctx, op.ID)
	if err != nil {
		return err
	}
	for {
		h, data, err := r.Next()
		if errors.Is(err, io.EOF) {
			return s.store.Restored()
		}
		switch {
		case err != nil:
		case !claimed[h.State.Name]:
			if others != nil {
				err = others(h.State, h.Count, data)
			}
		case h.State.Kind == snapshot.RawKind:
			err = s.reg.RestoreRaw(p.group, h.State, data)
		default:
			err = s.store.RestoreSection(p.group, h.State, h.Count, data)
		}
		if err != nil {
			return fmt.Errorf("key group %d: %w", p.group, err)
		}
	}
}

// freeze returns a writer of what is stored now, key group by key group.
func (s *store[K, S]) freeze() (encode func(group int, w heap.GroupWriter) error, release func()) {
	frozen, raws := s.store.Freeze(), s.reg.FreezeRaw()
	return func(g int, w heap.GroupWriter) error {
		if err := frozen.EncodeGroup(g, w); err != nil {
			return err
		}
		for _, r := range raws {
			if b := r.Group(g); len(b) > 0 {
				if err := w.Section(r.State, 1, b); err != nil {
					return err
				}
			}
		}
		return nil
	}, frozen.Release
}

// states describes the keyed states of the store.
func (s *store[K, S]) states() []snapshot.State {
	return append(slices.Clone(s.store.States()), s.reg.RawStates()...)
}

// Each calls fn for each key of an operator that has any of the declared
// states, with the handles of that key: newS is the constructor of the job's function, or
// one that declares some of its states. It reads one key group after the other, and has one in
// memory. Times to live are those at the time of the snapshot. What fn writes
// is lost. An error of fn ends it.
func Each[K comparable, S any](ctx context.Context, s *Snapshot, operator string, newS func(*state.Registry) S, fn func(key K, handles S) error) error {
	op, err := s.operator(operator)
	if err != nil {
		return err
	}
	d, err := declare(operator, newS)
	if err != nil {
		return err
	}
	claimed, err := claims[K](d, op)
	if err != nil {
		return err
	}
	places, err := s.places(ctx, op)
	if err != nil {
		return err
	}
	return withPool(func(pool *memory.Pool) error {
		for _, p := range places {
			groups := keygroup.Range{First: p.group, Last: p.group}
			st, err := bind[K](d, groups, op.MaxParallelism, pool, s.clock())
			if err != nil {
				return err
			}
			if err = st.restore(ctx, p, op, claimed, nil); err == nil {
				err = st.visit(p.group, nil, fn)
			}
			st.store.Close()
			if err != nil {
				return fmt.Errorf("operator %q: %w", operator, err)
			}
		}
		return nil
	})
}

// clock stands at the time of the snapshot.
func (s *Snapshot) clock() func() int64 {
	at := s.meta.Completed
	return func() int64 { return at }
}

// visit calls fn for all keys of a group, or for the given ones of it.
func (s *store[K, S]) visit(group int, only []K, fn func(K, S) error) error {
	keys := only
	if keys == nil {
		keys, _ = s.store.Keys(group)
	}
	for _, k := range keys {
		s.Select(k)
		if err := fn(k, s.handles); err != nil {
			return fmt.Errorf("key %v: %w", k, err)
		}
	}
	s.store.Release()
	return nil
}

// withPool runs fn with memory for state. That memory is used up is an error.
func withPool(fn func(*memory.Pool) error) (err error) {
	pool := memory.NewPool(0)
	defer func() {
		if cerr := pool.Close(); err == nil {
			err = cerr
		}
	}()
	return fn(pool)
}

// EachUnkeyed calls fn for each subtask of an operator with the handles of its
// operator state: lists, union lists, broadcast and raw state of subtasks.
func EachUnkeyed[S any](s *Snapshot, operator string, newS func(*state.Registry) S, fn func(subtask int, handles S) error) error {
	op, err := s.operator(operator)
	if err != nil {
		return err
	}
	d, err := declare(operator, newS)
	if err != nil {
		return err
	}
	for _, sub := range op.Subtasks {
		_, err := d.unkeyed(sub, fn)
		if err != nil {
			return fmt.Errorf("operator %q, subtask %d: %w", operator, sub.Index, err)
		}
	}
	return nil
}

// unkeyed restores the operator state of a subtask, calls fn and returns what
// there is then.
func (d *declared[S]) unkeyed(sub snapshot.Subtask, fn func(int, S) error) ([]snapshot.ListState, error) {
	reg := d.reg.Bind(new(entry.Cursor))
	handles := d.newS(reg)
	if err := reg.Err(); err != nil {
		return nil, err
	}
	reg.AllowBroadcast(true)
	var mine, others []snapshot.ListState
	for _, l := range sub.Lists {
		if d.reg.Declares(l.Name) {
			mine = append(mine, l)
		} else {
			others = append(others, l)
		}
	}
	if err := reg.RestoreLists(mine); err != nil {
		return nil, err
	}
	if err := fn(sub.Index, handles); err != nil {
		return nil, err
	}
	lists, err := reg.SnapshotLists()
	return append(others, lists...), err
}
