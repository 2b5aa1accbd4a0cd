package datagen

import "github.com/weirstream/weir/connector"

// enumerator cuts the sequence once and gives every subtask its split.
type enumerator struct {
	ctx     connector.EnumeratorContext[Split]
	n       int64
	options options
	made    bool
	state   Enumeration
}

func newEnumerator(ctx connector.EnumeratorContext[Split], n int64, o options, restored *Enumeration) *enumerator {
	e := &enumerator{ctx: ctx, n: n, options: o}
	if restored != nil {
		e.made, e.state = true, *restored
	}
	return e
}

func (e *enumerator) Start() error {
	if !e.made {
		e.state.Pending = cut(e.n, e.ctx.Parallelism(), e.options.interleave, e.options.single)
		e.state.Splits = int64(len(e.state.Pending))
		e.made = true
	}
	return nil
}

// AddReader gives a reader all it will ever get.
func (e *enumerator) AddReader(subtask int) error {
	var own, others []Split
	for _, s := range e.state.Pending {
		if int(s.Number%int64(e.ctx.Parallelism())) == subtask {
			own = append(own, s)
		} else {
			others = append(others, s)
		}
	}
	e.state.Pending = others
	if len(own) > 0 {
		if err := e.ctx.Assign(subtask, own...); err != nil {
			return err
		}
	}
	if e.n < 0 {
		return nil // a reader without a split stays, so that checkpoints go on
	}
	return e.ctx.NoMoreSplits(subtask)
}

// AddSplitsBack keeps the splits for the reader's next registration.
func (e *enumerator) AddSplitsBack(splits []Split, _ int) error {
	e.state.Pending = append(e.state.Pending, splits...)
	return nil
}

func (e *enumerator) Snapshot(int64) (Enumeration, error) {
	return Enumeration{Splits: e.state.Splits, Pending: append([]Split(nil), e.state.Pending...)}, nil
}

func (e *enumerator) HandleSplitRequest(int, string) error { return nil }
func (e *enumerator) HandleSourceEvent(int, any) error     { return nil }
func (e *enumerator) CheckpointComplete(int64) error       { return nil }
func (e *enumerator) Close() error                         { return nil }
