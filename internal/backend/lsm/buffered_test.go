package lsm

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

func TestBufferedFiles(t *testing.T) {
	fs := unsynced{vfs.NewMem()}
	for _, name := range []string{"000007.sst", loadPrefix + "1"} {
		f, err := fs.Create(name, vfs.WriteCategoryUnspecified)
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := f.(*bufferedFile); !ok {
			t.Errorf("%s is a %T", name, f)
		}
		var want []byte
		for i, n := range []int{0, 1, 4096, writeBuffer - 1, writeBuffer, 2*writeBuffer + 3, 5, writeBuffer - 5, 1, 7} {
			p := bytes.Repeat([]byte{byte(i + 1)}, n)
			want = append(want, p...)
			if got, err := f.Write(p); got != n || err != nil {
				t.Fatalf("%d bytes were written of %d, %v", got, n, err)
			}
			clear(p) // it is the caller's again
		}
		if info, err := f.Stat(); err != nil || info.Size() != int64(len(want)) {
			t.Errorf("it has %d bytes, want %d, %v", info.Size(), len(want), err)
		}
		if _, err := f.Write([]byte("end")); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		if got := contents(t, fs, name); !bytes.Equal(got, append(want, "end"...)) {
			t.Errorf("%s: %d bytes are not what was written", name, len(got))
		}
	}
}

func contents(t *testing.T, fs vfs.FS, name string) []byte {
	t.Helper()
	f, err := fs.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// A write that fails is told of: before the file counts as written.
func TestBufferedWritesFail(t *testing.T) {
	full := errors.New("disk full")
	fs := unsynced{errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind == errorfs.OpFileWrite {
			return full
		}
		return nil
	}))}
	for what, end := range map[string]func(vfs.File) error{
		"sync": vfs.File.Sync, "sync data": vfs.File.SyncData, "close": vfs.File.Close,
		"write": func(f vfs.File) error { _, err := f.Write(make([]byte, writeBuffer)); return err },
		"stat":  func(f vfs.File) error { _, err := f.Stat(); return err },
	} {
		f, err := fs.Create("000001.sst", vfs.WriteCategoryUnspecified)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Write([]byte("row")); err != nil {
			t.Fatal(err)
		}
		if err := end(f); !errors.Is(err, full) {
			t.Errorf("%s: %v", what, err)
		}
		if _, err := f.Write([]byte("row")); !errors.Is(err, full) && what != "close" {
			t.Errorf("write after %s: %v", what, err)
		}
	}
}
