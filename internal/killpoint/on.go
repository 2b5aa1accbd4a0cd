//go:build killpoints && unix

package killpoint

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
)

// On tells whether the kill points are compiled in.
const On = true

// plan is what the environment asks for.
type plan struct {
	label  string
	count  int64
	signal syscall.Signal
}

var (
	wanted  = sync.OnceValue(func() plan { return parse(os.Getenv(Variable)) })
	reached atomic.Int64
)

// parse reads LABEL[,COUNT[,stop]]. A mistake ends the process: a test would
// pass without having tested anything.
func parse(s string) plan {
	if s == "" {
		return plan{}
	}
	fields := strings.Split(s, ",")
	p := plan{label: fields[0], count: 1, signal: syscall.SIGKILL}
	if len(fields) > 1 {
		n, err := strconv.ParseInt(fields[1], 10, 64)
		if err != nil || n < 1 {
			panic(fmt.Sprintf("%s=%s: the count must be a number from 1", Variable, s))
		}
		p.count = n
	}
	switch {
	case len(fields) == 3 && fields[2] == "stop":
		p.signal = syscall.SIGSTOP
	case len(fields) > 2:
		panic(fmt.Sprintf("%s=%s: want LABEL,COUNT or LABEL,COUNT,stop", Variable, s))
	}
	return p
}

// Reach says that the process has come to the label.
func Reach(label string) {
	if due(label) {
		strike()
	}
}

// ReachKind says that the process has come to the label with a kind.
func ReachKind(label, kind string) { Reach(label + "." + kind) }

// ReachFile says that the process has come to the label with a file, whose
// path tells its kind.
func ReachFile(label, path string) { ReachKind(label, kindOf(path)) }

// Tear cuts a file under construction in half before the process dies; path
// is the name that the file is to have.
func Tear(label, path string, f *os.File) {
	if !due(label + "." + kindOf(path)) {
		return
	}
	if wanted().signal == syscall.SIGKILL {
		if info, err := f.Stat(); err == nil {
			_ = f.Truncate(info.Size() / 2)
		}
	}
	strike()
}

func due(label string) bool {
	p := wanted()
	return p.label == label && reached.Add(1) == p.count
}

// strike sends the signal. After SIGKILL no code of the process runs.
func strike() {
	p := wanted()
	if err := syscall.Kill(os.Getpid(), p.signal); err != nil {
		panic(fmt.Sprintf("%s=%s: %v", Variable, p.label, err))
	}
	if p.signal == syscall.SIGKILL {
		select {}
	}
}
