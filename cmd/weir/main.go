// Command weir is the operator's tool: it controls running jobs, looks at the
// snapshots and the ledger of jobs, and at their transactions in Kafka.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/weirstream/weir/cmd/weir/internal/command"
	"github.com/weirstream/weir/internal/discovery"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	p := command.Program{
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Now: time.Now,
		Interactive: isTerminal(os.Stdin) && isTerminal(os.Stderr),
		RuntimeDirs: discovery.Dirs(os.Getenv("XDG_RUNTIME_DIR")),
	}
	code := p.Run(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}

// isTerminal reports whether somebody may sit at f. Where that is /dev/null
// they give no answer, which is none.
func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
