package config

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

var errValue = errors.New("value not allowed")

func duration(least time.Duration) Kind {
	return Kind{
		Name:    "duration",
		Allowed: fmt.Sprintf("a duration such as 500 ms, 10 s, 1 min or 1 h (a plain number is milliseconds), at least %s", formatDuration(least)),
		parse: func(text string) (any, error) {
			d, err := ParseDuration(text)
			if err == nil && d < least {
				err = errValue
			}
			return d, err
		},
	}
}

func integer(least, most int) Kind {
	allowed := fmt.Sprintf("a whole number from %d to %d", least, most)
	if most == math.MaxInt32 {
		allowed = fmt.Sprintf("a whole number, at least %d", least)
	}
	return Kind{Name: "integer", Allowed: allowed, parse: func(text string) (any, error) {
		n, err := strconv.Atoi(text)
		if err == nil && (n < least || n > most) {
			err = errValue
		}
		return n, err
	}}
}

// attempts is a count where "infinite" is -1.
func attempts() Kind {
	k := integer(1, math.MaxInt32)
	return Kind{Name: k.Name, Allowed: k.Allowed + ", or infinite", parse: func(text string) (any, error) {
		if strings.EqualFold(text, "infinite") {
			return -1, nil
		}
		return k.parse(text)
	}}
}

func decimal(least, most float64) Kind {
	allowed := fmt.Sprintf("a number from %g to %g", least, most)
	if math.IsInf(most, 1) {
		allowed = fmt.Sprintf("a number, at least %g", least)
	}
	return Kind{Name: "number", Allowed: allowed, parse: func(text string) (any, error) {
		f, err := strconv.ParseFloat(text, 64)
		if err == nil && !(f >= least && f <= most && !math.IsInf(f, 0)) {
			err = errValue
		}
		return f, err
	}}
}

func boolean() Kind {
	return Kind{Name: "boolean", Allowed: "true or false", parse: func(text string) (any, error) {
		switch strings.ToLower(text) {
		case "true":
			return true, nil
		case "false":
			return false, nil
		}
		return nil, errValue
	}}
}

func text() Kind {
	return Kind{Name: "string", Allowed: "text that is not empty", parse: func(text string) (any, error) {
		if text == "" {
			return nil, errValue
		}
		return text, nil
	}}
}

func size() Kind {
	return Kind{Name: "size", Allowed: "a size such as 512 mb or 4 gb (a plain number is bytes)", parse: func(text string) (any, error) {
		return ParseSize(text)
	}}
}

// choice takes one of values; case and the choice of '-' or '_' do not
// matter. "alias=value" is another spelling of value.
func choice(values ...string) Kind {
	fold := func(s string) string { return strings.ReplaceAll(strings.ToLower(s), "_", "-") }
	byName := map[string]string{}
	var shown []string
	for _, v := range values {
		name, value, alias := strings.Cut(v, "=")
		if !alias {
			value = name
			shown = append(shown, name)
		}
		byName[fold(name)] = value
	}
	return Kind{Name: "choice", Allowed: "one of " + strings.Join(shown, ", "), parse: func(text string) (any, error) {
		if v, ok := byName[fold(text)]; ok {
			return v, nil
		}
		return nil, errValue
	}}
}

// unit is a unit of durations or sizes with all its spellings.
type unit struct {
	factor int64
	names  []string
}

var (
	durationUnits = []unit{
		{int64(time.Millisecond), []string{"", "ms", "milli", "millis", "millisecond", "milliseconds"}},
		{int64(time.Second), []string{"s", "sec", "secs", "second", "seconds"}},
		{int64(time.Minute), []string{"m", "min", "minute", "minutes"}},
		{int64(time.Hour), []string{"h", "hour", "hours"}},
		{24 * int64(time.Hour), []string{"d", "day", "days"}},
		{int64(time.Microsecond), []string{"us", "µs", "micro", "micros", "microsecond", "microseconds"}},
		{1, []string{"ns", "nano", "nanos", "nanosecond", "nanoseconds"}},
	}
	sizeUnits = []unit{
		{1, []string{"", "b", "bytes"}},
		{1 << 10, []string{"k", "kb", "kib", "kibibytes"}},
		{1 << 20, []string{"m", "mb", "mib", "mebibytes"}},
		{1 << 30, []string{"g", "gb", "gib", "gibibytes"}},
		{1 << 40, []string{"t", "tb", "tib", "tebibytes"}},
	}
)

// ParseDuration reads a duration in Flink's form, a whole number and a unit
// with or without a space between ("10 s", "500ms", "1 min", "2 d"; no unit
// means milliseconds), or in Go's ("1m30s"). It is never negative.
func ParseDuration(text string) (time.Duration, error) {
	if n, err := parseQuantity(text, durationUnits); err == nil {
		return time.Duration(n), nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return 0, fmt.Errorf("%q is no duration: write a number and a unit, such as 10 s", text)
	}
	return d, nil
}

// ParseSize reads a number of bytes in Flink's form: a whole number and a
// unit, powers of 1024 ("64 mb", "4g"; no unit means bytes).
func ParseSize(text string) (int64, error) {
	n, err := parseQuantity(text, sizeUnits)
	if err != nil {
		return 0, fmt.Errorf("%q is no size: write a number and a unit, such as 64 mb", text)
	}
	return n, nil
}

func parseQuantity(text string, units []unit) (int64, error) {
	text = strings.TrimSpace(text)
	digits := strings.TrimLeft(text, "0123456789")
	name := strings.ToLower(strings.TrimSpace(digits))
	n, err := strconv.ParseInt(text[:len(text)-len(digits)], 10, 64)
	if err != nil {
		return 0, err
	}
	for _, u := range units {
		if slices.Contains(u.names, name) {
			if n > math.MaxInt64/u.factor {
				return 0, errValue
			}
			return n * u.factor, nil
		}
	}
	return 0, errValue
}

// format is the canonical text of a value, which its kind parses again.
func format(v any) string {
	switch v := v.(type) {
	case time.Duration:
		return formatDuration(v)
	case int64:
		return formatSize(v)
	case int:
		if v == -1 {
			return "infinite"
		}
		return strconv.Itoa(v)
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64)
	case nil:
		return ""
	}
	return fmt.Sprint(v)
}

func formatDuration(d time.Duration) string {
	units := []struct {
		size time.Duration
		name string
	}{{time.Hour, "h"}, {time.Minute, "min"}, {time.Second, "s"}, {time.Millisecond, "ms"}}
	for _, u := range units {
		if d >= u.size && d%u.size == 0 {
			return fmt.Sprintf("%d %s", d/u.size, u.name)
		}
	}
	if d == 0 {
		return "0 ms"
	}
	return d.String()
}

func formatSize(n int64) string {
	for i := len(sizeUnits) - 1; i > 0; i-- {
		if u := sizeUnits[i]; n >= u.factor && n%u.factor == 0 {
			return fmt.Sprintf("%d %s", n/u.factor, u.names[1])
		}
	}
	return strconv.FormatInt(n, 10)
}
