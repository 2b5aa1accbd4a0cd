package state

import (
	"errors"
	"fmt"
	"strings"

	"github.com/weirstream/weir/codec"
	"github.com/weirstream/weir/internal/entry"
	"github.com/weirstream/weir/internal/snapshot"
)

// ErrIncompatible is wrapped by the errors that refuse a snapshot because the
// operator's states are of another form now.
var ErrIncompatible = errors.New("incompatible state")

// CheckFields tells whether stored states of an operator can be restored into
// the fields: each must be there, of the same kind, and in a form that can be
// converted. All differences are reported. It is for the engine; Registry.Check
// is for one registry.
func CheckFields(operator string, fields []*entry.Field, stored []snapshot.State) error {
	return checkStates(operator, declarations(fields), func(string) (string, bool) { return "", false }, stored)
}

// Notes say in words what becomes of the fields of stored structs at a restore
// that CheckFields accepts: which are dropped, and which are new. It is for the
// engine.
func Notes(operator string, fields []*entry.Field, stored []snapshot.State) (notes []string) {
	declared := declarations(fields)
	for _, s := range stored {
		if d, ok := declared[s.Name]; ok {
			if c, err := d.conversion(s); err == nil {
				notes = append(notes, notesOf(operator, s.Name, c.Notes)...)
			}
		}
	}
	return notes
}

func notesOf(operator, state string, notes []string) (full []string) {
	for _, n := range notes {
		full = append(full, fmt.Sprintf("operator %q: state %q: %s", operator, state, n))
	}
	return full
}

// declaration is a declared keyed state; field is nil for what has no form of
// its own: raw state, and timers in a registry.
type declaration struct {
	state snapshot.State
	field *entry.Field
}

func declarations(fields []*entry.Field) map[string]declaration {
	declared := make(map[string]declaration, len(fields))
	for _, f := range fields {
		declared[f.Name] = declaration{stateOf(f), f}
	}
	return declared
}

// conversion returns how the stored state becomes the declared one.
func (d declaration) conversion(stored snapshot.State) (entry.Conversion, error) {
	if d.field != nil {
		return d.field.Conversion(stored)
	}
	if d.state.Kind != stored.Kind {
		return entry.Conversion{}, entry.ErrKind
	}
	return entry.Conversion{}, nil
}

// checkStates compares stored keyed states with the declared ones. other says
// what else a name is declared as.
func checkStates(operator string, declared map[string]declaration, other func(name string) (form string, ok bool), stored []snapshot.State) error {
	var errs []error
	for _, s := range stored {
		want, ok := declared[s.Name]
		form, cause := describe(want.state), entry.ErrKind
		if ok {
			if _, cause = want.conversion(s); cause == nil {
				continue
			}
		} else if form, ok = other(s.Name); !ok {
			errs = append(errs, noLonger(operator, s.Name, describe(s)))
			continue
		}
		errs = append(errs, changed(operator, s.Name, describe(s), form, cause))
	}
	return errors.Join(errs...)
}

func noLonger(operator, name, stored string) error {
	return fmt.Errorf("operator %q: %w: state %q is stored as %s and no longer declared; declare it again, or drop it with --allow-non-restored-state",
		operator, ErrIncompatible, name, stored)
}

// changed refuses a state that is declared in another form, and says what to do.
func changed(operator, name, stored, declared string, cause error) error {
	what := "convert it with state.Migrate, declare the new form beside it under another name, or restore with the old one"
	if errors.Is(cause, entry.ErrKind) || errors.Is(cause, errMapKey) {
		what = "declare the new form beside it under another name, or restore with the old one"
	}
	return fmt.Errorf("operator %q: %w: state %q is stored as %s and declared as %s: %w; %s",
		operator, ErrIncompatible, name, stored, declared, cause, what)
}

// stateOf returns how a field is named in snapshots.
func stateOf(f *entry.Field) snapshot.State {
	return snapshot.State{Name: f.Name, Kind: string(f.Kind), Format: f.Format, Key: f.Key, Detail: f.Detail, TTL: f.TTL, ItemSize: f.ItemSize}
}

func isTimers(kind string) bool { return kind == eventTimers || kind == processingTimers }

// describe says in words what a state is.
func describe(s snapshot.State) string {
	switch {
	case isTimers(s.Kind):
		return s.Kind
	case s.Kind == snapshot.RawKind:
		return "raw state of key groups"
	}
	text := s.Kind
	if s.Detail != "" {
		text += " " + s.Detail
	}
	if s.Key.ID != "" {
		return text + " of " + describeFormat(s.Key) + " to " + describeFormat(s.Format)
	}
	return text + " of " + describeFormat(s.Format)
}

// describeFormat names the types of the values of a format, and Avro, which the
// same types may be stored without.
func describeFormat(f codec.Format) string {
	if f.ID == "slices" { // the schema is that of the accumulators
		return f.Schema
	}
	text := f.Describe()
	if f.ID == "avro" && !strings.HasPrefix(text, "avro") {
		return "avro " + text
	}
	return text
}
