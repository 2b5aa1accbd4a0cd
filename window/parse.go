package window

import (
	"fmt"
	"strings"
	"time"
)

// Parse is the inverse of Assigner.String.
func Parse(text string) (Assigner, error) {
	name, rest, _ := strings.Cut(text, "(")
	args, ok := strings.CutSuffix(rest, ")")
	parts := strings.Split(args, ",")
	var opts []Option
	if last := parts[len(parts)-1]; strings.HasPrefix(last, "offset=") {
		d, err := time.ParseDuration(strings.TrimPrefix(last, "offset="))
		ok = ok && err == nil
		opts, parts = append(opts, Offset(d)), parts[:len(parts)-1]
	}
	durations := make([]time.Duration, len(parts))
	for i, p := range parts {
		var err error
		durations[i], err = time.ParseDuration(p)
		ok = ok && err == nil
	}
	switch {
	case ok && name == "tumbling" && len(durations) == 1:
		a := Tumbling(durations[0], opts...)
		return a, a.Err()
	case ok && name == "sliding" && len(durations) == 2:
		a := Sliding(durations[0], durations[1], opts...)
		return a, a.Err()
	}
	return Assigner{}, fmt.Errorf("%q is no window assigner", text)
}
