//go:build unix

package killpoint

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
)

// start runs the probe with the variable set and a file as its standard error.
func start(t *testing.T, program, value string) (cmd *exec.Cmd, stderr *os.File) {
	t.Helper()
	stderr, err := os.Create(filepath.Join(t.TempDir(), "stderr"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stderr.Close() })
	if _, err := stderr.WriteString("0123456789"); err != nil {
		t.Fatal(err)
	}
	cmd = exec.Command(program)
	cmd.Env = append(os.Environ(), Variable+"="+value)
	cmd.Stderr = stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, stderr
}

func TestDiesAtTheLabel(t *testing.T) {
	program := probe(t, "killpoints")
	for value, dies := range map[string]bool{
		"": false, "job.ended": false, "start.begin": true, "start.begin,1": true, "start.begin,2": false,
		"ledger.append.claim,1": true, "file.synced.metadata,1": true, "file.synced.ledger,1": false, "file.torn.ledger,1": true,
		"job.ended;start.begin,1": true, "start.begin,2;job.ended": false,
	} {
		cmd, stderr := start(t, program, value)
		err := cmd.Wait()
		status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus)
		if killed := ok && status.Signaled() && status.Signal() == syscall.SIGKILL; killed != dies || !dies && err != nil {
			t.Errorf("%q: %v, want death by SIGKILL: %v", value, err, dies)
		}
		want := "0123456789"
		switch {
		case value == "file.torn.ledger,1":
			want = "01234"
		case !dies:
			want = "0123456789+"
		}
		if got, err := os.ReadFile(stderr.Name()); err != nil || string(got) != want {
			t.Errorf("%q: the file holds %q, want %q (%v)", value, got, want, err)
		}
	}
}

func TestStopsAtTheLabelAndGoesOn(t *testing.T) {
	cmd, stderr := start(t, probe(t, "killpoints"), "file.torn.ledger,1,stop")
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(cmd.Process.Pid, &status, syscall.WUNTRACED, nil); err != nil || !status.Stopped() {
		t.Fatalf("the process has not stopped: %v, %v", status, err)
	}
	got, err := os.ReadFile(stderr.Name())
	if runtime.GOOS == "linux" && (err != nil || string(got) != "0123456789") { // elsewhere it may run on for a moment
		t.Errorf("while it is stopped the file holds %q (%v)", got, err)
	}
	if err := cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("after it went on: %v", err)
	}
	if got, err = os.ReadFile(stderr.Name()); err != nil || string(got) != "0123456789+" {
		t.Errorf("after it went on the file holds %q (%v)", got, err)
	}
}

// A value that cannot be read must not pass for none.
func TestMistakesEndTheProcess(t *testing.T) {
	program := probe(t, "killpoints")
	for _, value := range []string{"start.begin,x", "start.begin,0", "start.begin,1,stopp", "start.begin,1,stop,2", "start.begin;ledger.append.claim,x",
		"start.begn", "ledger.append", "ledger.append.nothing", ",1", "start.begin;"} {
		cmd, stderr := start(t, program, value)
		var exit *exec.ExitError
		if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 2 {
			t.Errorf("%q: %v, want exit code 2", value, err)
		}
		if got, _ := os.ReadFile(stderr.Name()); !bytes.Contains(got, []byte(Variable+"="+value)) {
			t.Errorf("%q: the error does not name it: %s", value, got)
		}
	}
}
