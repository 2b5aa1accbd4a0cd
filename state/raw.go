package state

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"

	"github.com/weirstream/weir/codec"
	"github.com/weirstream/weir/internal/entry"
	"github.com/weirstream/weir/internal/keygroup"
	"github.com/weirstream/weir/internal/snapshot"
)

// rawFormat is the format of what functions encode themselves.
var rawFormat = codec.Format{ID: "raw", Version: 1}

// Raw is state of a subtask, apart from any key, in a form of the function's own:
// parts, each of bytes that the function writes to a stream and reads from one.
// It is for what has an encoding of its own, such as an index or a model. A function
// writes it in its hook Snapshot and reads it in Initialize:
//
//	func (f *scorer) Snapshot() error {
//		f.stored.Clear()
//		return f.stored.Add(f.model.Save)
//	}
//
// When a job is restored with another parallelism, the parts of all subtasks are
// dealt out again as the elements of an OperatorList are: a part is never
// divided, and a subtask may be given several or none. The bytes lie in memory.
// Nothing is known of their form: put a version in front if it may change.
type Raw struct{ s *rawParts }

// RawIn declares raw state of a subtask.
func RawIn(r *Registry, name string) Raw {
	s := &rawParts{name: name}
	r.declareOperatorState(name, s, nil)
	return Raw{s}
}

// Parts iterates over the parts in order, as they are when it starts.
func (s *Raw) Parts() iter.Seq[io.Reader] {
	return func(yield func(io.Reader) bool) {
		for _, p := range s.s.parts {
			if !yield(bytes.NewReader(p)) {
				return
			}
		}
	}
}

// Len returns the number of parts.
func (s *Raw) Len() int { return len(s.s.parts) }

// Add adds a part of what write writes, nothing if that fails.
func (s *Raw) Add(write func(w io.Writer) error) error {
	b, err := written(write)
	if err != nil {
		return fmt.Errorf("raw state %q: %w", s.s.name, err)
	}
	s.s.parts = append(s.s.parts, b)
	return nil
}

// Clear removes all parts.
func (s *Raw) Clear() { s.s.parts = nil }

func written(write func(w io.Writer) error) ([]byte, error) {
	var b bytes.Buffer
	if err := write(&b); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

type rawParts struct {
	name string
	// parts are never changed.
	parts [][]byte
}

func (s *rawParts) describe() snapshot.ListState {
	return snapshot.ListState{Name: s.name, Kind: snapshot.RawParts, Format: rawFormat}
}

func (s *rawParts) encode() ([][]byte, error) { return slices.Clone(s.parts), nil }

func (*rawParts) check(snapshot.ListState) error { return nil }

func (s *rawParts) decode(stored snapshot.ListState) error {
	items := stored.Items
	s.parts = slices.Clone(items)
	return nil
}

// ErrNoGroup is wrapped by the error of a use of raw state in a key group that is
// not the subtask's.
var ErrNoGroup = errors.New("the key group is not one of this subtask")

// KeyedRaw is state of key groups in a form of the function's own: bytes that the
// function writes to a stream and reads from one, for each key group of the
// subtask. It is as Raw otherwise, for functions on keyed streams.
//
// A key belongs to one key group for good: Group tells the current key's. When a
// job is restored with another parallelism, each subtask is given the bytes
// of the groups that are its own then. So a function keeps what it has by group:
//
//	func (f *sketches) Snapshot() error {
//		for g := range f.stored.Groups() {
//			if err := f.stored.Write(g, f.byGroup[g].Save); err != nil {
//				return err
//			}
//		}
//		return nil
//	}
type KeyedRaw struct{ s *rawGroups }

// KeyedRawIn declares raw state of key groups.
func KeyedRawIn(r *Registry, name string) KeyedRaw {
	s := &rawGroups{name: name, reg: r}
	if r.name(name) {
		r.raws = append(r.raws, s)
	}
	return KeyedRaw{s}
}

// Groups iterates over the key groups of the subtask, ascending.
func (s *KeyedRaw) Groups() iter.Seq[int] {
	return func(yield func(int) bool) {
		r := s.s.reg
		for g := r.groups.First; g <= r.groups.Last && r.maxParallelism > 0; g++ {
			if !yield(g) {
				return
			}
		}
	}
}

// Group returns the key group of the current key, and ErrNoKey if there is none.
func (s *KeyedRaw) Group() (int, error) {
	r := s.s.reg
	if r.cur.P == nil {
		return 0, ErrNoKey
	}
	return keygroup.Group(*entry.Hash(r.cur.P), r.maxParallelism), nil
}

// Reader returns a stream of the bytes of a key group, which is empty if there
// are none. The error wraps ErrNoGroup.
func (s *KeyedRaw) Reader(group int) (io.Reader, error) {
	b, err := s.s.at(group)
	if err != nil {
		return nil, err
	}
	return bytes.NewReader(*b), nil
}

// Write replaces the bytes of a key group by what write writes, which may be
// nothing. If that fails they stay as they are. Other errors wrap ErrNoGroup.
func (s *KeyedRaw) Write(group int, write func(w io.Writer) error) error {
	at, err := s.s.at(group)
	if err != nil {
		return err
	}
	b, err := written(write)
	if err != nil {
		return s.s.failed(group, err)
	}
	*at = b
	return nil
}

type rawGroups struct {
	name string
	reg  *Registry
	// bytes are by group from the registry's first. They are never changed.
	bytes [][]byte
}

func (s *rawGroups) failed(group int, err error) error {
	return fmt.Errorf("raw state %q: key group %d: %w", s.name, group, err)
}

func (s *rawGroups) at(group int) (*[]byte, error) {
	r := s.reg
	if r.maxParallelism == 0 || !r.groups.Contains(group) {
		return nil, s.failed(group, ErrNoGroup)
	}
	if s.bytes == nil {
		s.bytes = make([][]byte, r.groups.Len())
	}
	return &s.bytes[group-r.groups.First], nil
}

func (s *rawGroups) state() snapshot.State {
	return snapshot.State{Name: s.name, Kind: snapshot.RawKind, Format: rawFormat}
}

// BindGroups says which key groups are the subtask's. It is for the engine, as
// what follows.
func (r *Registry) BindGroups(groups keygroup.Range, maxParallelism int) {
	r.groups, r.maxParallelism = groups, maxParallelism
}

// RawStates describes the raw state of key groups as snapshots do.
func (r *Registry) RawStates() []snapshot.State {
	var states []snapshot.State
	for _, s := range r.raws {
		states = append(states, s.state())
	}
	return states
}

// RawPart is the raw state of key groups as of a barrier.
type RawPart struct {
	State snapshot.State
	first int
	bytes [][]byte
}

// FreezeRaw returns the raw state of key groups as it is now.
func (r *Registry) FreezeRaw() []RawPart {
	var parts []RawPart
	for _, s := range r.raws {
		parts = append(parts, RawPart{s.state(), r.groups.First, slices.Clone(s.bytes)})
	}
	return parts
}

// Group returns the bytes of a key group, nil if there are none.
func (p RawPart) Group(group int) []byte {
	if i := group - p.first; i >= 0 && i < len(p.bytes) {
		return p.bytes[i]
	}
	return nil
}

// RestoreRaw takes over the stored bytes of a key group, which Check must have
// accepted.
func (r *Registry) RestoreRaw(group int, st snapshot.State, data []byte) error {
	for _, s := range r.raws {
		if s.name != st.Name {
			continue
		}
		at, err := s.at(group)
		if err != nil {
			return fmt.Errorf("operator %q: %w", r.operator, err)
		}
		*at = slices.Clone(data)
		return nil
	}
	return fmt.Errorf("operator %q: no raw state %q is declared", r.operator, st.Name)
}
