package savepoint

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/weirstream/weir/codec"
	"github.com/weirstream/weir/internal/keygroup"
	"github.com/weirstream/weir/internal/snapshot"
)

// Difference is one thing in which two snapshots differ.
type Difference struct {
	Operator string `json:"operator"`
	// What is "operator", "state", "schema", "max parallelism", "entry", "split",
	// "enumerator" or "committable".
	What  string `json:"what"`
	State string `json:"state,omitempty"`
	// Key is that of an entry of keyed or broadcast state, the index of one of a list.
	Key any `json:"key,omitempty"`
	// Before and After are nil where there is nothing. Of an entry they are all
	// that lies under its key: the value, or []any of a list, map, timers or windows.
	Before any `json:"before"`
	After  any `json:"after"`
}

// DiffOptions say what to compare.
type DiffOptions struct {
	// IgnoreAccess leaves out the times of last access of states with a time to
	// live.
	IgnoreAccess bool
}

// Diff compares two snapshots and tells visit each difference: operators, states
// and their schemas, and each entry, which it compares in table order, a chunk at
// a time. It does not compare identities, times of completion, watermarks or
// parallelism, as far as they do not matter to state. An error of visit ends it.
func Diff(ctx context.Context, before, after *Snapshot, o DiffOptions, visit func(Difference) error) error {
	d := &differ{ctx, before, after, o, visit}
	for i := range before.meta.Operators {
		a := &before.meta.Operators[i]
		b, err := after.operator(a.ID)
		if err != nil {
			err = visit(Difference{Operator: a.ID, What: "operator", Before: a.Kind})
		} else {
			err = d.operator(a, b)
		}
		if err != nil {
			return fmt.Errorf("operator %q: %w", a.ID, err)
		}
	}
	for i := range after.meta.Operators {
		b := &after.meta.Operators[i]
		if _, err := before.operator(b.ID); err != nil {
			if err := visit(Difference{Operator: b.ID, What: "operator", After: b.Kind}); err != nil {
				return err
			}
		}
	}
	return nil
}

type differ struct {
	ctx           context.Context
	before, after *Snapshot
	DiffOptions
	visit func(Difference) error
}

func (d *differ) operator(a, b *snapshot.Operator) error {
	comparable := true
	if a.MaxParallelism != b.MaxParallelism && a.MaxParallelism != 0 && b.MaxParallelism != 0 {
		comparable = false
		if err := d.visit(Difference{Operator: a.ID, What: "max parallelism", Before: a.MaxParallelism, After: b.MaxParallelism}); err != nil {
			return err
		}
	}
	if a.KeyFormat != nil && b.KeyFormat != nil && !keygroup.SameKeys(*a.KeyFormat, *b.KeyFormat) {
		comparable = false
		if err := d.visit(Difference{Operator: a.ID, What: "schema", Before: a.KeyFormat.Describe(), After: b.KeyFormat.Describe()}); err != nil {
			return err
		}
	}
	if err := d.states(a, b, comparable); err != nil {
		return err
	}
	return d.ends(a, b)
}

// states compares the states of an operator. Entries of keyed states are
// compared only where keys lie in the same order.
func (d *differ) states(a, b *snapshot.Operator, comparable bool) error {
	was, is := statesOf(a), statesOf(b)
	find := func(all []State, name string) *State {
		i := slices.IndexFunc(all, func(s State) bool { return s.Name == name })
		if i < 0 {
			return nil
		}
		return &all[i]
	}
	for _, s := range was {
		t := find(is, s.Name)
		if t == nil {
			if err := d.visit(Difference{Operator: a.ID, What: "state", State: s.Name, Before: s.form()}); err != nil {
				return err
			}
			continue
		}
		if s.form() != t.form() {
			if err := d.visit(Difference{Operator: a.ID, What: "schema", State: s.Name, Before: s.form(), After: t.form()}); err != nil {
				return err
			}
		}
		var err error
		switch {
		case s.Keyed() && t.Keyed() && comparable:
			err = d.keyed(a, b, s.Name)
		case !s.Keyed() && !t.Keyed():
			err = d.lists(a, b, s, *t)
		}
		if err != nil {
			return err
		}
	}
	for _, t := range is {
		if find(was, t.Name) == nil {
			if err := d.visit(Difference{Operator: a.ID, What: "state", State: t.Name, After: t.form()}); err != nil {
				return err
			}
		}
	}
	return nil
}

// form says what a state is, in one line.
func (s State) form() string {
	text := s.Kind
	if s.Detail != "" {
		text += " " + s.Detail
	}
	if s.MapKeyFormat != nil {
		text += " of " + formText(*s.MapKeyFormat) + " to " + formText(s.Format)
	} else if s.Format.ID != "timers" {
		text += " of " + formText(s.Format)
	}
	if s.TTL {
		text += ", with a time to live"
	}
	return text
}

func formText(f codec.Format) string {
	text := f.ID
	if f.Schema != "" {
		text += " " + f.Schema
	}
	if f.Version > 1 {
		text += fmt.Sprintf(" (version %d)", f.Version)
	}
	return text
}

// stream is the entries of a keyed state, one at hand.
type stream struct {
	next    func() (rawEntry, error, bool)
	e       rawEntry
	hash    uint32
	more    bool
	decoder *entryDecoder
	s       *Snapshot
	op      *snapshot.Operator
}

func (d *differ) open(s *Snapshot, op *snapshot.Operator, state string) (*stream, func()) {
	next, stop := iter.Pull2(s.rawEntries(d.ctx, op, state, nil))
	return &stream{next: next, s: s, op: op}, stop
}

func (s *stream) advance() error {
	e, err, more := s.next()
	if err != nil {
		return err
	}
	s.e, s.more = e, more
	if more {
		s.hash = keygroup.HashEncoded(e.key)
		if s.decoder == nil {
			s.decoder = s.s.newEntryDecoder(s.op, e.state)
		}
	}
	return nil
}

// compare orders entries as tables do; what has ended comes last.
func (s *stream) compare(t *stream) int {
	switch {
	case !s.more || !t.more:
		return cmp.Compare(btoi(t.more), btoi(s.more))
	case s.e.group != t.e.group:
		return cmp.Compare(s.e.group, t.e.group)
	}
	return cmp.Or(cmp.Compare(s.hash, t.hash), bytes.Compare(s.e.key, t.e.key))
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// keyed merges the entries of a state of both.
func (d *differ) keyed(a, b *snapshot.Operator, state string) error {
	x, stopX := d.open(d.before, a, state)
	defer stopX()
	y, stopY := d.open(d.after, b, state)
	defer stopY()
	if err := x.advance(); err != nil {
		return err
	}
	if err := y.advance(); err != nil {
		return err
	}
	for x.more || y.more {
		order := x.compare(y)
		diff, differs, err := d.entry(a.ID, state, x, y, order)
		if err == nil && differs {
			err = d.visit(diff)
		}
		if err == nil && order <= 0 {
			err = x.advance()
		}
		if err == nil && order >= 0 {
			err = y.advance()
		}
		if err != nil {
			return fmt.Errorf("state %q: %w", state, err)
		}
	}
	return nil
}

// entry compares the entries at hand.
func (d *differ) entry(operator, state string, x, y *stream, order int) (diff Difference, differs bool, err error) {
	if order == 0 && bytes.Equal(x.e.value, y.e.value) && x.e.state.Format == y.e.state.Format && x.e.state.TTL == y.e.state.TTL {
		return diff, false, nil
	}
	diff = Difference{Operator: operator, What: "entry", State: state}
	var was, is []Entry
	if order <= 0 {
		diff.Key = x.key()
		if was, err = x.values(); err != nil {
			return diff, false, err
		}
		diff.Before = shown(x.e.state.Kind, was)
	}
	if order >= 0 {
		diff.Key = y.key()
		if is, err = y.values(); err != nil {
			return diff, false, err
		}
		diff.After = shown(y.e.state.Kind, is)
	}
	if order != 0 {
		return diff, true, nil
	}
	same, err := d.same(x.e.state.Kind, was, is)
	return diff, !same, err
}

func (s *stream) key() any {
	if s.e.state.Kind == KeyedRaw {
		return s.e.group
	}
	return s.decoder.key(s.e.key)
}

func (s *stream) values() (all []Entry, err error) {
	_, err = s.decoder.decode(s.e, func(e Entry, _ error) bool { all = append(all, e); return true })
	return all, err
}

// shown is what lies under a key, as a person wants to see it.
func shown(kind string, all []Entry) any {
	values := make([]any, len(all))
	for i, e := range all {
		var r codec.Record
		switch kind {
		case Map:
			r = codec.Record{{Name: "key", Value: e.MapKey}}
		case Slices:
			r = codec.Record{{Name: "start", Value: e.Start}, {Name: "end", Value: e.End}}
		}
		if values[i] = e.Value; len(r) > 0 || !e.Accessed.IsZero() {
			r = append(r, codec.Field{Name: "value", Value: e.Value})
			if !e.Accessed.IsZero() {
				r = append(r, codec.Field{Name: "accessed", Value: e.Accessed})
			}
			values[i] = r
		}
	}
	switch kind {
	case List, Map, Slices, EventTimers, ProcessingTimers:
		return values
	}
	if len(values) == 1 {
		return values[0]
	}
	return values
}

// same tells whether what lies under a key is equal, in whatever order the
// entries of a map lie, and however the two encode it.
func (d *differ) same(kind string, was, is []Entry) (bool, error) {
	if len(was) != len(is) {
		return false, nil
	}
	text := func(all []Entry) ([]string, error) {
		out := make([]string, len(all))
		for i, e := range all {
			row := []any{codec.JSONValue(e.MapKey), e.Start, codec.JSONValue(e.Value)}
			if !d.IgnoreAccess {
				row = append(row, e.Accessed)
			}
			b, err := json.Marshal(row)
			if err != nil {
				return nil, err
			}
			out[i] = string(b)
		}
		if kind == Map {
			slices.Sort(out)
		}
		return out, nil
	}
	a, err := text(was)
	if err != nil {
		return false, err
	}
	b, err := text(is)
	return slices.Equal(a, b), err
}

// lists compares operator state: lists by position, over all subtasks.
func (d *differ) lists(a, b *snapshot.Operator, s, t State) error {
	was, order := listed(d.before, a, s)
	is, more := listed(d.after, b, t)
	for _, k := range more {
		if _, ok := was[k]; !ok {
			order = append(order, k)
		}
	}
	for _, k := range order {
		x, before := was[k]
		y, after := is[k]
		diff := Difference{Operator: a.ID, What: "entry", State: s.Name}
		if before {
			diff.Key, diff.Before = x.at(), x.Value
		}
		if after {
			diff.Key, diff.After = y.at(), y.Value
		}
		same := false
		if before && after {
			var err error
			if same, err = d.same(s.Kind, []Entry{x}, []Entry{y}); err != nil {
				return err
			}
		}
		if !same {
			if err := d.visit(diff); err != nil {
				return err
			}
		}
	}
	return nil
}

// at is an entry's key or position.
func (e Entry) at() any {
	if e.MapKey != nil {
		return e.MapKey
	}
	return e.Index
}

// listed are the entries of operator state, by position or key.
func listed(s *Snapshot, op *snapshot.Operator, st State) (map[string]Entry, []string) {
	all, order := map[string]Entry{}, []string(nil)
	s.listEntries(op, &st, func(e Entry, err error) bool {
		if err != nil {
			return false // Verify says so
		}
		if st.Kind != Broadcast {
			e.Index = len(order)
		}
		e.Subtask = 0
		k := fmt.Sprint(e.at())
		all[k], order = e, append(order, k)
		return true
	})
	return all, order
}

// ends compares where sources read and what sinks have open.
func (d *differ) ends(a, b *snapshot.Operator) error {
	x, y := d.before.describe(a), d.after.describe(b)
	values := func(o Operator) (splits, committables []any) {
		for _, s := range o.Splits {
			splits = append(splits, s.Value)
		}
		for _, c := range o.Committables {
			committables = append(committables, c)
		}
		return splits, committables
	}
	xs, xc := values(x)
	ys, yc := values(y)
	if err := d.sets(a.ID, "split", xs, ys); err != nil {
		return err
	}
	if !bytes.Equal(a.Enumerator, b.Enumerator) {
		if err := d.visit(Difference{Operator: a.ID, What: "enumerator", Before: x.Enumerator, After: y.Enumerator}); err != nil {
			return err
		}
	}
	return d.sets(a.ID, "committable", xc, yc)
}

// sets tells what is in one of two sets only.
func (d *differ) sets(operator, what string, before, after []any) error {
	keyed := func(all []any) map[string]any {
		m := map[string]any{}
		for _, v := range all {
			b, err := json.Marshal(codec.JSONValue(v))
			if err != nil {
				b = fmt.Append(nil, v)
			}
			m[string(b)] = v
		}
		return m
	}
	x, y := keyed(before), keyed(after)
	for _, k := range slices.Sorted(maps.Keys(x)) {
		if _, ok := y[k]; !ok {
			if err := d.visit(Difference{Operator: operator, What: what, Before: x[k]}); err != nil {
				return err
			}
		}
	}
	for _, k := range slices.Sorted(maps.Keys(y)) {
		if _, ok := x[k]; !ok {
			if err := d.visit(Difference{Operator: operator, What: what, After: y[k]}); err != nil {
				return err
			}
		}
	}
	return nil
}
