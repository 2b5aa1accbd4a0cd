package fixed

import (
	"fmt"
	"reflect"
	"strings"
)

// add appends the parts of a t at offset off and returns its name.
func (l *Layout) add(t reflect.Type, off uintptr) (string, error) {
	switch kind := t.Kind(); kind {
	case reflect.Bool:
		l.bools = append(l.bools, l.size)
		l.put(part{raw, off, 1, 1})
	case reflect.Int, reflect.Uint, reflect.Uintptr:
		p := part{raw, off, t.Size(), t.Size()}
		if t.Size() == 4 {
			p.kind = unsigned
			if kind == reflect.Int {
				p.kind = signed
			}
		}
		l.put(p)
		return strings.TrimSuffix(kind.String(), "ptr") + "64", nil
	case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64, reflect.Float32, reflect.Float64,
		reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		l.put(part{raw, off, t.Size(), t.Size()})
	case reflect.Complex64, reflect.Complex128:
		l.put(part{raw, off, t.Size(), t.Size() / 2})
	case reflect.Array:
		return l.addArray(t, off)
	case reflect.Struct:
		return l.addStruct(t, off)
	default:
		return "", fmt.Errorf("it holds a %v", kind)
	}
	return t.Kind().String(), nil
}

func (l *Layout) addArray(t reflect.Type, off uintptr) (string, error) {
	elem := t.Elem()
	name, err := new(Layout).add(elem, 0)
	if err != nil && t.Len() > 0 {
		return "", err
	}
	if elem.Size() == 1 && elem.Kind() != reflect.Bool && elem.Kind() < reflect.Array {
		l.put(part{raw, off, t.Size(), 1}) // bytes, of which there may be many
	} else {
		for i := range t.Len() {
			if _, err := l.add(elem, off+uintptr(i)*elem.Size()); err != nil {
				return "", err
			}
		}
	}
	return fmt.Sprintf("[%d]%s", t.Len(), name), nil
}

func (l *Layout) addStruct(t reflect.Type, off uintptr) (string, error) {
	var fields []string
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Name == "_" && f.Type.Kind() < reflect.Array { // a number: padding
			continue
		}
		name, err := l.add(f.Type, off+f.Offset)
		if err != nil {
			return "", fmt.Errorf("field %s: %w", f.Name, err)
		}
		fields = append(fields, f.Name+" "+name)
	}
	return "struct{" + strings.Join(fields, "; ") + "}", nil
}

// put appends a part; neighbours that are copied alike become one.
func (l *Layout) put(p part) {
	l.size += p.encoded()
	if p.size == 0 {
		return
	}
	if k := len(l.parts) - 1; k >= 0 && p.kind == raw {
		last := &l.parts[k]
		if last.kind == raw && last.off+last.size == p.off && (littleEndian || last.width == p.width) {
			last.size += p.size
			return
		}
	}
	l.parts = append(l.parts, p)
}
