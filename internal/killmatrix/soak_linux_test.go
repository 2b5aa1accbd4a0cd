package killmatrix

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/weirstream/weir/connector/twophase"
)

var soakFor = flag.Duration("soak", 0, "how long TestSoak runs, at least 4m; 0 skips it")

const (
	soakRate    = 300 // records per second
	soakSample  = 10 * time.Second
	soakTrouble = time.Minute
)

// TestSoak runs two jobs for a long time. Each minute one of them is killed
// and started again, and the attempt of the other one fails inside its
// process. Memory, goroutines, open files and the checkpoint directory must
// not grow, nor the number of transactional ids per subtask and attempt.
func TestSoak(t *testing.T) {
	if *soakFor == 0 {
		t.Skip("runs for as long as -soak says")
	}
	n := int(soakFor.Seconds()*soakRate)*10/7 + 10_000
	killed, failing := newSoak(t, "killed", n), newSoak(t, "failing", n)
	began := time.Now()
	tick := time.NewTicker(soakSample)
	defer tick.Stop()
	trouble := soakTrouble
	for range tick.C {
		now := time.Since(began)
		killed.take(now)
		failing.take(now)
		if now < trouble {
			continue
		}
		trouble += soakTrouble
		killed.want(killed.p, killed.p.kill(t), -1)
		all.kills.Add(1)
		killed.p = killed.start("")
		failing.p.signal(failSignal)
		failing.failures++
		if now >= *soakFor {
			break
		}
	}
	for _, s := range []*soak{killed, failing} {
		s.checkIDs()
		s.report()
	}
	for _, s := range []*soak{killed, failing} {
		s.feeder.rest(t)
		s.want(s.p, s.p.await(t, "exited"), exitFinished)
		s.conclude()
	}
}

// soak is one of the jobs.
type soak struct {
	*campaign
	name     string
	p        *process
	failures int
	samples  []sample
}

// sample is what a job takes at a time.
type sample struct {
	at time.Duration
	// rss in bytes; files are open ones. Of the checkpoint directory without
	// the ledger: size in bytes and blobs.
	rss, goroutines, files, size, blobs, ledger int64
}

func newSoak(t *testing.T, name string, n int) *soak {
	c := newCampaignAt(t, *seed, n, soakRate)
	c.interval, c.parallelism = time.Second, 2
	return &soak{campaign: c, name: name, p: c.start("")}
}

func (s *soak) take(at time.Duration) {
	s.Helper()
	v := sample{at: at}
	for said := true; said; {
		select {
		case e := <-s.p.events:
			if e.kind == "exited" {
				s.Fatalf("%s: ended with status %v\n%s", s.name, e.status, s.p.tail())
			}
			if e.kind == "completed" {
				v.goroutines = int64(e.goroutines)
			}
		default:
			said = false
		}
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.p.pid))
	if err != nil {
		s.Fatalf("%s: %v", s.name, err)
	}
	_, after, _ := strings.Cut(string(status), "VmRSS:")
	kib, err := strconv.ParseInt(strings.Fields(after)[0], 10, 64)
	if err != nil {
		s.Fatalf("%s: VmRSS: %v", s.name, err)
	}
	v.rss = kib << 10
	open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", s.p.pid))
	if err != nil {
		s.Fatalf("%s: %v", s.name, err)
	}
	v.files = int64(len(open))
	s.measure(&v)
	s.samples = append(s.samples, v)
	s.Logf("%s %5.0f s: rss %d MiB, %d goroutines, %d open files; checkpoints %d KiB in %d files, %d ledger records",
		s.name, at.Seconds(), v.rss>>20, v.goroutines, v.files, v.size>>10, v.blobs, v.ledger)
}

// measure adds up the checkpoint directory, while it changes.
func (s *soak) measure(v *sample) {
	s.Helper()
	err := filepath.WalkDir(s.checkpoints(), func(path string, e fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil || e.IsDir():
			return err
		case filepath.Base(filepath.Dir(path)) == "ledger":
			v.ledger++
			return nil
		}
		info, err := e.Info()
		if err == nil {
			v.size += info.Size()
			v.blobs++
		}
		return nil // or deleted meanwhile
	})
	if err != nil {
		s.Fatalf("%s: %v", s.name, err)
	}
}

// checkIDs asks the brokers for all transactional ids of the job, in whatever
// state: three for each subtask and attempt, and one more where a commit took
// longer than the interval of checkpoints.
func (s *soak) checkIDs() {
	s.Helper()
	listed, err := kadm.NewClient(connect(s.T, s.address)).ListTransactions(s.Context(), nil, nil)
	if err != nil {
		s.Fatal(err)
	}
	slots, ids, most, above := map[twophase.Name]int{}, 0, 0, 0
	for id := range listed {
		prefix, rest, _ := strings.Cut(id, ".")
		name, err := twophase.ParseName(rest)
		if prefix = twophase.Unescape(prefix); err != nil || prefix != s.names.numbered && prefix != s.names.totals {
			continue
		}
		ids++
		name.Slot = 0
		slots[name]++
		most = max(most, slots[name])
		if slots[name] == 4 {
			above++
		}
	}
	if most > 4 {
		s.Errorf("%s: %d transactional ids of one subtask and attempt, want 3, at most 4", s.name, most)
	}
	if ids == 0 {
		s.Errorf("%s: the brokers know no transactional id", s.name)
	}
	s.Logf("%s: %d transactional ids in the brokers, of %d subtasks and attempts, at most %d each, above three in %d", s.name, ids, len(slots), most, above)
}

// report compares the two halves of the time; the first minute is left out.
func (s *soak) report() {
	s.Helper()
	s.Logf("%s: %d failures within the process", s.name, s.failures)
	for _, m := range []struct {
		name string
		of   func(sample) int64
		// slack is what the second half may be above the first.
		slack int64
	}{
		{"rss in KiB", func(v sample) int64 { return v.rss >> 10 }, 24 << 10},
		{"goroutines", func(v sample) int64 { return v.goroutines }, 40},
		{"open files", func(v sample) int64 { return v.files }, 20},
		{"checkpoint files", func(v sample) int64 { return v.blobs }, 20},
		{"checkpoints in KiB", func(v sample) int64 { return v.size >> 10 }, 512},
	} {
		var half [2]int64
		var first, last int64
		for i, v := range s.samples {
			if v.at < soakTrouble {
				continue
			}
			last = m.of(v)
			if first == 0 {
				first = last
			}
			h := i * 2 / len(s.samples)
			half[h] = max(half[h], last)
		}
		s.Logf("%s: %-18s start %d, end %d, max of the first half %d, of the second %d", s.name, m.name, first, last, half[0], half[1])
		if half[1] > half[0]+half[0]/10+m.slack {
			s.Errorf("%s: %s grow from %d to %d", s.name, m.name, half[0], half[1])
		}
	}
}
