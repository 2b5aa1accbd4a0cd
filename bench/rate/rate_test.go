package main

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/weirstream/weir/codec"
)

func validFlags(job string) flags {
	return flags{trouble: newTrouble(io.Discard), job: job, dist: "uniform", records: 3, keys: 1, parallelism: 1, valueBytes: 8,
		kafka: kafkaFlags{delivery: "exactly-once", window: time.Second}}
}

func given(names ...string) func(*flags) { return func(f *flags) { f.given = names } }

func TestValidate(t *testing.T) {
	for _, c := range []struct {
		name, job string
		change    func(*flags)
		want      string // "": valid
		extra     []string
	}{
		{name: "synthetic", job: "keyed"},
		{name: "read", job: "kafka-read"},
		{name: "latency", job: "kafka-window", change: func(f *flags) { f.kafka.rate = 5 }},
		{name: "shortest window", job: "kafka-window", change: func(f *flags) { f.kafka.window = time.Millisecond }},
		{name: "window below 1 ms", job: "kafka-window", change: func(f *flags) { f.kafka.rate, f.kafka.window = 5, time.Microsecond }, want: "-window 1µs"},
		{name: "no window", job: "kafka-copy", change: func(f *flags) { f.kafka.rate, f.kafka.window = 5, 0 }, want: "-window 0s"},
		{name: "part of a millisecond", job: "kafka-window", change: func(f *flags) { f.kafka.window = 1500 * time.Microsecond }, want: "whole milliseconds"},
		{name: "negative rate", job: "kafka-copy", change: func(f *flags) { f.kafka.rate = -1 }, want: "-rate must not be negative"},
		{name: "rate of a synthetic job", job: "keyed", change: func(f *flags) { f.kafka.rate = 1 }, want: "not of keyed"},
		{name: "rate of a job without output", job: "kafka-read", change: func(f *flags) { f.kafka.rate = 1 }, want: "not of kafka-read"},
		{name: "unknown Kafka job", job: "kafka-other", want: `no job "kafka-other"`},
		{name: "2 records a subtask", job: "keyed", change: func(f *flags) { f.records, f.parallelism = 5, 2 }, want: "-records 5"},
		{name: "3 records a subtask", job: "keyed", change: func(f *flags) { f.records, f.parallelism = 6, 2 }},
		{name: "a record of Kafka", job: "kafka-read", change: func(f *flags) { f.records, f.parallelism = 1, 2 }},
		{name: "delivery of a read", job: "kafka-read", change: given("delivery"), want: "-delivery has no effect on -job kafka-read"},
		{name: "delivery of a copy", job: "kafka-copy", change: given("delivery")},
		{name: "window of a copy", job: "kafka-copy", change: given("window"), want: "-window has no effect"},
		{name: "window", job: "kafka-window", change: given("window")},
		{name: "servers of a synthetic job", job: "keyed", change: given("bootstrap-servers"), want: "-bootstrap-servers has no effect"},
		{name: "memory of heap", job: "keyed", change: given("memory"), want: "-memory has no effect"},
		{name: "memory of lsm", job: "keyed", change: func(f *flags) { f.backend, f.given = "lsm", []string{"memory"} }},
		{name: "wide values", job: "keyed", change: func(f *flags) { f.valueBytes, f.given = 100, []string{"value-bytes", "fill"} }},
		{name: "other values", job: "keyed", change: func(f *flags) { f.valueBytes = 64 }, want: "-value-bytes 64"},
		{name: "wide values elsewhere", job: "timers", change: given("value-bytes"), want: "-value-bytes has no effect on -job timers"},
		{name: "fixed", job: "keyed", change: func(f *flags) { f.dist = "fixed" }},
		{name: "no distribution", job: "keyed", change: func(f *flags) { f.dist = "zipf" }, want: `-dist "zipf"`},
		{name: "fill of Kafka", job: "kafka-read", change: given("fill"), want: "-fill has no effect"},
		{name: "directory of no checkpoints", job: "keyed", change: given("checkpoint-dir"), want: "-checkpoint-dir has no effect"},
		{name: "directory", job: "keyed", change: func(f *flags) { f.interval, f.given = time.Second, []string{"checkpoint-dir"} }},
		{name: "directory of Kafka", job: "kafka-read", change: given("checkpoint-dir")},
		{name: "profile of a load", job: "kafka-load", change: given("cpuprofile"), want: "-cpuprofile has no effect on -job kafka-load"},
		{name: "load", job: "kafka-load", change: given("job", "records", "keys", "bootstrap-servers")},
		{name: "arguments", job: "keyed", extra: []string{"true"}, want: `"true"`},
		{name: "delivery", job: "kafka-copy", change: func(f *flags) { f.kafka.delivery = "once" }, want: `-delivery "once"`},
		{name: "hot keys of Kafka", job: "kafka-copy", change: func(f *flags) { f.dist = "hot" }, want: "uniform"},
	} {
		f := validFlags(c.job)
		if c.change != nil {
			c.change(&f)
		}
		err := f.validate(c.extra)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

func TestLoadIsChecked(t *testing.T) {
	if err := loadError("in", 5, 5, nil); err != nil {
		t.Error(err)
	}
	if err := loadError("in", 5, 4, nil); err == nil || !strings.Contains(err.Error(), "holds 4 records, not 5: run -job kafka-load") {
		t.Errorf("short: %v", err)
	}
	if err := loadError("in", 5, 0, kerr.UnknownTopicOrPartition); err == nil || !strings.Contains(err.Error(), "no topic in: run -job kafka-load with the same -records and -keys") {
		t.Errorf("missing: %v", err)
	}
	if err := loadError("in", 5, 0, context.Canceled); !errors.Is(err, context.Canceled) {
		t.Errorf("another failure: %v", err)
	}
}

func TestIntervalDoesNotDivideWindows(t *testing.T) {
	for _, w := range []time.Duration{time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, time.Minute} {
		if i := defaultInterval(1); w%i == 0 {
			t.Errorf("%v divides %v", i, w)
		}
	}
	if i := defaultInterval(0); i != time.Second {
		t.Errorf("without latency %v", i)
	}
}

func measured(t *testing.T, windows bool, n int) *latencies {
	t.Helper()
	l := &latencies{passed: map[int64]time.Time{}, ended: map[int64]bool{}, windows: windows, window: 10}
	start := time.UnixMilli(0)
	l.begin(start)
	for i := range n {
		end := int64(10 * (1 + i/10)) // ten results of a window
		due := start.Add(warmUp)
		l.passed[end] = due
		row, err := codec.JSON[Row]().Append(nil, Row{Key: "k", End: end, Sum: due.UnixMicro()})
		if err != nil {
			t.Fatal(err)
		}
		if err := l.arrive(row, due.Add(time.Duration(i+1)*time.Millisecond)); err != nil {
			t.Fatal(err)
		}
	}
	return l
}

func TestCopyNeedsAllResults(t *testing.T) {
	l := measured(t, false, 3)
	if err := l.complete(4); err == nil || !strings.Contains(err.Error(), "only 3 results of 4 records") {
		t.Errorf("3 of 4: %v", err)
	}
	if err := l.complete(3); err != nil {
		t.Errorf("3 of 3: %v", err)
	}
	l.awaitQuiet(t.Context(), 3, time.Hour) // ends at once: all are there
	if err := measured(t, true, 3).complete(4); err != nil {
		t.Errorf("windows: %v", err)
	}
}

func TestSlowestThousandthNeedsSamples(t *testing.T) {
	r, err := measured(t, true, 999).sum(latencyResult{})
	if err != nil || r.P999 != 0 || strings.Contains(r.String(), "p99.9") || r.Windows != 100 || r.Max != 999 {
		t.Errorf("%v (%+v), %v", r, r, err)
	}
	r, err = measured(t, true, 1000).sum(latencyResult{})
	if err != nil || r.P999 != 1000 || !strings.Contains(r.String(), "p99.9 1000.0 ms") || !strings.Contains(r.String(), "of 1000 results of 100 windows") {
		t.Errorf("%v (%+v), %v", r, r, err)
	}
	if r, err = measured(t, false, 5).sum(latencyResult{}); err != nil || r.Windows != 0 || strings.Contains(r.String(), "windows") {
		t.Errorf("%v, %v", r, err)
	}
}
