// Package storagetest holds the acceptance suite that every storage passes,
// and a storage that fails on demand.
package storagetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"testing"

	"github.com/weirstream/weir/internal/storage"
)

// Run tests a storage against the contract of storage.Blobs. open returns an
// empty one; it is called once per subtest.
func Run(t *testing.T, open func(t *testing.T) storage.Blobs) {
	tests := []struct {
		name string
		run  func(*testing.T, storage.Blobs)
	}{
		{"PutGet", putGet},
		{"PutReplaces", putReplaces},
		{"PutAllOrNothing", putAllOrNothing},
		{"PutIfAbsent", putIfAbsent},
		{"PutIfAbsentOneWinner", putIfAbsentOneWinner},
		{"GetRange", getRange},
		{"NotFound", notFound},
		{"List", list},
		{"ListEndsWithFn", listEndsWithFn},
		{"ListAndDelete", listAndDelete},
		{"Delete", deletes},
		{"DeleteRacesPut", deleteRacesPut},
		{"Names", names},
		{"Cancelled", cancelled},
		{"Copies", copies},
		{"NoPartIsSeen", noPartIsSeen},
		{"OddNames", oddNames},
		{"ListMany", listMany},
		{"Large", large},
		{"LargeFails", largeFails},
		{"LargeCancelled", largeCancelled},
		{"Faults", faults},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) { test.run(t, open(t)) })
	}
}

func write(data string) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := io.WriteString(w, data)
		return err
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantBlob(t *testing.T, b storage.Blobs, name, want string) {
	t.Helper()
	got, err := b.Get(t.Context(), name)
	must(t, err)
	if string(got) != want {
		t.Fatalf("%s holds %q, want %q", name, got, want)
	}
}

func wantErr(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("error %v, want one that wraps %v", err, want)
	}
}

func listed(t *testing.T, b storage.Blobs, prefix string) []string {
	t.Helper()
	var got []string
	must(t, b.List(t.Context(), prefix, func(name string, size int64) error {
		got = append(got, fmt.Sprintf("%s=%d", name, size))
		return nil
	}))
	return got
}

func wantList(t *testing.T, b storage.Blobs, prefix string, want ...string) {
	t.Helper()
	if got := listed(t, b, prefix); !slices.Equal(got, want) {
		t.Fatalf("list of %q: %q, want %q", prefix, got, want)
	}
}

func putGet(t *testing.T, b storage.Blobs) {
	large := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	must(t, b.Put(t.Context(), "job/chk-1/data", func(w io.Writer) error {
		for part := range slices.Chunk(large, 1000) {
			if n, err := w.Write(part); n != len(part) || err != nil {
				return fmt.Errorf("wrote %d of %d: %w", n, len(part), err)
			}
		}
		return nil
	}))
	must(t, b.Put(t.Context(), "job/chk-1/empty", write("")))
	wantBlob(t, b, "job/chk-1/data", string(large))
	wantBlob(t, b, "job/chk-1/empty", "")
	if b.String() == "" {
		t.Error("the storage has no name")
	}
}

func putReplaces(t *testing.T, b storage.Blobs) {
	must(t, b.Put(t.Context(), "a", write("a longer first content")))
	must(t, b.Put(t.Context(), "a", write("second")))
	wantBlob(t, b, "a", "second")
	wantList(t, b, "", "a=6")
}

func putAllOrNothing(t *testing.T, b storage.Blobs) {
	must(t, b.Put(t.Context(), "old", write("old")))
	broken := errors.New("broken")
	for _, name := range []string{"old", "dir/new"} {
		err := b.Put(t.Context(), name, func(w io.Writer) error {
			if _, err := io.WriteString(w, "half of it"); err != nil {
				return err
			}
			if name == "old" {
				wantBlob(t, b, "old", "old") // nothing shows before the end
			} else if _, err := b.Get(t.Context(), name); !errors.Is(err, storage.ErrNotFound) {
				t.Errorf("%s shows while it is written: %v", name, err)
			}
			return broken
		})
		wantErr(t, err, broken)
	}
	wantList(t, b, "", "old=3")
	wantBlob(t, b, "old", "old")
}

func putIfAbsent(t *testing.T, b storage.Blobs) {
	must(t, b.PutIfAbsent(t.Context(), "ledger/1", []byte("first")))
	wantErr(t, b.PutIfAbsent(t.Context(), "ledger/1", []byte("second")), storage.ErrExists)
	wantBlob(t, b, "ledger/1", "first")
	must(t, b.Put(t.Context(), "ledger/2", write("by Put")))
	wantErr(t, b.PutIfAbsent(t.Context(), "ledger/2", nil), storage.ErrExists)
	must(t, b.Delete(t.Context(), "ledger/1"))
	must(t, b.PutIfAbsent(t.Context(), "ledger/1", []byte("third")))
	wantBlob(t, b, "ledger/1", "third")
	wantList(t, b, "", "ledger/1=5", "ledger/2=6")
}

func putIfAbsentOneWinner(t *testing.T, b storage.Blobs) {
	const callers, rounds = 8, 20
	for round := range rounds {
		name := fmt.Sprintf("ledger/%03d", round)
		errs := make([]error, callers)
		var wg sync.WaitGroup
		for i := range callers {
			wg.Go(func() { errs[i] = b.PutIfAbsent(t.Context(), name, []byte{'0' + byte(i)}) })
		}
		wg.Wait()
		winner := -1
		for i, err := range errs {
			if err == nil && winner >= 0 {
				t.Fatalf("%s: both %d and %d succeeded", name, winner, i)
			}
			if err == nil {
				winner = i
			} else {
				wantErr(t, err, storage.ErrExists)
			}
		}
		if winner < 0 {
			t.Fatalf("%s: nobody succeeded", name)
		}
		wantBlob(t, b, name, string(rune('0'+winner)))
	}
}

func getRange(t *testing.T, b storage.Blobs) {
	must(t, b.Put(t.Context(), "a", write("0123456789")))
	for _, r := range []struct {
		off, n int64
		want   string
	}{{0, 10, "0123456789"}, {0, 1, "0"}, {3, 4, "3456"}, {9, 1, "9"}, {10, 0, ""}, {4, 0, ""}} {
		got, err := b.GetRange(t.Context(), "a", r.off, r.n)
		must(t, err)
		if string(got) != r.want {
			t.Errorf("%d bytes at %d: %q, want %q", r.n, r.off, got, r.want)
		}
	}
	const far = int64(1) << 62
	for _, r := range [][2]int64{{0, 11}, {10, 1}, {11, 0}, {5, 6}, {-1, 2}, {2, -1}, {0, far}, {far, far}, {far, 1}} {
		if got, err := b.GetRange(t.Context(), "a", r[0], r[1]); err == nil {
			t.Errorf("%d bytes at %d of 10: %q and no error", r[1], r[0], got)
		} else {
			wantErr(t, err, io.ErrUnexpectedEOF)
		}
	}
}

func notFound(t *testing.T, b storage.Blobs) {
	must(t, b.Put(t.Context(), "dir/blob", write("x")))
	for _, name := range []string{"nothing", "dir", "dir/other", "dir/blob/below", "nodir/blob"} {
		_, err := b.Get(t.Context(), name)
		wantErr(t, err, storage.ErrNotFound)
		_, err = b.GetRange(t.Context(), name, 0, 1)
		wantErr(t, err, storage.ErrNotFound)
	}
}

func list(t *testing.T, b storage.Blobs) {
	wantList(t, b, "")
	wantList(t, b, "job")
	for _, name := range []string{"job/chk-1/b", "job/chk-1/a", "job/chk-10/a", "job-2/chk-1/a", "job/ledger", "joa", "job/chk-1/c/d"} {
		must(t, b.Put(t.Context(), name, write(name)))
	}
	// In the order of whole names: '-' comes before '/'.
	wantList(t, b, "", "joa=3", "job-2/chk-1/a=13", "job/chk-1/a=11", "job/chk-1/b=11", "job/chk-1/c/d=13", "job/chk-10/a=12", "job/ledger=10")
	// A prefix is a directory, not the beginning of a name.
	chk1 := []string{"job/chk-1/a=11", "job/chk-1/b=11", "job/chk-1/c/d=13"}
	wantList(t, b, "job/chk-1", chk1...)
	wantList(t, b, "job/chk-1/", chk1...)
	wantList(t, b, "job-2", "job-2/chk-1/a=13")
	wantList(t, b, "jo")
	wantList(t, b, "joa")
	wantList(t, b, "nothing/here")
}

func listEndsWithFn(t *testing.T, b storage.Blobs) {
	for _, name := range []string{"d/1", "d/2", "d/3"} {
		must(t, b.Put(t.Context(), name, write("")))
	}
	enough := errors.New("enough")
	var got []string
	err := b.List(t.Context(), "", func(name string, _ int64) error {
		got = append(got, name)
		if len(got) == 2 {
			return enough
		}
		return nil
	})
	wantErr(t, err, enough)
	if !slices.Equal(got, []string{"d/1", "d/2"}) {
		t.Errorf("listed %q before the end", got)
	}
}

func listAndDelete(t *testing.T, b storage.Blobs) {
	for _, name := range []string{"job/chk-1/a", "job/chk-1/b", "job/chk-2/a"} {
		must(t, b.Put(t.Context(), name, write("")))
	}
	must(t, b.List(t.Context(), "job", func(name string, _ int64) error { return b.Delete(t.Context(), name) }))
	wantList(t, b, "")
}

func deletes(t *testing.T, b storage.Blobs) {
	must(t, b.Delete(t.Context(), "nothing"))
	must(t, b.Put(t.Context(), "a/b/c", write("1")))
	must(t, b.Put(t.Context(), "a/d", write("2")))
	must(t, b.Delete(t.Context(), "a/b/c/below"))
	must(t, b.Delete(t.Context(), "a")) // a directory is no blob
	wantList(t, b, "", "a/b/c=1", "a/d=1")
	must(t, b.Delete(t.Context(), "a/b/c"))
	must(t, b.Delete(t.Context(), "a/b/c"))
	wantList(t, b, "", "a/d=1")
	must(t, b.Put(t.Context(), "a/b", write("a name that was a directory")))
	wantBlob(t, b, "a/b", "a name that was a directory")
}

// deleteRacesPut deletes the last blob of a directory while others are put
// into it.
func deleteRacesPut(t *testing.T, b storage.Blobs) {
	const rounds = 50
	errs := make([]error, 2)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() {
			for round := range rounds {
				name := fmt.Sprintf("x/y/%d-%d", i, round)
				errs[i] = errors.Join(errs[i],
					b.Put(t.Context(), name, write("")), b.Delete(t.Context(), name))
			}
		})
	}
	wg.Wait()
	must(t, errors.Join(errs...))
	wantList(t, b, "")
}

func names(t *testing.T, b storage.Blobs) {
	for _, name := range []string{"", ".", "..", "/", "/abs", "a/", "a//b", "../a", "a/../b", "a/./b", "a/..", ".hidden", "a/.tmp-1", "a\x00b", `a\b`, "\xff"} {
		wantErr(t, b.Put(t.Context(), name, write("x")), storage.ErrName)
		wantErr(t, b.PutIfAbsent(t.Context(), name, nil), storage.ErrName)
		_, err := b.Get(t.Context(), name)
		wantErr(t, err, storage.ErrName)
		_, err = b.GetRange(t.Context(), name, 0, 0)
		wantErr(t, err, storage.ErrName)
		wantErr(t, b.Delete(t.Context(), name), storage.ErrName)
	}
	wantErr(t, b.List(t.Context(), "../a", nil), storage.ErrName)
	for _, name := range []string{"_metadata", "a b", "ü/ß", "a.b/c..d", "page-latency/chk-7/0-1.a3"} {
		must(t, b.PutIfAbsent(t.Context(), name, []byte(name)))
		wantBlob(t, b, name, name)
	}
}

func cancelled(t *testing.T, b storage.Blobs) {
	must(t, b.Put(t.Context(), "a", write("x")))
	ctx, cancel := context.WithCancel(t.Context())
	err := b.Put(ctx, "late", func(w io.Writer) error {
		cancel()
		return write("x")(w)
	})
	wantErr(t, err, context.Canceled)
	wantErr(t, b.Put(ctx, "b", write("x")), context.Canceled)
	wantErr(t, b.PutIfAbsent(ctx, "b", nil), context.Canceled)
	_, err = b.Get(ctx, "a")
	wantErr(t, err, context.Canceled)
	wantErr(t, b.List(ctx, "", func(string, int64) error { return nil }), context.Canceled)
	wantErr(t, b.Delete(ctx, "a"), context.Canceled)
	wantList(t, b, "", "a=1")
}

func copies(t *testing.T, b storage.Blobs) {
	data := []byte("abc")
	must(t, b.PutIfAbsent(t.Context(), "a", data))
	data[0] = 'x'
	got, err := b.Get(t.Context(), "a")
	must(t, err)
	got[1] = 'y'
	part, err := b.GetRange(t.Context(), "a", 0, 3)
	must(t, err)
	part[2] = 'z'
	wantBlob(t, b, "a", "abc")
}
