package command

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/weirstream/weir/internal/checkpoint"
	"github.com/weirstream/weir/internal/snapshot"
	"github.com/weirstream/weir/internal/storage/location"
)

// disposal is a savepoint to delete.
type disposal struct {
	path string
	// checkpoints is a directory whose jobs may need it.
	checkpoints string
}

func (d *disposal) declare(f *flags) {
	f.text(&d.path, "dispose", "PATH", "Delete the savepoint at PATH, its directory or its _metadata.")
	f.text(&d.checkpoints, "checkpoint-dir", "DIR", "With --dispose: refuse it if a job with its checkpoints in DIR would go on from the savepoint.")
}

// dispose deletes a savepoint that no job known here would go on from.
func (p *Program) dispose(ctx context.Context, r *request, d disposal) error {
	path, err := local(d.path)
	if err != nil {
		return err
	}
	if filepath.Base(path) == snapshot.MetadataName {
		path = filepath.Dir(path)
	}
	user, err := p.neededBy(ctx, r, d, path)
	if err != nil {
		return err
	}
	if user != "" {
		return fmt.Errorf("%s is not deleted: %s goes on from it", path, user)
	}
	if err := checkpoint.Dispose(ctx, location.NewOpener(), path); err != nil {
		return err
	}
	if r.output == "json" {
		return p.writeJSON(struct {
			Disposed string `json:"disposed"`
		}{path})
	}
	fmt.Fprintf(p.Stderr, "Savepoint %s is deleted.\n", path)
	return nil
}

// local makes the path of a directory absolute. The storages of URLs are linked
// into jobs, not into this program.
func local(path string) (string, error) {
	if location.IsURL(path) {
		return "", fmt.Errorf("%s: weir itself reads and deletes in directories only; a running job that has this storage deletes savepoints over HTTP (POST /savepoint-disposal), takes them there (weir savepoint JOB URL), and a job's program checks them (check -s URL)", path)
	}
	return filepath.Abs(strings.TrimPrefix(path, "file://"))
}

// neededBy names a job that would go on from the savepoint, "" for none.
func (p *Program) neededBy(ctx context.Context, r *request, d disposal, path string) (string, error) {
	jobs, err := p.jobs(ctx, r.where)
	if err != nil {
		return "", err
	}
	for _, j := range jobs {
		c, err := j.client.Checkpoints(ctx, j.ID)
		if err != nil {
			return "", fmt.Errorf("ask job %s whether it needs the savepoint: %w", j.Name, err)
		}
		from, done := c.Latest.Restored, c.Latest.Completed
		if from != nil && from.Path == path && (done == nil || done.LatestAck < from.Time) {
			return fmt.Sprintf("job %s, which runs and has completed no checkpoint since it began from it,", j.Name), nil
		}
	}
	if d.checkpoints == "" {
		return "", nil
	}
	dir, err := openDirectory(ctx, d.checkpoints, "")
	if err != nil {
		return "", err
	}
	lines, err := dir.look(ctx, false)
	if err != nil {
		return "", err
	}
	for _, t := range lines {
		if t.Next.Does == checkpoint.GoesOn && t.Next.From != nil && t.Next.From.Path == path {
			return "the same command of job " + t.Job, nil
		}
	}
	return "", nil
}
