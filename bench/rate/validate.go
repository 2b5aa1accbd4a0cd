package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

var kafkaJobs = []string{"kafka-load", "kafka-read", "kafka-copy", "kafka-window"}

// writes says whether a Kafka job has an output topic, and so a latency.
func writes(job string) bool { return job == "kafka-copy" || job == "kafka-window" }

// validate refuses flags that make no sense, before anything is touched.
func (f *flags) validate(extra []string) error {
	isKafka := strings.HasPrefix(f.job, "kafka-")
	_, known := dists[f.dist]
	switch {
	case len(extra) > 0:
		return fmt.Errorf("unknown arguments %q: everything is a flag", extra)
	case f.records <= 0 || f.keys <= 0 || f.parallelism <= 0:
		return errors.New("-records, -keys and -parallelism must be positive")
	case !isKafka && f.records/3 < int64(f.parallelism):
		return fmt.Errorf("-records %d: the first third is left out, so each of %d subtasks needs 3", f.records, f.parallelism)
	case f.interval < 0:
		return errors.New("-checkpoint-interval must not be negative")
	case !known:
		return fmt.Errorf("-dist %q: it is uniform, hot or fixed", f.dist)
	case f.valueBytes != 8 && f.valueBytes != wideBytes:
		return fmt.Errorf("-value-bytes %d: it is 8 or %d", f.valueBytes, wideBytes)
	case isKafka && !slices.Contains(kafkaJobs, f.job):
		return fmt.Errorf("no job %q: Kafka jobs are %s", f.job, strings.Join(kafkaJobs, ", "))
	case isKafka && f.dist != "uniform":
		return errors.New("the keys of Kafka jobs are uniform")
	}
	if err := f.kafka.validate(f.job); err != nil {
		return err
	}
	for _, name := range f.given {
		if why := f.idle(name, isKafka); why != "" {
			return fmt.Errorf("-%s has no effect on -job %s: %s", name, f.job, why)
		}
	}
	return nil
}

// idle says why a flag has no effect, "" if it has one.
func (f *flags) idle(name string, isKafka bool) string {
	switch {
	case name == "job" || name == "records" || name == "keys":
		return ""
	case name == "bootstrap-servers":
		return unless(isKafka, "it is for Kafka jobs")
	case f.job == "kafka-load":
		return "it only writes records, by key"
	case name == "delivery":
		return unless(writes(f.job), "it is for kafka-copy and kafka-window")
	case name == "window":
		return unless(f.job == "kafka-window", "it is for kafka-window")
	case name == "fill":
		return unless(!isKafka, "it is for synthetic jobs")
	case name == "value-bytes":
		return unless(f.job == "keyed", "it is for keyed")
	case name == "memory":
		return unless(f.backend == "lsm", "it is that of -backend lsm")
	case name == "checkpoint-dir":
		return unless(isKafka || f.interval > 0, "without -checkpoint-interval there are no checkpoints")
	}
	return ""
}

func unless(used bool, why string) string {
	if used {
		return ""
	}
	return why
}

func (k *kafkaFlags) validate(job string) error {
	switch {
	case k.rate < 0:
		return errors.New("-rate must not be negative")
	case k.rate > 0 && !writes(job):
		return fmt.Errorf("-rate measures the latency of kafka-copy and kafka-window, not of %s", job)
	case k.delivery != "exactly-once" && k.delivery != "at-least-once":
		return fmt.Errorf("-delivery %q: it is exactly-once or at-least-once", k.delivery)
	case k.window < time.Millisecond || k.window%time.Millisecond != 0:
		return fmt.Errorf("-window %v: it must be whole milliseconds, at least one", k.window)
	}
	return nil
}
