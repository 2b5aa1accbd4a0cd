package streamtest

import (
	"errors"
	"sync"

	"github.com/weirstream/weir/connector"
	"github.com/weirstream/weir/internal/stage"
)

// errCrash ends a start that crashes.
var errCrash = errors.New("crash of the test")

// pace lets the sources of one start emit as many records as the test allows,
// one at a time over all subtasks, and then crash or wait for more.
type pace struct {
	// reached gets a value when all that is allowed has been emitted.
	reached chan struct{}

	mu               sync.Mutex
	emitted, allowed int64
	// crashAt is after how many records the start crashes, 0 for never.
	crashAt int64
	crashed bool
	wakes   []func()
}

func newPace(crashAt int64) *pace {
	return &pace{reached: make(chan struct{}, 1), crashAt: crashAt}
}

// release allows n more records.
func (p *pace) release(n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.allowed = p.emitted + n
	select {
	case <-p.reached: // several subtasks wait
	default:
	}
	p.wake()
}

// sofar is how many records have been emitted.
func (p *pace) sofar() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.emitted
}

// crash makes the next poll of a source fail.
func (p *pace) crash() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.crashed = true
	p.wake()
}

func (p *pace) wake() {
	for _, w := range p.wakes {
		w()
	}
}

// verdict tells the crash of the test from the end and the failure of a job.
func verdict(err error) (crashed bool, _ error) {
	if errors.Is(err, errCrash) {
		return true, nil
	}
	return false, err
}

// pacedBody is the body of a source that follows a pace.
type pacedBody struct {
	stage.SourceBody
	pace *pace
}

// NewOperator implements stage.Body.
func (b pacedBody) NewOperator() stage.Operator {
	return &pacedSource{Source: b.SourceBody.NewOperator().(stage.Source), pace: b.pace}
}

type pacedSource struct {
	stage.Source
	pace *pace
	out  *stage.Metrics
}

// Open implements stage.Operator.
func (s *pacedSource) Open(c *stage.Context) error {
	s.out = c.Metrics
	c.PollLimit = 1
	s.pace.mu.Lock()
	s.pace.wakes = append(s.pace.wakes, c.Wake)
	s.pace.mu.Unlock()
	return s.Source.Open(c)
}

// Poll implements stage.Source. Subtasks poll one after the other.
func (s *pacedSource) Poll() (connector.Status, bool, error) {
	p := s.pace
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.crashAt > 0 && p.emitted >= p.crashAt {
		p.crashed = true
	}
	switch {
	case p.crashed:
		return connector.Nothing, false, errCrash
	case p.emitted >= p.allowed:
		select {
		case p.reached <- struct{}{}:
		default:
		}
		return connector.Nothing, false, nil
	}
	before := s.out.RecordsOut.Load()
	st, forward, err := s.Source.Poll()
	p.emitted += s.out.RecordsOut.Load() - before
	return st, forward, err
}
