package runner

import (
	"context"

	"github.com/weirstream/weir/internal/graph"
	"github.com/weirstream/weir/internal/rest/server"
	"github.com/weirstream/weir/runner/embedded"
)

// engine is a job that can be run once.
type engine interface {
	// Run blocks until the job has finished or was suspended (nil), failed,
	// or ctx has ended.
	Run(ctx context.Context) error
	// Suspend stops the sources and takes a final snapshot; Run returns then.
	Suspend()
	// Job is what can be asked for over HTTP.
	server.Job
	// Records are the numbers of records that sources have emitted and sinks
	// have taken. It may be called at any time.
	Records() (in, out int64)
}

type engineMaker func(*graph.Graph, embedded.Options) (engine, error)

func newEmbedded(g *graph.Graph, o embedded.Options) (engine, error) {
	j, err := embedded.New(g, o)
	if err != nil {
		return nil, err
	}
	return embeddedJob{j}, nil
}

type embeddedJob struct{ *embedded.Job }

func (j embeddedJob) Records() (in, out int64) {
	s := j.Status()
	return s.RecordsIn, s.RecordsOut
}
