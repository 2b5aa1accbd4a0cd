package stream

import (
	"fmt"

	"github.com/weirstream/weir/internal/stage"
)

// base is an operator that does nothing: bodies embed it and override what
// they need.
type base struct {
	ctx *stage.Context
	// runs tells what code of the user runs: after a panic it is the one to
	// name.
	runs code
}

// code is code of the user.
type code uint8

const (
	noCode code = iota
	anyCode
	keyCode // for the current key
)

// Running and Key implement stage.Witness.
func (b *base) Running() (running, key bool) { return b.runs != noCode, b.runs == keyCode }
func (b *base) Key() string                  { return "" }

func (b *base) Input() any                                  { return nil }
func (b *base) Connect(string, any) error                   { return nil }
func (b *base) Open(c *stage.Context) error                 { b.ctx = c; return nil }
func (b *base) Advance(int64, int) (bool, error)            { return false, nil }
func (b *base) ProcessingTime(int64, int) (bool, error)     { return false, nil }
func (b *base) NextProcessingTime() (int64, bool)           { return 0, false }
func (b *base) Flush() error                                { return nil }
func (b *base) PrepareSnapshot(*stage.Barrier) error        { return nil }
func (b *base) Snapshot(*stage.Barrier) (stage.Part, error) { return stage.Part{}, nil }
func (b *base) CheckpointComplete(int64) error              { return nil }
func (b *base) CheckpointAborted(int64) error               { return nil }
func (b *base) Committed(int64) error                       { return nil }
func (b *base) EndInput() error                             { return nil }
func (b *base) Close() error                                { return nil }

// run runs a hook.
func (b *base) run(f func() error) error {
	b.runs = anyCode
	err := f()
	b.runs = noCode
	if err != nil {
		return b.fail(err)
	}
	return nil
}

// count notes that n records came in.
func (b *base) count(n int) { b.ctx.Metrics.RecordsIn.Add(int64(n)) }

// fail wraps the error of user code with the operator's id.
func (b *base) fail(err error) error {
	return fmt.Errorf("operator %q, subtask %d: %w", b.ctx.Operator, b.ctx.Subtask, err)
}

// outputs are the outputs of an operator: the main one and the side outputs
// that somebody consumes.
type outputs[T any] struct {
	main  *stage.Emitter[T]
	sides map[string]side
}

func newOutputs[T any](declared sides) outputs[T] {
	o := outputs[T]{main: stage.NewEmitter[T](), sides: make(map[string]side, len(declared))}
	for tag, make := range declared {
		o.sides[tag] = make()
	}
	return o
}

func (o *outputs[T]) Connect(tag string, receiver any) error {
	if tag == "" {
		return o.main.Connect(receiver)
	}
	s, ok := o.sides[tag]
	if !ok {
		return fmt.Errorf("no side output %q", tag)
	}
	return s.Connect(receiver)
}

func (o *outputs[T]) flush() error {
	if err := o.main.Flush(); err != nil {
		return err
	}
	for _, s := range o.sides {
		if err := s.Flush(); err != nil {
			return err
		}
	}
	return nil
}
