package embedded

import (
	"context"
	"errors"
	"fmt"
	"path"

	coord "github.com/weirstream/weir/internal/checkpoint"
	"github.com/weirstream/weir/internal/graph"
	"github.com/weirstream/weir/internal/snapshot"
	"github.com/weirstream/weir/internal/stage"
	"github.com/weirstream/weir/internal/storage"
	"github.com/weirstream/weir/internal/storage/location"
)

// RestoreCheck says whether a job restores a snapshot.
type RestoreCheck struct {
	// Path is the snapshot's, Job, Kind and ID what it says of itself.
	Path, Job string
	Kind      snapshot.Kind
	ID        int64
	// Refusals are all reasons for which a start would be refused; none if it
	// would not.
	Refusals []string
	// Notes are what such a start does that one may not expect.
	Notes []string
}

// CheckRestore tells whether the job restores the snapshot at o.RestorePath. It
// reads the snapshot and changes nothing: it claims nothing, and opens no
// source and no sink.
func CheckRestore(ctx context.Context, g *graph.Graph, o Options) (*RestoreCheck, error) {
	o.ensureDefaults()
	opener := location.NewOpener(o.Schemes...)
	defer opener.Close()
	blobs, dir, err := coord.OpenPath(ctx, opener)(o.RestorePath)
	if err != nil {
		return nil, err
	}
	m, err := snapshot.Load(ctx, blobs, dir)
	if err != nil {
		return nil, err
	}
	c := &RestoreCheck{Path: location.Join(blobs.String(), dir), Job: m.Job, Kind: m.Kind, ID: m.ID}
	c.files(ctx, blobs, dir, m)
	if err := c.state(g, m, o); err != nil {
		return nil, err
	}
	c.sinks(ctx, g, m, blobs, dir)
	c.notes(g, m)
	return c, nil
}

func (c *RestoreCheck) refuse(err error) {
	if err == nil {
		return
	}
	if many, ok := err.(interface{ Unwrap() []error }); ok && err.Error() == errors.Join(many.Unwrap()...).Error() {
		for _, e := range many.Unwrap() {
			c.refuse(e)
		}
		return
	}
	c.Refusals = append(c.Refusals, err.Error())
}

// files looks whether they are there, and are as long as they were.
func (c *RestoreCheck) files(ctx context.Context, blobs storage.Blobs, dir string, m *snapshot.Metadata) {
	for _, f := range m.Files {
		if f.Size == 0 {
			continue
		}
		if _, err := blobs.GetRange(ctx, path.Join(dir, f.Name), f.Size-1, 1); err != nil {
			c.refuse(fmt.Errorf("data file %s: %w", f.Name, err))
		}
	}
}

// state asks what an attempt does when it lays the job out.
func (c *RestoreCheck) state(g *graph.Graph, m *snapshot.Metadata, o Options) error {
	r, err := newRestored(m, g, o.AllowNonRestoredState)
	c.refuse(err)
	if r == nil {
		return nil
	}
	for _, d := range r.dropped {
		c.Notes = append(c.Notes, d+" is dropped, as --allow-non-restored-state says")
	}
	c.refuse(r.check(g))
	c.Notes = append(c.Notes, r.notes(g)...)
	plan, err := g.Plan(o.Parallelism, o.MaxParallelism)
	if err != nil {
		return err
	}
	c.refuse(r.adoptMaxParallelism(plan, o.MaxParallelism))
	return nil
}

// sinks finds output that no sink of the job would commit.
func (c *RestoreCheck) sinks(ctx context.Context, g *graph.Graph, m *snapshot.Metadata, blobs storage.Blobs, dir string) {
	sinks := map[string]bool{}
	for _, n := range g.Nodes {
		_, sinks[n.ID] = n.Body.(stage.SinkBody)
	}
	for _, op := range m.Operators {
		if len(op.Committables) == 0 || sinks[op.ID] {
			continue
		}
		if committed, err := coord.IsCommitted(ctx, blobs, dir, m); err != nil {
			c.refuse(err)
		} else if !committed {
			c.refuse(fmt.Errorf("operator %q: the snapshot holds %d committables of this sink, which the job no longer has; a start is refused unless they are known to be committed: start the job with the sink once and suspend it, then take the sink out",
				op.ID, len(op.Committables)))
		}
	}
}

func (c *RestoreCheck) notes(g *graph.Graph, m *snapshot.Metadata) {
	if m.Job != g.Job {
		c.Notes = append(c.Notes, fmt.Sprintf("the snapshot is of job %q, this is %q", m.Job, g.Job))
	}
	stored := map[string]bool{}
	for _, op := range m.Operators {
		stored[op.ID] = true
	}
	for _, n := range g.Nodes {
		switch {
		case stored[n.ID]:
		case n.Role == graph.Source:
			c.Notes = append(c.Notes, fmt.Sprintf("source %q is not in the snapshot: it reads from its start", n.ID))
		case n.Stateful:
			c.Notes = append(c.Notes, fmt.Sprintf("operator %q is not in the snapshot: its state begins empty", n.ID))
		}
	}
}
