package command

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirstream/weir/internal/checkpoint"
	"github.com/weirstream/weir/internal/storage/file"
)

// copyOf copies the checkpoint directory and looks at the copy.
func (d *dir) copyOf(root string) *dir {
	d.Helper()
	if err := os.CopyFS(root, os.DirFS(d.root)); err != nil {
		d.Fatal(err)
	}
	c := *d
	c.root, c.blobs = root, file.New(root)
	return &c
}

// A copy of the directory does not know what the job has written since, nor
// does an older ledger that was put back: nothing there is called a leftover.
func TestTransactionsSeenFromACopy(t *testing.T) {
	brokers(t, func(t *testing.T, b *broker) {
		d, listed, left := crashed(b)
		old := d.copyOf(filepath.Join(t.TempDir(), "weir"))
		d.start(checkpoint.StartOptions{})
		w := b.writer(d.attempt, 0)
		b.write(w, "of attempt 2")
		d.publish(2, b.sink().CommittableCodec().Format(), b.precommit(w, 2))
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		ofTwo := strings.Replace(listed, ".1.rows", ".2.rows", 1)
		b.run("", d, "list", "--checkpoint-dir", d.root).want(t, exitDone, ofTwo, "a start commits it: snapshot pages/chk-2 lists it")

		says := "the job was last started in " + d.root + ", and this is " + old.root
		b.run("", d, "list", "--checkpoint-dir", old.root).want(t, exitDone, "unclear: "+says)
		b.run("", d, "abort", "--yes", "--id", ofTwo, "--checkpoint-dir", old.root).want(t, exitFailed, says, "add --accept-loss")
		b.run("", d, "commit", "--yes", "--id", listed, "--checkpoint-dir", old.root).want(t, exitFailed, "unclear: snapshot pages/chk-1 lists it, but "+says, "add --accept-duplicates")

		// A start of the copy ends neither.
		started := old.copyOf(filepath.Join(t.TempDir(), "weir"))
		started.start(checkpoint.StartOptions{})
		b.run("", d, "abort", "--yes", "--id", left, "--checkpoint-dir", started.root).want(t, exitFailed, "unclear: attempt 1 ran in "+d.root+", and this is "+started.root, "add --accept-loss")
		b.run("", d, "abort", "--yes", "--id", ofTwo, "--checkpoint-dir", started.root).want(t, exitFailed, "unclear: the ledger here knows no attempt 2 of its lineage", "add --accept-loss")

		// The older ledger, put back in place.
		ledger := filepath.Join(d.root, "pages", "ledger")
		if err := errors.Join(os.RemoveAll(ledger), os.CopyFS(ledger, os.DirFS(filepath.Join(old.root, "pages", "ledger"))),
			os.RemoveAll(filepath.Join(d.root, "pages", "chk-2"))); err != nil {
			t.Fatal(err)
		}
		b.run("", d, "abort", "--yes", "--id", ofTwo, "--checkpoint-dir", d.root).want(t, exitFailed, "unclear: the ledger here ends with attempt 1: it is an older copy", "add --accept-loss")
		if got := b.run("", d, "list"); strings.Count(got.out, "Ongoing") != 3 {
			t.Errorf("something was done:\n%s", got.out)
		}
	})
}

// A copy beside the job, in the same checkpoint directory, claims the job's
// lineage: nothing of it is a leftover, and the job's own lock counts.
func TestTransactionsOfAJobCopiedBesideIt(t *testing.T) {
	brokers(t, func(t *testing.T, b *broker) {
		d, listed, left := crashed(b)
		unlock, err := d.blobs.LockDir("pages")
		if err != nil {
			t.Fatal(err)
		}
		backup := filepath.Join(d.root, "pages-backup")
		if err := os.CopyFS(backup, os.DirFS(filepath.Join(d.root, "pages"))); err != nil {
			t.Fatal(err)
		}
		says := "the directories of jobs pages, pages-backup all claim its lineage"
		b.run("", d, "list", "--checkpoint-dir", d.root).want(t, exitDone, "job pages, which runs now", "unclear: "+says, "unclear: snapshot pages/chk-1 lists it, but "+says)
		for _, where := range [][]string{{d.root}, {d.root, "--job", "pages-backup"}, {d.root, "--job", "pages"}, {backup}} {
			args := append([]string{"--checkpoint-dir"}, where...)
			b.run("", d, append([]string{"list"}, args...)...).want(t, exitDone, "unclear: "+says)
			b.run("", d, append([]string{"abort", "--yes", "--accept-loss", "--id", left}, args...)...).want(t, exitFailed, "the job runs")
		}
		if err := unlock(); err != nil {
			t.Fatal(err)
		}
		b.run("", d, "abort", "--yes", "--id", left, "--checkpoint-dir", backup).want(t, exitFailed, says, "add --accept-loss")
		b.run("", d, "commit", "--yes", "--id", listed, "--checkpoint-dir", d.root).want(t, exitFailed, says, "add --accept-duplicates")
		weir(t, "", "checkpoints", backup).want(t, exitDone, "The same command is refused: "+backup+" was written by job pages")

		// Renamed: the tools ask for a flag, as for a directory that was moved.
		if err := os.RemoveAll(filepath.Join(d.root, "pages")); err != nil {
			t.Fatal(err)
		}
		b.run("", d, "abort", "--yes", "--id", left, "--checkpoint-dir", d.root).want(t, exitFailed, "job pages wrote this directory, "+backup, "add --accept-loss")
		b.run("", d, "abort", "--yes", "--accept-loss", "--id", left, "--checkpoint-dir", d.root).want(t, exitDone, left+": aborted")
	})
}

// Another path to the same directory is no copy.
func TestTransactionsSeenThroughALink(t *testing.T) {
	brokers(t, func(t *testing.T, b *broker) {
		d, _, left := crashed(b)
		link := filepath.Join(t.TempDir(), "link")
		if err := os.Symlink(d.root, link); err != nil {
			t.Fatal(err)
		}
		b.run("", d, "abort", "--yes", "--id", left, "--checkpoint-dir", link).want(t, exitDone, left+": aborted")
	})
}

// Without a ledger a snapshot can be begun from once all that it lists is
// committed: committing it by hand marks it.
func TestCommitByHandWithoutLedger(t *testing.T) {
	brokers(t, func(t *testing.T, b *broker) {
		d, listed, left := crashed(b)
		if err := os.RemoveAll(filepath.Join(d.root, "pages", "ledger")); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(d.root, "pages", "chk-1")
		begin := func() (*checkpoint.Attempt, error) {
			return checkpoint.Start(t.Context(), checkpoint.StartOptions{Job: "pages", Blobs: d.blobs, RestorePath: path, ExactlyOnceSinks: true, OpenPath: checkpoint.OpenLocal})
		}
		if _, err := begin(); !errors.Is(err, checkpoint.ErrRefused) {
			t.Fatalf("a start from a snapshot that is not committed: %v", err)
		}
		b.run("", d, "list", "--job", "pages", "--checkpoint-dir", d.root).want(t, exitDone, "Lineage "+d.attempt.Lineage+", job pages",
			"unclear: snapshot pages/chk-1 lists it, but the ledger knows no start of its lineage", "unclear: the ledger knows no start of its lineage")
		b.run("", d, "abort", "--yes", "--id", left, "--checkpoint-dir", d.root).want(t, exitFailed, "add --accept-loss")
		b.run("", d, "commit", "--yes", "--id", listed, "--checkpoint-dir", d.root).want(t, exitFailed, "add --accept-duplicates")
		if _, err := os.Stat(filepath.Join(path, checkpoint.CommittedName)); err == nil {
			t.Fatal("marked by a command that did nothing")
		}
		b.run("", d, "commit", "--yes", "--accept-duplicates", "--id", listed, "--checkpoint-dir", d.root).want(t, exitDone, listed+": committed", "All that snapshot pages/chk-1 lists is committed: marked so")
		if a, err := begin(); err != nil || a.Restored.ID != 1 {
			t.Errorf("a start from the marked snapshot: %v", err)
		}
	})
}

// A commit by hand of what is lost says so.
func TestCommitByHandOfWhatIsLost(t *testing.T) {
	brokers(t, func(t *testing.T, b *broker) {
		d, listed, _ := crashed(b)
		b.run("", d, "abort", "--yes", "--accept-loss", "--checkpoint-dir", d.root).want(t, exitDone)
		b.settled(d)
		b.run("", d, "commit", "--yes", "--checkpoint-dir", d.root, "--job", "pages").want(t, exitFailed, listed+": failed: ", "not open: it is asked for once more")
		if _, err := os.Stat(filepath.Join(d.root, "pages", "chk-1", checkpoint.CommittedName)); err == nil {
			t.Error("marked as committed")
		}
	})
}

func TestUnknownID(t *testing.T) {
	brokers(t, func(t *testing.T, b *broker) {
		d, _, _ := crashed(b)
		for _, command := range []string{"list", "commit", "abort"} {
			args := []string{command, "--id", "pages%2Eout.x.1.rows.0.0", "--checkpoint-dir", d.root}
			if command != "list" {
				args = append(args, "--yes")
			}
			b.run("", d, args...).want(t, exitFailed, `know no transaction of an exactly-once sink with id "pages%2Eout.x.1.rows.0.0"`)
		}
	})
}

// Brokers of another cluster know none of them.
func TestListOfTheWrongCluster(t *testing.T) {
	brokers(t, func(t *testing.T, b *broker) {
		d, _, _ := crashed(b)
		other := inProcess(t)
		other.run("", d, "list", "--checkpoint-dir", d.root).want(t, exitDone, "these brokers do not know it: is it the right cluster (--bootstrap-servers)?")
	})
}

// A job that runs is told from one that died.
func TestListOfARunningJob(t *testing.T) {
	brokers(t, func(t *testing.T, b *broker) {
		d, _, _ := crashed(b)
		unlock, err := d.blobs.LockDir("pages")
		if err != nil {
			t.Fatal(err)
		}
		b.run("", d, "list", "--checkpoint-dir", d.root).want(t, exitDone, "job pages, which runs now", "the job, which runs, commits it: snapshot pages/chk-1", "the job, which runs, writes it")
		if err := unlock(); err != nil {
			t.Fatal(err)
		}
		b.run("", d, "list", "--checkpoint-dir", d.root).wantNot(t, "which runs")
	})
}

// A signal at the question is a no, and the lock goes.
func TestSignalAtTheQuestion(t *testing.T) {
	brokers(t, func(t *testing.T, b *broker) {
		d, _, left := crashed(b)
		ctx, cancel := context.WithCancel(t.Context())
		in, typed := io.Pipe()
		defer typed.Close()
		var errs signalling
		errs.on, errs.do = "[y/N]", cancel
		p := Program{Stdin: in, Stdout: io.Discard, Stderr: &errs, Interactive: true, Now: time.Now}
		code := p.Run(ctx, []string{"kafka-transactions", "abort", "--id", left, "--checkpoint-dir", d.root, "--bootstrap-servers", b.server})
		if code != exitFailed || !strings.Contains(errs.String(), "nothing was done") {
			t.Errorf("exit code %d: %s", code, errs.String())
		}
		unlock, err := d.blobs.LockDir("pages")
		if err != nil {
			t.Fatal(err)
		}
		if err := unlock(); err != nil {
			t.Fatal(err)
		}
	})
}

// signalling does something once a text was written.
type signalling struct {
	strings.Builder
	on string
	do func()
}

func (s *signalling) Write(p []byte) (int, error) {
	n, err := s.Builder.Write(p)
	if strings.Contains(s.String(), s.on) {
		s.do()
	}
	return n, err
}
