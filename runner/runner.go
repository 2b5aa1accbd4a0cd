// Package runner runs a job: Main makes a program of it, with commands and
// flags; Run runs it inside a program that exists already.
package runner

import (
	"context"
	"errors"
	"flag"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weirstream/weir/internal/config"
	"github.com/weirstream/weir/internal/discovery"
	"github.com/weirstream/weir/storage"
	"github.com/weirstream/weir/stream"
)

// Main is the body of a program's main function: it reads the command line,
// does what it says with the job that build describes, and ends the process.
// name names the job, its snapshots and its metrics; build is called once, and
// must only describe.
//
// Commands are run, graph, check and help. The exit code is 0 when the job finished,
// was suspended or was cancelled, 1 when it failed, 2 for a command line or configuration
// that is wrong, 130 when a second signal ended the process at once. The first
// SIGINT or SIGTERM suspends the job: it takes a final snapshot, from which
// the same command goes on.
//
// While the job runs it listens on the loopback interface, so that the weir
// command finds it and can take savepoints, stop or cancel it; --http says
// otherwise.
func Main(name string, build func(*stream.Job), opts ...Option) {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	p := &program{
		name: name, build: build, opts: collectOptions(opts),
		environ: os.Environ(), stdout: os.Stdout, stderr: os.Stderr,
		signals: signals, width: stderrWidth, newEngine: newEmbedded,
		http: defaultHTTP, runtimeDirs: discovery.Dirs(os.Getenv("XDG_RUNTIME_DIR")),
	}
	os.Exit(p.run(os.Args[1:]))
}

// Run runs the job that build describes and blocks until it ends. It reads no
// flags, handles no signals and touches nothing global, so that several jobs
// may run in one process. When ctx ends the job is cancelled, without a final
// snapshot, and continues from its last checkpoint at the next Run with the same
// name and directory, unless its checkpoint.Retention deletes that.
//
// It returns nil when the job finished, now or in an earlier run, the cause of
// the end of ctx when that came first, ErrCanceled when somebody cancelled the
// job over HTTP (see WithHTTP), or the error that the job failed with.
func Run(ctx context.Context, name string, build func(*stream.Job), opts ...Option) error {
	return run(ctx, name, build, collectOptions(opts), newEmbedded)
}

// ErrCanceled is what Run returns for a job that was cancelled over HTTP.
var ErrCanceled = errors.New("the job was cancelled over HTTP")

// Option sets how a job is run.
type Option func(*options)

type options struct {
	logger     *slog.Logger
	registerer prometheus.Registerer
	configFile string
	environ    []string
	// entries override what build sets.
	entries []config.Entry
	// rewind and fresh are which time they are meant, 0 for not.
	rewind, fresh int
	standby       bool
	schemes       []storage.Scheme
	// acceptLoss is a snapshot's id, 0 for none.
	acceptLoss int64
	flags      []func(*flag.FlagSet)
}

func collectOptions(opts []Option) options {
	var o options
	for _, set := range opts {
		set(&o)
	}
	return o
}

func (o *options) set(key, text, where string) {
	o.entries = append(o.entries, config.Entry{Key: key, Text: text, Where: where})
}

// WithLogger sends the log to l. Without it Main logs to standard error as
// the options log.level and log.format say, and Run discards the log.
func WithLogger(l *slog.Logger) Option { return func(o *options) { o.logger = l } }

// WithRegisterer registers the job's metrics with r. /metrics serves them if r
// is a prometheus.Gatherer, too. The default is a registry of the job's own.
func WithRegisterer(r prometheus.Registerer) Option { return func(o *options) { o.registerer = r } }

// WithConfigFile reads options from a YAML file. In Main the flag --config
// takes its place.
func WithConfigFile(path string) Option { return func(o *options) { o.configFile = path } }

// WithEnvironment reads options from environ, "NAME=value" as os.Environ
// returns it. Main reads the environment of the process by itself.
func WithEnvironment(environ []string) Option { return func(o *options) { o.environ = environ } }

// WithOption sets an option by its key, as a configuration file does, and
// overrides what build sets: WithOption("parallelism.default", "4").
func WithOption(key, value string) Option {
	return func(o *options) { o.set(key, value, "runner.WithOption") }
}

// WithParallelism sets the number of subtasks of operators that set none, and
// overrides what build sets.
func WithParallelism(n int) Option {
	return func(o *options) { o.set(config.Parallelism, itoa(n), "runner.WithParallelism") }
}

// WithRestore starts the job from a checkpoint or savepoint. A start that
// succeeds uses it up: the next one goes on from the newest snapshot.
func WithRestore(path string) Option {
	return func(o *options) { o.set(config.RestorePath, path, "runner.WithRestore") }
}

// WithAllowNonRestoredState drops state of the restored snapshot for which the
// job has no operator, or the operator no state of that name. Without it such a
// start is refused.
func WithAllowNonRestoredState() Option {
	return func(o *options) { o.set(config.AllowNonRestored, "true", "runner.WithAllowNonRestoredState") }
}

// WithRewind allows WithRestore to go back behind output that is committed
// already, which is then written a second time.
func WithRewind() Option { return WithRewindAgain(1) }

// WithRewindAgain is WithRewind for the nth time, counted from 1: the job goes
// to a place once, whoever repeats it, and with another n again.
func WithRewindAgain(n int) Option { return func(o *options) { o.rewind = n } }

// WithFresh begins anew, without the state of earlier runs.
func WithFresh() Option { return WithFreshAgain(1) }

// WithFreshAgain is WithFresh for the nth time, counted from 1: as long as the
// job has not finished it begins anew once, and with another n again.
func WithFreshAgain(n int) Option { return func(o *options) { o.fresh = n } }

// WithStandby waits while another process runs the job, and starts when that
// one has ended, however it did. Without it the start is refused. Both need
// the same checkpoint directory, on a file system with locks.
func WithStandby() Option { return func(o *options) { o.standby = true } }

// WithStorage lets URLs stand wherever a directory of checkpoints or savepoints
// does: runner.WithStorage(s3.Storage()), with the module
// github.com/weirstream/weir/storage/s3, serves --checkpoint-dir
// s3://bucket/weir.
func WithStorage(schemes ...storage.Scheme) Option {
	return func(o *options) { o.schemes = append(o.schemes, schemes...) }
}

// WithAcceptLoss lets the job go on from the snapshot with this id although
// transactions that it holds are lost, or their outcome is unknown: their
// output is missing for good. It counts for that snapshot only, so that it
// accepts no later loss; the error of a start that needs it names the id.
func WithAcceptLoss(snapshot int64) Option { return func(o *options) { o.acceptLoss = snapshot } }

// WithHTTP serves the REST interface, /healthz, /readyz and /metrics at
// HOST:PORT while the job runs; a port alone listens on the loopback interface.
// There is no login: who reaches the port may stop the job.
func WithHTTP(addr string) Option {
	return func(o *options) { o.set(config.HTTPAddress, addr, "runner.WithHTTP") }
}

// Flags adds flags of the job's own to the commands run, graph and check. They are
// parsed before build runs. Run ignores it.
func Flags(define func(*flag.FlagSet)) Option {
	return func(o *options) { o.flags = append(o.flags, define) }
}
