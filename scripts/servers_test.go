//go:build unix

// Package scripts tests the scripts that start storages, on a stand-in for
// their servers: the binary of the test.
package scripts

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// refuse is a file beside the folder of a server that does not start.
const refuse = "refuse"

func TestMain(m *testing.M) {
	switch name := filepath.Base(os.Args[0]); {
	case strings.HasPrefix(name, "versitygw"), name == "azurite-blob", name == "java":
		os.Exit(serve(strings.Join(os.Args[1:], " ")))
	}
	os.Exit(m.Run())
}

// serve is a server until SIGTERM.
func serve(args string) int {
	if _, err := os.Stat(os.Getenv("WEIR_REFUSE")); err == nil {
		return 1
	}
	if strings.Contains(args, "-format") {
		dir := word(args, "-Dhadoop.log.dir=")
		if err := os.Mkdir(filepath.Join(dir, "name"), 0o755); err != nil {
			return 1
		}
		return 0
	}
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM)
	if address := address(args); address != "" {
		l, err := net.Listen("tcp", address)
		if err != nil {
			return 1
		}
		go func() { _ = http.Serve(l, http.HandlerFunc(answer)) }() // to the end of the process
	}
	<-ended
	return 0
}

// address is where a command line says to listen.
func address(args string) string {
	switch {
	case strings.Contains(args, "--blobPort "):
		return "127.0.0.1:" + word(args, "--blobPort ")
	case strings.Contains(args, "--port "):
		return word(args, "--port ")
	case strings.Contains(args, "NameNode"):
		text, err := os.ReadFile(filepath.Join(word(args, "-Dhadoop.log.dir="), "port"))
		port, bad := strconv.Atoi(strings.TrimSpace(string(text)))
		if err == nil && bad == nil {
			return fmt.Sprint("127.0.0.1:", port+1)
		}
	}
	return ""
}

func word(args, before string) string {
	_, after, _ := strings.Cut(args, before)
	after, _, _ = strings.Cut(after, " ")
	return after
}

func answer(w http.ResponseWriter, _ *http.Request) {
	fmt.Fprint(w, `"NumLiveDataNodes" : 1, "FSState" : "Operational",`)
}

// script runs a script with the stand-in for its server.
type script struct {
	*testing.T
	name, dir, home string
	port            int
	// address is what a start prints, pidFile the process that it starts first,
	// restart the arguments of a restart.
	address, pidFile string
	restart          []string
}

func newScript(t *testing.T, name string) *script {
	t.Helper()
	if testing.Short() {
		t.Skip("starts processes")
	}
	home, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	s := &script{T: t, name: name, dir: filepath.Join(home, "server"), home: home, port: freePorts(t)}
	s.pidFile, s.restart = filepath.Join(s.dir, "pid"), []string{"restart", s.dir}
	switch name {
	case "s3":
		s.stand("versitygw-v1.8.0")
		s.address = fmt.Sprint("http://127.0.0.1:", s.port)
	case "azurite":
		s.stand("node_modules/.bin/azurite-blob")
		s.write("complete-3.35.0", "")
		s.address = fmt.Sprintf("http://127.0.0.1:%d/weirtest", s.port)
	case "hdfs":
		s.stand("java")
		s.write("complete", "")
		s.address = fmt.Sprint("hdfs://127.0.0.1:", s.port)
		s.pidFile, s.restart = filepath.Join(s.dir, "namenode.pid"), []string{"restart", s.dir, "namenode"}
	}
	t.Cleanup(func() { s.run("stop", s.dir) })
	return s
}

// freePorts returns the first of a few ports that are free.
func freePorts(t *testing.T) int {
	t.Helper()
	for {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		port, free := l.Addr().(*net.TCPAddr).Port, true
		for i := 1; i < 5; i++ {
			next, err := net.Listen("tcp", fmt.Sprint("127.0.0.1:", port+i))
			if free = free && err == nil; err == nil {
				next.Close()
			}
		}
		l.Close()
		if free {
			return port
		}
	}
}

// stand puts the stand-in where the script looks for the server.
func (s *script) stand(name string) {
	s.Helper()
	me, err := os.Executable()
	if err == nil {
		err = os.MkdirAll(filepath.Dir(filepath.Join(s.home, name)), 0o755)
	}
	if err == nil {
		err = os.Symlink(me, filepath.Join(s.home, name))
	}
	if err != nil {
		s.Fatal(err)
	}
}

func (s *script) write(name, text string) {
	s.Helper()
	if err := os.WriteFile(filepath.Join(s.home, name), []byte(text), 0o600); err != nil {
		s.Fatal(err)
	}
}

func (s *script) run(args ...string) (stdout, stderr string, code int) {
	s.Helper()
	var o, e bytes.Buffer
	cmd := exec.Command(filepath.Join(s.name, s.name+".sh"), args...)
	cmd.Env = append(os.Environ(), strings.ToUpper(s.name)+"_DIST="+s.home, "PATH="+s.home+":"+os.Getenv("PATH"),
		"WEIR_REFUSE="+filepath.Join(s.home, refuse))
	cmd.Stdout, cmd.Stderr = &o, &e
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
		s.Fatalf("%s.sh %v: code %d\n%s", s.name, args, code, e)
	}
	return o
}

// refused runs what must fail, and say why.
func (s *script) refused(code int, why string, args ...string) {
	s.Helper()
	if o, e, got := s.run(args...); got != code || !strings.Contains(e, why) || o != "" {
		s.Errorf("%s.sh %v: code %d, want %d with %q; %q\n%s", s.name, args, got, code, why, o, e)
	}
}

func (s *script) start() string {
	s.Helper()
	return s.ok("start", s.dir, strconv.Itoa(s.port))
}

func (s *script) pid() int {
	s.Helper()
	text, err := os.ReadFile(s.pidFile)
	if err != nil {
		s.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		s.Fatal(err)
	}
	return pid
}

// runs tells whether a process is a server: one that has ended may wait as a
// zombie for whoever adopted it.
func (s *script) runs(pid int) bool {
	s.Helper()
	out, _ := exec.Command("ps", "-ww", "-o", "args=", "-p", strconv.Itoa(pid)).Output()
	return bytes.Contains(out, []byte(s.dir))
}

func each(t *testing.T, test func(t *testing.T, s *script)) {
	for _, name := range []string{"s3", "azurite", "hdfs"} {
		t.Run(name, func(t *testing.T) { test(t, newScript(t, name)) })
	}
}

func TestServersAreStartedAndStopped(t *testing.T) {
	each(t, func(t *testing.T, s *script) {
		if got := s.start(); got != s.address+"\n" {
			t.Errorf("address %q, want %q", got, s.address)
		}
		first := s.pid()
		s.refused(1, "already", "start", s.dir)
		s.refused(1, "runs already: stop it first", s.restart...)
		if got := s.pid(); got != first || !s.runs(first) {
			t.Errorf("process %d is in the file, %d was; it runs: %v", got, first, s.runs(first))
		}
		s.ok("stop", s.dir+"/") // the same folder
		if s.runs(first) {
			t.Error("the server runs on after a stop")
		}
		s.ok("stop", s.dir)
		s.refused(1, "already", "start", s.dir) // its data stay
	})
}

func TestServersAreKilledAndRestarted(t *testing.T) {
	each(t, func(t *testing.T, s *script) {
		s.start()
		first := s.pid()
		if err := syscall.Kill(first, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		for s.runs(first) {
		}
		s.ok(s.restart...)
		second := s.pid()
		if !s.runs(second) {
			t.Error("no server runs after a restart")
		}
		s.ok("stop", s.dir)
		if s.runs(second) {
			t.Error("the server runs on after a stop")
		}
	})
}

func TestStrangersAreNotStopped(t *testing.T) {
	each(t, func(t *testing.T, s *script) {
		s.start()
		s.ok("stop", s.dir)
		if _, err := os.Stat(s.pidFile); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the process id outlives the server: %v", err)
		}
		stranger := exec.Command("sleep", "1000")
		if err := stranger.Start(); err != nil {
			t.Fatal(err)
		}
		// A loss of power leaves the file, and another process gets the number.
		if err := os.WriteFile(s.pidFile, []byte(strconv.Itoa(stranger.Process.Pid)), 0o600); err != nil {
			t.Fatal(err)
		}
		s.ok("stop", s.dir)
		if err := stranger.Process.Signal(os.Interrupt); err != nil {
			t.Errorf("the stranger has ended: %v", err)
		}
		_ = stranger.Wait()
		if status, ok := stranger.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGINT {
			t.Errorf("the stranger ended by %v", stranger.ProcessState)
		}
	})
}

func TestAStartThatFailedLeavesNothing(t *testing.T) {
	each(t, func(t *testing.T, s *script) {
		start := []string{"start", s.dir, strconv.Itoa(s.port)}
		s.write(refuse, "")
		for range 2 { // not that a server is there
			if o, e, code := s.run(start...); code != 1 || o != "" || strings.Contains(e, "already") {
				t.Errorf("code %d, %q, %q", code, o, e)
			}
		}
		if err := os.Remove(filepath.Join(s.home, refuse)); err != nil {
			t.Fatal(err)
		}
		s.start()
		s.ok("stop", s.dir)
		s.write(refuse, "")
		if _, e, code := s.run(s.restart...); code != 1 || !strings.Contains(e, "ended; see") {
			t.Errorf("a restart that fails: code %d, %q", code, e)
		}
		s.refused(1, "already", start...) // their data stay
	})
}

// Whoever listens there already would be taken for the server.
func TestAPortInUse(t *testing.T) {
	each(t, func(t *testing.T, s *script) {
		l, err := net.Listen("tcp", fmt.Sprint("127.0.0.1:", s.port))
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		s.refused(1, fmt.Sprintf("port %d is in use", s.port), "start", s.dir, strconv.Itoa(s.port))
		if _, err := os.Stat(s.dir); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the folder was made for nothing: %v", err)
		}
	})
}

func TestWrongArguments(t *testing.T) {
	each(t, func(t *testing.T, s *script) {
		for _, c := range []struct{ args, why string }{
			{"", s.name + ".sh start DIR"},
			{"begin", "there is no command begin"},
			{"install now", "install takes no arguments"},
			{"start", "start: 0 arguments"},
			{"start D 1 2", "start: 3 arguments"},
			{"start D port", "port port: it must be a number"},
			{"stop", "stop: 0 arguments"},
		} {
			s.refused(2, c.why, strings.Fields(c.args)...)
		}
		if _, e, code := s.run(s.restart...); code != 1 || !strings.Contains(e, s.dir+" has no") {
			t.Errorf("a restart of nothing: code %d, %q", code, e)
		}
		if _, e, code := s.run("stop", s.dir); code != 0 || !strings.Contains(e, "nothing to stop") {
			t.Errorf("a stop of nothing: code %d, %q", code, e)
		}
	})
}
