//go:build unix

package file_test

import (
	"bufio"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weirstream/weir/internal/storage"
	"github.com/weirstream/weir/internal/storage/file"
	"github.com/weirstream/weir/internal/storage/storagetest"
)

func TestFile(t *testing.T) {
	storagetest.Run(t, func(t *testing.T) storage.Blobs {
		return file.New(filepath.Join(t.TempDir(), "not", "yet", "made"))
	})
}

func files(t *testing.T, dir string) (names []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err == nil && path != dir {
			rel, _ := filepath.Rel(dir, path)
			names = append(names, rel)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func want(t *testing.T, got []string, want ...string) {
	t.Helper()
	if strings.Join(got, " ") != strings.Join(want, " ") {
		t.Fatalf("got %q, want %q", got, want)
	}
}

func TestNoTemporaryFileStays(t *testing.T) {
	dir := t.TempDir()
	b := file.New(dir)
	if err := b.PutIfAbsent(t.Context(), "a", []byte("1")); err != nil {
		t.Fatal(err)
	}
	if err := b.PutIfAbsent(t.Context(), "a", []byte("2")); !errors.Is(err, storage.ErrExists) {
		t.Fatal(err)
	}
	broken := errors.New("broken")
	if err := b.Put(t.Context(), "b", func(io.Writer) error { return broken }); !errors.Is(err, broken) {
		t.Fatal(err)
	}
	want(t, files(t, dir), "a")
}

func TestDeleteRemovesEmptyDirectoriesBelowRoot(t *testing.T) {
	dir := t.TempDir()
	b := file.New(filepath.Join(dir, "root"))
	for _, name := range []string{"job/chk-1/data", "job/chk-1/_metadata", "job/chk-2/data"} {
		if err := b.PutIfAbsent(t.Context(), name, nil); err != nil {
			t.Fatal(err)
		}
	}
	for _, step := range []struct {
		name string
		left []string
	}{
		{"job/chk-1/data", []string{"root", "root/job", "root/job/chk-1", "root/job/chk-1/_metadata", "root/job/chk-2", "root/job/chk-2/data"}},
		{"job/chk-1/_metadata", []string{"root", "root/job", "root/job/chk-2", "root/job/chk-2/data"}},
		{"job/chk-2/data", []string{"root"}},
	} {
		if err := b.Delete(t.Context(), step.name); err != nil {
			t.Fatal(err)
		}
		want(t, files(t, dir), step.left...)
	}
}

func TestStaleTemporaryFiles(t *testing.T) {
	dir := t.TempDir()
	b := file.New(dir)
	if err := b.PutIfAbsent(t.Context(), "job/a", []byte("1")); err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	for name, age := range map[string]time.Duration{"job/.tmp-old": 2 * time.Hour, "job/.tmp-new": time.Minute, "job/a": 3 * time.Hour} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte("part"), 0o666); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, now.Add(-age), now.Add(-age)); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.List(t.Context(), "", func(name string, _ int64) error {
		if name != "job/a" {
			t.Errorf("%s is listed", name)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	removed, err := b.RemoveStale(t.Context(), "", now.Add(-time.Hour))
	if removed != 1 || err != nil {
		t.Fatalf("removed %d, %v; want 1", removed, err)
	}
	want(t, files(t, dir), "job", "job/.tmp-new", "job/a")
	if n, err := b.RemoveStale(t.Context(), "nothing", now); n != 0 || err != nil {
		t.Fatal(n, err)
	}
}

func TestRemoveStaleTakesEmptyDirectories(t *testing.T) {
	dir := t.TempDir()
	b := file.New(dir)
	for _, name := range []string{"job/chk-1/.tmp-a", "job/chk-1/.tmp-b", "job/chk-2/.tmp-c"} {
		file := filepath.Join(dir, filepath.FromSlash(name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o777), os.WriteFile(file, nil, 0o666)); err != nil {
			t.Fatal(err)
		}
	}
	put := func(name string) error { return b.PutIfAbsent(t.Context(), name, []byte("x")) }
	if err := put("job/chk-2/_metadata"); err != nil {
		t.Fatal(err)
	}
	if n, err := b.RemoveStale(t.Context(), "job", time.Now().Add(time.Hour)); n != 3 || err != nil {
		t.Fatalf("removed %d, %v; want 3", n, err)
	}
	want(t, files(t, dir), "job", "job/chk-2", "job/chk-2/_metadata")
	if err := put("job/chk-1/again"); err != nil {
		t.Errorf("in a directory that was removed: %v", err)
	}
}

func TestErrorsNameFileAndCause(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "plain"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	// A file where a directory should be.
	err := file.New(filepath.Join(dir, "plain")).PutIfAbsent(t.Context(), "job/a", nil)
	if !errors.Is(err, syscall.ENOTDIR) || !strings.Contains(err.Error(), "plain") {
		t.Errorf("below a plain file: %v", err)
	}
	err = file.New(dir).Put(t.Context(), "job/a", func(w io.Writer) error { return syscall.ENOSPC })
	if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), filepath.Join(dir, "job", "a")) {
		t.Errorf("disk full: %v", err)
	}
	if _, err = file.New(dir).Get(t.Context(), "job/none"); !strings.Contains(err.Error(), filepath.Join(dir, "job", "none")) {
		t.Errorf("not found: %v", err)
	}
}

// TestFullFileSystem writes beyond the limit on the size of files, the one
// real "disk full" that needs no file system of its own.
func TestFullFileSystem(t *testing.T) {
	if os.Getenv("WEIR_LIMITED_DIR") == "" {
		runSelf(t, "TestFullFileSystem", "WEIR_LIMITED_DIR="+t.TempDir())
		return
	}
	dir := os.Getenv("WEIR_LIMITED_DIR")
	limit := syscall.Rlimit{Cur: 4096, Max: 4096}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		t.Fatal(err)
	}
	err := file.New(dir).PutIfAbsent(t.Context(), "a", make([]byte, 8192))
	if !errors.Is(err, syscall.EFBIG) {
		t.Fatalf("error %v, want EFBIG", err)
	}
	want(t, files(t, dir))
}

func runSelf(t *testing.T, test, env string) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^"+test+"$")
	cmd.Env = append(os.Environ(), env)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

func TestLockRefusesSecondHolder(t *testing.T) {
	b := file.New(t.TempDir())
	unlock, err := b.LockDir("job")
	if err != nil {
		t.Fatal(err)
	}
	_, err = b.LockDir("job")
	var locked *file.LockedError
	if !errors.As(err, &locked) || !strings.Contains(err.Error(), "pid "+strconv.Itoa(os.Getpid())) {
		t.Fatalf("second lock: %v", err)
	}
	other, err := b.LockDir("other")
	if err != nil {
		t.Fatalf("another directory: %v", err)
	}
	if err := errors.Join(other(), unlock()); err != nil {
		t.Fatal(err)
	}
	again, err := b.LockDir("job")
	if err != nil {
		t.Fatalf("after unlock: %v", err)
	}
	defer again()
	if err := b.List(t.Context(), "", func(name string, _ int64) error {
		t.Errorf("%s is listed", name)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := b.LockDir("../job"); !errors.Is(err, storage.ErrName) {
		t.Errorf("bad name: %v", err)
	}
}

// TestLockOfOtherProcess has a child hold the lock and kills it.
func TestLockOfOtherProcess(t *testing.T) {
	if dir := os.Getenv("WEIR_LOCK_DIR"); dir != "" {
		if _, err := file.New(dir).LockDir(""); err != nil {
			t.Fatal(err)
		}
		os.Stdout.WriteString("locked\n")
		io.Copy(io.Discard, os.Stdin) // until the parent kills this process
		return
	}
	dir := t.TempDir()
	child := exec.Command(os.Args[0], "-test.run=^TestLockOfOtherProcess$")
	child.Env = append(os.Environ(), "WEIR_LOCK_DIR="+dir)
	stdin, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	stdout, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if line != "locked\n" {
		t.Fatalf("child said %q, %v", line, err)
	}
	_, err = file.New(dir).LockDir("")
	var locked *file.LockedError
	if !errors.As(err, &locked) || !strings.HasSuffix(locked.Holder, "pid "+strconv.Itoa(child.Process.Pid)) {
		t.Errorf("lock of the child: %v", err)
	}
	child.Process.Kill()
	child.Wait()
	unlock, err := file.New(dir).LockDir("")
	if err != nil {
		t.Fatalf("after the death of the holder: %v", err)
	}
	if err := unlock(); err != nil {
		t.Fatal(err)
	}
}

func TestFailedPutLeavesNoDirectory(t *testing.T) {
	root := t.TempDir()
	b := file.New(root)
	full := func(io.Writer) error { return syscall.ENOSPC }
	if err := b.Put(t.Context(), "job/chk-1/a", full); !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	if entries, err := os.ReadDir(root); err != nil || len(entries) != 0 {
		t.Errorf("left: %v, %v", entries, err)
	}
	fill := func(w io.Writer) error { _, err := w.Write([]byte("x")); return err }
	if err := b.Put(t.Context(), "job/chk-1/a", fill); err != nil {
		t.Fatal(err)
	}
	if err := b.Put(t.Context(), "job/chk-1/b", full); !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	if got, err := b.Get(t.Context(), "job/chk-1/a"); err != nil || string(got) != "x" {
		t.Errorf("what lies beside: %q, %v", got, err)
	}
}

// The user may keep a job's directory elsewhere, behind a link.
func TestDeleteSparesLinkedDirectory(t *testing.T) {
	root, elsewhere := t.TempDir(), t.TempDir()
	link := filepath.Join(root, "job")
	if err := os.Symlink(elsewhere, link); err != nil {
		t.Skipf("no symbolic links here: %v", err)
	}
	b := file.New(root)
	fill := func(w io.Writer) error { _, err := w.Write([]byte("x")); return err }
	for _, name := range []string{"job/ledger/1", "job/chk-1/a"} {
		if err := b.Put(t.Context(), name, fill); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.Delete(t.Context(), "job/chk-1/a"); err != nil {
		t.Fatal(err)
	}
	if got, err := b.Get(t.Context(), "job/ledger/1"); err != nil || string(got) != "x" {
		t.Errorf("behind the link: %q, %v", got, err)
	}
}
