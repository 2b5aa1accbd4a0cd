package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	// remindEvery is how often brokers that cannot be reached are told of.
	remindEvery = 10 * time.Second
	// patience is how long a run waits for brokers none of which answers.
	patience = time.Minute
)

// trouble tells of what makes figures mean something else than they say: what
// the job warns of, and brokers that its clients cannot reach.
type trouble struct {
	log      *slog.Logger
	warnings atomic.Int64

	mu sync.Mutex
	// since is when brokers could not be reached first, zero while they answer.
	since, told time.Time
	giveUp      context.CancelCauseFunc
}

func newTrouble(w io.Writer) *trouble {
	t := new(trouble)
	t.log = slog.New(counting{slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelWarn}), &t.warnings})
	return t
}

// bound returns a context that ends when the brokers have not answered for as
// long as patience lasts.
func (t *trouble) bound(ctx context.Context) (context.Context, context.CancelCauseFunc) {
	ctx, stop := context.WithCancelCause(ctx)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.giveUp = stop
	return ctx, stop
}

// OnBrokerConnect implements kgo.HookBrokerConnect.
func (t *trouble) OnBrokerConnect(b kgo.BrokerMetadata, _ time.Duration, _ net.Conn, err error) {
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, kgo.ErrClientClosed) {
		return
	}
	t.unreachable(fmt.Sprintf("%s:%d", b.Host, b.Port), err, time.Now())
}

func (t *trouble) unreachable(broker string, err error, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.since.IsZero() {
		t.since = now
	}
	if now.Sub(t.told) >= remindEvery {
		t.told = now
		t.log.Warn("a broker cannot be reached; the run waits for it", "broker", broker, "error", err)
	}
	if now.Sub(t.since) >= patience && t.giveUp != nil {
		t.giveUp(fmt.Errorf("no broker has answered for %v; the last one tried, %s: %w", patience, broker, err))
	}
}

// OnBrokerE2E implements kgo.HookBrokerE2E.
func (t *trouble) OnBrokerE2E(_ kgo.BrokerMetadata, _ int16, e kgo.BrokerE2E) {
	if e.Err() == nil {
		t.answered()
	}
}

func (t *trouble) answered() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.since = time.Time{}
}

// counting counts what a handler is given.
type counting struct {
	slog.Handler
	n *atomic.Int64
}

func (c counting) Handle(ctx context.Context, r slog.Record) error {
	c.n.Add(1)
	return c.Handler.Handle(ctx, r)
}

func (c counting) WithAttrs(attrs []slog.Attr) slog.Handler {
	return counting{c.Handler.WithAttrs(attrs), c.n}
}

func (c counting) WithGroup(name string) slog.Handler {
	return counting{c.Handler.WithGroup(name), c.n}
}

// warned is what is said of figures with n warnings.
func warned(n int64) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("%d warnings, on standard error: the figures are not those of an undisturbed run", n)
}
