package command

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/weirstream/weir/internal/discovery"
	"github.com/weirstream/weir/internal/rest"
)

// running is a job that answers.
type running struct {
	rest.JobSummary
	client *rest.Client
	// url is where it listens; pid is 0 if it was found by its address.
	url string
	pid int
}

// where are the jobs to look for.
type where struct{ address string }

func (w *where) declare(f *flags) {
	f.text(&w.address, "address", "URL", "Where the job listens, HOST:PORT. Default: the jobs of this user on this machine.")
}

// jobs finds the jobs that answer. Those that are listed but do not answer are
// about to begin or to end, and are named on standard error.
func (p *Program) jobs(ctx context.Context, w where) ([]running, error) {
	if w.address != "" {
		return jobsAt(ctx, discovery.Entry{URL: w.address})
	}
	entries, err := discovery.List(p.RuntimeDirs)
	if err != nil && len(entries) == 0 {
		return nil, fmt.Errorf("look for running jobs: %w", err)
	}
	var all []running
	for _, e := range entries {
		found, err := jobsAt(ctx, e)
		switch {
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case err != nil:
			fmt.Fprintf(p.Stderr, "weir: job %s (pid %d) does not answer: %v\n", e.Job, e.PID, err)
		default:
			all = append(all, found...)
		}
	}
	return all, nil
}

func jobsAt(ctx context.Context, e discovery.Entry) ([]running, error) {
	client, err := rest.NewClient(e.URL)
	if err != nil {
		return nil, usageError{err}
	}
	doc, err := client.Jobs(ctx)
	if err != nil {
		return nil, fmt.Errorf("ask %s: %w", e.URL, err)
	}
	var found []running
	for _, j := range doc.Jobs {
		found = append(found, running{JobSummary: j, client: client, url: e.URL, pid: e.PID})
	}
	return found, nil
}

// one finds the job with a name, an id, or an id that begins so. active prefers
// the one that runs to those that stand by for it.
func (p *Program) one(ctx context.Context, w where, name string, active bool) (running, error) {
	all, err := p.jobs(ctx, w)
	if err != nil {
		return running{}, err
	}
	found := named(all, name)
	if runs := slices.DeleteFunc(slices.Clone(found), func(j running) bool { return j.State != rest.Running }); active && len(runs) == 1 {
		found = runs
	}
	at := "on this machine, of this user"
	if w.address != "" {
		at = "at " + w.address
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1:
		return running{}, fmt.Errorf("%d running jobs are called %s: name one by its id:\n%s", len(found), name, described(found))
	case len(all) == 0:
		return running{}, fmt.Errorf("no job runs %s; one that runs elsewhere, or as another user, is reached by --address HOST:PORT, if it listens (--http)", at)
	}
	return running{}, fmt.Errorf("no job %s runs %s; those that do:\n%s", name, at, described(all))
}

// named are the jobs that a name may mean: an id before a name, and a name
// before the beginning of an id.
func named(all []running, name string) (found []running) {
	for _, same := range []func(running) bool{
		func(j running) bool { return j.ID == name },
		func(j running) bool { return j.Name == name },
		func(j running) bool { return len(name) >= 4 && strings.HasPrefix(j.ID, name) },
	} {
		if found = slices.DeleteFunc(slices.Clone(all), func(j running) bool { return !same(j) }); len(found) > 0 {
			break
		}
	}
	return found
}

func described(jobs []running) string {
	lines := make([]string, len(jobs))
	for i, j := range jobs {
		lines[i] = fmt.Sprintf("%s  %s  %s  %s", j.ID, j.Name, j.State, j.url)
		if j.pid != 0 {
			lines[i] += fmt.Sprintf("  pid %d", j.pid)
		}
	}
	return strings.Join(lines, "\n")
}

const listUsage = `Usage: weir list [flags]

List the running jobs of this user on this machine, or those at an address.
`

// listed is a job in the JSON form of the list.
type listed struct {
	ID          string        `json:"id"`
	Name        string        `json:"name"`
	State       rest.JobState `json:"state"`
	Started     int64         `json:"started"`
	DurationMS  int64         `json:"duration_ms"`
	URL         string        `json:"url"`
	PID         int           `json:"pid,omitempty"`
	Checkpoints rest.Counts   `json:"checkpoints"`
	// LastCheckpoint and LastSavepoint are null if there is none yet.
	LastCheckpoint *rest.Checkpoint `json:"last_checkpoint"`
	LastSavepoint  *rest.Checkpoint `json:"last_savepoint"`
}

func (p *Program) list(ctx context.Context, args []string) error {
	f := newFlags(listUsage)
	var w where
	w.declare(f)
	operands, proceed, err := f.parse(p.Stdout, args)
	if err != nil || !proceed {
		return err
	}
	if len(operands) > 0 {
		return misuse("unexpected argument %q", operands[0])
	}
	all, err := p.jobs(ctx, w)
	if err != nil {
		return err
	}
	jobs := []listed{}
	for _, j := range all {
		l := listed{ID: j.ID, Name: j.Name, State: j.State, Started: j.StartTime, DurationMS: j.Duration, URL: j.url, PID: j.pid}
		c, err := j.client.Checkpoints(ctx, j.ID)
		var refused *rest.RefusedError
		if err != nil && !errors.As(err, &refused) {
			fmt.Fprintf(p.Stderr, "weir: job %s does not answer: %v\n", j.Name, err)
			continue
		}
		l.Checkpoints, l.LastCheckpoint, l.LastSavepoint = c.Counts, c.Latest.Completed, c.Latest.Savepoint
		jobs = append(jobs, l)
	}
	if f.output == "json" {
		return p.writeJSON(struct {
			Jobs []listed `json:"jobs"`
		}{jobs})
	}
	p.writeJobs(jobs)
	return nil
}

func (p *Program) writeJobs(jobs []listed) {
	if len(jobs) == 0 {
		fmt.Fprintln(p.Stderr, "No job runs.")
		return
	}
	t := table{head: []string{"job", "id", "state", "for", "last checkpoint", "pid", "address"}}
	for _, j := range jobs {
		pid := "-"
		if j.PID != 0 {
			pid = fmt.Sprint(j.PID)
		}
		t.add(nil, j.Name, j.ID, string(j.State), age(j.DurationMS), p.lastCheckpoint(j), pid, j.URL)
	}
	t.write(p.Stdout)
}

func (p *Program) lastCheckpoint(j listed) string {
	c := j.LastCheckpoint
	if c == nil {
		return "none"
	}
	return fmt.Sprintf("%d, %s ago", c.ID, age(p.Now().UnixMilli()-c.LatestAck))
}

// age is a duration in ms with two units at most.
func age(ms int64) string {
	s := max(ms, 0) / 1000
	switch {
	case s < 60:
		return fmt.Sprintf("%d s", s)
	case s < 60*60:
		return fmt.Sprintf("%d min %d s", s/60, s%60)
	case s < 24*60*60:
		return fmt.Sprintf("%d h %d min", s/3600, s/60%60)
	}
	return fmt.Sprintf("%d d %d h", s/86400, s/3600%24)
}
