package command

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/weirstream/weir/connector"
	"github.com/weirstream/weir/connector/datagen"
	"github.com/weirstream/weir/savepoint"
	keyed "github.com/weirstream/weir/state"
	"github.com/weirstream/weir/stream"
)

// pagesJob is a job with one operator; kind says how it differs from what is
// stored.
func pagesJob(j *stream.Job, kind string) {
	in := stream.KeyBy(stream.From(j, "in", datagen.Source(1, func(int64) string { return "x" })), func(s string) string { return s })
	var out stream.Stream[string]
	if kind == "renamed" {
		out = stream.Process(in, "site", newVisits)
	} else {
		out = stream.Process(in, "pages", func(r *keyed.Registry) *visits {
			v := newVisits(r)
			if kind == "changed" {
				keyed.ValueIn[string](r, "best")
			}
			return v
		})
	}
	stream.To(out, "out", connector.Discard[string]())
}

type visits struct{ count keyed.Value[int64] }

func newVisits(r *keyed.Registry) *visits { return &visits{keyed.ValueIn[int64](r, "count")} }

func (v *visits) Process(*stream.Ctx[string, string], string) error { return nil }

// stored has more than a job may know.
type stored struct {
	count keyed.Value[int64]
	best  keyed.Value[int64]
}

func savedVisits(t *testing.T, best bool) string {
	t.Helper()
	w := savepoint.New("pages", 4)
	err := savepoint.Bootstrap(w, "pages", func(r *keyed.Registry) *stored {
		s := &stored{count: keyed.ValueIn[int64](r, "count")}
		if best {
			s.best = keyed.ValueIn[int64](r, "best")
		}
		return s
	}, func(keys *savepoint.Keys[string], s *stored) error {
		keys.Select("a")
		if best {
			if err := s.best.Set(1); err != nil {
				return err
			}
		}
		return s.count.Set(1)
	})
	dir := filepath.Join(t.TempDir(), "saved")
	if err == nil {
		err = w.Write(t.Context(), dir)
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestCheck(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir, more := savedVisits(t, false), savedVisits(t, true)
	check := func(kind, dir string, args ...string) result {
		t.Setenv(jobVariable, kind)
		return weir(t, "", append([]string{"check", program, "-s", dir}, args...)...)
	}
	check("same", dir).want(t, exitDone, "pages restores "+dir, `source "in" is not in the snapshot`)
	r := check("same", more)
	r.want(t, exitFailed, "pages does not restore", `refused: operator "pages"`, `state "best" is stored as value of int64 and no longer declared`)
	check("changed", more).want(t, exitFailed, `state "best" is stored as value of int64 and declared as value of string`)
	check("renamed", dir).want(t, exitFailed, `holds state of operator "pages"`, `operator "site" is not in the snapshot`)
	check("renamed", dir, "--", "-n").want(t, exitDone, "is dropped, as --allow-non-restored-state says")
	check("same", dir, "--", "-p", "8").want(t, exitFailed, "parallelism 8 is above the max parallelism 4")
	r = check("same", more, "--output", "json")
	var doc struct {
		Restores bool
		Refusals []string
	}
	if err := json.Unmarshal([]byte(r.out), &doc); err != nil || r.code != exitFailed || doc.Restores || len(doc.Refusals) != 1 {
		t.Errorf("%s, %v", r.out, err)
	}
	check("same", t.TempDir()).want(t, exitFailed, "not a snapshot")
	check("same", dir, "--", "--none").want(t, exitUsage, "unknown flag", "is it a program of runner.Main")
	weir(t, "", "check", program).want(t, exitUsage, "needs a snapshot")
	weir(t, "", "check", "-s", dir).want(t, exitUsage, "needs one program")
	weir(t, "", "check", "/none/such", "-s", dir).want(t, exitFailed, "no such file")
}
