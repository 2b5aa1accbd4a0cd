package stream

import (
	"errors"
	"fmt"
	"reflect"
	"time"
)

// The hooks a function may have besides Process.
//
//	Initialize(*Runtime) error        state is there, restored or empty
//	Open(*Runtime) error              after Initialize
//	OnTimer(*Ctx[K, Out], time.Time) error   a timer is due
//	Snapshot() error                  a snapshot follows: write what is buffered into handles
//	EndInput(*Ctx[K, Out]) error      the input has ended; may emit
//	Close() error                     always, also after a failure
type hooks[K comparable, Out any] struct {
	initialize interface{ Initialize(*Runtime) error }
	open       interface{ Open(*Runtime) error }
	onTimer    interface {
		OnTimer(*Ctx[K, Out], time.Time) error
	}
	snapshot interface{ Snapshot() error }
	endInput interface{ EndInput(*Ctx[K, Out]) error }
	close    interface{ Close() error }
}

// hooksOf finds the hooks of a function. A method that has the name of a
// hook and another signature is an error: it would silently never be called.
func hooksOf[K comparable, Out any](fn any) (hooks[K, Out], error) {
	var h hooks[K, Out]
	var errs []error
	errs = append(errs,
		hook(fn, "Initialize", &h.initialize),
		hook(fn, "Open", &h.open),
		hook(fn, "OnTimer", &h.onTimer),
		hook(fn, "Snapshot", &h.snapshot),
		hook(fn, "EndInput", &h.endInput),
		hook(fn, "Close", &h.close),
	)
	return h, errors.Join(errs...)
}

func hook[I any](fn any, name string, to *I) error {
	if i, ok := fn.(I); ok {
		*to = i
		return nil
	}
	v := reflect.ValueOf(fn)
	if !v.IsValid() {
		return nil
	}
	if !v.MethodByName(name).IsValid() {
		if _, ok := reflect.PointerTo(v.Type()).MethodByName(name); ok {
			return fmt.Errorf("method %s has the name of a hook but is one of *%T, and the constructor returns %T; return a pointer", name, fn, fn)
		}
		return nil
	}
	want, _ := reflect.TypeFor[I]().MethodByName(name)
	return fmt.Errorf("method %s of %T has the name of a hook but is %v; a hook is %v",
		name, fn, v.MethodByName(name).Type(), want.Type)
}
