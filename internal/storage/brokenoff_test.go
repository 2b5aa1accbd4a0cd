package storage_test

import (
	"errors"
	"fmt"
	"io"
	"net/url"
	"testing"

	"github.com/weirstream/weir/internal/storage"
)

func TestBrokenOff(t *testing.T) {
	for _, end := range []error{io.EOF, io.ErrUnexpectedEOF} {
		err := storage.BrokenOff(fmt.Errorf("%w: %w", storage.ErrFatal, &url.Error{Op: "Get", URL: "http://host", Err: end}))
		var request *url.Error
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || !errors.Is(err, storage.ErrFatal) || !errors.As(err, &request) {
			t.Errorf("%v is an end, or not what it was", err)
		}
	}
	if err := storage.BrokenOff(storage.ErrPastEnd); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("%v: reading past the end is no longer told", err)
	}
	if err := storage.BrokenOff(nil); err != nil {
		t.Error(err)
	}
}
