package file

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestErrorsSayWhatToDo(t *testing.T) {
	dir := t.TempDir()
	for cause, want := range map[error]string{
		syscall.ENOSPC: "make room",
		syscall.EDQUOT: "quota",
		syscall.EROFS:  "mounted read-only",
		syscall.EACCES: "may not write to " + dir + ":",
		fs.ErrExist:    "",
		syscall.EIO:    "",
	} {
		err := advised(filepath.Join(dir, "not", "there"), fmt.Errorf("write: %w", cause))
		if !errors.Is(err, cause) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v; want it to tell of %q", cause, err, want)
		}
	}
	in := filepath.Join(dir, "file")
	if err := os.WriteFile(in, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	b := New(in)
	for what, err := range map[string]error{
		"put": b.PutIfAbsent(t.Context(), "a/b", nil),
		"lock": func() error {
			_, err := b.LockDir("a")
			return err
		}(),
	} {
		if err == nil || !strings.Contains(err.Error(), "a file where a directory is needed") {
			t.Errorf("%s below a file: %v", what, err)
		}
	}
}
