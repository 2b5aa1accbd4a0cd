package state

import (
	"errors"
	"fmt"

	"github.com/weirstream/weir/codec"
	"github.com/weirstream/weir/internal/entry"
	"github.com/weirstream/weir/internal/snapshot"
)

// ErrIncompatible is wrapped by the errors that refuse a snapshot because the
// operator's states are of another form now.
var ErrIncompatible = errors.New("incompatible state")

// CheckFields tells whether stored states of an operator can be restored into
// the fields: each must be there in the same form. All differences are
// reported. It is for the engine; Registry.Check is for one registry.
func CheckFields(operator string, fields []*entry.Field, stored []snapshot.State) error {
	declared := make(map[string]snapshot.State, len(fields))
	for _, f := range fields {
		declared[f.Name] = stateOf(f)
	}
	return checkStates(operator, declared, func(string) (string, bool) { return "", false }, stored)
}

// checkStates compares stored keyed states with the declared ones. other says
// what else a name is declared as.
func checkStates(operator string, declared map[string]snapshot.State, other func(name string) (form string, ok bool), stored []snapshot.State) error {
	var errs []error
	for _, s := range stored {
		want, ok := declared[s.Name]
		if ok && equal(s, want) {
			continue
		}
		form := describe(want)
		if !ok {
			form, ok = other(s.Name)
		}
		if !ok {
			errs = append(errs, fmt.Errorf("operator %q: %w: state %q is stored as %s and no longer declared; declare it again, or drop it with --allow-non-restored-state",
				operator, ErrIncompatible, s.Name, describe(s)))
			continue
		}
		errs = append(errs, fmt.Errorf("operator %q: %w: state %q is stored as %s and declared as %s; declare the new form beside it under another name, or restore with the old one",
			operator, ErrIncompatible, s.Name, describe(s), form))
	}
	return errors.Join(errs...)
}

// stateOf returns how a field is named in snapshots.
func stateOf(f *entry.Field) snapshot.State {
	return snapshot.State{Name: f.Name, Kind: string(f.Kind), Format: f.Format, Key: f.Key, Detail: f.Detail, TTL: f.TTL}
}

func equal(a, b snapshot.State) bool {
	if a.Kind != b.Kind {
		return false
	}
	if isTimers(a.Kind) {
		return true // the backend's own form
	}
	return a.Detail == b.Detail && equalFormat(a.Format, b.Format) && equalFormat(a.Key, b.Key)
}

// equalFormat leaves the size out: it follows from the rest and the TTL.
func equalFormat(a, b codec.Format) bool {
	return a.ID == b.ID && a.Version == b.Version && a.Schema == b.Schema
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

func describeFormat(f codec.Format) string {
	text := f.ID
	if f.Schema != "" {
		text = f.Schema
		if f.ID != "struct" && f.ID != "array" {
			text = f.ID + " " + f.Schema
		}
	}
	if f.Version > 1 {
		text += fmt.Sprintf(" (version %d)", f.Version)
	}
	return text
}
