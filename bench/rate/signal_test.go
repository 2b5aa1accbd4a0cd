//go:build unix

package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

func TestSignalsEndTheRun(t *testing.T) {
	for _, s := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		ctx, stop := untilSignal(t.Context())
		if err := syscall.Kill(os.Getpid(), s); err != nil {
			t.Fatal(err)
		}
		<-ctx.Done()
		stop()
	}
}

// What a run has made goes, however it ends.
func TestInterruptedRunsLeaveNothing(t *testing.T) {
	f, _ := loadedBroker(t)
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	f.job, f.interval, f.kafka.rate, f.records = "kafka-copy", time.Hour, 10, 1_000_000
	f.cpuProfile = filepath.Join(t.TempDir(), "profile")
	ctx, interrupt := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, f) }()
	for made, dirs := 0, 0; made < 2 || dirs < 1; { // its topics, its directory
		made, dirs = len(topics(t, f.kafka.servers))-1, len(entries(t, temp))
	}
	interrupt()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the run ended with %v", err)
	}
	if info, err := os.Stat(f.cpuProfile); err != nil || info.Size() == 0 {
		t.Errorf("no CPU profile of a run at a rate: %v", err)
	}
	if left := entries(t, temp); len(left) > 0 {
		t.Errorf("left in the temporary directory: %v", left)
	}
	if left := topics(t, f.kafka.servers); len(left) != 1 {
		t.Errorf("left on the broker: %v", left)
	}
}

// topics lists the topics of a broker by a client that has not kept what it
// was told before.
func topics(t *testing.T, servers string) []string {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(servers))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	list, err := kadm.NewClient(cl).ListTopics(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return list.Names()
}

func entries(t *testing.T, dir string) []os.DirEntry {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	return list
}
