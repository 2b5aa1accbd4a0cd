package command

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/weirstream/weir/codec"
	"github.com/weirstream/weir/internal/checkpoint"
	"github.com/weirstream/weir/internal/snapshot"
)

var opaque = codec.Format{ID: "opaque", Version: 1}

func committable(checkpoint int64, data string) snapshot.Committable {
	return snapshot.Committable{Checkpoint: checkpoint, Data: []byte(data)}
}

// history is a job that was started, went back, and has a void snapshot.
func history(t *testing.T) *dir {
	d := newDir(t)
	d.start(checkpoint.StartOptions{})
	d.publish(1, opaque, committable(1, "a"))
	d.publish(2, opaque, committable(2, "b"))
	d.publish(3, opaque, committable(3, "c"))
	d.start(checkpoint.StartOptions{RestorePath: filepath.Join(d.root, "pages", "chk-2"), Rewind: true})
	d.publish(4, opaque, committable(4, "d"))
	d.publish(5, opaque, committable(4, "d"), committable(5, "e"))
	if err := os.MkdirAll(filepath.Join(d.root, "pages", "chk-6"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(d.root, "pages", "chk-6", "count-0-a2"), make([]byte, 2000), 0o600); err != nil {
		t.Fatal(err)
	}
	return d
}

func TestCheckpointsText(t *testing.T) {
	d := history(t)
	before := d.tree()
	r := weir(t, "", "checkpoints", "--verify", d.root)
	r.want(t, exitDone)
	// Columns are as wide as the test's directory is long.
	got := regexp.MustCompile(`(\S) {2,}`).ReplaceAllString(strings.ReplaceAll(r.out, d.root, "/var/lib/weir"), "$1  ")
	const golden = "testdata/checkpoints.txt"
	if *rewrite {
		if err := os.WriteFile(golden, []byte(got), 0o666); err != nil {
			t.Fatal(err)
		}
	} else if want, err := os.ReadFile(golden); err != nil || got != string(want) {
		t.Errorf("%s differs (%v), got:\n%s", golden, err, got)
	}
	if d.tree() != before {
		t.Error("looking changed the directory")
	}
	// The job's own directory says the same.
	if own := weir(t, "", "checkpoints", filepath.Join(d.root, "pages")); own.out != r.out {
		t.Errorf("of the job's directory:\n%s", own.out)
	}
}

func TestCheckpointsJSON(t *testing.T) {
	d := history(t)
	r := weir(t, "", "checkpoints", d.root, "--output", "json", "--job", "pages")
	r.want(t, exitDone)
	var got struct {
		Jobs []struct {
			Job       string
			Snapshots []struct {
				ID      int64
				Alive   bool
				Void    string
				Restore string
				Next    bool
				Cost    string
			}
			Next struct {
				Does string
				From struct{ ID int64 }
			} `json:"next_start"`
			Losses []any `json:"accepted_losses"`
		}
	}
	if err := json.Unmarshal([]byte(r.out), &got); err != nil {
		t.Fatalf("%v:\n%s", err, r.out)
	}
	if len(got.Jobs) != 1 || got.Jobs[0].Job != "pages" || got.Jobs[0].Next.Does != "goes on" || got.Jobs[0].Next.From.ID != 5 || got.Jobs[0].Losses == nil {
		t.Fatalf("got %+v", got)
	}
	s := got.Jobs[0].Snapshots
	if len(s) != 5 || !s[4].Next || s[2].Alive || s[2].Void == "" || s[3].Restore != "-s "+filepath.Join(d.root, "pages", "chk-4")+" --rewind" || s[3].Cost == "" {
		t.Errorf("snapshots %+v", s)
	}
}

func TestCheckpointsFindsDamage(t *testing.T) {
	d := history(t)
	d.damage("pages/chk-5/count-0-a2")
	weir(t, "", "checkpoints", d.root).wantNot(t, "damaged")
	weir(t, "", "checkpoints", d.root, "--verify").want(t, exitFailed,
		"The same command is refused:", "chk-5/count-0-a2", "go back to pages/chk-4", "weir: damaged: pages/chk-5")
	d.damage("pages/ledger/0000000003")
	weir(t, "", "checkpoints", d.root).want(t, exitDone, "The same command is refused: ledger record pages/ledger/0000000003", "checksum mismatch")
	if err := os.RemoveAll(filepath.Join(d.root, "pages", "ledger")); err != nil {
		t.Fatal(err)
	}
	weir(t, "", "checkpoints", d.root).want(t, exitDone, "The same command is refused:", "the ledger pages/ledger", "no start is on record that can have written it")
}

func TestCheckpointsOfSeveralJobs(t *testing.T) {
	d := newDir(t)
	d.start(checkpoint.StartOptions{})
	if _, err := checkpoint.Start(t.Context(), checkpoint.StartOptions{Job: "other", Blobs: d.blobs}); err != nil {
		t.Fatal(err)
	}
	weir(t, "", "checkpoints", d.root).want(t, exitDone, "Job other", "Job pages", "begins from nothing")
	weir(t, "", "checkpoints", d.root, "--job", "other").wantNot(t, "Job pages")
	weir(t, "", "checkpoints", d.root, "--job", "none").want(t, exitFailed, `has no job "none"; it has other, pages`)
}

// A job may be called like what lies in a job's directory.
func TestCheckpointsOfJobsWithMisleadingNames(t *testing.T) {
	for _, name := range []string{"chk-loader", "chk-5", "ledger"} {
		t.Run(name, func(t *testing.T) {
			d := newDir(t)
			d.start(checkpoint.StartOptions{})
			if _, err := checkpoint.Start(t.Context(), checkpoint.StartOptions{Job: name, Blobs: d.blobs}); err != nil {
				t.Fatal(err)
			}
			own := filepath.Join(d.root, name)
			weir(t, "", "checkpoints", d.root).want(t, exitDone, "Job pages in ", "Job "+name+" in "+own+", lineage")
			weir(t, "", "checkpoints", d.root, "--job", name).want(t, exitDone, "Job "+name+" in "+own+", lineage")
			weir(t, "", "checkpoints", own).want(t, exitDone, "Job "+name+" in "+own+", lineage")
		})
	}
}

// A directory without records in it is no ledger, and that of a checkpoint has
// nothing but files.
func TestCheckpointsOfAJobWithoutLedger(t *testing.T) {
	d := newDir(t)
	if err := os.MkdirAll(filepath.Join(d.root, "pages", "chk-1"), 0o755); err != nil {
		t.Fatal(err)
	}
	weir(t, "", "checkpoints", filepath.Join(d.root, "pages")).want(t, exitDone, "Job pages in ")
	weir(t, "", "checkpoints", filepath.Join(d.root, "pages", "chk-1")).want(t, exitFailed, "neither a job's directory nor one of checkpoints")
}

func TestWrongUsage(t *testing.T) {
	empty := t.TempDir()
	for want, args := range map[string][]string{
		"no command":                        {},
		"unknown command \"x\"":             {"x"},
		"needs one directory":               {"checkpoints"},
		"unknown flag -x":                   {"checkpoints", empty, "-x"},
		"allowed is one of text, json":      {"checkpoints", empty, "--output", "yaml"},
		"list, commit or abort":             {"kafka-transactions"},
		"unknown command kafka-transaction": {"kafka-transactions", "end"},
		"--job needs --checkpoint-dir":      {"kafka-transactions", "list", "--job", "x"},
		"say which transactions":            {"kafka-transactions", "abort", "--yes"},
		"there is nobody to ask":            {"kafka-transactions", "abort", "--id", "x"},
		"unexpected argument \"x\"":         {"kafka-transactions", "list", "x"},
	} {
		weir(t, "", args...).want(t, exitUsage, want, "weir help")
	}
	weir(t, "", "checkpoints", empty).want(t, exitFailed, "neither a job's directory nor one of checkpoints")
	weir(t, "", "checkpoints", filepath.Join(empty, "gone")).want(t, exitFailed, "no such file")
	weir(t, "", "help").want(t, exitDone, "weir checkpoints DIR", "Exit codes")
	weir(t, "", "help", "checkpoints").want(t, exitDone, "--verify", "Nothing is written")
	weir(t, "", "help", "kafka-transactions").want(t, exitDone, "--lineage L", "--accept-duplicates", "weir kafka-transactions list|commit|abort")
	weir(t, "", "kafka-transactions", "abort", "--help").want(t, exitDone, "--accept-loss", "--yes")
}
