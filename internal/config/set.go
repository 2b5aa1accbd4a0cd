package config

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Value is the effective value of an option.
type Value struct {
	*Option
	// Text is the canonical text, "" if the option is not set.
	Text   string
	Origin Origin

	parsed any
}

// Shown is the text for people: the value, or what not setting it means.
func (v Value) Shown() string {
	if v.Text == "" && v.DefaultText != "" {
		return "(" + v.DefaultText + ")"
	}
	return v.Text
}

// Set holds the effective values of all options. It is filled layer by layer,
// each overriding the ones before.
type Set struct {
	values map[string]Value
	// current and old map names to options, as do the variables.
	current, old, variables map[string]*Option
	warnings                []string
}

// New returns a set of defaults.
func New() *Set {
	s := &Set{values: map[string]Value{}, current: map[string]*Option{}, old: map[string]*Option{}, variables: map[string]*Option{}}
	for _, o := range options {
		v := Value{Option: o, Origin: Origin{Layer: Default}}
		if o.Default != "" {
			v.parsed, _ = o.Kind.parse(o.Default)
			v.Text = format(v.parsed)
		}
		s.values[o.Key], s.current[o.Key], s.variables[Env(o.Key)] = v, o, o
		for _, old := range o.Old {
			s.old[old], s.variables[Env(old)] = o, o
		}
	}
	return s
}

// Entry is one setting of a layer.
type Entry struct {
	Key, Text string
	// Where is the place within the layer, see Origin.
	Where string
}

// Apply sets the options of one layer and reports all bad keys and values.
// Within the layer a current name wins over an old one.
func (s *Set) Apply(l Layer, entries []Entry) error {
	var errs []error
	renamed := map[string]Entry{}
	for _, e := range entries {
		origin := Origin{l, e.Where}
		o := s.current[e.Key]
		if o == nil {
			if o = s.old[e.Key]; o == nil {
				errs = append(errs, s.unknown(origin, e.Key))
				continue
			}
			s.warnf("%s: %s is the old name of %s; use that", origin, e.Key, o.Key)
			renamed[o.Key] = e
			continue
		}
		errs = append(errs, s.put(o, e, origin))
	}
	for _, key := range slices.Sorted(maps.Keys(renamed)) {
		if v, e := s.values[key], renamed[key]; v.Origin.Layer != l {
			errs = append(errs, s.put(v.Option, e, Origin{l, e.Where}))
		}
	}
	return errors.Join(errs...)
}

func (s *Set) put(o *Option, e Entry, origin Origin) error {
	text := strings.TrimSpace(e.Text)
	parsed, err := o.Kind.parse(text)
	if err != nil {
		return &BadValue{Key: e.Key, Value: e.Text, Allowed: o.Kind.Allowed, Origin: origin}
	}
	if o.Note != "" {
		s.warnf("%s: %s: %s", origin, e.Key, o.Note)
	}
	s.values[o.Key] = Value{Option: o, Text: format(parsed), Origin: origin, parsed: parsed}
	return nil
}

func (s *Set) warnf(format string, args ...any) {
	s.warnings = append(s.warnings, fmt.Sprintf(format, args...))
}

// UnknownKey is a key that is no option.
type UnknownKey struct {
	Key string
	// Nearest is a key that may be meant, "" if there is none.
	Nearest string
	Origin  Origin
}

func (e *UnknownKey) Error() string {
	s := fmt.Sprintf("%s: unknown key %q", e.Origin, e.Key)
	if e.Nearest != "" {
		return s + fmt.Sprintf(": did you mean %q?", e.Nearest)
	}
	return s + `; "help options" lists all keys`
}

func (s *Set) unknown(origin Origin, key string) error {
	names := slices.Sorted(maps.Keys(s.current))
	return &UnknownKey{Key: key, Nearest: nearest(key, append(names, slices.Sorted(maps.Keys(s.old))...)), Origin: origin}
}

// Environ applies the variables of environ ("NAME=value") that begin with
// WEIR_. One that is no option but nearly is an error; others are taken for
// somebody else's and reported by Warnings. Empty values count as not set.
func (s *Set) Environ(environ []string) error {
	var entries []Entry
	var errs []error
	names := slices.Sorted(maps.Keys(s.variables))
	for _, kv := range environ {
		name, text, _ := strings.Cut(kv, "=")
		if !strings.HasPrefix(name, "WEIR_") || text == "" {
			continue
		}
		o := s.variables[name]
		if o != nil {
			entries = append(entries, Entry{Key: spelling(o, name), Text: text, Where: name})
			continue
		}
		if near := nearest(name, names); near != "" {
			errs = append(errs, fmt.Errorf("environment: unknown variable %s: did you mean %s?", name, near))
			continue
		}
		s.warnf("environment: variable %s is no option and is ignored", name)
	}
	return errors.Join(append(errs, s.Apply(Environment, entries))...)
}

// spelling is the name of o, current or old, that a variable stands for.
func spelling(o *Option, variable string) string {
	for _, old := range o.Old {
		if Env(old) == variable {
			return old
		}
	}
	return o.Key
}

// Resolve settles what depends on several options. Call it once, after the
// last layer.
func (s *Set) Resolve() {
	s.resolveBackend()
	if !s.IsSet(RestartType) {
		strategy := RestartNone
		if s.IsSet(CheckpointInterval) {
			strategy = RestartExponential
		}
		s.replace(RestartType, strategy, Origin{Layer: Default})
	}
}

// resolveBackend takes Flink's names of backends for ours.
func (s *Set) resolveBackend() {
	b := s.values[StateBackend]
	name := LSM
	switch b.Text {
	case backendMemory:
		s.warnf("%s: state backend memory means heap with snapshots in memory, which end with the process", b.Origin)
		if name = Heap; !s.IsSet(CheckpointDir) {
			s.replace(CheckpointDir, MemoryDir, b.Origin)
		}
	case backendFilesystem, backendHashMap:
		s.warnf("%s: state backend %s means heap; snapshots go to %s", b.Origin, b.Text, CheckpointDir)
		name = Heap
	case backendRocksDB:
		s.warnf("%s: state backend rocksdb means lsm, which keeps on local disk what does not fit into memory", b.Origin)
	default:
		return
	}
	s.replace(StateBackend, name, b.Origin)
}

// SetDefault gives an option that is not set a default worked out at the
// start.
func (s *Set) SetDefault(key, text string) error {
	if s.IsSet(key) {
		return nil
	}
	return s.put(s.current[key], Entry{Key: key, Text: text}, Origin{Layer: Default})
}

func (s *Set) replace(key, text string, origin Origin) {
	s.values[key] = Value{Option: s.current[key], Text: text, Origin: origin, parsed: text}
}

// IsSet reports whether the option has a value, its default included.
func (s *Set) IsSet(key string) bool { return s.values[key].parsed != nil }

// Value returns the effective value of a key of the table.
func (s *Set) Value(key string) Value { return s.values[key] }

// Values returns all effective values in the order of the table.
func (s *Set) Values() []Value {
	out := make([]Value, 0, len(options))
	for _, o := range options {
		out = append(out, s.values[o.Key])
	}
	return out
}

// Warnings tells what was accepted but should be changed.
func (s *Set) Warnings() []string { return s.warnings }

// Get returns the value of a key of the table, the zero T if it is not set.
// T is time.Duration, int, int64 (sizes), float64, bool or string, as the
// option's kind says.
func Get[T any](s *Set, key string) T {
	v, _ := s.values[key].parsed.(T)
	return v
}
