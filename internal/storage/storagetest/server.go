package storagetest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// Server is a real server that a script of the project has started, in a
// directory of its own.
type Server struct {
	// Address is its host and port.
	Address string
	dir     string
	script  string
	names   atomic.Int32
}

// NewServer is the server that scripts/NAME/NAME.sh started in the directory
// that an environment variable names; without it the test is skipped. The test
// runs in a directory two below the root of the project.
func NewServer(t *testing.T, name, variable string) *Server {
	t.Helper()
	script := filepath.Join("scripts", name, name+".sh")
	dir := os.Getenv(variable)
	if dir == "" {
		t.Skipf("%s names no directory of a server: start one with %s start DIR, and set %[1]s=DIR", variable, script)
	}
	port, err := os.ReadFile(filepath.Join(dir, "port"))
	if err != nil {
		t.Fatal(err)
	}
	return &Server{
		Address: "127.0.0.1:" + strings.TrimSpace(string(port)), dir: dir, script: filepath.Join("..", "..", script),
	}
}

// Unused is a name that nothing on the server has.
func (s *Server) Unused() string {
	return fmt.Sprintf("t%d-%d", time.Now().UnixNano(), s.names.Add(1))
}

// Run runs a command of the script, with the arguments behind the directory.
func (s *Server) Run(t *testing.T, command string, args ...string) {
	t.Helper()
	args = append([]string{command, s.dir}, args...)
	if out, err := exec.Command(s.script, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %s: %v: %s", s.script, args, err, out)
	}
}
