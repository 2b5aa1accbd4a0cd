package streamtest

import (
	"errors"
	"maps"
	"reflect"
	"slices"

	"github.com/weirstream/weir/internal/graph"
	"github.com/weirstream/weir/internal/snapshot"
	"github.com/weirstream/weir/internal/stage"
	"github.com/weirstream/weir/runner/embedded"
	"github.com/weirstream/weir/state"
)

// OperatorList returns the elements of an operator list, subtask by subtask,
// nil if there are none; name and options are as for Value. It shows what lies
// in the list: of a function that fills it in its hook Snapshot, what the last
// snapshot stored, or a Restore brought back. Take a Snapshot first to see what
// the function holds now.
func OperatorList[T any](h Any, name string, opts ...state.Option) (elements []T) {
	c := h.inner()
	c.t.Helper()
	for _, l := range c.operatorStates("OperatorList", "an operator list", name, snapshot.EvenSplit) {
		list := state.OperatorListIn[T](l.asked, l.Name, opts...)
		l.load(c, reflect.TypeFor[T]())
		elements = append(elements, list.Get()...)
	}
	return elements
}

// UnionList returns the elements of a union list, subtask by subtask: that is
// what each subtask would be given by a Restore. It is as OperatorList
// otherwise.
func UnionList[T any](h Any, name string, opts ...state.Option) (elements []T) {
	c := h.inner()
	c.t.Helper()
	for _, l := range c.operatorStates("UnionList", "a union list", name, snapshot.UnionList) {
		list := state.UnionListIn[T](l.asked, l.Name, opts...)
		l.load(c, reflect.TypeFor[T]())
		elements = append(elements, list.Get()...)
	}
	return elements
}

// operatorState is what a subtask holds of an operator state, and the registry
// in which a look declares it.
type operatorState struct {
	snapshot.ListState
	operator string
	asked    *state.Registry
}

// load fills what the look has declared.
func (s operatorState) load(c *core, holds reflect.Type) {
	c.t.Helper()
	err := s.asked.Err()
	if err == nil {
		err = s.asked.RestoreLists([]snapshot.ListState{s.ListState})
	}
	if errors.Is(err, state.ErrIncompatible) {
		c.t.Fatalf("operator state %q of operator %q holds elements of %s; the test asks for %v", s.Name, s.operator, s.Format.ID, holds)
	}
	if err != nil {
		c.t.Fatal(err)
	}
}

// operatorStates returns what the subtasks hold of the operator state of a name
// and kind, which there must be.
func (c *core) operatorStates(step, noun, name string, kind snapshot.ListKind) []operatorState {
	c.t.Helper()
	c.running(step)
	var found []operatorState
	for _, n := range c.graph.Nodes {
		if n.Role != graph.Operator {
			continue
		}
		for _, s := range c.run.Subtasks(n.ID) {
			for _, l := range c.lists(s) {
				if l.Kind == kind && (l.Name == name || n.ID+"/"+l.Name == name) {
					found = append(found, operatorState{l, n.ID, state.NewRegistry(n.ID)})
				}
			}
		}
	}
	if len(found) == 0 {
		c.t.Fatalf("no operator declares %s %q", noun, name)
	}
	return found
}

// lists returns the operator states of a subtask.
func (c *core) lists(s embedded.Subtask) (lists []snapshot.ListState) {
	c.t.Helper()
	c.frozen(s, func(part stage.Part) error {
		lists = part.Lists
		return nil
	})
	return lists
}

// Broadcast returns the entries of a broadcast state, nil if there are none; name
// and options are as for Value. All subtasks must hold the same: the test fails
// if they do not, which they only do if the function does not write the same in
// each.
func Broadcast[K comparable, V any](h Any, name string, opts ...state.Option) (entries map[K]V) {
	c := h.inner()
	c.t.Helper()
	var first operatorState
	for i, s := range c.operatorStates("Broadcast", "a broadcast state", name, snapshot.BroadcastMap) {
		m := state.BroadcastIn[K, V](s.asked, s.Name, opts...)
		s.load(c, reflect.TypeFor[map[K]V]())
		holds := maps.Collect(m.All())
		if i == 0 {
			first = s
			entries = holds
			continue
		}
		if s.operator != first.operator {
			c.t.Fatalf("several operators declare a broadcast state %q: name one of %s/%s, %s/%s", name, first.operator, name, s.operator, name)
		}
		if part, differ := difference(holds, entries); differ {
			c.t.Errorf("broadcast state %q of operator %q is not the same in all subtasks%s: subtask %d holds\n%v, subtask 0\n%v", s.Name, s.operator, part, i, holds, entries)
		}
	}
	if len(entries) == 0 {
		return nil
	}
	return entries
}

// Raw returns the parts of a raw state, subtask by subtask, nil if there are none.
// It is as OperatorList otherwise.
func Raw(h Any, name string) (parts [][]byte) {
	c := h.inner()
	c.t.Helper()
	for _, s := range c.operatorStates("Raw", "a raw state", name, snapshot.RawParts) {
		parts = append(parts, s.Items...)
	}
	return parts
}

// KeyedRaw returns the bytes of a raw state of key groups, those that are not
// empty by their group, nil if there are none. It is as OperatorList otherwise.
func KeyedRaw(h Any, name string) map[int][]byte {
	c := h.inner()
	c.t.Helper()
	c.running("KeyedRaw")
	found := groupBytes{name: name}
	declared := false
	for _, n := range c.graph.Nodes {
		d, ok := n.Body.(interface{ RawStates() []snapshot.State })
		if !ok {
			continue
		}
		for _, st := range d.RawStates() {
			if st.Name != name && n.ID+"/"+st.Name != name {
				continue
			}
			declared, found.name = true, st.Name
			for _, s := range c.run.Subtasks(n.ID) {
				c.frozen(s, found.collect)
			}
		}
	}
	if !declared {
		c.t.Fatalf("no operator declares a raw state of key groups %q", name)
	}
	return found.bytes
}

// groupBytes is a stage.SectionWriter that keeps the bytes of one state.
type groupBytes struct {
	name  string
	group int
	bytes map[int][]byte
}

func (g *groupBytes) collect(part stage.Part) error {
	if err := part.Keyed.Settle(false); err != nil {
		return err
	}
	groups := part.Keyed.Groups()
	for g.group = groups.First; g.group <= groups.Last; g.group++ {
		if err := part.Keyed.EncodeGroup(g.group, g); err != nil {
			return err
		}
	}
	return nil
}

// Section implements stage.SectionWriter.
func (g *groupBytes) Section(st snapshot.State, _ int, data []byte) error {
	if st.Name != g.name || st.Kind != snapshot.RawKind {
		return nil
	}
	if g.bytes == nil {
		g.bytes = map[int][]byte{}
	}
	g.bytes[g.group] = slices.Clone(data)
	return nil
}
