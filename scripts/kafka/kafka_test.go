//go:build unix

// Package kafka tests the script that starts brokers, on a stand-in for Java.
package kafka

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// java formats by doing nothing, and is a broker until SIGTERM; one whose
// folder has a file "refuse" ends at once.
const java = `#!/bin/sh
for last; do :; done
case $* in *StorageTool*) exit 0 ;; esac
[ ! -e "$(dirname "$last")/../refuse" ] || exit 1
trap 'exit 0' TERM
echo 'Kafka Server started'
while :; do sleep 0.05; done
`

// script runs kafka.sh with its stand-in for Java.
type script struct {
	*testing.T
	dir string // of the brokers
	env []string
}

func newScript(t *testing.T) *script {
	t.Helper()
	if testing.Short() {
		t.Skip("starts processes")
	}
	home, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(home, "java"), java)
	write(t, filepath.Join(home, "complete"), "")
	s := &script{t, filepath.Join(home, "brokers"), append(os.Environ(), "KAFKA_DIST="+home, "PATH="+home+":"+os.Getenv("PATH"))}
	t.Cleanup(func() { s.run("stop", s.dir) })
	return s
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
}

func (s *script) run(args ...string) (stdout, stderr string, code int) {
	s.Helper()
	var o, e bytes.Buffer
	cmd := exec.Command("./kafka.sh", args...)
	cmd.Env, cmd.Stdout, cmd.Stderr = s.env, &o, &e
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		s.Fatal(err)
	}
	return o.String(), e.String(), cmd.ProcessState.ExitCode()
}

// ok runs what must succeed.
func (s *script) ok(args ...string) (stdout string) {
	s.Helper()
	o, e, code := s.run(args...)
	if code != 0 {
		s.Fatalf("kafka.sh %v: code %d\n%s", args, code, e)
	}
	return o
}

// refused runs what must fail, and say why.
func (s *script) refused(code int, why string, args ...string) {
	s.Helper()
	if o, e, got := s.run(args...); got != code || !strings.Contains(e, why) || o != "" {
		s.Errorf("kafka.sh %v: code %d, want %d with %q; %q\n%s", args, got, code, why, o, e)
	}
}

func (s *script) pidFile(n string) string { return filepath.Join(s.dir, "node-"+n, "pid") }

func (s *script) pid(n string) int {
	s.Helper()
	text, err := os.ReadFile(s.pidFile(n))
	if err != nil {
		s.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		s.Fatal(err)
	}
	return pid
}

// runs tells whether a process is a broker: one that has ended may wait as a
// zombie for whoever adopted it.
func (s *script) runs(pid int) bool {
	s.Helper()
	out, _ := exec.Command("ps", "-ww", "-o", "args=", "-p", strconv.Itoa(pid)).Output()
	return bytes.Contains(out, []byte("kafka.Kafka"))
}

func TestBrokersAreStartedKilledAndStopped(t *testing.T) {
	s := newScript(t)
	if got, want := s.ok("start", s.dir, "19092", "v2", "3"), "127.0.0.1:19092,127.0.0.1:19094,127.0.0.1:19096\n"; got != want {
		t.Errorf("addresses %q, want %q", got, want)
	}
	s.refused(1, "has brokers already", "start", s.dir)
	first, second, third := s.pid("1"), s.pid("2"), s.pid("3")
	s.ok("kill", s.dir, "2")
	s.refused(1, "broker 2 in "+s.dir+" does not run", "kill", s.dir, "2")
	if s.runs(second) || !s.runs(first) || !s.runs(third) {
		t.Errorf("after a kill of 2: %v, %v, %v", s.runs(first), s.runs(second), s.runs(third))
	}
	s.ok("restart", s.dir, "2")
	second = s.pid("2")
	s.ok("stop", s.dir, "3")
	if !s.runs(first) || !s.runs(second) || s.runs(third) {
		t.Errorf("after a stop of 3: %v, %v, %v", s.runs(first), s.runs(second), s.runs(third))
	}
	s.ok("stop", s.dir+"/") // the same folder
	if s.runs(first) || s.runs(second) {
		t.Error("brokers run on after a stop")
	}
	s.ok("stop", s.dir)
}

func TestStrangersAreNotStopped(t *testing.T) {
	s := newScript(t)
	s.ok("start", s.dir)
	s.ok("stop", s.dir)
	if _, err := os.Stat(s.pidFile("1")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the process id outlives the broker: %v", err)
	}
	stranger := exec.Command("sleep", "1000")
	if err := stranger.Start(); err != nil {
		t.Fatal(err)
	}
	// A loss of power leaves the file, and another process gets the number.
	for _, command := range []string{"stop", "kill"} {
		write(t, s.pidFile("1"), strconv.Itoa(stranger.Process.Pid))
		s.run(command, s.dir, "1")
	}
	if err := stranger.Process.Signal(os.Interrupt); err != nil {
		t.Errorf("the stranger has ended: %v", err)
	}
	_ = stranger.Wait()
	if status, ok := stranger.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGINT {
		t.Errorf("the stranger ended by %v", stranger.ProcessState)
	}
}

func TestARunningBrokerIsNotStartedTwice(t *testing.T) {
	s := newScript(t)
	s.ok("start", s.dir)
	first := s.pid("1")
	s.refused(1, "runs already, as process "+strconv.Itoa(first), "restart", s.dir, "1")
	if got := s.pid("1"); got != first || !s.runs(first) {
		t.Errorf("process %d is in the file, %d was; it runs: %v", got, first, s.runs(first))
	}
}

func TestAStartThatFailedLeavesNothing(t *testing.T) {
	s := newScript(t)
	refuse := filepath.Join(s.dir, "refuse")
	if err := os.Mkdir(s.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, refuse, "")
	s.refused(1, "broker 1 ended; see", "start", s.dir)
	s.refused(1, "broker 1 ended; see", "start", s.dir) // not that brokers are there
	if err := os.Remove(refuse); err != nil {
		t.Fatal(err)
	}
	s.ok("start", s.dir)
	s.ok("stop", s.dir)
	write(t, refuse, "")
	s.refused(1, "broker 1 ended; see", "restart", s.dir, "1") // the log of the last run is not taken for this one's
	s.refused(1, "has brokers already", "start", s.dir)        // their data stay
}

func TestWrongArguments(t *testing.T) {
	s := newScript(t)
	for _, c := range []struct{ args, why string }{
		{"", "kafka.sh start DIR"},
		{"begin", "there is no command begin"},
		{"start", "start: 0 arguments"},
		{"stop", "stop: 0 arguments"},
		{"kill D", "kill: 1 arguments"},
		{"restart", "restart: 0 arguments"},
		{"start D 19092 v2 1 1", "start: 5 arguments"},
		{"start D 19092 v1 0", "0 brokers: it must be a number from 1"},
		{"start D 19092 v1 x", "x brokers: it must be a number from 1"},
		{"start D port", "port port: it must be a number"},
		{"start D 65534 v2 2", "the last port is 65535"},
		{"start D 19092 v3", "protocol v3"},
	} {
		s.refused(2, c.why, strings.Fields(c.args)...)
	}
	s.refused(1, "there is no directory "+s.dir, "kill", s.dir, "1")
	s.ok("start", s.dir)
	s.refused(1, "there is no broker 2 in "+s.dir, "restart", s.dir, "2")
	s.refused(1, "there is no broker 2 in "+s.dir, "stop", s.dir, "2")
}
