package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
)

// event is a line that the job writes of itself with --output json.
type event struct {
	Event      string `json:"event"`
	RecordsIn  int64  `json:"records_in"`
	Checkpoint int64  `json:"checkpoint"`
	Error      string `json:"error"`
}

// history is what has happened to the job, over all its processes.
type history struct {
	starts, kills int
	// failures are errors that the job went on from inside its process.
	failures    int
	checkpoints int
	// last is the newest checkpoint, sinceFailure those after the last
	// failure, sinceStart those after the last start of the process.
	last, sinceFailure, sinceStart int64
	// before is what earlier processes read, as far as they told, and now
	// what this one has read.
	before, now int64
}

func (h *history) records() int64 { return h.before + h.now }

// restarts counts both those inside the process and those of the process.
func (h *history) restarts() int { return h.failures + max(0, h.starts-1) }

// child runs the job as a process of its own and follows it.
type child struct {
	args    []string
	logFile string
	// fail ends the run when the process ends by itself.
	fail context.CancelCauseFunc
	say  func(format string, args ...any)

	process *exec.Cmd
	ended   chan struct{} // closed when the process is gone and heard out

	mu      sync.Mutex
	history history
	wanted  bool          // the end of the process is wanted
	changed chan struct{} // closed and replaced at each change
}

// newChild prepares the command: this program in its other role.
func newChild(b *broker, o *options, work string, fail context.CancelCauseFunc, say func(string, ...any)) *child {
	return &child{
		args: []string{
			"job", "run", "--output", "json", "--log-level", "info",
			"--parallelism", fmt.Sprint(o.parallelism),
			"--checkpoint-dir", filepath.Join(work, "checkpoints"),
			"--bootstrap-servers", b.servers,
			"--clicks", b.topics.clicks, "--results", b.topics.results, "--late", b.topics.late,
			"--error-file", filepath.Join(work, "error-raised"),
		},
		logFile: filepath.Join(work, "job.log"),
		fail:    fail, say: say,
		changed: make(chan struct{}),
	}
}

// start starts the command, the same each time.
func (c *child) start() error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding this program: %w", err)
	}
	log, err := os.OpenFile(c.logFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(self, c.args...)
	cmd.Stderr = log
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting the job: %w", err)
	}
	c.process, c.ended = cmd, make(chan struct{})
	c.update(func(h *history) {
		h.starts++
		h.before, h.now, h.sinceStart = h.records(), 0, 0
		c.wanted = false
	})
	go c.follow(cmd, stdout, c.ended)
	return nil
}

// follow hears the process out and sees it end.
func (c *child) follow(cmd *exec.Cmd, stdout io.Reader, ended chan<- struct{}) {
	defer close(ended)
	for lines := bufio.NewScanner(stdout); lines.Scan(); {
		var e event
		// A kill may cut the last line.
		if json.Unmarshal(lines.Bytes(), &e) == nil {
			c.heard(e)
		}
	}
	err := cmd.Wait()
	c.mu.Lock()
	wanted := c.wanted
	c.mu.Unlock()
	if !wanted {
		c.fail(fmt.Errorf("the job ended by itself (%s); the end of its log:\n%s", describe(err), tail(c.logFile)))
	}
}

func (c *child) heard(e event) {
	c.update(func(h *history) {
		h.now = max(h.now, e.RecordsIn)
		switch e.Event {
		case "checkpoint":
			h.checkpoints++
			h.sinceFailure++
			h.sinceStart++
			h.last = e.Checkpoint
		case "failed":
			c.say("job        failed: %s", firstLine(e.Error))
		case "restarting":
			h.failures++
			h.sinceFailure = 0
			c.say("job        restarts inside its process")
		case "started":
			if e.Checkpoint > 0 {
				c.say("job        restored from checkpoint %d", e.Checkpoint)
			}
		}
	})
}

func (c *child) update(change func(*history)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change(&c.history)
	close(c.changed)
	c.changed = make(chan struct{})
}

func (c *child) now() history {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.history
}

// await blocks until the history is as wanted.
func (c *child) await(ctx context.Context, wanted func(*history) bool) error {
	for {
		c.mu.Lock()
		ok, changed := wanted(&c.history), c.changed
		c.mu.Unlock()
		if ok {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// kill ends the process as a crash does: it gets no chance to do anything.
func (c *child) kill() error {
	c.end()
	if err := c.process.Process.Kill(); err != nil {
		return fmt.Errorf("killing the job: %w", err)
	}
	<-c.ended
	c.update(func(h *history) { h.kills++ })
	return nil
}

// suspend asks the job for a final snapshot and waits for its end.
func (c *child) suspend(ctx context.Context) error {
	c.end()
	if err := c.process.Process.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("suspending the job: %w", err)
	}
	select {
	case <-c.ended:
	case <-ctx.Done():
		return errors.Join(context.Cause(ctx), c.kill())
	}
	if code := c.process.ProcessState.ExitCode(); code != 0 {
		return fmt.Errorf("the job was to be suspended and ended with code %d; the end of its log:\n%s", code, tail(c.logFile))
	}
	return nil
}

// end notes that the end of the process is wanted.
func (c *child) end() { c.update(func(*history) { c.wanted = true }) }

// stop kills what still runs.
func (c *child) stop() {
	if c.process == nil {
		return
	}
	c.end()
	// It may have ended already.
	_ = c.process.Process.Kill()
	<-c.ended
}

func describe(err error) string {
	if err == nil {
		return "exit status 0"
	}
	return err.Error()
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}

// tail is the last part of a file.
func tail(path string) string {
	const lines = 20
	data, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimRight(string(data), "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
