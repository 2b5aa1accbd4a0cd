package command

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/weirstream/weir/internal/checkpoint"
	"github.com/weirstream/weir/internal/storage/file"
)

// directory is a checkpoint directory with the jobs to look at.
type directory struct {
	blobs *file.Blobs
	jobs  []string
}

// openDirectory finds the jobs in a checkpoint directory, or the one of a
// job's directory; job, if not empty, chooses one.
func openDirectory(ctx context.Context, dir, job string) (*directory, error) {
	abs, err := local(dir)
	if err != nil {
		return nil, err
	}
	info, err := os.Stat(abs)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return nil, fmt.Errorf("%s is no directory", abs)
	}
	d := &directory{}
	if isJob(abs) {
		d.blobs, d.jobs = file.New(filepath.Dir(abs)), []string{filepath.Base(abs)}
	} else {
		d.blobs = file.New(abs)
		if d.jobs, err = checkpoint.Jobs(ctx, d.blobs); err != nil {
			return nil, fmt.Errorf("look for jobs in %s: %w", abs, err)
		}
	}
	if len(d.jobs) == 0 {
		return nil, fmt.Errorf("%s is neither a job's directory nor one of checkpoints: there is no ledger and no chk-N in it, or in a directory in it", abs)
	}
	if job != "" {
		if !slices.Contains(d.jobs, job) {
			return nil, fmt.Errorf("%s has no job %q; it has %s", abs, job, strings.Join(d.jobs, ", "))
		}
		d.jobs = []string{job}
	}
	return d, nil
}

// isJob reports whether a directory holds a ledger or checkpoints itself. A job
// may be called like one of them: then its directory has such things in turn.
func isJob(dir string) bool {
	entries, err := os.ReadDir(dir)
	return err == nil && slices.ContainsFunc(entries, func(e os.DirEntry) bool {
		sub := filepath.Join(dir, e.Name())
		switch {
		case !e.IsDir():
			return false
		case e.Name() == checkpoint.LedgerName:
			records, err := os.ReadDir(sub)
			return err == nil && slices.ContainsFunc(records, func(r os.DirEntry) bool { return checkpoint.IsRecord(r.Name()) && !r.IsDir() })
		}
		return checkpoint.IsCheckpoint(e.Name()) && !isJob(sub)
	})
}

// look reads the timelines of the jobs.
func (d *directory) look(ctx context.Context, verify bool) ([]*checkpoint.Timeline, error) {
	all := make([]*checkpoint.Timeline, 0, len(d.jobs))
	for _, job := range d.jobs {
		t, err := checkpoint.Look(ctx, checkpoint.LookOptions{Job: job, Blobs: d.blobs, OpenPath: checkpoint.OpenLocal, Verify: verify})
		if err != nil {
			return nil, fmt.Errorf("job %s in %s: %w", job, d.blobs, err)
		}
		all = append(all, t)
	}
	return all, nil
}

// claimants are, by lineage, the jobs in the checkpoint directory whose ledgers
// claim it, those that were not asked for included: where it is more than one,
// some are copies.
func (d *directory) claimants(ctx context.Context) (map[string][]string, error) {
	entries, err := os.ReadDir(d.blobs.String())
	if errors.Is(err, fs.ErrPermission) {
		return nil, nil // a job's directory may be all that one is let into
	}
	if err != nil {
		return nil, err
	}
	all := map[string][]string{}
	for _, e := range entries {
		if !isJob(filepath.Join(d.blobs.String(), e.Name())) {
			continue
		}
		lineages, err := checkpoint.Lineages(ctx, d.blobs, e.Name())
		if err != nil {
			return nil, err
		}
		for _, l := range lineages {
			all[l] = append(all[l], e.Name())
		}
	}
	return all, nil
}

// running are those of the jobs that run now, as far as locks tell.
func (d *directory) running(jobs []string) (map[string]bool, error) {
	runs := map[string]bool{}
	for _, job := range jobs {
		_, held, err := d.blobs.Holder(job)
		if err != nil && !errors.Is(err, fs.ErrPermission) {
			return nil, err
		}
		runs[job] = held
	}
	return runs, nil
}

// lock keeps the jobs from being started. It fails if one runs.
func (d *directory) lock(jobs []string) (unlock func(), err error) {
	var held []func() error
	unlock = func() {
		for _, u := range held {
			// The process ends soon, and the lock with it.
			_ = u()
		}
	}
	for _, job := range jobs {
		u, err := d.blobs.LockDir(job)
		var locked *file.LockedError
		switch {
		case errors.As(err, &locked):
			unlock()
			return nil, fmt.Errorf("the job runs, or somebody else is at it: %w", err)
		case errors.Is(err, errors.ErrUnsupported):
			continue // the ledger fences, if need be
		case err != nil:
			unlock()
			return nil, err
		}
		held = append(held, u)
	}
	return unlock, nil
}
