package storagetest

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/weirstream/weir/internal/storage"
)

// noPartIsSeen reads blobs while PutIfAbsent writes them, and lists them.
func noPartIsSeen(t *testing.T, b storage.Blobs) {
	const names = 20
	content := func(i int) []byte { return bytes.Repeat([]byte{byte('a' + i)}, 3000) }
	name := func(i int) string { return fmt.Sprintf("ledger/%02d", i) }
	done := make(chan struct{})
	var readers, writers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			for i := 0; ; i = (i + 1) % names {
				select {
				case <-done:
					return
				default:
				}
				data, err := b.Get(t.Context(), name(i))
				if errors.Is(err, storage.ErrNotFound) {
					continue
				}
				if err != nil || !bytes.Equal(data, content(i)) {
					t.Errorf("%s: read %d bytes, %v", name(i), len(data), err)
					return
				}
			}
		})
	}
	readers.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
			}
			err := b.List(t.Context(), "ledger", func(name string, size int64) error {
				if size != 3000 {
					t.Errorf("%s is listed with %d bytes", name, size)
				}
				return nil
			})
			if err != nil {
				t.Errorf("list: %v", err)
				return
			}
		}
	})
	for w := range 4 {
		writers.Go(func() {
			for i := w; i < names; i += 4 {
				if err := b.PutIfAbsent(t.Context(), name(i), content(i)); err != nil {
					t.Errorf("%s: %v", name(i), err)
				}
			}
		})
	}
	writers.Wait()
	close(done)
	readers.Wait()
	if got := listed(t, b, "ledger"); len(got) != names {
		t.Errorf("%d blobs are listed, want %d", len(got), names)
	}
}

// oddNames are names that mean something to somebody on their way.
func oddNames(t *testing.T, b storage.Blobs) {
	names := []string{
		"a+b/c d", "a%2Fb", "a%25b", "50%", "a:b/c:d", "a?b=c&d#e", "a~b", "a@b=c", "[x]{y}(z)", "it's \"so\"<&>", "*", "a;b,c|d", "$HOME`x`",
		"ключ/鍵/🔑", "\u00e9", "UPPER", "trailing.", "con/nul", strings.Repeat("n", 200), "tab\there",
	}
	for i, name := range names {
		if i%2 == 0 {
			must(t, b.Put(t.Context(), name, write(name)))
		} else {
			must(t, b.PutIfAbsent(t.Context(), name, []byte(name)))
		}
	}
	slices.Sort(names)
	var want []string
	for _, name := range names {
		wantBlob(t, b, name, name)
		want = append(want, fmt.Sprintf("%s=%d", name, len(name)))
	}
	wantList(t, b, "", want...)
	for _, name := range names {
		must(t, b.Delete(t.Context(), name))
	}
	wantList(t, b, "")
}

// listMany lists more than fits on a page.
func listMany(t *testing.T, b storage.Blobs) {
	const n, writers = 1100, 8
	errs := make([]error, writers)
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := w; i < n && errs[w] == nil; i += writers {
				errs[w] = b.Put(t.Context(), fmt.Sprintf("many/%d/%d", i%3, i), write(""))
			}
		})
	}
	wg.Wait()
	must(t, errors.Join(errs...))
	var got []string
	must(t, b.List(t.Context(), "many", func(name string, _ int64) error {
		got = append(got, name)
		return nil
	}))
	if sorted := slices.IsSorted(got); !sorted || len(got) != n || len(slices.Compact(got)) != n {
		t.Errorf("%d names are listed, in order: %t; want %d", len(got), sorted, n)
	}
	i := 0
	enough := errors.New("enough")
	err := b.List(t.Context(), "", func(string, int64) error {
		if i++; i == 1050 {
			return enough
		}
		return nil
	})
	wantErr(t, err, enough)
}

// largeSize is more than twice what any storage sends in one part.
const largeSize = 40 << 20

// writeLarge writes n bytes that differ from place to place.
func writeLarge(w io.Writer, n int) error {
	const step = 1 << 20
	for at := 0; at < n; at += step {
		if _, err := w.Write(largePart(at, min(step, n-at))); err != nil {
			return err
		}
	}
	return nil
}

func largePart(off, n int) []byte {
	data := make([]byte, n)
	for i := 0; i+8 <= n; i += 8 {
		binary.LittleEndian.PutUint64(data[i:], uint64(off+i)*0x9e3779b97f4a7c15)
	}
	return data
}

func large(t *testing.T, b storage.Blobs) {
	must(t, b.Put(t.Context(), "job/chk-1/large", func(w io.Writer) error { return writeLarge(w, largeSize) }))
	wantList(t, b, "", fmt.Sprintf("job/chk-1/large=%d", largeSize))
	for _, off := range []int{0, 5<<20 - 64, 8<<20 - 64, 16<<20 - 64, 32<<20 - 64, largeSize - 128} {
		got, err := b.GetRange(t.Context(), "job/chk-1/large", int64(off), 128)
		must(t, err)
		if !bytes.Equal(got, largePart(off, 128)) {
			t.Errorf("128 bytes at %d are others", off)
		}
	}
	got, err := b.Get(t.Context(), "job/chk-1/large")
	must(t, err)
	for off := 0; off < largeSize; off += 1 << 20 {
		if len(got) != largeSize || !bytes.Equal(got[off:off+1<<20], largePart(off, 1<<20)) {
			t.Fatalf("read %d bytes, which differ at %d", len(got), off)
		}
	}
}

// largeFails breaks a write off when parts of it are stored.
func largeFails(t *testing.T, b storage.Blobs) {
	broken := errors.New("broken")
	err := b.Put(t.Context(), "job/chk-1/large", func(w io.Writer) error {
		return errors.Join(writeLarge(w, largeSize), broken)
	})
	wantErr(t, err, broken)
	wantList(t, b, "")
}

func largeCancelled(t *testing.T, b storage.Blobs) {
	ctx, cancel := context.WithCancel(t.Context())
	err := b.Put(ctx, "job/chk-1/large", func(w io.Writer) error {
		err := writeLarge(w, largeSize)
		cancel()
		return errors.Join(err, writeLarge(w, largeSize))
	})
	wantErr(t, err, context.Canceled)
	wantList(t, b, "")
}

// faults puts a storage that fails in front.
func faults(t *testing.T, b storage.Blobs) {
	f := NewFaulty(b)
	broken := errors.New("reset by peer")
	for _, partial := range []int64{0, 100} {
		f.Script(Fault{Op: Put, Err: broken, Partial: partial})
		wantErr(t, f.Put(t.Context(), "a", write(strings.Repeat("x", 1000))), broken)
		wantList(t, b, "")
	}
	// The answer is lost, not the blob: to repeat it is safe.
	f.Script(Fault{Op: PutIfAbsent, Err: broken, After: true})
	wantErr(t, f.PutIfAbsent(t.Context(), "b", []byte("1")), broken)
	wantErr(t, f.PutIfAbsent(t.Context(), "b", []byte("2")), storage.ErrExists)
	wantBlob(t, b, "b", "1")
	must(t, f.Vanish("b"))
	_, err := f.Get(t.Context(), "b")
	wantErr(t, err, storage.ErrNotFound)
	must(t, f.PutIfAbsent(t.Context(), "b", []byte("3")))
	wantBlob(t, f, "b", "3")

	slow := make(chan struct{})
	f.Script(Fault{Op: Get, Wait: slow})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = f.Get(ctx, "b")
	wantErr(t, err, context.Canceled)
	f.Script(Fault{Op: Put, Wait: slow})
	put := make(chan error, 1)
	go func() { put <- f.Put(t.Context(), "c", write("late")) }()
	wantBlob(t, b, "b", "3")
	close(slow)
	must(t, <-put)
	wantBlob(t, b, "c", "late")
}
