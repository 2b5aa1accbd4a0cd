package runner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"time"

	"github.com/weirstream/weir/connector"
	"github.com/weirstream/weir/internal/checkpoint"
	"github.com/weirstream/weir/internal/config"
	"github.com/weirstream/weir/internal/graph"
)

// sameSignal is the time in which a repeated signal is taken for the same one:
// a terminal, a shell and a supervisor may each pass it on.
const sameSignal = 200 * time.Millisecond

// runJob runs the job until it ends or a second signal comes.
func (p *program) runJob(inv *invocation) int {
	j, code := p.prepare(inv)
	if code != exitDone {
		return code
	}
	if j.unfit != nil {
		p.report("the configuration is wrong", j.unfit)
		return exitUsage
	}
	r := request{cmp.Or(int(inv.rewind), p.opts.rewind), cmp.Or(int(inv.fresh), p.opts.fresh)}
	if err := r.check(j); err != nil {
		return p.misuse("run", "%v", err)
	}
	screen := &console{w: p.stderr}
	if p.live(inv, j) {
		screen.width = p.width
	}
	logger := p.opts.logger
	if logger == nil {
		logger = newLogger(screen, j, inv.quiet)
	}
	x, err := j.start(surroundings{
		logger: logger, registerer: p.opts.registerer,
		request:    r,
		standby:    p.opts.standby || inv.standby,
		schemes:    p.opts.schemes,
		acceptLoss: cmp.Or(inv.acceptLoss, p.opts.acceptLoss),
		newEngine:  p.newEngine, events: inv.output == "json",
		runtimeDirs: p.runtimeDirs,
	})
	if err != nil {
		p.report("the job cannot start", err)
		return exitFailed
	}
	shown := newReporter(p.name, x, screen)
	if inv.output == "json" {
		shown.json = p.stdout
	}
	shown.quiet = inv.quiet
	return p.supervise(x, shown)
}

// supervise runs the job, with progress beside it, and listens for signals.
func (p *program) supervise(x *execution, r *reporter) int {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	type outcome struct {
		finishedBefore bool
		err            error
	}
	done := make(chan outcome, 1)
	go func() {
		before, err := x.run(ctx)
		done <- outcome{before, err}
	}()
	stop, reported := make(chan struct{}), make(chan struct{})
	go func() {
		r.run(stop)
		close(reported)
	}()
	quit := func() {
		close(stop)
		<-reported
	}
	var asked time.Time
	for {
		select {
		case s := <-p.signals:
			if !asked.IsZero() {
				if time.Since(asked) < sameSignal {
					continue
				}
				quit()
				fmt.Fprintf(p.stderr, "%s: %v: ended at once; the same command goes on from the last checkpoint\n", p.name, s)
				return exitInterrupted
			}
			if x.tracker.state() == standingBy {
				r.note(fmt.Sprintf("%v: the standby ends", s))
			} else {
				r.note(fmt.Sprintf("%v: stopping with a final snapshot; a second signal ends the job at once", s))
			}
			asked = time.Now()
			x.tracker.suspend()
			x.engine.Suspend()
		case o := <-done:
			quit()
			if errors.Is(o.err, ErrCanceled) {
				o.err = nil // as was asked for: no supervisor shall start it again
			}
			r.end(o.finishedBefore, o.err)
			if o.err == nil {
				return exitDone
			}
			p.report("the job failed", o.err)
			fmt.Fprint(p.stderr, nextStart(x.tracker.snapshot().LastID, o.err))
			return exitFailed
		}
	}
}

// nextStart says what the same command does after a failure; id is the newest
// checkpoint, 0 for none. What is refused or fenced says itself what to do.
func nextStart(id int64, err error) string {
	lost := errors.Is(err, connector.ErrTransactionLost) || errors.Is(err, connector.ErrTransactionUnknown)
	switch {
	case id == 0 || errors.Is(err, checkpoint.ErrRefused) || errors.Is(err, checkpoint.ErrFenced):
		return ""
	case lost:
		return fmt.Sprintf("The same command asks once more for what checkpoint %d holds; if it is lost, it is refused, and says what can be done.\n", id)
	}
	return fmt.Sprintf("The same command goes on from checkpoint %d.\n", id)
}

// live reports whether a status line can be kept on the terminal: standard
// error is one, nobody asked for less, and the job itself does not print
// there.
func (p *program) live(inv *invocation, j *job) bool {
	if inv.quiet || inv.output == "json" || p.width == nil || p.width() == 0 {
		return false
	}
	for _, kv := range p.environ {
		if kv == "TERM=dumb" || kv == "CI=true" || kv == "CI=1" {
			return false
		}
	}
	return !slices.ContainsFunc(j.graph.Nodes, func(n *graph.Node) bool { return n.Kind == "print" })
}

func newLogger(w io.Writer, j *job, quiet bool) *slog.Logger {
	var level slog.Level
	// The table allows nothing else.
	_ = level.UnmarshalText([]byte(j.text(config.LogLevel)))
	if quiet {
		level = max(level, slog.LevelWarn)
	}
	o := &slog.HandlerOptions{Level: level}
	if j.text(config.LogFormat) == "json" {
		return slog.New(slog.NewJSONHandler(w, o))
	}
	return slog.New(slog.NewTextHandler(w, o))
}
