package killmatrix

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

var (
	kills   = flag.Int("kills", 6, "how often the job is killed midway; towards its end, a quarter of that on top")
	seed    = flag.Uint64("seed", 1, "seed of the input and of the moments of the kills")
	records = flag.Int("records", 60_000, "records of the input")
)

// longest is how long a process may live before it is killed. Starting and
// restoring take part of it, a checkpoint is due every tenth of a second.
const longest = 1500 * time.Millisecond

// victim is the job as a process.
type victim struct {
	args []string
	log  string
}

// start starts the job at a parallelism.
func (v *victim) start(t *testing.T, parallelism int, rate float64) *exec.Cmd {
	t.Helper()
	out, err := os.OpenFile(v.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	cmd := exec.Command(os.Args[0], append(v.args, "--parallelism", fmt.Sprint(parallelism), "--rate", fmt.Sprint(rate))...)
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd
}

// live lets a process run for a time and kills it. It returns false if the job
// had finished before.
func (v *victim) live(t *testing.T, parallelism int, rate float64, life time.Duration) bool {
	t.Helper()
	cmd := v.start(t, parallelism, rate)
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case <-time.After(life):
		if err := cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
			t.Fatal(err)
		}
		return <-ended != nil
	case err := <-ended:
		if err != nil {
			t.Fatalf("the job failed: %v\n%s", err, v.tail(t))
		}
		return false
	}
}

// finish runs the job to its end.
func (v *victim) finish(t *testing.T, parallelism int) {
	t.Helper()
	if err := v.start(t, parallelism, 0).Wait(); err != nil {
		t.Fatalf("the job did not finish: %v\n%s", err, v.tail(t))
	}
}

func (v *victim) tail(t *testing.T) []byte {
	t.Helper()
	data, err := os.ReadFile(v.log)
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.SplitAfter(data, []byte("\n"))
	return bytes.Join(lines[max(0, len(lines)-40):], nil)
}

func TestKilledJobLosesDuplicatesAndChangesNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("kills child processes for seconds")
	}
	random := rand.New(rand.NewPCG(*seed, 0x6b69_6c6c))
	address, names := startBroker(t)
	readings := newReadings(*records, random)
	produce(t, address, names.in, readings)

	dir := t.TempDir()
	v := &victim{
		log: filepath.Join(dir, "job.log"),
		args: []string{"job", "run", "--checkpoint-dir", filepath.Join(dir, "checkpoints"),
			"--servers", address, "--in", names.in, "--numbered", names.numbered, "--totals", names.totals},
	}
	v.killMidway(t, random, *kills)
	more := v.killTowardsTheEnd(t, random, *kills/4)
	v.finish(t, 1+*kills%3)
	compare(t, address, names, readings)
	// A job that has finished has nothing more to do.
	v.finish(t, 1)
	compare(t, address, names, readings)
	t.Logf("seed %d: %d kills midway, %d towards the end", *seed, *kills, more)
}

// killMidway kills the job n times while it reads its input.
func (v *victim) killMidway(t *testing.T, random *rand.Rand, n int) {
	t.Helper()
	// However the kills fall, not all of the input is read by then.
	rate := 0.9 * float64(*records) / (float64(n) * longest.Seconds())
	for i := range n {
		if !v.live(t, 1+i%3, rate, time.Duration(random.Int64N(int64(longest)))) {
			t.Fatalf("the job finished before kill %d", i+1)
		}
	}
}

// killTowardsTheEnd kills the job up to n times, each time before it has
// finished, while it reads the rest as fast as it can, takes its final snapshot
// and commits it.
func (v *victim) killTowardsTheEnd(t *testing.T, random *rand.Rand, n int) (killed int) {
	t.Helper()
	for i := range n {
		if v.live(t, 1+i%3, 0, time.Duration(random.Int64N(int64(longest/3)))) {
			killed++
		}
	}
	return killed
}

func compare(t *testing.T, address string, names topics, readings []reading) {
	t.Helper()
	faults := append(
		checkNumbered(readings, committed[numbered](t, address, names.numbered)),
		checkTotals(readings, committed[total](t, address, names.totals))...)
	for i, f := range faults {
		if i == 20 {
			break
		}
		t.Errorf("seed %d: %v", *seed, f)
	}
	if len(faults) > 0 {
		t.Fatalf("seed %d: %d faults", *seed, len(faults))
	}
}
