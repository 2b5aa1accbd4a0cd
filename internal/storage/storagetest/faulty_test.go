package storagetest_test

import (
	"errors"
	"io"
	"syscall"
	"testing"

	"github.com/weirstream/weir/internal/storage"
	"github.com/weirstream/weir/internal/storage/mem"
	"github.com/weirstream/weir/internal/storage/storagetest"
)

func put(t *testing.T, b storage.Blobs, name, data string) error {
	return b.Put(t.Context(), name, func(w io.Writer) error {
		_, err := io.WriteString(w, data)
		return err
	})
}

func wantContent(t *testing.T, b storage.Blobs, name, want string) {
	t.Helper()
	got, err := b.Get(t.Context(), name)
	if want == "" && errors.Is(err, storage.ErrNotFound) {
		return
	}
	if err != nil || string(got) != want {
		t.Fatalf("%s: %q, %v; want %q", name, got, err, want)
	}
}

func TestFaultyNthCall(t *testing.T) {
	lost := errors.New("connection lost")
	f := storagetest.NewFaulty(mem.New())
	f.Script(
		storagetest.Fault{Op: storagetest.Put, Name: "job/*", Skip: 1, Times: 2, Err: lost},
		storagetest.Fault{Op: storagetest.PutIfAbsent, After: true, Err: lost},
		storagetest.Fault{Op: storagetest.GetRange, Times: -1, Err: lost},
	)
	for i, want := range []error{nil, lost, lost, nil} {
		if err := put(t, f, "job/a", string(rune('0'+i))); !errors.Is(err, want) {
			t.Errorf("put %d: %v, want %v", i, err, want)
		}
		if err := put(t, f, "other", "x"); err != nil {
			t.Errorf("put of another name: %v", err)
		}
	}
	wantContent(t, f, "job/a", "3")
	if err := f.PutIfAbsent(t.Context(), "l", []byte("done")); !errors.Is(err, lost) {
		t.Errorf("put-if-absent: %v", err)
	}
	wantContent(t, f, "l", "done")
	for range 3 {
		if _, err := f.GetRange(t.Context(), "l", 0, 1); !errors.Is(err, lost) {
			t.Errorf("get-range: %v", err)
		}
	}
	if n := f.Calls(storagetest.Put); n != 8 {
		t.Errorf("%d calls of put, want 8", n)
	}
}

func TestFaultyWrites(t *testing.T) {
	lost := errors.New("connection lost")
	f := storagetest.NewFaulty(mem.New())
	f.Script(storagetest.Fault{Op: storagetest.Put, Name: "partial", Partial: 3, Err: lost})
	if err := put(t, f, "partial", "abcdef"); !errors.Is(err, lost) {
		t.Errorf("partial: %v", err)
	}
	wantContent(t, f, "partial", "")
	f.FullAfter(5)
	if err := put(t, f, "a", "123"); err != nil {
		t.Errorf("fits: %v", err)
	}
	if err := put(t, f, "b", "456"); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("full: %v", err)
	}
	if err := f.PutIfAbsent(t.Context(), "c", []byte("7")); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("full: %v", err)
	}
	f.FullAfter(-1)
	if err := put(t, f, "b", "456"); err != nil {
		t.Errorf("room again: %v", err)
	}
	if err := f.Corrupt("b", func(b []byte) []byte { return b[:2] }); err != nil {
		t.Fatal(err)
	}
	wantContent(t, f, "b", "45")
	if err := f.Vanish("b"); err != nil {
		t.Fatal(err)
	}
	wantContent(t, f, "b", "")
}
