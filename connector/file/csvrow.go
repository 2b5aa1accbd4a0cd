package file

import (
	"encoding"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// column is a field of a struct that takes the values of a column.
type column struct {
	name     string
	index    []int
	optional bool
}

// columnsOf finds the columns of a struct.
func columnsOf[T any]() ([]column, error) {
	t := reflect.TypeFor[T]()
	if t.Kind() != reflect.Struct || t == reflect.TypeFor[time.Time]() {
		return nil, fmt.Errorf("file source: records of CSV are structs, and %s is none", t)
	}
	var columns []column
	for _, f := range reflect.VisibleFields(t) {
		tag, tagged := f.Tag.Lookup("csv")
		name, option, _ := strings.Cut(tag, ",")
		if f.Anonymous && !tagged && f.Type.Kind() == reflect.Struct || !f.IsExported() || tag == "-" {
			continue
		}
		if option != "" && option != "optional" {
			return nil, fmt.Errorf("file source: field %s.%s has csv:%q; the only option is \"optional\"", t, f.Name, tag)
		}
		if name == "" {
			name = f.Name
		}
		if throughPointer(t, f.Index) {
			return nil, fmt.Errorf("file source: field %s.%s lies behind an embedded pointer, which CSV cannot fill", t, f.Name)
		}
		if _, err := setterOf(reflect.New(f.Type).Elem()); err != nil {
			return nil, fmt.Errorf("file source: field %s.%s: %w", t, f.Name, err)
		}
		columns = append(columns, column{name, f.Index, option == "optional"})
	}
	if len(columns) == 0 {
		return nil, fmt.Errorf("file source: %s has no exported field for CSV to fill", t)
	}
	return columns, nil
}

func throughPointer(t reflect.Type, index []int) bool {
	for _, i := range index[:len(index)-1] {
		f := t.Field(i)
		if f.Type.Kind() == reflect.Pointer {
			return true
		}
		t = f.Type
	}
	return false
}

// row is a struct that is filled again and again. Its setters point into it,
// so that no record needs reflection.
type row[T any] struct {
	value   T
	columns int // that a record must have
	cells   []cell
}

type cell struct {
	column int
	name   string
	set    func(string) error
}

// bind finds the columns of a header.
func bind[T any](columns []column, header []string, headerless bool) (*row[T], error) {
	r := &row[T]{columns: len(header)}
	where := map[string]int{}
	for i, name := range header {
		if _, twice := where[name]; twice {
			return nil, fmt.Errorf("the header has two columns %q", name)
		}
		where[name] = i
	}
	v := reflect.ValueOf(&r.value).Elem()
	for i, c := range columns {
		at, ok := where[c.name]
		switch {
		case headerless:
			at = i
		case !ok && !c.optional && len(header) > 0:
			return nil, fmt.Errorf("the header has no column %q, only %q; csv:\"%s,optional\" does without", c.name, header, c.name)
		case !ok:
			continue
		}
		set, err := setterOf(v.FieldByIndex(c.index))
		if err != nil {
			return nil, err
		}
		r.cells = append(r.cells, cell{at, c.name, set})
	}
	if headerless {
		r.columns = len(columns)
	}
	return r, nil
}

// valueError is a record that does not fit the struct.
type valueError struct{ err error }

func (e *valueError) Error() string { return e.err.Error() }
func (e *valueError) Unwrap() error { return e.err }

// set fills the struct.
func (r *row[T]) set(fields []string) error {
	if len(fields) != r.columns {
		return &valueError{fmt.Errorf("%d fields instead of %d", len(fields), r.columns)}
	}
	var zero T
	r.value = zero
	for _, c := range r.cells {
		if err := c.set(fields[c.column]); err != nil {
			return &valueError{fmt.Errorf("column %s: %w", c.name, err)}
		}
	}
	return nil
}

// setterOf makes the function that fills a field.
func setterOf(v reflect.Value) (func(string) error, error) {
	p := v.Addr()
	if t, ok := p.Interface().(encoding.TextUnmarshaler); ok { // time.Time, too
		return func(s string) error { return t.UnmarshalText([]byte(s)) }, nil
	}
	switch v.Kind() {
	case reflect.String:
		return assign(p, func(s string) (string, error) { return s, nil }), nil
	case reflect.Bool:
		return assign(p, strconv.ParseBool), nil
	case reflect.Int:
		return assign(p, integer[int](strconv.IntSize)), nil
	case reflect.Int8:
		return assign(p, integer[int8](8)), nil
	case reflect.Int16:
		return assign(p, integer[int16](16)), nil
	case reflect.Int32:
		return assign(p, integer[int32](32)), nil
	case reflect.Int64:
		return assign(p, integer[int64](64)), nil
	case reflect.Uint:
		return assign(p, natural[uint](strconv.IntSize)), nil
	case reflect.Uint8:
		return assign(p, natural[uint8](8)), nil
	case reflect.Uint16:
		return assign(p, natural[uint16](16)), nil
	case reflect.Uint32:
		return assign(p, natural[uint32](32)), nil
	case reflect.Uint64:
		return assign(p, natural[uint64](64)), nil
	case reflect.Float32:
		return assign(p, func(s string) (float32, error) {
			f, err := strconv.ParseFloat(s, 32)
			return float32(f), err
		}), nil
	case reflect.Float64:
		return assign(p, func(s string) (float64, error) { return strconv.ParseFloat(s, 64) }), nil
	case reflect.Pointer:
		return pointed(v)
	}
	return nil, fmt.Errorf("CSV cannot fill a %s; give the type an UnmarshalText method", v.Type())
}

// assign parses into a field of the kind of V.
func assign[V any](field reflect.Value, parse func(string) (V, error)) func(string) error {
	p := field.Convert(reflect.TypeFor[*V]()).Interface().(*V)
	return func(s string) (err error) {
		*p, err = parse(s)
		return err
	}
}

func integer[V ~int | ~int8 | ~int16 | ~int32 | ~int64](bits int) func(string) (V, error) {
	return func(s string) (V, error) {
		n, err := strconv.ParseInt(s, 10, bits)
		return V(n), err
	}
}

func natural[V ~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64](bits int) func(string) (V, error) {
	return func(s string) (V, error) {
		n, err := strconv.ParseUint(s, 10, bits)
		return V(n), err
	}
}

// pointed makes a new value for each record, none for an empty field.
func pointed(v reflect.Value) (func(string) error, error) {
	if _, err := setterOf(reflect.New(v.Type().Elem()).Elem()); err != nil {
		return nil, err
	}
	return func(s string) error {
		if s == "" {
			v.SetZero()
			return nil
		}
		to := reflect.New(v.Type().Elem())
		set, err := setterOf(to.Elem())
		if err != nil {
			return err
		}
		v.Set(to)
		return set(s)
	}, nil
}
