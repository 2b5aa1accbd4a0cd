package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"time"
)

// Roles of child processes, and what they print.
const (
	roleFill   = "fill"
	roleResume = "resume"
	ready      = "ready"
)

// crash has a process fill state and take a checkpoint, kills it, and measures
// how long it takes until one that is started then has processed a record.
func crash(ctx context.Context, f flags) error {
	first, err := spawn(ctx, f, roleFill)
	if err != nil {
		return err
	}
	if err := errors.Join(first.awaitReady(), first.kill()); err != nil {
		return err
	}
	begin := time.Now()
	second, err := spawn(ctx, f, roleResume)
	if err != nil {
		return err
	}
	err = second.awaitReady()
	if err == nil {
		f.show(measurement{What: "crash to first new output", Parallelism: f.parallelism, Seconds: time.Since(begin).Seconds()})
	}
	return errors.Join(err, second.kill())
}

type process struct {
	cmd *exec.Cmd
	out io.Reader
}

func spawn(ctx context.Context, f flags, role string) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self, "-role", role, "-backend", f.backend, "-memory", strconv.FormatInt(f.memory, 10),
		"-keys", strconv.FormatInt(f.keys, 10), "-value-bytes", strconv.Itoa(f.valueBytes),
		"-parallelism", strconv.Itoa(f.parallelism), "-checkpoint-dir", f.dir, "-local-dir", f.localDir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	return &process{cmd, out}, cmd.Start()
}

func (p *process) awaitReady() error {
	for s := bufio.NewScanner(p.out); s.Scan(); {
		if s.Text() == ready {
			return nil
		}
		fmt.Println(s.Text())
	}
	return errors.New("the process ended before it was ready")
}

// kill ends the process as a crash does.
func (p *process) kill() error {
	if err := p.cmd.Process.Kill(); err != nil {
		return err
	}
	var exit *exec.ExitError
	if err := p.cmd.Wait(); err != nil && !errors.As(err, &exit) {
		return err
	}
	return nil
}

// child runs the job until it is killed.
func child(ctx context.Context, f flags) error {
	c := newControl(f.keys)
	if f.role == roleResume {
		c.made.Store(f.keys)
	}
	r, err := start(ctx, f, c, f.parallelism)
	if err != nil {
		return err
	}
	switch f.role {
	case roleFill:
		if err = r.await(c, f.keys); err == nil {
			err = r.checkpoint(ctx, f, c, measurement{What: "checkpoint before the crash"})
		}
	case roleResume:
		err = r.awaitFirst()
	default:
		err = fmt.Errorf("no role %q", f.role)
	}
	if err == nil {
		fmt.Println(ready)
		<-ctx.Done()
	}
	return errors.Join(err, r.stop())
}
