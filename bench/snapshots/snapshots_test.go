package main

import (
	"log/slog"
	"strings"
	"testing"
)

func TestFlags(t *testing.T) {
	valid := flags{backend: "lsm", keys: 100, valueBytes: 8, parallelism: 1}
	for _, c := range []struct {
		name, changed, restore, want string
		change                       func(*flags)
		extra                        []string
	}{
		{name: "valid", changed: "1, 10,100", restore: "3,1"},
		{name: "nothing to restore", changed: "1"},
		{name: "more than all", changed: "101", want: "-changed"},
		{name: "no number", restore: "two", want: "-restore"},
		{name: "arguments", extra: []string{"x"}, want: `"x"`},
		{name: "few keys", change: func(f *flags) { f.keys = 99 }, want: "-keys"},
		{name: "values", change: func(f *flags) { f.valueBytes = 9 }, want: "-value-bytes 9"},
		{name: "backend", change: func(f *flags) { f.backend = "rocksdb" }, want: `-backend "rocksdb"`},
	} {
		f := valid
		if c.change != nil {
			c.change(&f)
		}
		if err := f.complete(c.changed, c.restore, c.extra); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

// Each key is written once, and then those of the set, each as often.
func TestKeysOfASet(t *testing.T) {
	c := newControl(1000)
	seen := map[int64]int{}
	for range 1000 {
		seen[c.key(0)]++
	}
	if len(seen) != 1000 {
		t.Fatalf("%d of 1,000 keys are written", len(seen))
	}
	c.set.Store(10)
	for _, base := range []int64{0, 995} {
		c.base.Store(base)
		clear(seen)
		for range 30 {
			seen[c.key(0)]++
		}
		if len(seen) != 10 {
			t.Errorf("%d keys are updated, want 10", len(seen))
		}
		for k, n := range seen {
			if n != 3 {
				t.Errorf("key %d is updated %d times, want 3", k, n)
			}
		}
	}
}

// The whole of it with few keys, on both backends.
func TestMeasure(t *testing.T) {
	for _, backend := range []string{"heap", "lsm"} {
		f := flags{backend: backend, keys: 2000, valueBytes: 100, parallelism: 2, changed: []int{1, 100}, restore: []int{3, 1},
			moving: true, dir: t.TempDir(), localDir: t.TempDir(), log: slog.New(slog.DiscardHandler)}
		if backend == "lsm" {
			f.memory = 100_000
		}
		if err := measure(t.Context(), f); err != nil {
			t.Errorf("%s: %v", backend, err)
		}
	}
}
