package embedded_test

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/weirstream/weir/checkpoint"
	"github.com/weirstream/weir/connector/collect"
	"github.com/weirstream/weir/internal/jobtest"
	"github.com/weirstream/weir/internal/snapshot"
	"github.com/weirstream/weir/runner/embedded"
)

var powerCuts = flag.Int("powercuts", 20, "random runs of TestPowerCuts")

// A job with increments loses power again and again, at any step of an upload,
// a publication or a deletion, and with any part of what was not synced; or some
// steps fail, and it goes on where it can.
// Whatever is published then is whole, the next process goes on from it at
// another parallelism, and in the end all counts are right and no file is left
// that no snapshot needs.
func TestPowerCuts(t *testing.T) {
	for seed := range uint64(*powerCuts) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 5))
			o := lsm(t)
			switch seed % 4 {
			case 1:
				o.LSMMemory = 1 << 20
			case 3:
				o = embedded.Options{Checkpoint: checkpoint.Options{Incremental: true}}
			}
			o.MaxParallelism, o.Checkpoint.Retained = 12, 1+rng.IntN(2)
			o.Checkpoint.TolerableFailures = 50
			fs, out := vfs.NewCrashableMem(), collect.NewExactlyOnce[string]()
			for life := 0; ; life++ {
				p := newPowered(fs, rng, 1+rng.IntN(400))
				switch {
				case life == 3:
					p.left = -1
				case seed%3 == 2:
					p.flaky = 1 + rng.IntN(3)
				}
				o.Parallelism, o.Storage = 1+rng.IntN(3), p
				want, err := live(t, p, o, out)
				if p.isOff() {
					fs = p.found
				}
				wholeSnapshots(t, fs)
				if p.isOff() || err != nil && p.flaky > 0 {
					continue
				}
				finished := err != nil && strings.Contains(err.Error(), "already finished") // by the life before
				if err != nil && !finished {
					t.Fatal(err)
				}
				wantValues(t, out, want)
				if !finished && p.flaky == 0 { // else there may be files for the next attempt to find
					nothingLeft(t, p)
				}
				return
			}
		})
	}
}

// live runs the job to its end, or to that of the power, with a checkpoint after
// each round of its splits. It returns the output of all lives together.
func live(t *testing.T, p *powered, o embedded.Options, out *collect.Sink[string]) (want []string, err error) {
	const rounds, each = 5, 96
	var splits [][]jobtest.Item[string]
	var gates []*jobtest.Gate
	for _, prefix := range []string{"a", "b"} {
		var parts [][]jobtest.Item[string]
		keys := numbered(prefix, each)
		for i := range rounds {
			some := keys[i*each/16 : each>>i+i*each/16]
			want = append(want, some...)
			gate := jobtest.NewGate()
			gates = append(gates, gate)
			parts = append(parts, records(some...), hold(gate))
		}
		splits = append(splits, script(parts...))
	}
	r := launch(t, checkpoint.Memory, o, countJob(out, splits...))
	defer r.cancel()
	reached := make(chan *jobtest.Gate)
	for _, g := range gates {
		go func() {
			select {
			case <-g.Reached():
			case <-r.ctx.Done():
				return
			}
			select {
			case reached <- g:
			case <-r.ctx.Done():
			}
		}()
	}
	off := p.off
	for {
		select {
		case <-off:
			off = nil
			r.cancel()
		case g := <-reached:
			_, _ = r.job.TakeCheckpoint(r.ctx) // which may fail
			g.Open()
		case err := <-r.done:
			return occurrences(want), err
		}
	}
}

// occurrences are the outputs of countJob for its records.
func occurrences(keys []string) (vals []string) {
	n := map[string]int{}
	for _, k := range keys {
		n[k]++
		vals = append(vals, fmt.Sprintf("%s=%d", k, n[k]))
	}
	return vals
}

func wantValues(t *testing.T, out *collect.Sink[string], vals []string) {
	t.Helper()
	want(t, "counts", out.Values(), vals...)
}

// wholeSnapshots reads all that is published on a disk.
func wholeSnapshots(t *testing.T, fs *vfs.MemFS) {
	t.Helper()
	p := newPowered(fs, nil, -1)
	for dir := range published(t, p) {
		m, err := snapshot.Load(t.Context(), p, dir)
		if err == nil {
			err = snapshot.Verify(t.Context(), p, dir, m)
		}
		if err != nil {
			t.Errorf("published, and not whole: %v", err)
		}
	}
}

// published are the directories of checkpoints, and whether they are published.
func published(t *testing.T, p *powered) map[string]bool {
	t.Helper()
	dirs := map[string]bool{}
	err := p.List(t.Context(), "test", func(name string, _ int64) error {
		if path.Base(name) == snapshot.MetadataName {
			dirs[path.Dir(name)] = true
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return dirs
}

// nothingLeft fails if there is a file of state that no snapshot lists.
func nothingLeft(t *testing.T, p *powered) {
	t.Helper()
	var used []string
	for dir := range published(t, p) {
		m, err := snapshot.Load(t.Context(), p, dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range m.Files {
			used = append(used, path.Join(dir, f.Name))
		}
	}
	if len(used) == 0 {
		t.Error("no snapshot is there")
	}
	err := p.List(t.Context(), "test", func(name string, _ int64) error {
		if !strings.HasPrefix(name, "test/ledger/") && !strings.HasPrefix(path.Base(name), "_") && !slices.Contains(used, name) {
			return errors.New(name + " is left over")
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
