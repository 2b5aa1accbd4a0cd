package discovery

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirstream/weir/internal/storage/file"
)

func entry(job, id string) Entry {
	return Entry{Job: job, ID: strings.Repeat(id, 32), URL: "http://127.0.0.1:8081", PID: 4711, Started: time.Unix(1_700_000_000, 0).UTC()}
}

func announced(t *testing.T, dirs []string, e Entry) (withdraw func() error) {
	t.Helper()
	withdraw, err := Announce(dirs, e)
	if err != nil {
		t.Fatal(err)
	}
	return withdraw
}

// private is a directory that only this user may write to.
func private(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}

func wantList(t *testing.T, dirs []string, want ...Entry) {
	t.Helper()
	got, err := List(dirs)
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
}

func TestAnnounce(t *testing.T) {
	dirs := []string{filepath.Join(t.TempDir(), "none", "yet"), filepath.Join(t.TempDir(), "other")}
	wantList(t, dirs)
	b, a, a2 := entry("b", "1"), entry("a", "2"), entry("a", "3")
	a2.Started = a2.Started.Add(-time.Second)
	withdrawB := announced(t, dirs, b)
	withdrawA := announced(t, dirs[1:], a) // of a process with another environment
	withdrawA2 := announced(t, dirs, a2)
	wantList(t, dirs, a2, a, b)
	for _, withdraw := range []func() error{withdrawA, withdrawA2, withdrawB} {
		if err := withdraw(); err != nil {
			t.Error(err)
		}
	}
	wantList(t, dirs)
	if left, err := os.ReadDir(dirs[0]); err != nil || len(left) != 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// An entry whose process was killed, which is one that nobody locks, goes with
// the next look, or the next job.
func TestDeadProcess(t *testing.T) {
	dir := private(t)
	dead := filepath.Join(dir, "dead")
	half := filepath.Join(dir, "half") // killed before it was written
	write := func() {
		t.Helper()
		for _, d := range []string{dead, half} {
			if err := os.MkdirAll(d, 0o700); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(filepath.Join(dead, entryName), []byte(`{"job":"j","id":"`+strings.Repeat("0", 32)+`","url":"http://127.0.0.1:1"}`), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write()
	e := entry("j", "1")
	withdraw := announced(t, []string{dir}, e)
	if _, err := os.Stat(dead); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it is still there: %v", err)
	}
	write()
	wantList(t, []string{dir}, e)
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("left: %v, %v", left, err)
	}
	if err := withdraw(); err != nil {
		t.Error(err)
	}
}

// An entry that is only half made is passed over; one that somebody holds for
// that of a dead process, at that moment, is made under another name.
func TestHalfMade(t *testing.T) {
	dir := private(t)
	e := entry("j", "1")
	unlock, err := file.New(dir).LockDir(e.ID + "-0")
	if err != nil {
		t.Fatal(err)
	}
	withdraw := announced(t, []string{dir}, e)
	wantList(t, []string{dir}, e)
	if err := errors.Join(withdraw(), unlock()); err != nil {
		t.Error(err)
	}
}

// A directory that others may write to says nothing.
func TestDirectoryOfOthers(t *testing.T) {
	dir, good := private(t), filepath.Join(t.TempDir(), "good")
	withdraw := announced(t, []string{dir}, entry("j", "1"))
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if got, err := List([]string{dir}); err == nil || len(got) != 0 || !strings.Contains(err.Error(), "others may write to it") {
		t.Errorf("got %v, %v", got, err)
	}
	if _, err := Announce([]string{dir}, entry("j", "2")); err == nil {
		t.Error("announced in a directory that others may write to")
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	if _, err := List([]string{link}); err == nil {
		t.Error("a link is followed")
	}
	e := entry("j", "3")
	other := announced(t, []string{dir, good}, e)
	wantList(t, []string{good}, e)
	if err := errors.Join(withdraw(), other()); err != nil {
		t.Error(err)
	}
}

func TestWrongEntry(t *testing.T) {
	for _, change := range []func(*Entry){
		func(e *Entry) { e.Job = "" }, func(e *Entry) { e.ID = "12" }, func(e *Entry) { e.ID = strings.Repeat("X", 32) },
		func(e *Entry) { e.URL = "127.0.0.1:80" }, func(e *Entry) { e.URL = "file:///etc" }, func(e *Entry) { e.URL = "http://" },
	} {
		e := entry("j", "1")
		change(&e)
		if _, err := Announce([]string{t.TempDir()}, e); err == nil {
			t.Errorf("%+v is announced", e)
		}
	}
}

func TestDirs(t *testing.T) {
	got := Dirs("/run/user/7")
	if len(got) != 2 || got[0] != "/run/user/7/weir" || !strings.HasPrefix(got[1], os.TempDir()) {
		t.Errorf("got %v", got)
	}
	if rest := Dirs("relative"); !slices.Equal(rest, got[1:]) || !slices.Equal(Dirs(""), rest) {
		t.Errorf("got %v", rest)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"job":"j","id":"00112233445566778899aabbccddeeff","url":"http://127.0.0.1:8081","pid":1,"started":"2026-03-01T12:00:00Z"}`))
	f.Add([]byte(`{"url":"http://%zz"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		e, err := decode(data)
		if err == nil && e.check() != nil {
			t.Errorf("%+v is taken", e)
		}
	})
}
