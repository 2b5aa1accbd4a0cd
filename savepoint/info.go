package savepoint

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/weirstream/weir/codec"
	"github.com/weirstream/weir/internal/snapshot"
)

// Info says what a snapshot is and holds.
type Info struct {
	Path string `json:"path"`
	Job  string `json:"job"`
	// Kind is "checkpoint", "savepoint", or "final" for that of a job that ended.
	Kind    string `json:"kind"`
	Lineage string `json:"lineage"`
	Attempt int64  `json:"attempt"`
	ID      int64  `json:"id"`
	// Weir is the version that wrote it, FormatVersion that of its format.
	Weir          string     `json:"weir"`
	FormatVersion int        `json:"format_version"`
	Triggered     time.Time  `json:"triggered"`
	Completed     time.Time  `json:"completed"`
	Operators     []Operator `json:"operators"`
	Files         []File     `json:"files"`
	// Unread tells which keyed states could not be counted, and why.
	Unread []string `json:"unread,omitempty"`
}

// File is a data file.
type File struct {
	Name  string `json:"name"`
	Bytes int64  `json:"bytes"`
}

// Operator is what a snapshot holds of an operator.
type Operator struct {
	ID             string `json:"id"`
	Kind           string `json:"kind"`
	Parallelism    int    `json:"parallelism"`
	MaxParallelism int    `json:"max_parallelism,omitempty"`
	// KeyFormat is how the keys of its keyed states are encoded.
	KeyFormat *codec.Format `json:"key_format,omitempty"`
	States    []State       `json:"states,omitempty"`
	// Splits and Enumerator are where a source reads.
	Splits     []Split `json:"splits,omitempty"`
	Enumerator any     `json:"enumerator,omitempty"`
	// Committables are what a sink has not committed as far as the snapshot knows.
	Committables []Committable `json:"committables,omitempty"`
	// Watermarks are the event times of the subtasks that have one.
	Watermarks []Watermark `json:"watermarks,omitempty"`
	// Ended are the subtasks whose input had ended.
	Ended []int `json:"ended,omitempty"`
}

// Split is a part of a source's input and how far it is read.
type Split struct {
	Subtask int `json:"subtask"`
	Value   any `json:"value"`
}

// Committable is an output of a sink that waits to be committed.
type Committable struct {
	Checkpoint int64 `json:"checkpoint"`
	Subtask    int   `json:"subtask"`
	Value      any   `json:"value"`
}

// Watermark is the event time of a subtask.
type Watermark struct {
	Subtask int       `json:"subtask"`
	Time    time.Time `json:"time"`
}

// State is a state of an operator.
type State struct {
	Name string `json:"name"`
	// Kind is one of the constants below.
	Kind string `json:"kind"`
	// Format is how values are encoded, MapKeyFormat how the keys of maps are.
	Format       codec.Format  `json:"format"`
	MapKeyFormat *codec.Format `json:"map_key_format,omitempty"`
	// Detail is the aggregate, and the windows, of an aggregating state or of
	// slices.
	Detail string `json:"detail,omitempty"`
	TTL    bool   `json:"ttl,omitempty"`
	// Count is the number of keys of a keyed state, of elements of operator
	// state. Bytes is what they take, uncompressed, Groups the number of key groups
	// that have any.
	Count  int64 `json:"count"`
	Bytes  int64 `json:"bytes"`
	Groups int   `json:"groups,omitempty"`
}

// Kinds of states. Those of the last group belong to subtasks, all others to
// keys.
const (
	Value            = "value"
	List             = "list"
	Map              = "map"
	Reducing         = "reducing"
	Aggregating      = "aggregating"
	EventTimers      = "event-timers"
	ProcessingTimers = "processing-timers"
	// Slices are the accumulators of windows.
	Slices   = "slices"
	KeyedRaw = "raw"

	OperatorList = "operator-list"
	UnionList    = "union-list"
	Broadcast    = "broadcast"
	Raw          = "raw-parts"
)

// Keyed reports whether the state belongs to keys.
func (s State) Keyed() bool {
	switch s.Kind {
	case OperatorList, UnionList, Broadcast, Raw:
		return false
	}
	return true
}

var listKinds = map[snapshot.ListKind]string{
	snapshot.EvenSplit: OperatorList, snapshot.UnionList: UnionList, snapshot.BroadcastMap: Broadcast, snapshot.RawParts: Raw,
}

// Info describes the snapshot. It reads the headers of all states, to count
// what they hold, but not the entries.
func (s *Snapshot) Info(ctx context.Context) (*Info, error) {
	m := s.meta
	info := &Info{
		Path: s.Path(), Job: m.Job, Kind: string(m.Kind), Lineage: m.Lineage, Attempt: m.Attempt, ID: m.ID, Weir: m.Weir, FormatVersion: m.FormatVersion,
		Triggered: millis(m.Triggered), Completed: millis(m.Completed),
	}
	for _, f := range m.Files {
		info.Files = append(info.Files, File{f.Name, f.Size})
	}
	for i := range m.Operators {
		op := s.describe(&m.Operators[i])
		var unreadable *UnreadableError
		if err := s.measure(ctx, &m.Operators[i], op.States); errors.As(err, &unreadable) {
			info.Unread = append(info.Unread, err.Error())
		} else if err != nil {
			return nil, fmt.Errorf("operator %q: %w", op.ID, err)
		}
		info.Operators = append(info.Operators, op)
	}
	return info, nil
}

// Operators describes the operators. Keyed states are not counted: Info does.
func (s *Snapshot) Operators() []Operator {
	var all []Operator
	for i := range s.meta.Operators {
		all = append(all, s.describe(&s.meta.Operators[i]))
	}
	return all
}

// AccumulatorFormat is how the accumulators in a state of slices are encoded.
func AccumulatorFormat(s State) codec.Format { return accumulatorFormat(s.Format.Schema) }

func millis(n int64) time.Time { return time.UnixMilli(n).UTC() }

// describe is an operator without what its data files say.
func (s *Snapshot) describe(op *snapshot.Operator) Operator {
	out := Operator{ID: op.ID, Kind: op.Kind, Parallelism: op.Parallelism, MaxParallelism: op.MaxParallelism, KeyFormat: op.KeyFormat, States: statesOf(op)}
	splits := s.optional(op.SplitFormat)
	for _, sub := range op.Subtasks {
		for _, b := range sub.Splits {
			out.Splits = append(out.Splits, Split{sub.Index, splits(b)})
		}
		if sub.Watermark != nil {
			out.Watermarks = append(out.Watermarks, Watermark{sub.Index, millis(*sub.Watermark)})
		}
		if sub.Ended {
			out.Ended = append(out.Ended, sub.Index)
		}
	}
	if op.Enumerator != nil {
		out.Enumerator = s.optional(op.EnumeratorFormat)(op.Enumerator)
	}
	committables := s.optional(op.CommittableFormat)
	for _, c := range op.Committables {
		out.Committables = append(out.Committables, Committable{c.Checkpoint, c.Subtask, committables(c.Data)})
	}
	return out
}

func (s *Snapshot) optional(f *codec.Format) func([]byte) any {
	if f == nil {
		f = &codec.Format{}
	}
	return s.decoder(*f)
}

// statesOf are the states of an operator; those of subtasks are counted.
func statesOf(op *snapshot.Operator) []State {
	var states []State
	for _, st := range op.States {
		out := State{Name: st.Name, Kind: st.Kind, Format: st.Format, Detail: st.Detail, TTL: st.TTL}
		if st.Key.ID != "" {
			out.MapKeyFormat = &st.Key
		}
		states = append(states, out)
	}
	keyed := len(states)
	for _, sub := range op.Subtasks {
		for _, l := range sub.Lists {
			i := keyed
			for i < len(states) && states[i].Name != l.Name {
				i++
			}
			if i == len(states) {
				states = append(states, State{Name: l.Name, Kind: listKinds[l.Kind], Format: l.Format})
				if l.Key.ID != "" {
					states[i].MapKeyFormat = &l.Key
				}
			}
			states[i].add(l)
		}
	}
	return states
}

// add counts what a subtask holds; of broadcast state, which all hold alike,
// the largest.
func (s *State) add(l snapshot.ListState) {
	var bytes int64
	for _, item := range l.Items {
		bytes += int64(len(item))
	}
	if l.Kind != snapshot.BroadcastMap {
		s.Count, s.Bytes = s.Count+int64(len(l.Items)), s.Bytes+bytes
		return
	}
	var n int64
	for _, item := range l.Items {
		for len(item) > 0 {
			_, rest, err := snapshot.Item(item, l.Key.Size)
			if err == nil {
				_, rest, err = snapshot.Item(rest, l.Format.Size)
			}
			if err != nil {
				break // Verify says so
			}
			item, n = rest, n+1
		}
	}
	s.Count, s.Bytes = max(s.Count, n), max(s.Bytes, bytes)
}

// measure counts the entries of keyed states.
func (s *Snapshot) measure(ctx context.Context, op *snapshot.Operator, states []State) error {
	places, err := s.places(ctx, op)
	if err != nil {
		return err
	}
	for _, p := range places {
		if err := measureGroup(ctx, p, op.ID, states); err != nil {
			return err
		}
	}
	return nil
}

func measureGroup(ctx context.Context, p place, operator string, states []State) error {
	sc, err := p.scan(ctx, operator)
	if err != nil {
		return err
	}
	defer sc.Close()
	for {
		h, size, err := sc.NextSized()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		for i := range states {
			if st := &states[i]; st.Keyed() && st.Name == h.State.Name {
				st.Count, st.Bytes, st.Groups = st.Count+int64(h.Count), st.Bytes+int64(size), st.Groups+1
			}
		}
	}
}
