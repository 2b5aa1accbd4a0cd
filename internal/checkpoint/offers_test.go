package checkpoint

import (
	"errors"
	"strings"
	"testing"

	"github.com/weirstream/weir/internal/snapshot"
)

// emptyDirectory deletes what lies below a directory.
func (j *lossJob) emptyDirectory(dir string) {
	j.Helper()
	for name := range contents(j.T, j.blobs) {
		if !strings.HasPrefix(name, dir+"/") {
			continue
		}
		if err := j.blobs.Delete(j.Context(), name); err != nil {
			j.Fatal(err)
		}
	}
}

// startWithoutSinks starts the job without exactly-once sinks.
func (j *lossJob) startWithoutSinks(o StartOptions) error {
	o.Job, o.Blobs = "job", j.blobs
	_, err := Start(j.Context(), o)
	return err
}

// Where the newest snapshot is there and cannot be read, exactly-once sinks do
// not let --fresh drop it: it is not offered then, and what is offered works.
func TestFreshIsOfferedOnlyWhereItWorks(t *testing.T) {
	for name, damage := range map[string]func(j *lossJob){
		"damaged":            func(j *lossJob) { rewriteBlob(j.T, j.blobs, "job/chk-2/_metadata", flipLastBit) },
		"of a newer version": func(j *lossJob) { rewriteBlob(j.T, j.blobs, "job/chk-2/_metadata", ofNewerVersion) },
	} {
		t.Run(name, func(t *testing.T) {
			j := newLossJob(t)
			j.publish(1, nil, "1.0")
			j.publish(2, nil, "2.0")
			damage(j)
			way := "or delete the job's directory memory:/job, which begins from nothing"
			err := j.start(StartOptions{})
			wantRefusal(t, err, "the newest snapshot job/chk-2", way)
			if strings.Contains(err.Error(), "--fresh") {
				t.Errorf("--fresh is offered: %v", err)
			}
			wantRefusal(t, j.start(StartOptions{Fresh: true}), "--fresh would drop job/chk-2", way)
			j.emptyDirectory("job")
			j.mustStart(StartOptions{})
		})
	}
	t.Run("damaged data", func(t *testing.T) {
		j := newLossJob(t)
		j.publishFile(1)
		rewriteBlob(t, j.blobs, "job/chk-1/data", flipLastBit)
		wantRefusal(t, j.start(StartOptions{}), "the newest snapshot job/chk-1", "or --fresh, which begins from nothing")
		j.mustStart(StartOptions{Fresh: true})
	})
	t.Run("without exactly-once sinks", func(t *testing.T) {
		j := newLossJob(t)
		j.publish(1, nil)
		rewriteBlob(t, j.blobs, "job/chk-1/_metadata", ofNewerVersion)
		wantRefusal(t, j.startWithoutSinks(StartOptions{}), "newer version of Weir", "no older snapshot is left to go back to; or --fresh, which begins from nothing")
		if err := j.startWithoutSinks(StartOptions{Fresh: true}); err != nil {
			t.Errorf("--fresh was offered, and: %v", err)
		}
	})
}

// Without a ledger a start without -s is refused as well, and nobody says that
// another job wrote what lies in the job's own directory.
func TestInsteadOfASnapshotOfALostLedger(t *testing.T) {
	j := newLossJob(t)
	j.publish(1, nil, "1.0")
	j.emptyDirectory("job/ledger")
	err := j.start(StartOptions{RestorePath: "memory:/job/chk-1"})
	wantRefusal(t, err, "job/chk-1 (id 1, attempt 1) was written by a start that the ledger here does not know, for the ledger was lost",
		"1 committable of sink rows (transaction 1.0)", "Without -s the start is refused as well: the ledger job/ledger in memory: is missing or names no start")
	for _, not := range []string{"another job", "begin from nothing, which reads"} {
		if strings.Contains(err.Error(), not) {
			t.Errorf("it says %q: %v", not, err)
		}
	}
	wantRefusal(t, j.start(StartOptions{}), "is missing or names no start")
}

// What is offered in place of a damaged snapshot is neither that one, nor
// another one that lacks files.
func TestInsteadOfADamagedSnapshot(t *testing.T) {
	blobs := twoCheckpoints(t)
	j := &lossJob{T: t, blobs: blobs}
	j.mustStart(StartOptions{})
	j.publish(3, nil)
	writer := j.a

	rewriteBlob(t, blobs, "job/chk-2/count-0-a1", flipLastBit)
	offers := func(err error) string {
		t.Helper()
		wantRefusal(t, err, "-s memory:/job/chk-")
		_, offers, _ := strings.Cut(err.Error(), "These can be begun from: ")
		return offers
	}
	damaged := StartOptions{RestorePath: "memory:/job/chk-2", Rewind: true}
	err := j.start(damaged)
	if got, want := offers(err), "-s memory:/job/chk-1 --rewind; -s memory:/job/chk-3"; got != want || !errors.Is(err, snapshot.ErrChecksum) && !strings.Contains(err.Error(), "checksum") {
		t.Errorf("offers %q, want %q: %v", got, want, err)
	}
	if err := blobs.Delete(t.Context(), "job/chk-2/count-0-a1"); err != nil {
		t.Fatal(err)
	}
	if got, want := offers(j.start(damaged)), "-s memory:/job/chk-1 --rewind; -s memory:/job/chk-3"; got != want {
		t.Errorf("offers %q, want %q", got, want)
	}
	if err := blobs.Delete(t.Context(), "job/chk-1/count-0-a1"); err != nil {
		t.Fatal(err)
	}
	if got, want := offers(j.start(damaged)), "-s memory:/job/chk-3"; got != want {
		t.Errorf("offers %q, want %q", got, want)
	}

	// The newest one is not what the job would go on from.
	j.a = writer
	j.publishFile(4)
	rewriteBlob(t, blobs, "job/chk-4/data", flipLastBit)
	wantRefusal(t, j.start(StartOptions{RestorePath: "memory:/job/chk-4"}), "Without -s the start is refused as well: the newest snapshot job/chk-4")
}

// publishFile stores a checkpoint with a data file.
func (j *lossJob) publishFile(id int64) {
	j.Helper()
	dir := snapshot.CheckpointDir("job", id)
	f, err := putFile(j.Context(), j.blobs, dir, "data")
	if err != nil {
		j.Fatal(err)
	}
	m := &snapshot.Metadata{Job: "job", Lineage: j.a.Lineage, Attempt: j.a.Number, ID: id, Kind: snapshot.Checkpoint, Files: []snapshot.File{f}}
	if err := snapshot.Store(j.Context(), j.blobs, dir, m); err != nil {
		j.Fatal(err)
	}
}
