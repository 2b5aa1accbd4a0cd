//go:build killpoints && unix

package killpoint

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
)

// On tells whether the kill points are compiled in.
const On = true

// point is one that the environment names.
type point struct {
	label  string
	count  int64
	signal syscall.Signal
	// reached is how often the process has come to it.
	reached atomic.Int64
}

var wanted = sync.OnceValue(func() []*point { return parse(os.Getenv(Variable)) })

// parse reads LABEL[,COUNT[,stop]], more of them behind semicolons. A mistake,
// in the label too, ends the process: a test would pass without having tested
// anything.
func parse(s string) []*point {
	if s == "" {
		return nil
	}
	var points []*point
	for text := range strings.SplitSeq(s, ";") {
		p, err := parsePoint(text)
		if err != nil {
			panic(fmt.Sprintf("%s=%s: %v", Variable, s, err))
		}
		points = append(points, p)
	}
	return points
}

func parsePoint(text string) (*point, error) {
	fields := strings.Split(text, ",")
	if !slices.Contains(Labels(), fields[0]) {
		return nil, fmt.Errorf("there is no label %q; internal/killpoint/labels.go has all", fields[0])
	}
	p := &point{label: fields[0], count: 1, signal: syscall.SIGKILL}
	if len(fields) > 1 {
		n, err := strconv.ParseInt(fields[1], 10, 64)
		if err != nil || n < 1 {
			return nil, fmt.Errorf("the count %q is no number from 1", fields[1])
		}
		p.count = n
	}
	switch {
	case len(fields) == 3 && fields[2] == "stop":
		p.signal = syscall.SIGSTOP
	case len(fields) > 2:
		return nil, fmt.Errorf("%q is none of LABEL, LABEL,COUNT and LABEL,COUNT,stop", text)
	}
	return p, nil
}

// due returns the point whose time has come.
func due(label string) *point {
	for _, p := range wanted() {
		if p.label == label && p.reached.Add(1) == p.count {
			return p
		}
	}
	return nil
}

// strike sends the signal. After SIGKILL no code of the process runs.
func (p *point) strike() {
	if err := raise(p.signal); err != nil {
		panic(fmt.Sprintf("%s: %s: %v", Variable, p.label, err))
	}
	if p.signal == syscall.SIGKILL {
		select {}
	}
}

// Reach says that the process has come to the label.
func Reach(label string) {
	if p := due(label); p != nil {
		p.strike()
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
	p := due(label + "." + kindOf(path))
	if p == nil {
		return
	}
	if p.signal == syscall.SIGKILL {
		if info, err := f.Stat(); err == nil {
			_ = f.Truncate(info.Size() / 2)
		}
	}
	p.strike()
}
