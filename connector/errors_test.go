package connector

import (
	"errors"
	"fmt"
	"testing"
)

func TestFatalMarksAndKeepsTheError(t *testing.T) {
	cause := errors.New("no such topic")
	err := fmt.Errorf("source: %w", Fatal(cause))
	if !errors.Is(err, ErrFatal) || !errors.Is(err, cause) || err.Error() != "source: no such topic" {
		t.Errorf("got %v", err)
	}
	if errors.Is(cause, ErrFatal) {
		t.Error("the cause itself is fatal")
	}
}
