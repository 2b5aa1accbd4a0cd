package runner

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/weirstream/weir/internal/checkpoint"
	"github.com/weirstream/weir/internal/config"
	"github.com/weirstream/weir/storage"
	"github.com/weirstream/weir/stream"
)

// surroundings are what a job runs in.
type surroundings struct {
	logger     *slog.Logger
	registerer prometheus.Registerer
	request    request
	standby    bool
	schemes    []storage.Scheme
	acceptLoss int64
	newEngine  engineMaker
	// events makes the tracker keep events for a reporter.
	events bool
	// runtimeDirs are where the job is announced, if it listens; none for
	// nowhere.
	runtimeDirs []string
}

// request is which time --rewind and --fresh are meant, 0 for not.
type request struct{ rewind, fresh int }

// check finds flags that do not go together.
func (r request) check(j *job) error {
	switch path := j.text(config.RestorePath); {
	case r.rewind > 0 && path == "":
		return errors.New("--rewind needs the snapshot to go back to: add -s PATH")
	case r.fresh > 0 && path != "":
		return fmt.Errorf("--fresh begins from nothing and -s from a snapshot (%s): leave one out", path)
	}
	return nil
}

// execution is a job about to run, or running.
type execution struct {
	engine  engine
	tracker *tracker
	// access is nil if the job does not listen.
	access *access
	log    *slog.Logger
	// canceled ends when somebody cancels the job.
	canceled context.Context
	cancel   context.CancelFunc
}

// start makes the engine and the HTTP server. The caller must call run.
func (j *job) start(s surroundings) (*execution, error) {
	registerer, gatherer := metricsOf(s.registerer)
	x := &execution{tracker: newTracker(s.events), log: s.logger}
	x.canceled, x.cancel = context.WithCancel(context.Background())
	o := j.engineOptions()
	o.Rewind, o.Fresh, o.Nth = s.request.rewind > 0, s.request.fresh > 0, max(s.request.rewind, s.request.fresh)
	o.Standby, o.AcceptLoss, o.Schemes = s.standby, s.acceptLoss, s.schemes
	o.Logger, o.Registerer, o.OnEvent = s.logger, registerer, x.tracker.event
	var err error
	if x.engine, err = s.newEngine(j.graph, o); err != nil {
		return nil, err
	}
	j.announce(s.logger)
	x.access, err = j.open(x, s, gatherer)
	return x, err
}

// metricsOf returns where metrics are registered and where they are read, nil
// if they cannot be.
func metricsOf(r prometheus.Registerer) (prometheus.Registerer, prometheus.Gatherer) {
	if r == nil {
		own := prometheus.NewRegistry()
		own.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
		return own, own
	}
	g, _ := r.(prometheus.Gatherer)
	return r, g
}

// announce logs warnings and the effective options with their origins.
func (j *job) announce(log *slog.Logger) {
	for _, w := range j.warnings() {
		log.Warn(w)
	}
	var set, defaults []any
	for _, v := range j.values.Values() {
		if v.Origin.Layer == config.Default {
			defaults = append(defaults, slog.String(v.Key, v.Shown()))
			continue
		}
		set = append(set, slog.String(v.Key, fmt.Sprintf("%s (%s)", v.Text, v.Origin)))
	}
	log.Info("options set", set...)
	log.Debug("options by default", defaults...)
}

// run blocks until the job ends. finishedBefore tells that there was nothing
// left to do.
func (x *execution) run(ctx context.Context) (finishedBefore bool, err error) {
	defer x.cancel()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := context.AfterFunc(x.canceled, func() { cancel(ErrCanceled) })
	defer stop()
	err = x.engine.Run(ctx)
	if errors.Is(err, checkpoint.ErrFinished) {
		x.log.Info("nothing to do", "reason", err)
		finishedBefore, err = true, nil
	}
	x.tracker.end(err, ctx.Err() != nil)
	if x.access != nil {
		x.access.close(x.log)
	}
	return finishedBefore, err
}

// run is Run with the engine passed in.
func run(ctx context.Context, name string, build func(*stream.Job), o options, newEngine engineMaker) error {
	logger := o.logger
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	j, err := prepare(name, build, settings{configFile: o.configFile, environ: o.environ, calls: o.entries})
	if err == nil {
		err = j.unfit
	}
	r := request{o.rewind, o.fresh}
	if err == nil {
		err = r.check(j)
	}
	if err != nil {
		return fmt.Errorf("job %s: %w", name, err)
	}
	x, err := j.start(surroundings{logger: logger, registerer: o.registerer, request: r, standby: o.standby, schemes: o.schemes, acceptLoss: o.acceptLoss, newEngine: newEngine})
	if err != nil {
		return fmt.Errorf("job %s: %w", name, err)
	}
	_, err = x.run(ctx)
	return err
}
