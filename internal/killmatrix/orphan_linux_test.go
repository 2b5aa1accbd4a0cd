package killmatrix

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// withTest has the kernel kill a process when the test's process ends, or
// rather the thread that started it: Go ends none before. After a timeout no
// clean-up runs, and a paused victim would stay for ever.
func withTest() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }

// A victim ends with the test that started it, however that ends.
func TestVictimsEndWithTheTest(t *testing.T) {
	if log := os.Getenv("WEIR_ORPHAN_LOG"); log != "" {
		launch(t, log, "", "-dir", filepath.Dir(log), "-servers", "127.0.0.1:1", "-records", "1", "-in", "in", "-numbered", "numbered", "-totals", "totals")
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		return
	}
	// The victim holds its log open as long as it lives.
	log := filepath.Join(t.TempDir(), "log")
	if err := syscall.Mkfifo(log, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(log, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	cmd := exec.Command(os.Args[0], "-test.run=^TestVictimsEndWithTheTest$")
	cmd.Env = append(os.Environ(), "WEIR_ORPHAN_LOG="+log)
	out, err := cmd.CombinedOutput()
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGKILL {
		t.Fatalf("the test ended by %v, %v\n%s", cmd.ProcessState, err, out)
	}
	if err := f.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, f); err != nil {
		t.Errorf("the victim lives on: %v", err)
	}
}
