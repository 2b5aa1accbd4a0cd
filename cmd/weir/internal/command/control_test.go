package command

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weirstream/weir/checkpoint"
	coord "github.com/weirstream/weir/internal/checkpoint"
	"github.com/weirstream/weir/internal/rest"
	"github.com/weirstream/weir/internal/storage/file"
	"github.com/weirstream/weir/runner/embedded"
)

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *rewrite {
		if err := os.WriteFile(path, []byte(got), 0o666); err != nil {
			t.Fatal(err)
		}
		return
	}
	if want, err := os.ReadFile(path); err != nil || got != string(want) {
		t.Errorf("%s differs (%v; go test -rewrite accepts it), got:\n%s", path, err, got)
	}
}

func TestHelpOfCommands(t *testing.T) {
	golden(t, "help.txt", weir(t, "", "help").out)
	for _, command := range []string{"list", "savepoint", "checkpoint", "stop", "cancel", "inspect", "diff", "verify", "check"} {
		r := weir(t, "", "help", command)
		r.want(t, exitDone)
		golden(t, "help-"+command+".txt", r.out)
	}
}

func TestList(t *testing.T) {
	m := newMachine(t)
	m.weir("list").want(t, exitDone, "No job runs.")
	l := m.start(embedded.Options{})
	m.weir("list").want(t, exitDone, "test", l.id, "RUNNING", "none", "4711", l.url)
	m.weir("checkpoint", "test").want(t, exitDone, "1\n")
	m.weir("list").want(t, exitDone, "1, 1 min 0 s ago") // the clock of tests is a minute ahead
	r := m.weir("list", "--output", "json")
	r.want(t, exitDone)
	var doc struct {
		Jobs []struct {
			ID, Name, State, URL string
			PID                  int
			Checkpoints          struct{ Completed int }
			Last                 struct{ ID int64 } `json:"last_checkpoint"`
		}
	}
	if err := json.Unmarshal([]byte(r.out), &doc); err != nil || len(doc.Jobs) != 1 {
		t.Fatalf("%v: %s", err, r.out)
	}
	if j := doc.Jobs[0]; j.ID != l.id || j.Name != "test" || j.State != "RUNNING" || j.URL != l.url || j.PID != 4711 || j.Checkpoints.Completed != 1 || j.Last.ID != 1 {
		t.Errorf("got %+v", j)
	}
	// By its address it is reached although it is not announced here.
	weirIn(t, nil, "", "list", "--address", strings.TrimPrefix(l.url, "http://")).want(t, exitDone, l.id)
	weirIn(t, nil, "", "list", "--address", "127.0.0.1:1").want(t, exitFailed, "ask 127.0.0.1:1")
	weirIn(t, nil, "", "list", "--address", "ftp://x").want(t, exitUsage, "no address of a job")
}

func TestWhichJob(t *testing.T) {
	m := newMachine(t)
	m.weir("checkpoint", "test").want(t, exitFailed, "no job runs on this machine, of this user", "--address HOST:PORT")
	a, b := m.start(embedded.Options{}), m.start(embedded.Options{Checkpoint: checkpoint.Options{Dir: t.TempDir()}})
	m.weir("checkpoint", "test").want(t, exitFailed, "2 running jobs are called test: name one by its id", a.id, b.id)
	m.weir("checkpoint", "nobody").want(t, exitFailed, "no job nobody runs on this machine", a.id+"  test  RUNNING  "+a.url+"  pid 4711")
	m.weir("checkpoint", b.id[:12]).want(t, exitDone)
	m.weir("checkpoint", b.id).want(t, exitDone)
	if ha, hb := a.job.History(), b.job.History(); ha.Completed != 0 || hb.Completed != 2 {
		t.Errorf("%d checkpoints of one, %d of the other", ha.Completed, hb.Completed)
	}
}

// A job that stands by for another has its name, and is meant only where it can
// be.
func TestStandbyOfTheSameName(t *testing.T) {
	m := newMachine(t)
	l := m.start(embedded.Options{})
	standby := m.standby()
	m.weir("checkpoint", "test").want(t, exitDone, "1\n")
	m.weir("cancel", "test").want(t, exitFailed, "2 running jobs are called test", l.id+"  test  RUNNING", standby.id+"  test  INITIALIZING")
	m.weir("savepoint", standby.id, m.dir).want(t, exitFailed, "the job is standing by: a snapshot is taken of a running job")
	m.weir("cancel", standby.id).want(t, exitDone, "Job test is CANCELED.")
	standby.wantEnd(context.Canceled)
	if s := l.job.Status().State; s != "running" {
		t.Errorf("the job is %s", s)
	}
}

// TestR03SavepointPrintsItsPath, alone on a line of standard output; a job
// elsewhere, with another parallelism, starts from it.
func TestR03SavepointPrintsItsPath(t *testing.T) {
	m := newMachine(t)
	l := m.start(embedded.Options{})
	t.Chdir(t.TempDir())
	r := m.weir("savepoint", "test", "saved")
	r.want(t, exitDone)
	path, line := strings.CutSuffix(r.out, "\n")
	if !line || !filepath.IsAbs(path) || filepath.Base(filepath.Dir(path)) != "saved" || r.err != "" {
		t.Fatalf("got %q, %q", r.out, r.err)
	}
	wantDir(t, path)
	l.end()
	l.wantEnd(context.Canceled)

	n := newMachine(t)
	n.gate.Open()
	n.start(embedded.Options{RestorePath: path, Parallelism: 3}).wantEnd(nil)
	if got := n.out.Values(); !slices.Equal(got, []string{"a2"}) {
		t.Errorf("after the restore: %v", got)
	}
}

func TestSavepointAsJSON(t *testing.T) {
	m := newMachine(t)
	l := m.start(embedded.Options{Checkpoint: checkpoint.Options{SavepointDir: filepath.Join(m.dir, "saved")}})
	var doc outcome
	read := func(r result) {
		t.Helper()
		r.want(t, exitDone)
		doc = outcome{}
		if err := json.Unmarshal([]byte(r.out), &doc); err != nil {
			t.Fatalf("%v: %s", err, r.out)
		}
	}
	read(m.weir("savepoint", l.id, "--output", "json"))
	if doc.Job != "test" || doc.ID != l.id || doc.Status != "COMPLETED" || len(doc.Trigger) != 32 || filepath.Dir(doc.Path) != filepath.Join(m.dir, "saved") {
		t.Errorf("got %+v", doc)
	}
	wantDir(t, doc.Path)
	// Nobody waits, and somebody asks later.
	read(m.weir("savepoint", "test", "--detached", "--output", "json"))
	if doc.Status != "IN_PROGRESS" || doc.Path != "" {
		t.Errorf("got %+v", doc)
	}
	trigger := doc.Trigger
	read(m.weir("savepoint", "test", "--trigger", trigger, "--output", "json"))
	if doc.Status != "COMPLETED" || doc.Trigger != trigger || doc.Path == "" {
		t.Errorf("got %+v", doc)
	}
	wantDir(t, doc.Path)
	m.weir("savepoint", "test", "--trigger", "0123").want(t, exitFailed, "no operation 0123 is known")
}

// TestR01NoDirectory: refused, the job goes on, and a second call succeeds.
func TestR01NoDirectory(t *testing.T) {
	m := newMachine(t)
	l := m.start(embedded.Options{})
	m.weir("savepoint", "test").want(t, exitFailed, "savepoint of job test: no savepoint directory")
	m.weir("stop", "test").want(t, exitFailed, "no savepoint directory", "Name it with --savepoint DIR")
	if s := l.job.Status().State; s != "running" {
		t.Fatalf("the job is %s", s)
	}
	m.weir("savepoint", "test", filepath.Join(m.dir, "sp")).want(t, exitDone, filepath.Join(m.dir, "sp", "savepoint-test-1")+"\n")
	file := filepath.Join(m.dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	r := m.weir("savepoint", "test", filepath.Join(file, "below"), "--output", "json")
	r.want(t, exitFailed, "savepoint of job test failed: ", "not a directory", `"class": "error"`, `"status": "COMPLETED"`)
	if s := l.job.Status().State; s != "running" {
		t.Errorf("the job is %s", s)
	}
	weirIn(t, nil, "", "savepoint", "test", "relative", "--address", l.url).want(t, exitUsage, `"relative" must be an absolute path`)
}

// Stopped with a savepoint, the same command goes on from there.
func TestStop(t *testing.T) {
	m := newMachine(t)
	l := m.start(embedded.Options{})
	r := m.weir("stop", "test", "--savepoint", filepath.Join(m.dir, "saved"))
	r.want(t, exitDone)
	l.wantEnd(nil)
	wantDir(t, strings.TrimSpace(r.out))
	if s := l.job.Status().State; s != "suspended" || !slices.Equal(m.out.Values(), []string{"a1"}) {
		t.Errorf("the job is %s, its output %v", s, m.out.Values())
	}
	m.weir("stop", "test").want(t, exitFailed, "no job runs on this machine")
	// TestR05: no later checkpoint exists.
	if left, err := filepath.Glob(filepath.Join(m.dir, "test", "chk-*")); err != nil || len(left) > 0 {
		t.Errorf("checkpoints %v, %v", left, err)
	}
	m.gate.Open()
	m.start(embedded.Options{}).wantEnd(nil)
	if got := m.out.Values(); !slices.Equal(got, []string{"a1", "a2"}) {
		t.Errorf("output %v", got)
	}
}

func TestStopWithDrain(t *testing.T) {
	m := newMachine(t)
	l := m.start(embedded.Options{Checkpoint: checkpoint.Options{SavepointDir: filepath.Join(m.dir, "saved")}})
	r := m.weir("stop", "test", "--drain")
	r.want(t, exitDone)
	l.wantEnd(nil)
	wantDir(t, strings.TrimSpace(r.out))
	if s := l.job.Status().State; s != "finished" {
		t.Errorf("the job is %s", s)
	}
	line, err := coord.Look(t.Context(), coord.LookOptions{Job: "test", Blobs: file.New(m.dir), OpenPath: coord.OpenLocal})
	if err != nil || line.Next.Does != coord.HasFinished {
		t.Errorf("next: %+v, %v", line.Next, err)
	}
}

func TestCancel(t *testing.T) {
	m := newMachine(t)
	l := m.start(embedded.Options{})
	m.weir("cancel", "test").want(t, exitDone, "Job test is CANCELED.")
	l.wantEnd(context.Canceled)
	m.weir("cancel", "test").want(t, exitFailed, "no job runs on this machine")
	l = m.start(embedded.Options{})
	m.weir("cancel", "test", "--output", "json", "--detached").want(t, exitDone, `"state": "CANCELLING"`)
	l.wantEnd(context.Canceled)
}

func TestDispose(t *testing.T) {
	m := newMachine(t)
	l := m.start(embedded.Options{Checkpoint: checkpoint.Options{SavepointDir: filepath.Join(m.dir, "saved")}})
	take := func(command ...string) string {
		t.Helper()
		r := m.weir(command...)
		r.want(t, exitDone)
		return strings.TrimSpace(r.out)
	}
	first := take("savepoint", "test")
	take("checkpoint", "test")
	m.weir("savepoint", "--dispose", filepath.Join(m.dir, "test", "chk-2")).want(t, exitFailed, "it is the checkpoint 2 of job test and not a savepoint")
	wantDir(t, filepath.Join(m.dir, "test", "chk-2"))
	m.weir("savepoint", "--dispose", filepath.Join(first, "_metadata")).want(t, exitDone, "Savepoint "+first+" is deleted.")
	if _, err := os.Stat(first); !os.IsNotExist(err) {
		t.Errorf("it is still there: %v", err)
	}
	m.weir("savepoint", "--dispose", first).want(t, exitFailed, "does not exist")
	m.weir("savepoint", "--dispose", first, "test").want(t, exitUsage, "--dispose takes no job")

	last := take("stop", "test")
	l.wantEnd(nil)
	m.weir("savepoint", "--dispose", last, "--checkpoint-dir", m.dir).want(t, exitFailed, "is not deleted: the same command of job test goes on from it")
	m.start(embedded.Options{})
	m.weir("savepoint", "--dispose", last).want(t, exitFailed, "job test, which runs and has completed no checkpoint since it began from it, goes on from it")
	wantDir(t, last)
	take("checkpoint", "test")
	m.weir("savepoint", "--dispose", last, "--checkpoint-dir", m.dir, "--output", "json").want(t, exitDone, `"disposed": "`+last+`"`)
}

func TestWrongUseOfJobCommands(t *testing.T) {
	for want, args := range map[string][]string{
		"name a job; weir list shows":          {"stop"},
		"name a job; weir list":                {"savepoint"},
		"unexpected argument \"y\"":            {"checkpoint", "x", "y"},
		"unexpected argument \"z\"":            {"savepoint", "x", "y", "z"},
		"unexpected argument \"x\"":            {"list", "x"},
		"unknown flag -drain":                  {"cancel", "x", "--drain"},
		"--output \"yaml\": allowed is one of": {"list", "--output", "yaml"},
	} {
		weir(t, "", args...).want(t, exitUsage, want)
	}
}

// Somebody who no longer waits is told how to wait again: the operation goes on.
func TestWaitingEnds(t *testing.T) {
	m := newMachine(t)
	l := m.start(embedded.Options{Checkpoint: checkpoint.Options{SavepointDir: filepath.Join(m.dir, "saved")}})
	all, err := (&Program{RuntimeDirs: []string{m.run}}).jobs(t.Context(), where{})
	if err != nil || len(all) != 1 {
		t.Fatalf("found %v, %v", all, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	r := &request{flags: newFlags(""), job: all[0]}
	var trigger string
	err = (&Program{}).carryOut(ctx, r, "savepoint", rest.KindSavepoint, func(id string) (string, error) {
		trigger, err = all[0].client.Savepoint(ctx, l.id, rest.SavepointRequest{TriggerID: id})
		cancel()
		return trigger, err
	})
	if err == nil || !strings.Contains(err.Error(), "it goes on without anybody waiting") || !strings.Contains(err.Error(), "weir savepoint "+l.id+" --trigger "+trigger) {
		t.Errorf("got %v", err)
	}
	m.weir("savepoint", "test", "--trigger", trigger).want(t, exitDone, filepath.Join(m.dir, "saved"))
}

func TestBadURLs(t *testing.T) {
	for _, args := range [][]string{{"savepoint", "--dispose", "s3://bucket/savepoint-pages-1"}, {"checkpoints", "s3://bucket/weir"}} {
		weir(t, "", args...).want(t, exitFailed, "directories only")
	}
}
