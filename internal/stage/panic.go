package stage

import (
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/weirstream/weir/internal/backend/heap"
	"github.com/weirstream/weir/internal/memory"
)

// recovered makes a panic the error of the function that defers it.
func (t *Task) recovered(err *error) {
	if p := recover(); p != nil {
		*err = t.panicked(p)
	}
}

// panicked makes an error of a panic. State memory that is used up, or a disk
// that fails, ends in one, for the record in hand cannot be completed; its stack tells nothing.
func (t *Task) panicked(p any) error {
	where := fmt.Sprintf("stage %s, subtask %d", t.ID.Stage, t.ID.Subtask)
	if err, ok := p.(error); ok && (errors.Is(err, memory.ErrBudget) || errors.Is(err, heap.ErrTier)) {
		return fmt.Errorf("%s: %w", where, err)
	}
	return fmt.Errorf("%s%s: panic: %v\n%s", where, t.culprit(), p, debug.Stack())
}

// culprit names the operator whose code ran, and its key. Of those that are
// under way the last is the one that the others have called.
func (t *Task) culprit() string {
	for i := len(t.Operators) - 1; i >= 0; i-- {
		w, ok := t.Operators[i].(Witness)
		if !ok {
			continue
		}
		if running, forKey := w.Running(); running {
			return ", " + describe(t.Contexts[i].Operator, w, forKey)
		}
	}
	return ""
}

func describe(operator string, w Witness, forKey bool) string {
	text := fmt.Sprintf("operator %q", operator)
	if key := w.Key(); forKey && key != "" {
		text += ", key " + key
	}
	return text
}

func closeOperator(op Operator) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("close: panic: %v\n%s", p, debug.Stack())
		}
	}()
	return op.Close()
}
