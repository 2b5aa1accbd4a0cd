// Package discovery lets the processes of one user on one machine find each
// other's jobs: each running job has an entry in a directory of that user,
// locked as long as its process lives.
package discovery

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/weirstream/weir/internal/storage/file"
)

// Entry is a running job.
type Entry struct {
	Job string `json:"job"`
	// ID is the job's, 32 hexadecimal digits.
	ID string `json:"id"`
	// URL is where it listens.
	URL     string    `json:"url"`
	PID     int       `json:"pid"`
	Started time.Time `json:"started"`
}

// entryName is the file of an entry, in a directory of its own.
const entryName = "job.json"

// Dirs are the directories in which entries are looked for; they are written
// to the first of them that can be used. runtimeDir is $XDG_RUNTIME_DIR, ""
// if that is not set.
func Dirs(runtimeDir string) []string {
	var dirs []string
	if filepath.IsAbs(runtimeDir) {
		dirs = append(dirs, filepath.Join(runtimeDir, "weir"))
	}
	// Services, cron and the like do not have the former.
	return append(dirs, filepath.Join(os.TempDir(), fmt.Sprintf("weir-%d", os.Getuid())))
}

// tries bounds how often an entry is made under a new name, as one that is only
// half made may be taken for that of a dead process.
const tries = 3

// Announce makes an entry. withdraw removes it; when the process ends in another
// way the entry is removed by who comes next.
func Announce(dirs []string, e Entry) (withdraw func() error, err error) {
	if err := e.check(); err != nil {
		return nil, err
	}
	var errs []error
	for _, dir := range dirs {
		if err := own(dir); err != nil {
			errs = append(errs, err)
			continue
		}
		_ = removeDead(dir) // what cannot be removed is passed over by List, too
		for try := range tries {
			name := fmt.Sprintf("%s-%d", e.ID, try)
			if withdraw, err = announce(dir, name, e); err == nil {
				return withdraw, nil
			}
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}

func announce(dir, name string, e Entry) (withdraw func() error, err error) {
	unlock, err := file.New(dir).LockDir(name)
	if errors.Is(err, errors.ErrUnsupported) {
		unlock, err = func() error { return nil }, nil
	}
	if err != nil {
		return nil, err
	}
	at := filepath.Join(dir, name)
	withdraw = func() error { return errors.Join(unlock(), os.RemoveAll(at)) }
	data, err := json.Marshal(e)
	if err == nil {
		err = os.WriteFile(filepath.Join(at, "new"), data, 0o600)
	}
	if err == nil {
		err = os.Rename(filepath.Join(at, "new"), filepath.Join(at, entryName))
	}
	if err != nil {
		return nil, errors.Join(err, withdraw())
	}
	return withdraw, nil
}

// own makes a directory that is for this user only, and refuses one that is
// not: an entry of somebody else would say where commands are sent to.
func own(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return checkOwner(dir)
}

func checkOwner(dir string) error {
	info, err := os.Lstat(dir)
	switch {
	case err != nil:
		return err
	case !info.IsDir():
		return fmt.Errorf("%s is no directory", dir)
	case !mine(info):
		return fmt.Errorf("%s belongs to another user, or others may write to it: remove it, or set XDG_RUNTIME_DIR", dir)
	}
	return nil
}

// List returns the jobs whose processes live, by name and then by time, and
// removes the entries of others. A directory that is not there has none.
func List(dirs []string) ([]Entry, error) {
	var all []Entry
	var errs []error
	for _, dir := range dirs {
		err := checkOwner(dir)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = removeDead(dir)
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		found, err := read(dir)
		all, errs = append(all, found...), append(errs, err)
	}
	slices.SortFunc(all, func(a, b Entry) int {
		if a.Job != b.Job {
			return strings.Compare(a.Job, b.Job)
		}
		return a.Started.Compare(b.Started)
	})
	return all, errors.Join(errs...)
}

// removeDead removes the entries whose locks can be had.
func removeDead(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	blobs := file.New(dir)
	var errs []error
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		unlock, err := blobs.LockDir(e.Name())
		switch {
		case errors.As(err, new(*file.LockedError)), errors.Is(err, errors.ErrUnsupported), errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			errs = append(errs, err)
			continue
		}
		errs = append(errs, os.RemoveAll(filepath.Join(dir, e.Name())), unlock())
	}
	return errors.Join(errs...)
}

// read passes over entries that are half made, or of a form that is not known.
func read(dir string) ([]Entry, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*", entryName))
	if err != nil {
		return nil, err
	}
	var found []Entry
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		if e, err := decode(data); err == nil {
			found = append(found, e)
		}
	}
	return found, nil
}

func decode(data []byte) (e Entry, err error) {
	if err := json.Unmarshal(data, &e); err != nil {
		return Entry{}, err
	}
	return e, e.check()
}

func (e Entry) check() error {
	u, err := url.Parse(e.URL)
	switch {
	case err != nil || u.Scheme != "http" || u.Host == "":
		return fmt.Errorf("the entry of job %q: %q is no address of a server", e.Job, e.URL)
	case e.Job == "" || len(e.ID) != 32 || strings.Trim(e.ID, "0123456789abcdef") != "":
		return fmt.Errorf("the entry of job %q: %q is no id of a job", e.Job, e.ID)
	}
	return nil
}
