// Package config is the table of a job's options under Flink's key names, and
// their effective values: defaults < file < environment < code < flags, each
// with the place it came from.
package config

import (
	"fmt"
	"strings"
)

// Option describes one key.
type Option struct {
	Key string
	// Kind says what values are allowed.
	Kind Kind
	// Default is the value where none is set; "" means not set.
	Default string
	// DefaultText describes a default that is worked out at the start, or the
	// meaning of having none.
	DefaultText string
	Help        string
	// Flag is the long name of its flag, Short the one-letter one, Arg the
	// placeholder in help. Options without a flag are set by -D KEY=VALUE.
	Flag, Short, Arg string
	// Old names are accepted with a warning.
	Old []string
	// Note, if not "", is warned about whenever the option is set.
	Note string
}

// Env is the name of the environment variable of a key.
func Env(key string) string {
	return "WEIR_" + strings.ToUpper(strings.NewReplacer(".", "_", "-", "_").Replace(key))
}

// Kind is a type of values.
type Kind struct {
	// Name is shown in documentation: "duration".
	Name string
	// Allowed completes "allowed is …".
	Allowed string
	// parse returns a time.Duration, int, int64, float64, bool or string.
	parse func(text string) (any, error)
}

// BadValue is a value that an option does not take.
type BadValue struct {
	Key, Value, Allowed string
	// Origin is where the value was set.
	Origin Origin
}

func (e *BadValue) Error() string {
	return fmt.Sprintf("%s: %s = %q: allowed is %s", e.Origin, e.Key, e.Value, e.Allowed)
}

// Origin is the place where a value was set.
type Origin struct {
	Layer Layer
	// Where is the file and line, the variable, or the flag.
	Where string
}

// Layer is one of the places that values come from.
type Layer string

// The layers, a later one wins.
const (
	Default     Layer = "default"
	File        Layer = "file"
	Environment Layer = "environment"
	Code        Layer = "code"
	Flag        Layer = "flag"
)

// String is "flag --parallelism", "file weir.yaml:3", "code", "default".
func (o Origin) String() string {
	if o.Where == "" {
		return string(o.Layer)
	}
	return string(o.Layer) + " " + o.Where
}
