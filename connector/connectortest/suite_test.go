package connectortest

import (
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/weirstream/weir/codec"
	"github.com/weirstream/weir/connector"
)

// part is a split: the numbers First, First+1, … below Last, from Next on.
type part struct{ First, Last, Next int64 }

func (p part) SplitID() string { return fmt.Sprint("part-", p.First) }

// counting is a source that keeps every rule, but for its fault.
type counting struct{ fault string }

func (counting) Bounded() bool                       { return true }
func (counting) SplitCodec() codec.Codec[part]       { return parts{} }
func (counting) EnumeratorCodec() codec.Codec[int64] { return codec.Int64() }

// NewEnumerator deals out three parts; its state is how many are dealt.
func (c counting) NewEnumerator(ctx connector.EnumeratorContext[part], restored *int64) (connector.Enumerator[part, int64], error) {
	e := &dealer{ctx: ctx, fault: c.fault}
	all := []part{{0, 7, 0}, {100, 103, 100}, {200, 212, 200}}
	if restored != nil {
		all = all[*restored:]
	}
	e.left = all
	return e, nil
}

func (c counting) NewReader(ctx connector.ReaderContext) (connector.Reader[int64, part], error) {
	if c.fault == "leak" {
		go func() { <-make(chan struct{}) }()
	}
	return &counter{ctx: ctx, fault: c.fault, paused: map[string]bool{}}, nil
}

type dealer struct {
	ctx   connector.EnumeratorContext[part]
	fault string
	left  []part
	back  []part
}

func (e *dealer) HandleSplitRequest(subtask int, _ string) error {
	from := &e.left
	if len(e.back) > 0 {
		from = &e.back
	}
	if len(*from) == 0 {
		return e.ctx.NoMoreSplits(subtask)
	}
	next := (*from)[0]
	*from = (*from)[1:]
	return e.ctx.Assign(subtask, next)
}

func (e *dealer) AddSplitsBack(splits []part, _ int) error {
	switch e.fault {
	case "forget what comes back":
	case "take back twice":
		e.back = append(append(e.back, splits...), splits...)
	default:
		e.back = append(e.back, splits...)
	}
	return nil
}

func (e *dealer) Snapshot(int64) (int64, error) {
	if e.fault == "deal again" {
		return max(0, 2-int64(len(e.left))), nil
	}
	return 3 - int64(len(e.left)), nil
}

func (e *dealer) Start() error                     { return nil }
func (e *dealer) AddReader(int) error              { return nil }
func (e *dealer) HandleSourceEvent(int, any) error { return nil }
func (e *dealer) CheckpointComplete(int64) error   { return nil }
func (e *dealer) Close() error                     { return nil }

type counter struct {
	ctx    connector.ReaderContext
	fault  string
	parts  []part
	paused map[string]bool
	asked  bool
	noMore bool
	early  int64
}

func (r *counter) Start() error { return nil }

func (r *counter) AddSplits(parts []part) error {
	r.parts, r.asked = append(r.parts, parts...), false
	return nil
}

func (r *counter) Poll(out *connector.Output[int64]) (connector.Status, error) {
	if len(r.parts) == 0 {
		switch {
		case r.noMore || r.fault == "end early" && r.early > 3:
			return connector.End, nil
		case !r.asked:
			r.asked = true
			r.ctx.RequestSplit()
		}
		return connector.Nothing, nil
	}
	for i := range r.parts {
		p := &r.parts[i]
		if r.paused[p.SplitID()] && r.fault != "ignore pauses" {
			continue
		}
		out.SetSplit(p.SplitID())
		switch {
		case r.fault == "name no split":
			out.SetSplit("")
		case r.fault == "mix splits up":
			out.SetSplit(r.parts[len(r.parts)-1].SplitID())
		}
		for out.Room() > 0 && p.Next < p.Last {
			v := p.Next
			if r.fault == "swap" && v/2*2+1 < p.Last {
				v ^= 1
			}
			if !(r.fault == "lose" && v == 202) {
				out.Emit(v)
			}
			p.Next++
			r.early++
		}
		if p.Next == p.Last {
			if r.fault != "never finish" {
				out.FinishSplit(p.SplitID())
			}
			r.parts = append(r.parts[:i:i], r.parts[i+1:]...)
		}
		return connector.More, nil
	}
	return connector.Nothing, nil
}

func (r *counter) NoMoreSplits() error { r.noMore = true; return nil }

func (r *counter) Snapshot(int64) ([]part, error) {
	parts := append([]part(nil), r.parts...)
	for i := range parts {
		switch r.fault {
		case "rewind":
			parts[i].Next = max(parts[i].First, parts[i].Next-1)
		case "skip":
			parts[i].Next = min(parts[i].Next+1, parts[i].Last)
		case "read on while paused":
			if r.paused[parts[i].SplitID()] {
				parts[i].Next = min(parts[i].Next+1, parts[i].Last)
			}
		}
	}
	return parts, nil
}

func (r *counter) PauseSplits(pause, resume []string) error {
	for _, id := range pause {
		r.paused[id] = true
	}
	for _, id := range resume {
		delete(r.paused, id)
	}
	return nil
}

func (r *counter) HandleEvent(any) error          { return nil }
func (r *counter) CheckpointComplete(int64) error { return nil }
func (r *counter) Close() error                   { return nil }

type parts struct{}

func (parts) Format() codec.Format { return codec.Format{ID: "part", Version: 1} }

func (parts) Append(dst []byte, p part) ([]byte, error) {
	return binary.Append(dst, binary.BigEndian, p)
}

func (parts) Decode(src []byte) (p part, err error) {
	_, err = binary.Decode(src, binary.BigEndian, &p)
	return p, err
}

// TestSuiteOnCounting is the suite on a source with the fault that the
// environment names: none, or that of a child of TestSuiteFinds.
func TestSuiteOnCounting(t *testing.T) {
	var want []int64
	for _, p := range []part{{0, 7, 0}, {100, 103, 0}, {200, 212, 0}} {
		for v := p.First; v < p.Last; v++ {
			want = append(want, v)
		}
	}
	TestSource(t, SourceSuite[int64, part, int64]{
		New:    func() connector.Source[int64, part, int64] { return counting{os.Getenv("WEIR_FAULT")} },
		Want:   want,
		Time:   func(v int64) int64 { return v % 100 },
		Linger: time.Millisecond,
	})
}

func TestSuiteFinds(t *testing.T) {
	for fault, message := range map[string]string{
		"lose":                   "is missing 1 times",
		"swap":                   "watermark is at",
		"rewind":                 "too often",
		"skip":                   "is missing",
		"deal again":             "came 1 times too often",
		"forget what comes back": "is missing",
		"take back twice":        "came 1 times too often",
		"end early":              "without having been told",
		"never finish":           "did not finish the splits",
		"name no split":          "did not say of which split",
		"mix splits up":          "watermark is at",
		"ignore pauses":          "which is paused",
		"read on while paused":   "with splits paused",
		"leak":                   "found unexpected goroutines",
	} {
		t.Run(fault, func(t *testing.T) {
			cmd := exec.Command(os.Args[0], "-test.run=^TestSuiteOnCounting$")
			cmd.Env = append(os.Environ(), "WEIR_FAULT="+fault)
			out, err := cmd.CombinedOutput()
			if err == nil || !strings.Contains(string(out), message) {
				t.Errorf("%v, and it does not say %q:\n%s", err, message, out)
			}
		})
	}
}
