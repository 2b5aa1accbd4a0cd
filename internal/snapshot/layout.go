package snapshot

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/weirstream/weir/internal/storage"
)

const (
	checkpointPrefix = "chk-"
	savepointPrefix  = "savepoint-"
)

// CheckpointDir returns the directory of a job's checkpoint, below the
// checkpoint directory of the job's options.
func CheckpointDir(job string, id int64) string {
	return path.Join(job, checkpointPrefix+strconv.FormatInt(id, 10))
}

// SavepointDir returns the directory of a job's savepoint, below the target
// directory of the savepoint.
func SavepointDir(job string, id int64) string {
	return savepointPrefix + job + "-" + strconv.FormatInt(id, 10)
}

// Name returns the name of the data file of one subtask of a stage, in the
// directory of a snapshot. It holds the attempt, so that a process that lost
// its claim cannot overwrite the files of the one that has it. Characters of
// stage that do not belong into file names are replaced.
func Name(stage string, subtask int, attempt int64) string {
	return fmt.Sprintf("%s-%d-a%d", fileName(stage), subtask, attempt)
}

// fileName replaces what is not a letter, digit, dash or dot. The checksum
// keeps apart what the replacement makes equal.
func fileName(s string) string {
	clean := strings.Map(func(r rune) rune {
		if r < 128 && (r == '-' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z') {
			return r
		}
		return '_'
	}, s)
	const longest = 100
	if clean == s && s != "" && len(s) <= longest {
		return s
	}
	return fmt.Sprintf("%s_%08x", clean[:min(len(clean), longest)], checksum([]byte(s)))
}

// Found is a directory of a job that is, or was to become, a snapshot.
type Found struct {
	// Dir is relative to the storage.
	Dir string
	ID  int64
	// Kind is Checkpoint for a chk- directory, which may hold a final snapshot,
	// and Savepoint for one that was put into the job's directory.
	Kind Kind
	// Complete tells whether it has _metadata.
	Complete bool
}

// List returns the snapshots of a job: the directories that have _metadata,
// in ascending order of ids. It does not read them.
func List(ctx context.Context, blobs storage.Blobs, job string) ([]Found, error) {
	dirs, err := Dirs(ctx, blobs, job)
	return slices.DeleteFunc(dirs, func(f Found) bool { return !f.Complete }), err
}

// Dirs is like List, but returns directories without _metadata, too: what
// failed or unfinished snapshots left behind. Their ids are used up.
func Dirs(ctx context.Context, blobs storage.Blobs, job string) ([]Found, error) {
	var dirs []Found
	err := blobs.List(ctx, job, func(name string, _ int64) error {
		element, rest, below := strings.Cut(strings.TrimPrefix(name, job+"/"), "/")
		f, ok := parseDir(job, element)
		if !ok || !below {
			return nil
		}
		if len(dirs) == 0 || dirs[len(dirs)-1].Dir != f.Dir {
			dirs = append(dirs, f)
		}
		if rest == MetadataName {
			dirs[len(dirs)-1].Complete = true
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list the snapshots of %s in %s: %w", job, blobs, err)
	}
	slices.SortFunc(dirs, func(x, y Found) int {
		return cmp.Or(cmp.Compare(x.ID, y.ID), cmp.Compare(x.Dir, y.Dir))
	})
	return dirs, nil
}

// parseDir recognises the directory of a snapshot.
func parseDir(job, element string) (Found, bool) {
	f := Found{Dir: path.Join(job, element), Kind: Checkpoint}
	digits, ok := strings.CutPrefix(element, checkpointPrefix)
	if !ok {
		f.Kind = Savepoint
		if digits, ok = strings.CutPrefix(element, savepointPrefix+job+"-"); !ok {
			return Found{}, false
		}
	}
	id, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || id < 0 || strconv.FormatInt(id, 10) != digits {
		return Found{}, false
	}
	f.ID = id
	return f, true
}
