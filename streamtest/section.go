package streamtest

import (
	"bytes"
	"fmt"
	"reflect"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/weirstream/weir/codec"
	"github.com/weirstream/weir/internal/backend/heap"
	"github.com/weirstream/weir/internal/entry"
	"github.com/weirstream/weir/internal/graph"
	"github.com/weirstream/weir/internal/keygroup"
	"github.com/weirstream/weir/internal/memory"
	"github.com/weirstream/weir/internal/snapshot"
	"github.com/weirstream/weir/internal/stage"
	"github.com/weirstream/weir/runner/embedded"
	"github.com/weirstream/weir/state"
)

// State is looked at in the form of snapshots: the operator's state is frozen,
// as at a barrier, and what is asked for is restored into a store of its own.
// So a look changes nothing, whatever the kind of state, and sees what a
// restored job would.

// declarer is the body of an operator whose functions declare keyed state.
type declarer interface{ Fields() []*entry.Field }

// field finds a keyed state by its name, or by "operator/name".
func (c *core) field(step, name string) (*graph.Node, *entry.Field) {
	c.t.Helper()
	c.running(step)
	var op *graph.Node
	var field *entry.Field
	var all, hits []string
	for _, n := range c.graph.Nodes {
		d, ok := n.Body.(declarer)
		if !ok {
			continue
		}
		for _, f := range d.Fields() {
			full := n.ID + "/" + f.Name
			all = append(all, full)
			if f.Name == name || full == name {
				op, field, hits = n, f, append(hits, full)
			}
		}
	}
	switch {
	case len(hits) > 1:
		c.t.Fatalf("several operators declare a state %q: name one of %s", name, strings.Join(hits, ", "))
	case len(all) == 0:
		c.t.Fatalf("there is no state %q: no operator declares keyed state", name)
	case len(hits) == 0:
		c.t.Fatalf("there is no state %q; declared are %s", name, strings.Join(all, ", "))
	}
	return op, field
}

// keyed finds the keyed operator, of which there must be one unless it is named.
func (c *core) keyed(step string, name []string) *graph.Node {
	c.t.Helper()
	c.running(step)
	var op *graph.Node
	var ids []string
	for _, n := range c.graph.Nodes {
		if n.Keyed {
			ids = append(ids, n.ID)
			if len(name) == 0 || n.ID == name[0] {
				op = n
			}
		}
	}
	switch {
	case len(ids) == 0:
		c.t.Fatalf("%s: no operator is keyed", step)
	case op == nil:
		c.t.Fatalf("%s: there is no keyed operator %q; there are %s", step, name[0], strings.Join(ids, ", "))
	case len(ids) > 1 && len(name) == 0:
		c.t.Fatalf("%s: several operators are keyed: name one of %s", step, strings.Join(ids, ", "))
	}
	return op
}

// frozen shows what an operator's subtask would put into a snapshot, and gives
// it up again. No hook of the function runs, but its codecs do.
func (c *core) frozen(s embedded.Subtask, read func(stage.Part) error) {
	c.t.Helper()
	c.work(func() (err error) {
		var part stage.Part
		defer func() {
			if part.Keyed != nil {
				part.Keyed.Release()
			}
			if p := recover(); p != nil {
				err = fmt.Errorf("a look into operator %q: panic: %v\n%s", s.Context.Operator, p, debug.Stack())
			}
		}()
		if part, err = s.Operator.Snapshot(&stage.Barrier{}); err != nil {
			return err
		}
		return read(part)
	})
}

// section is the values of one state in one key group.
type section struct {
	state snapshot.State
	data  []byte
}

// sections is a stage.SectionWriter that keeps those of one state.
type sections struct {
	name string
	kept []section
}

// Section implements stage.SectionWriter.
func (s *sections) Section(st snapshot.State, _ int, data []byte) error {
	if st.Name == s.name {
		s.kept = append(s.kept, section{st, slices.Clone(data)})
	}
	return nil
}

// allGroups stands for every key group of a subtask.
const allGroups = -1

// sections returns the sections of a state in a key group of a subtask.
func (c *core) sections(s embedded.Subtask, name string, group int) []section {
	c.t.Helper()
	found := sections{name: name}
	c.frozen(s, func(part stage.Part) error {
		groups := part.Keyed.Groups()
		if group != allGroups {
			groups = keygroup.Range{First: group, Last: group}
		}
		if err := part.Keyed.Settle(false); err != nil {
			return err
		}
		for g := groups.First; g <= groups.Last; g++ {
			if err := part.Keyed.EncodeGroup(g, &found); err != nil {
				return err
			}
		}
		return nil
	})
	return found.kept
}

// stored is an entry of a section: its encoded key, and all of it.
type stored struct{ key, entry []byte }

// next takes the first entry off the data of a section.
func (c *core) next(data []byte, key codec.Format, st snapshot.State) (stored, []byte) {
	c.t.Helper()
	k, rest, err := snapshot.Item(data, key.Size)
	if err == nil {
		_, rest, err = snapshot.Item(rest, st.Format.Size)
	}
	if err != nil {
		c.t.Fatal(err)
	}
	return stored{k, data[:len(data)-len(rest)]}, rest
}

// keyEncoding is that of keys of type K, which must be those of the operator.
func keyEncoding[K comparable](c *core, op *graph.Node) keygroup.Encoding[K] {
	c.t.Helper()
	encoding, err := keygroup.NewEncoding[K]()
	if err != nil {
		c.t.Fatal(err)
	}
	var is codec.Format
	c.frozen(c.run.Subtasks(op.ID)[0], func(part stage.Part) error {
		is = part.Keyed.KeyFormat()
		return nil
	})
	if is != encoding.Format() {
		c.t.Fatalf("the keys of operator %q are of %s; the test asks by a key of type %v", op.ID, is.ID, reflect.TypeFor[K]())
	}
	return encoding
}

// sighting is where the state of a key lies.
type sighting[K comparable] struct {
	c        *core
	operator string
	field    *entry.Field
	key      K
	hash     uint32
	group    int
	max      int
	// state and data are its section with the one entry; no data if the key has
	// no such state.
	section
}

// find looks a key's state up by the name of the state.
func find[K comparable](c *core, step, name string, key K) sighting[K] {
	c.t.Helper()
	op, field := c.field(step, name)
	return locate(c, op, field, key)
}

func locate[K comparable](c *core, op *graph.Node, field *entry.Field, key K) sighting[K] {
	c.t.Helper()
	encoding := keyEncoding[K](c, op)
	hasher, err := keygroup.NewHasher[K]()
	if err != nil {
		c.t.Fatal(err)
	}
	s := sighting[K]{c: c, operator: op.ID, field: field, key: key, hash: hasher.Hash(key)}
	subtasks := c.run.Subtasks(op.ID)
	s.max = subtasks[0].Context.MaxParallelism
	s.group = keygroup.Group(s.hash, s.max)
	owner := subtasks[keygroup.Subtask(s.group, len(subtasks), s.max)]
	wanted := encoding.Append(nil, key)
	for _, found := range c.sections(owner, field.Name, s.group) {
		for data := found.data; len(data) > 0; {
			var e stored
			if e, data = c.next(data, encoding.Format(), found.state); bytes.Equal(e.key, wanted) {
				s.section = section{found.state, e.entry}
			}
		}
	}
	return s
}

// types are the Go types that a test names.
func types(named ...reflect.Type) []reflect.Type { return named }

// look reads a state by a handle that the test declares for it, of the types
// that it names.
func look[K comparable, H any](s sighting[K], opts []state.Option, named []reflect.Type, declare func(*state.Registry, []state.Option) H, read func(H) error) {
	s.c.t.Helper()
	if s.field.Lifetime > 0 {
		opts = append(slices.Clip(opts), state.TTL(time.Duration(s.field.Lifetime)*time.Millisecond))
	}
	asked := state.NewRegistry(s.operator)
	declare(asked, opts)
	if err := asked.Err(); err != nil {
		s.c.t.Fatal(err)
	}
	if want, is := form(asked.Fields()[0]), form(s.field); want != is {
		s.c.t.Fatalf("state %q of operator %q is a %s; the test asks for a %s%s", s.field.Name, s.operator, is, want, otherwise(want, named))
	}
	if s.data == nil {
		return
	}
	cur := new(entry.Cursor)
	bound := asked.Bind(cur)
	handle := declare(bound, opts)
	s.open(bound.Fields(), cur, func(store *heap.Store[K]) error {
		if !store.Lookup(s.key, s.hash) {
			return nil // it has expired
		}
		return read(handle)
	})
}

// form says what a state is.
func form(f *entry.Field) string {
	name := func(f codec.Format) string { return strings.TrimSpace(f.ID + " " + f.Schema) }
	text := string(f.Kind)
	if f.Detail != "" {
		text += " " + f.Detail
	}
	if f.Key.ID != "" {
		return fmt.Sprintf("%s of %s to %s", text, name(f.Key), name(f.Format))
	}
	return fmt.Sprintf("%s of %s", text, name(f.Format))
}

// otherwise names the Go types that a form calls by the names of their formats:
// int is stored as int64.
func otherwise(form string, named []reflect.Type) string {
	words := strings.Fields(form)
	if !slices.ContainsFunc(named, func(t reflect.Type) bool { return !slices.Contains(words, t.String()) }) {
		return ""
	}
	names := make([]string, len(named))
	for i, t := range named {
		names[i] = t.String()
	}
	return " (of Go's " + strings.Join(names, " to ") + ")"
}

// open restores the one entry into a store of its own.
func (s sighting[K]) open(fields []*entry.Field, cur *entry.Cursor, read func(*heap.Store[K]) error) {
	s.c.t.Helper()
	pool := memory.NewPool(0)
	store, err := heap.New[K](heap.Options{
		Operator: s.operator, Fields: fields, Cursor: cur, MaxParallelism: s.max, Pool: pool,
		Range: keygroup.Range{First: s.group, Last: s.group}, Clock: func() int64 { return s.c.clock.millis },
	})
	if err == nil {
		if err = store.RestoreSection(s.group, s.state, 1, s.data); err == nil {
			err = read(store)
		}
		store.Close()
	}
	if cerr := pool.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		s.c.t.Fatal(err)
	}
}
