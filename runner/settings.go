package runner

import (
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"time"

	"github.com/weirstream/weir/checkpoint"
	"github.com/weirstream/weir/connector"
	"github.com/weirstream/weir/internal/config"
	"github.com/weirstream/weir/internal/graph"
	"github.com/weirstream/weir/internal/stage"
	"github.com/weirstream/weir/runner/embedded"
	"github.com/weirstream/weir/stream"
)

// settings is where options come from besides the job's code.
type settings struct {
	configFile string
	environ    []string
	// calls and flags override what the code sets.
	calls, flags []config.Entry
	// http is the default of http.address, "" for no server.
	http string
}

// job is a job that is built and configured, but does not run yet.
type job struct {
	graph  *graph.Graph
	plan   *graph.Plan
	values *config.Set
	// unfit is why the job cannot run with these values, nil if it can: the
	// graph is shown all the same.
	unfit error
	// batch tells that the job runs in batch mode.
	batch bool
}

// usageError is a command line or configuration that is wrong.
type usageError struct{ err error }

func (e usageError) Error() string { return e.err.Error() }
func (e usageError) Unwrap() error { return e.err }

// buildError is a job that is wrong.
type buildError struct{ err error }

func (e buildError) Error() string { return e.err.Error() }
func (e buildError) Unwrap() error { return e.err }

// describe calls the job's build function. A panic in it, or in a constructor
// that it passes on, is the job's error: it must not end a service.
func describe(j *stream.Job, build func(*stream.Job)) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("building the job: panic: %v\n%s", p, debug.Stack())
		}
	}()
	build(j)
	return nil
}

// prepare builds the job and settles its options. The error is a usageError
// or a buildError and tells everything that is wrong.
func prepare(name string, build func(*stream.Job), s settings) (*job, error) {
	values := config.New()
	var errs []error
	if s.configFile != "" {
		errs = append(errs, values.ReadFile(s.configFile))
	}
	errs = append(errs, values.Environ(s.environ))
	described := stream.NewJob(name)
	if err := describe(described, build); err != nil {
		return nil, buildError{err}
	}
	errs = append(errs,
		values.Apply(config.Code, codeEntries(described.Options())),
		values.Apply(config.Code, s.calls),
		values.Apply(config.Flag, s.flags))
	values.Resolve()
	errs = append(errs, values.SetDefault(config.Parallelism, itoa(runtime.GOMAXPROCS(0))))
	if s.http != "" {
		errs = append(errs, values.SetDefault(config.HTTPAddress, s.http))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, usageError{err}
	}
	g, err := described.Build()
	if err != nil {
		return nil, buildError{err}
	}
	j := &job{graph: g, values: values}
	j.batch, err = embedded.IsBatch(g, stream.RuntimeMode(j.text(config.RuntimeMode)))
	j.unfit = errors.Join(err, j.check())
	j.plan, err = g.Plan(config.Get[int](values, config.Parallelism), config.Get[int](values, config.MaxParallelism))
	if err != nil {
		return nil, usageError{err}
	}
	return j, nil
}

// check finds options that do not go together, or not with the job.
func (j *job) check() error {
	c := j.checkpoints()
	errs := []error{c.Validate(), j.restarts().Validate()}
	for _, n := range j.graph.Nodes {
		body, sink := n.Body.(stage.SinkBody)
		if !sink || body.Delivery() != connector.ExactlyOnce {
			continue
		}
		switch {
		case c.Interval == 0:
			errs = append(errs, fmt.Errorf("%s: sink %q is exactly-once, which needs checkpoints: set --checkpoint-interval and --checkpoint-dir, or give the sink another delivery", n.Site, n.ID))
		case c.Mode != checkpoint.ExactlyOnce:
			errs = append(errs, fmt.Errorf("%s: sink %q is exactly-once, but checkpoints are at-least-once: set %s to %s, or give the sink another delivery",
				n.Site, n.ID, config.CheckpointMode, config.ExactlyOnce))
		}
	}
	return errors.Join(errs...)
}

// warnings tells what is accepted but likely wrong.
func (j *job) warnings() []string {
	out := append(slices.Clone(j.values.Warnings()), j.graph.Warnings()...)
	const little = 1 << 20
	if n := config.Get[int64](j.values, config.LSMMemory); n > 0 && n < little {
		out = append(out, fmt.Sprintf("%s is %d bytes: nearly all state will be read from disk and written back each time", config.LSMMemory, n))
	}
	if set, raised := j.duration(config.CheckpointInterval), j.checkpoints().Interval; set > 0 && raised > set {
		out = append(out, fmt.Sprintf("%s is raised from %v to %v, the value of %s", config.CheckpointInterval, set, raised, config.CheckpointMinPause))
	}
	return append(out, unrepeatable(j.graph)...)
}

func (j *job) duration(key string) time.Duration { return config.Get[time.Duration](j.values, key) }
func (j *job) integer(key string) int            { return config.Get[int](j.values, key) }
func (j *job) text(key string) string            { return config.Get[string](j.values, key) }
func (j *job) number(key string) float64         { return config.Get[float64](j.values, key) }

// checkpoints returns the effective options, complete.
func (j *job) checkpoints() checkpoint.Options {
	c := checkpoint.Options{
		Interval:          j.duration(config.CheckpointInterval),
		Mode:              checkpoint.ExactlyOnce,
		Timeout:           j.duration(config.CheckpointTimeout),
		MinPause:          j.duration(config.CheckpointMinPause),
		MaxConcurrent:     j.integer(config.CheckpointConcurrent),
		TolerableFailures: j.integer(config.CheckpointTolerable),
		Retained:          j.integer(config.CheckpointRetained),
		Retention:         checkpoint.RetainAlways,
		Dir:               j.text(config.CheckpointDir),
		SavepointDir:      j.text(config.SavepointDir),
	}
	c.Incremental = config.Get[bool](j.values, config.CheckpointIncremental)
	if j.text(config.CheckpointMode) == config.AtLeastOnce {
		c.Mode = checkpoint.AtLeastOnce
	}
	switch j.text(config.CheckpointRetention) {
	case config.DeleteOnCancel:
		c.Retention = checkpoint.DeleteOnCancel
	case config.DeleteAlways:
		c.Retention = checkpoint.DeleteAtEnd
	}
	if j.batch {
		embedded.Chunk(&c)
	}
	c.EnsureDefaults()
	return c
}

// restarts returns the effective restart strategy.
func (j *job) restarts() checkpoint.Restart {
	var r checkpoint.Restart = checkpoint.None{}
	switch j.text(config.RestartType) {
	case config.RestartFixed:
		r = checkpoint.FixedDelay{Attempts: j.integer(config.FixedAttempts), Delay: j.duration(config.FixedDelay)}
	case config.RestartFailureRate:
		r = checkpoint.FailureRate{Max: j.integer(config.RateMax), Interval: j.duration(config.RateInterval), Delay: j.duration(config.RateDelay)}
	case config.RestartExponential:
		e := checkpoint.ExponentialDelay{
			Initial: j.duration(config.BackoffInitial), Max: j.duration(config.BackoffMax),
			Multiplier: j.number(config.BackoffMultiplier), Jitter: j.number(config.BackoffJitter),
			ResetAfter: j.duration(config.BackoffReset), Attempts: j.integer(config.BackoffAttempts),
		}
		if e.Jitter == 0 {
			e.Jitter = -1 // its zero value means the default
		}
		r = e
	}
	return checkpoint.DefaultRestart(r, true)
}

// engineOptions are the effective options as the engine takes them.
func (j *job) engineOptions() embedded.Options {
	return embedded.Options{
		Parallelism:           j.integer(config.Parallelism),
		MaxParallelism:        j.integer(config.MaxParallelism),
		Checkpoint:            j.checkpoints(),
		Restart:               j.restarts(),
		Failover:              embedded.Failover(j.text(config.Failover)),
		RestorePath:           j.text(config.RestorePath),
		Claim:                 j.text(config.ClaimMode) == config.Claim,
		AllowNonRestoredState: config.Get[bool](j.values, config.AllowNonRestored),
		BufferTimeout:         j.duration(config.BufferTimeout),
		WatermarkInterval:     j.duration(config.WatermarkInterval),
		RuntimeMode:           stream.RuntimeMode(j.text(config.RuntimeMode)),
		StateBackend:          embedded.Backend(j.text(config.StateBackend)),
		HeapMemory:            config.Get[int64](j.values, config.HeapMemory),
		LSMMemory:             config.Get[int64](j.values, config.LSMMemory),
		LSMDir:                j.text(config.LSMDir),
	}
}

// codeEntries are the options that the job sets itself; zero values are not
// set.
func codeEntries(o stream.JobOptions) []config.Entry {
	var es entries
	es.integer(config.Parallelism, o.Parallelism)
	es.integer(config.MaxParallelism, o.MaxParallelism)
	es.duration(config.BufferTimeout, o.BufferTimeout)
	es.duration(config.WatermarkInterval, o.WatermarkInterval)
	es.text(config.RuntimeMode, string(o.RuntimeMode))
	es.text(config.StateBackend, string(o.StateBackend))
	c := o.Checkpoint
	es.duration(config.CheckpointInterval, c.Interval)
	es.text(config.CheckpointMode, string(c.Mode))
	es.duration(config.CheckpointTimeout, c.Timeout)
	es.duration(config.CheckpointMinPause, c.MinPause)
	es.integer(config.CheckpointConcurrent, c.MaxConcurrent)
	es.integer(config.CheckpointTolerable, c.TolerableFailures)
	es.integer(config.CheckpointRetained, c.Retained)
	es.text(config.CheckpointRetention, string(c.Retention))
	es.text(config.CheckpointDir, c.Dir)
	es.text(config.SavepointDir, c.SavepointDir)
	if c.Incremental {
		es.text(config.CheckpointIncremental, "true")
	}
	if c.PreferCheckpoint {
		es.text(config.PreferCheckpoint, "true")
	}
	if o.Restart != nil {
		es.restart(checkpoint.DefaultRestart(o.Restart, true))
	}
	return es
}

// entries collects settings that are not the zero value.
type entries []config.Entry

func (es *entries) text(key, text string) {
	if text != "" {
		*es = append(*es, config.Entry{Key: key, Text: text})
	}
}

func (es *entries) integer(key string, n int) {
	if n != 0 {
		es.text(key, itoa(n))
	}
}

func (es *entries) duration(key string, d time.Duration) {
	if d != 0 {
		es.text(key, d.String())
	}
}

func (es *entries) attempts(key string, n int) {
	if n == checkpoint.Unlimited {
		es.text(key, "infinite")
		return
	}
	es.text(key, itoa(n))
}

// restart sets a strategy as a whole, so that no part of it comes from
// elsewhere.
func (es *entries) restart(r checkpoint.Restart) {
	decimal := func(key string, f float64) { es.text(key, strconv.FormatFloat(f, 'g', -1, 64)) }
	switch r := r.(type) {
	case checkpoint.None:
		es.text(config.RestartType, config.RestartNone)
	case checkpoint.FixedDelay:
		es.text(config.RestartType, config.RestartFixed)
		es.attempts(config.FixedAttempts, r.Attempts)
		es.duration(config.FixedDelay, r.Delay)
	case checkpoint.FailureRate:
		es.text(config.RestartType, config.RestartFailureRate)
		es.integer(config.RateMax, r.Max)
		es.duration(config.RateInterval, r.Interval)
		es.duration(config.RateDelay, r.Delay)
	case checkpoint.ExponentialDelay:
		es.text(config.RestartType, config.RestartExponential)
		es.duration(config.BackoffInitial, r.Initial)
		es.duration(config.BackoffMax, r.Max)
		decimal(config.BackoffMultiplier, r.Multiplier)
		decimal(config.BackoffJitter, r.Jitter)
		es.duration(config.BackoffReset, r.ResetAfter)
		es.attempts(config.BackoffAttempts, r.Attempts)
	}
}

func itoa(n int) string { return strconv.Itoa(n) }
