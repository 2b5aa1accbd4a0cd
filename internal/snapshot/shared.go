package snapshot

import (
	"fmt"
	"path"
	"strconv"
	"strings"

	"github.com/weirstream/weir/internal/storage"
)

const (
	sharedDir    = "shared"
	sharedPrefix = "../" + sharedDir + "/"
)

// SharedDir returns the directory of the files that checkpoints of a job share,
// below the checkpoint directory.
func SharedDir(job string) string { return path.Join(job, sharedDir) }

// SharedName returns the name in _metadata of a file in SharedDir, the number
// seq of those that a subtask of a stage writes in an attempt. No two attempts
// write the same name: numbers of attempts only grow, and where they begin anew
// the lineage is another.
func SharedName(lineage string, attempt int64, stage string, subtask int, seq int64) string {
	return fmt.Sprintf("%s%s-a%d-%s-%d-%d", sharedPrefix, fileName(lineage), attempt, fileName(stage), subtask, seq)
}

// IsShared reports whether a file of _metadata lies in SharedDir.
func IsShared(name string) bool { return strings.HasPrefix(name, sharedPrefix) }

// SharedWriter tells who wrote a shared file, by its name in SharedDir or in
// _metadata.
func SharedWriter(name string) (lineage string, attempt int64, ok bool) {
	lineage, rest, _ := strings.Cut(path.Base(name), "-a")
	digits, _, found := strings.Cut(rest, "-")
	attempt, err := strconv.ParseInt(digits, 10, 64)
	if !found || err != nil || lineage == "" || attempt < 1 {
		return "", 0, false
	}
	return lineage, attempt, true
}

// checkFileName refuses names of data files that lead elsewhere than to the
// snapshot's directory and to SharedDir.
func checkFileName(name string) error {
	base := strings.TrimPrefix(name, sharedPrefix)
	if storage.CheckName(base) != nil || path.Base(base) != base {
		return malformed("data file %q: its name is neither that of a file in the snapshot's directory nor of one in %s", name, sharedPrefix)
	}
	return nil
}

// check refuses metadata whose files cannot be what they are said to be.
func (m *Metadata) check() error {
	files := make(map[string]bool, len(m.Files))
	for _, f := range m.Files {
		if err := checkFileName(f.Name); err != nil {
			return err
		}
		if files[f.Name] {
			return malformed("data file %q is listed twice", f.Name)
		}
		files[f.Name] = true
	}
	for i := range m.Operators {
		for j := range m.Operators[i].Subtasks {
			if err := m.Operators[i].Subtasks[j].check(files); err != nil {
				return fmt.Errorf("operator %q, subtask %d: %w", m.Operators[i].ID, m.Operators[i].Subtasks[j].Index, err)
			}
		}
	}
	return nil
}

func (s *Subtask) check(files map[string]bool) error {
	switch {
	case s.File == "" && len(s.Increments) > 0:
		return malformed("it has increments and no file that they complete")
	case s.File != "" && s.Native != nil:
		return malformed("it has a data file and files of a backend")
	}
	for _, name := range s.DataFiles() {
		if !files[name] {
			return malformed("file %q is not among the snapshot's files", name)
		}
	}
	if s.Native == nil {
		return nil
	}
	if s.Native.Format == "" {
		return malformed("its files of a backend have no format")
	}
	local := map[string]bool{}
	for _, f := range s.Native.Files {
		// A restore makes a file of that name.
		if storage.CheckName(f.Local) != nil || path.Base(f.Local) != f.Local || local[f.Local] {
			return malformed("%q cannot be the name of a file of a backend, or is there twice", f.Local)
		}
		local[f.Local] = true
	}
	return nil
}

// DataFiles are the names of the subtask's files, File first.
func (s *Subtask) DataFiles() []string {
	var names []string
	if s.File != "" {
		names = append([]string{s.File}, s.Increments...)
	}
	if s.Native != nil {
		for _, f := range s.Native.Files {
			names = append(names, f.File)
		}
	}
	return names
}

// SharedFiles are the names, in the storage, of the shared files that the
// snapshot in dir lists.
func (m *Metadata) SharedFiles(dir string) []string {
	var names []string
	for _, f := range m.Files {
		if IsShared(f.Name) {
			names = append(names, path.Join(dir, f.Name))
		}
	}
	return names
}

// SharedBytes is the size of the shared files that the snapshot lists.
func (m *Metadata) SharedBytes() (n int64) {
	for _, f := range m.Files {
		if IsShared(f.Name) {
			n += f.Size
		}
	}
	return n
}

// nativeFiles are those that have the form of a backend.
func (m *Metadata) nativeFiles() map[string]bool {
	names := map[string]bool{}
	for _, op := range m.Operators {
		for _, s := range op.Subtasks {
			if s.Native != nil {
				for _, f := range s.Native.Files {
					names[f.File] = true
				}
			}
		}
	}
	return names
}
