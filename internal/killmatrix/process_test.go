//go:build unix

package killmatrix

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weirstream/weir/internal/killpoint"
)

// patience is how long a process may do nothing before the test gives up.
const patience = 3 * time.Minute

// event is something that a process says or that happens to it.
type event struct {
	kind   string // started, failed, completed; paused, exited, silence
	status syscall.WaitStatus
	// goroutines of the process, with completed.
	goroutines int
}

// process is a victim that was started.
type process struct {
	pid    int
	log    string
	events chan event
	exited bool
	// killed tells that the test sent SIGKILL.
	killed bool
}

// launch starts a victim; point is where it dies or stops, "" for nowhere.
func launch(t *testing.T, log, point string, args ...string) *process {
	t.Helper()
	out, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	cmd := exec.Command(os.Args[0], append([]string{"victim"}, args...)...)
	cmd.Env = append(os.Environ(), killpoint.Variable+"="+point)
	cmd.Stderr, cmd.SysProcAttr = out, withTest()
	words, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &process{pid: cmd.Process.Pid, log: log, events: make(chan event, 1<<16)}
	if err := cmd.Process.Release(); err != nil { // watch waits for it
		t.Fatal(err)
	}
	heard := make(chan struct{})
	go func() {
		defer close(heard)
		p.listen(words)
	}()
	go p.watch(heard)
	t.Cleanup(p.end)
	return p
}

func (p *process) listen(words io.ReadCloser) {
	defer words.Close()
	lines := bufio.NewScanner(words)
	for lines.Scan() {
		word, n, _ := strings.Cut(lines.Text(), " ")
		goroutines, _ := strconv.Atoi(n)
		p.events <- event{kind: word, goroutines: goroutines}
	}
}

// watch waits for the process to stop and to exit.
func (p *process) watch(heard <-chan struct{}) {
	for {
		var status syscall.WaitStatus
		_, err := syscall.Wait4(p.pid, &status, syscall.WUNTRACED, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err == nil && status.Stopped():
			p.events <- event{kind: "paused"}
		default:
			<-heard
			p.events <- event{kind: "exited", status: status}
			return
		}
	}
}

// next waits for the next event.
func (p *process) next(t *testing.T) event {
	t.Helper()
	e := p.within(patience)
	if e.kind == "silence" {
		t.Fatalf("process %d has done nothing for %v\n%s", p.pid, patience, p.tail())
	}
	return e
}

// within waits for the next event, or silence.
func (p *process) within(d time.Duration) event {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case e := <-p.events:
		p.exited = p.exited || e.kind == "exited"
		return e
	case <-timer.C:
		return event{kind: "silence"}
	}
}

// await waits for an event of a kind, and returns it, or the exit.
func (p *process) await(t *testing.T, kind string) event {
	t.Helper()
	for {
		if e := p.next(t); e.kind == kind || e.kind == "exited" {
			return e
		}
	}
}

// awaitCompleted waits for n completed checkpoints; false if it exits before.
func (p *process) awaitCompleted(t *testing.T, n int) bool {
	t.Helper()
	for range n {
		if p.await(t, "completed").kind == "exited" {
			return false
		}
	}
	return true
}

func (p *process) signal(s syscall.Signal) {
	if !p.exited {
		_ = syscall.Kill(p.pid, s)
	}
}

// kill sends SIGKILL and waits for the end.
func (p *process) kill(t *testing.T) event {
	t.Helper()
	p.killed = true
	p.signal(syscall.SIGKILL)
	return p.await(t, "exited")
}

// live lets the process run for a time and kills it then, unless it has ended
// before. It returns the end; on is told what happens until then.
func (p *process) live(t *testing.T, d time.Duration, on func(event)) event {
	t.Helper()
	over := time.After(d)
	for {
		select {
		case <-over:
			return p.kill(t)
		case e := <-p.events:
			if e.kind == "exited" {
				p.exited = true
				return e
			}
			on(e)
		}
	}
}

// end leaves nothing behind.
func (p *process) end() {
	p.signal(syscall.SIGKILL)
	for !p.exited && p.within(patience).kind != "silence" {
	}
}

// code is the exit code, -1 for a process that died of SIGKILL.
func (e event) code() int {
	if e.status.Signaled() && e.status.Signal() == syscall.SIGKILL {
		return -1
	}
	if e.status.Exited() {
		return e.status.ExitStatus()
	}
	return exitFailed
}

func (p *process) tail() []byte {
	data, err := os.ReadFile(p.log)
	if err != nil {
		return []byte(err.Error())
	}
	lines := bytes.SplitAfter(data, []byte("\n"))
	return bytes.Join(lines[max(0, len(lines)-40):], nil)
}
