package main

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

func TestUnreachableBrokersAreTold(t *testing.T) {
	var told strings.Builder
	tr := newTrouble(&told)
	ctx, stop := tr.bound(t.Context())
	defer stop(nil)
	start, refused := time.Now(), errors.New("refused")
	for _, step := range []struct {
		after    time.Duration
		answered bool
		warnings int64
		over     bool
	}{
		{after: 0, warnings: 1},
		{after: 9 * time.Second, warnings: 1},
		{after: 10 * time.Second, warnings: 2},
		{after: 59 * time.Second, warnings: 3},
		{after: 60 * time.Second, answered: true, warnings: 3},
		{after: 61 * time.Second, warnings: 3},
		{after: 120 * time.Second, warnings: 4},
		{after: 121 * time.Second, warnings: 4, over: true},
	} {
		if step.answered {
			tr.answered()
		} else {
			tr.unreachable("host:1", refused, start.Add(step.after))
		}
		if n := tr.warnings.Load(); n != step.warnings || (ctx.Err() != nil) != step.over {
			t.Errorf("after %v: %d warnings, over %v; want %d, %v", step.after, n, ctx.Err() != nil, step.warnings, step.over)
		}
	}
	if err := context.Cause(ctx); !errors.Is(err, refused) || !strings.Contains(err.Error(), "no broker has answered for 1m0s") || !strings.Contains(err.Error(), "host:1") {
		t.Errorf("the run ends with %v", err)
	}
	if !strings.Contains(told.String(), "broker=host:1 error=refused") {
		t.Errorf("told %q", told.String())
	}
}

func TestClientsReportToTrouble(t *testing.T) {
	tr := newTrouble(new(strings.Builder))
	cl, err := kgo.NewClient(kgo.SeedBrokers("127.0.0.1:1"), kgo.WithHooks(tr), kgo.RequestRetries(0))
	if err != nil {
		t.Fatal(err)
	}
	if err := cl.Ping(t.Context()); err == nil || tr.warnings.Load() != 1 || tr.since.IsZero() {
		t.Errorf("nobody listens: %v, %d warnings, since %v", err, tr.warnings.Load(), tr.since)
	}
	cl.Close()
	f, _ := loadedBroker(t)
	if cl, err = kgo.NewClient(kgo.SeedBrokers(f.kafka.servers), kgo.WithHooks(tr)); err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	if err := cl.Ping(t.Context()); err != nil || !tr.since.IsZero() {
		t.Errorf("after an answer: %v, since %v", err, tr.since)
	}
}

func TestFiguresTellOfWarnings(t *testing.T) {
	tr := newTrouble(new(strings.Builder))
	tr.log.With("operator", "in").WithGroup("g").Warn("slow")
	tr.log.Info("not a warning")
	r, err := measured(t, false, 5).sum(latencyResult{Warnings: tr.warnings.Load()})
	if err != nil || !strings.HasSuffix(r.String(), "1 warnings, on standard error: the figures are not those of an undisturbed run") {
		t.Errorf("%v, %v", r, err)
	}
	if r.Warnings = 0; strings.Contains(r.String(), "warnings") {
		t.Errorf("without any: %v", r)
	}
}
