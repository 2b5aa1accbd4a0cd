package embedded

import (
	"errors"
	"fmt"
	"testing"

	"github.com/weirstream/weir/internal/backend/heap"
	"github.com/weirstream/weir/internal/stage"
)

// unsettled is frozen state that settles as its function does.
type unsettled struct {
	stage.KeyedPart
	settle func() error
}

func (u unsettled) Settle(bool) error { return u.settle() }

// What cannot be encoded fails the attempt, by an error or a panic: no later
// snapshot would fare better. A disk that fails may be tolerated.
func TestErrorsOfSettling(t *testing.T) {
	bad := errors.New("no encoding")
	for name, c := range map[string]struct {
		settle func() error
		failed bool
		fails  bool // the attempt
	}{
		"well":    {func() error { return nil }, false, false},
		"a codec": {func() error { return bad }, true, true},
		"a panic": {func() error { panic(bad) }, true, true},
		"a disk":  {func() error { return fmt.Errorf("%w: full", heap.ErrTier) }, true, false},
	} {
		err := settle([]stage.Part{{}, {Keyed: unsettled{settle: c.settle}}}, false)
		var encoding encodeError
		if (err != nil) != c.failed || errors.As(err, &encoding) != c.fails {
			t.Errorf("%s: %v", name, err)
		}
	}
}
