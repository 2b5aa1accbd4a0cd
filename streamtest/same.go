package streamtest

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"
)

// Records are the same if reflect.DeepEqual says so, but times are compared as
// instants, and NaN is the same as NaN.

// difference tells whether two records differ, and in which part: "" for all of
// it.
func difference[T any](a, b T) (part string, differ bool) {
	c := comparison{visited: map[visit]bool{}}
	return c.differ(reflect.ValueOf(&a).Elem(), reflect.ValueOf(&b).Elem())
}

func same[T any](a, b T) bool {
	_, differ := difference(a, b)
	return !differ
}

// comparison is one under way.
type comparison struct{ visited map[visit]bool }

// visit is a pair that is compared already: records may be cyclic.
type visit struct {
	a, b uintptr
	t    reflect.Type
}

// seen notes a pair and tells whether it need not be compared.
func (c comparison) seen(a, b reflect.Value) bool {
	v := visit{a.Pointer(), b.Pointer(), a.Type()}
	if c.visited[v] {
		return true
	}
	c.visited[v] = true
	return false
}

// differ compares two values that are addressable.
func (c comparison) differ(a, b reflect.Value) (part string, differ bool) {
	if a.Type() != b.Type() {
		return "", true
	}
	if t, ok := instant(a); ok {
		u, _ := instant(b)
		return "", !t.Equal(u)
	}
	switch a.Kind() {
	case reflect.Float32, reflect.Float64:
		return "", !sameFloat(a.Float(), b.Float())
	case reflect.Complex64, reflect.Complex128:
		x, y := a.Complex(), b.Complex()
		return "", !sameFloat(real(x), real(y)) || !sameFloat(imag(x), imag(y))
	case reflect.Struct:
		for i := range a.NumField() {
			if part, differ := c.differ(field(a, i), field(b, i)); differ {
				return "." + a.Type().Field(i).Name + part, true
			}
		}
		return "", false
	case reflect.Array:
		return c.elements(a, b)
	case reflect.Slice, reflect.Map, reflect.Pointer, reflect.Interface, reflect.Func:
		if a.IsNil() || b.IsNil() {
			return "", a.IsNil() != b.IsNil()
		}
		return c.reference(a, b)
	}
	return "", !a.Equal(b)
}

// reference compares what two values refer to.
func (c comparison) reference(a, b reflect.Value) (part string, differ bool) {
	switch a.Kind() {
	case reflect.Func:
		return "", true
	case reflect.Interface:
		return c.differ(addressable(a.Elem()), addressable(b.Elem()))
	case reflect.Slice, reflect.Map:
		if a.Len() != b.Len() {
			return "", true
		}
	}
	if c.seen(a, b) {
		return "", false
	}
	switch a.Kind() {
	case reflect.Slice:
		return c.elements(a, b)
	case reflect.Map:
		return c.entries(a, b)
	}
	return c.differ(a.Elem(), b.Elem())
}

func (c comparison) elements(a, b reflect.Value) (part string, differ bool) {
	for i := range a.Len() {
		if part, differ := c.differ(a.Index(i), b.Index(i)); differ {
			return fmt.Sprintf("[%d]%s", i, part), true
		}
	}
	return "", false
}

// entries compares maps of one length.
func (c comparison) entries(a, b reflect.Value) (part string, differ bool) {
	for _, k := range a.MapKeys() {
		have := b.MapIndex(k)
		if !have.IsValid() {
			have = c.keyed(b, k)
		}
		if !have.IsValid() {
			return fmt.Sprintf("[%v]", k), true
		}
		mine := a.MapIndex(k)
		if !mine.IsValid() { // NaN
			mine = c.keyed(a, k)
		}
		if part, differ := c.differ(addressable(mine), addressable(have)); differ {
			return fmt.Sprintf("[%v]%s", k, part), true
		}
	}
	return "", false
}

// keyed finds the value of a key that is the same and not equal, as a time in
// another zone, or NaN.
func (c comparison) keyed(m, key reflect.Value) reflect.Value {
	for at := m.MapRange(); at.Next(); {
		if _, differ := c.differ(addressable(key), addressable(at.Key())); !differ {
			return at.Value()
		}
	}
	return reflect.Value{}
}

func sameFloat(x, y float64) bool { return x == y || x != x && y != y }

var timeType = reflect.TypeFor[time.Time]()

// instant returns the time that v is, if it is one.
func instant(v reflect.Value) (time.Time, bool) {
	if v.Kind() != reflect.Struct || !v.CanConvert(timeType) {
		return time.Time{}, false
	}
	return v.Convert(timeType).Interface().(time.Time), true
}

// addressable copies a value to where it has an address.
func addressable(v reflect.Value) reflect.Value {
	p := reflect.New(v.Type()).Elem()
	p.Set(v)
	return p
}

// field returns a field of an addressable struct, an unexported one as if it
// were exported: its times are to be compared, too.
func field(v reflect.Value, i int) reflect.Value {
	f := v.Field(i)
	if f.CanInterface() {
		return f
	}
	return reflect.NewAt(f.Type(), f.Addr().UnsafePointer()).Elem()
}

// compare tells which records are in one and not in the other, each as often as
// it is missing.
func compare[T any](want, got []T) (lost, extra []T) {
	d := newDigester()
	left := map[uint64][]int{}
	for i := range want {
		n := d.digest(reflect.ValueOf(&want[i]).Elem())
		left[n] = append(left[n], i)
	}
	for i := range got {
		n := d.digest(reflect.ValueOf(&got[i]).Elem())
		alike := left[n]
		k := slices.IndexFunc(alike, func(j int) bool { return same(want[j], got[i]) })
		if k < 0 {
			extra = append(extra, got[i])
			continue
		}
		last := len(alike) - 1
		alike[k], left[n] = alike[last], alike[:last]
	}
	var missing []int
	for _, alike := range left {
		missing = append(missing, alike...)
	}
	slices.Sort(missing)
	for _, i := range missing {
		lost = append(lost, want[i])
	}
	return lost, extra
}

const (
	plain    = "%+v"
	goSyntax = "%#v"
)

// verb is how to print records so that those of a and b can be told apart.
func verb[T any](a, b []T) string {
	texts := map[string]bool{}
	for _, v := range a {
		texts[fmt.Sprintf(plain, v)] = true
	}
	if slices.ContainsFunc(b, func(v T) bool { return texts[fmt.Sprintf(plain, v)] }) {
		return goSyntax
	}
	return plain
}

// list prints records one by line, unless they are few and short.
func list[T any](verb string, vals []T) string {
	const long = 80
	texts := make([]string, len(vals))
	n := 0
	for i, v := range vals {
		texts[i] = fmt.Sprintf(verb, v)
		n += len(texts[i])
	}
	switch {
	case len(vals) == 0:
		return "nothing"
	case n <= long:
		return "[" + strings.Join(texts, ", ") + "]"
	}
	return "\n\t" + strings.Join(texts, "\n\t")
}
