package savepoint

import (
	"context"
	"fmt"
	"slices"

	"github.com/weirstream/weir/codec"
	"github.com/weirstream/weir/internal/backend/heap"
	"github.com/weirstream/weir/internal/keygroup"
	"github.com/weirstream/weir/internal/memory"
	"github.com/weirstream/weir/internal/snapshot"
	"github.com/weirstream/weir/state"
)

// Bootstrap adds a keyed operator with state that fill writes. newS is the
// constructor of the job's own function, so that names, types and times to live
// are those of the job; fill chooses a key, in any order, and sets what the
// handles of it are for:
//
//	err := savepoint.Bootstrap(w, "dedupe", newDedupe, func(keys *savepoint.Keys[string], d *dedupe) error {
//		for _, id := range known {
//			keys.Select(id)
//			if err := d.seen.Set(true); err != nil {
//				return err
//			}
//		}
//		return nil
//	})
//
// Timers are set by their handles, too. Handles of operator state are those of
// the only subtask; the job deals the elements out. fill runs in Write, with the
// state of this operator in memory. The operator's id must be free.
func Bootstrap[K comparable, S any](w *Writer, operator string, newS func(*state.Registry) S, fill func(keys *Keys[K], handles S) error) error {
	d, err := begin(w, operator, newS)
	if err != nil {
		return err
	}
	key, err := heap.KeyFormat[K]()
	if err != nil {
		return fmt.Errorf("operator %q: %w", operator, err)
	}
	if err := keygroup.Check(1, w.max); err != nil {
		return fmt.Errorf("operator %q: %w", operator, err)
	}
	p := w.add(operator)
	p.op.KeyFormat, p.op.MaxParallelism = &key, w.max
	all := keygroup.Range{First: 0, Last: w.max - 1}
	p.write = func(_ context.Context, p *planned, sub *snapshot.Subtask, fw *snapshot.FileWriter) error {
		return withPool(func(pool *memory.Pool) error {
			st, err := bind[K](d, all, w.max, pool, w.millis)
			if err != nil {
				return err
			}
			defer st.store.Close()
			if err := fill(&st.Keys, st.handles); err != nil {
				return err
			}
			st.store.Release()
			if sub.Lists, err = st.reg.SnapshotLists(); err != nil {
				return err
			}
			p.op.States = st.states()
			encode, release := st.freeze()
			defer release()
			for g := range w.max {
				if err := writeGroup(fw, g, p.op.ID, key, encode); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return nil
}

func (w *Writer) millis() int64 { return w.now().UnixMilli() }

// begin declares the states of an operator that is new.
func begin[S any](w *Writer, operator string, newS func(*state.Registry) S) (*declared[S], error) {
	if operator == "" {
		return nil, fmt.Errorf("an operator needs an id")
	}
	if _, err := w.find(operator); err == nil {
		return nil, fmt.Errorf("operator %q is there already: change it with Edit, or Drop it first", operator)
	}
	return declare(operator, newS)
}

func (w *Writer) add(operator string) *planned {
	p := &planned{dropped: map[string]bool{}}
	p.op = snapshot.Operator{ID: operator, Kind: "process", Parallelism: 1, Subtasks: []snapshot.Subtask{{}}}
	w.ops = append(w.ops, p)
	return p
}

func writeGroup(fw *snapshot.FileWriter, g int, operator string, key codec.Format, encode func(int, heap.GroupWriter) error) error {
	if err := fw.BeginGroup(g); err != nil {
		return err
	}
	if err := encode(g, fw.Operator(operator, key)); err != nil {
		return err
	}
	return fw.EndGroup()
}

// BootstrapUnkeyed adds an operator that has operator state only, which fill
// writes.
func BootstrapUnkeyed[S any](w *Writer, operator string, newS func(*state.Registry) S, fill func(handles S) error) error {
	d, err := begin(w, operator, newS)
	if err != nil {
		return err
	}
	w.add(operator).unkeyed = func(sub snapshot.Subtask) ([]snapshot.ListState, error) {
		return d.unkeyed(sub, func(_ int, handles S) error { return fill(handles) })
	}
	return nil
}

// Edit changes the keyed state of an operator: fn is called for each key, or
// for each of keys if any are given, whether they have state or not, with the
// handles of that key. Clearing a state deletes the entry. States that newS does
// not declare stay as they are. It has one key group in memory. Times of last
// access that it sets are those of the snapshot. fn runs in Write; an operator can be
// edited once.
func Edit[K comparable, S any](w *Writer, operator string, newS func(*state.Registry) S, fn func(key K, handles S) error, keys ...K) error {
	p, err := w.find(operator)
	if err != nil {
		return err
	}
	if p.write != nil {
		return fmt.Errorf("operator %q is bootstrapped or edited already", operator)
	}
	d, err := declare(operator, newS)
	if err != nil {
		return err
	}
	if _, err := claims[K](d, &p.op); err != nil {
		return err
	}
	if p.op.KeyFormat == nil {
		return fmt.Errorf("operator %q has no keyed state: use EditUnkeyed, or Drop it and Bootstrap it anew", operator)
	}
	hasher, err := keygroup.NewHasher[K]()
	if err != nil {
		return fmt.Errorf("operator %q: %w", operator, err)
	}
	var byGroup map[int][]K
	if len(keys) > 0 {
		byGroup = map[int][]K{}
		for _, k := range keys {
			g := keygroup.Group(hasher.Hash(k), p.op.MaxParallelism)
			byGroup[g] = append(byGroup[g], k)
		}
	}
	e := &editor[K, S]{w: w, d: d, fn: fn, only: byGroup}
	p.write = e.write
	return nil
}

// EditUnkeyed changes the operator state of an operator: fn is called for each
// subtask. States that newS does not declare stay as they are.
func EditUnkeyed[S any](w *Writer, operator string, newS func(*state.Registry) S, fn func(subtask int, handles S) error) error {
	p, err := w.find(operator)
	if err != nil {
		return err
	}
	if p.unkeyed != nil || p.stored == "" {
		return fmt.Errorf("operator %q is bootstrapped or edited already", operator)
	}
	d, err := declare(operator, newS)
	if err != nil {
		return err
	}
	p.unkeyed = func(sub snapshot.Subtask) ([]snapshot.ListState, error) { return d.unkeyed(sub, fn) }
	return nil
}

// editor rewrites the keyed state of an operator.
type editor[K comparable, S any] struct {
	w  *Writer
	d  *declared[S]
	fn func(K, S) error
	// only are the keys to visit, by key group; nil for all.
	only map[int][]K
}

// write implements keyedWriter: each key group is restored, changed and written.
func (e *editor[K, S]) write(ctx context.Context, p *planned, sub *snapshot.Subtask, fw *snapshot.FileWriter) error {
	op, err := e.w.storedOperator(p)
	if err != nil {
		return err
	}
	claimed, err := claims[K](e.d, &p.op)
	if err != nil {
		return err
	}
	places, err := e.w.from.placesOf(ctx, op, sub)
	if err != nil {
		return err
	}
	slices.SortFunc(places, func(a, b place) int { return a.group - b.group })
	return withPool(func(pool *memory.Pool) error {
		for _, at := range places {
			if err := e.group(ctx, p, op, at, claimed, pool, fw); err != nil {
				return fmt.Errorf("key group %d: %w", at.group, err)
			}
		}
		return nil
	})
}

func (e *editor[K, S]) group(ctx context.Context, p *planned, op *snapshot.Operator, at place, claimed map[string]bool, pool *memory.Pool, fw *snapshot.FileWriter) error {
	st, err := bind[K](e.d, keygroup.Range{First: at.group, Last: at.group}, op.MaxParallelism, pool, e.w.from.clock())
	if err != nil {
		return err
	}
	defer st.store.Close()
	if err := fw.BeginGroup(at.group); err != nil {
		return err
	}
	out := fw.Operator(p.op.ID, *op.KeyFormat)
	err = st.restore(ctx, at, op, claimed, func(s snapshot.State, count int, data []byte) error {
		if p.dropped[s.Name] {
			return nil
		}
		return out.Section(s, count, data)
	})
	if err != nil {
		return err
	}
	if only := e.only[at.group]; e.only == nil || len(only) > 0 {
		if err := st.visit(at.group, only, e.fn); err != nil {
			return err
		}
	}
	encode, release := st.freeze()
	defer release()
	if err := encode(at.group, kept{out, p.dropped}); err != nil {
		return err
	}
	p.list(st.states())
	return fw.EndGroup()
}

// kept writes the sections of states that are not dropped.
type kept struct {
	heap.GroupWriter
	dropped map[string]bool
}

func (k kept) Section(st snapshot.State, count int, data []byte) error {
	if k.dropped[st.Name] {
		return nil
	}
	return k.GroupWriter.Section(st, count, data)
}

// list adds states that are declared and were not stored.
func (p *planned) list(states []snapshot.State) {
	for _, s := range states {
		if p.dropped[s.Name] {
			continue
		}
		i := slices.IndexFunc(p.op.States, func(o snapshot.State) bool { return o.Name == s.Name })
		if i < 0 {
			p.op.States = append(p.op.States, s)
		} else {
			p.op.States[i] = s
		}
	}
}
