package command

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/weirstream/weir/codec"
	"github.com/weirstream/weir/internal/checkpoint"
	"github.com/weirstream/weir/internal/snapshot"
	"github.com/weirstream/weir/internal/storage/file"
	"github.com/weirstream/weir/runner"
	"github.com/weirstream/weir/stream"
)

// jobVariable has the test's binary be a job's program, for weir check.
const jobVariable = "WEIR_TEST_JOB"

func TestMain(m *testing.M) {
	if kind := os.Getenv(jobVariable); kind != "" {
		runner.Main("pages", func(j *stream.Job) { pagesJob(j, kind) })
	}
	goleak.VerifyTestMain(m)
}

var rewrite = flag.Bool("rewrite", false, "rewrite the golden files")

// dir is a checkpoint directory in which a test makes jobs.
type dir struct {
	*testing.T
	root     string
	blobs    *file.Blobs
	attempt  *checkpoint.Attempt
	clock    int64
	lineages int
}

func newDir(t *testing.T) *dir {
	root := filepath.Join(t.TempDir(), "weir")
	return &dir{T: t, root: root, blobs: file.New(root), clock: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC).UnixMilli()}
}

// now is one second later each time.
func (d *dir) now() int64 {
	d.clock += 1000
	return d.clock
}

func (d *dir) start(o checkpoint.StartOptions) {
	d.Helper()
	o.Job, o.Blobs, o.Now, o.Host, o.ExactlyOnceSinks, o.OpenPath = "pages", d.blobs, d.now, "host-7", true, checkpoint.OpenLocal
	o.PID = 100 + int(d.clock/1000%10)
	o.NewLineage = func() string {
		d.lineages++
		return fmt.Sprintf("lin%d", d.lineages)
	}
	a, err := checkpoint.Start(d.Context(), o)
	if err != nil {
		d.Fatal(err)
	}
	d.attempt = a
}

// publish stores a checkpoint with a data file.
func (d *dir) publish(id int64, format codec.Format, held ...snapshot.Committable) {
	d.Helper()
	at := snapshot.CheckpointDir("pages", id)
	name := snapshot.Name("count", 0, d.attempt.Number)
	f := snapshot.File{Name: name}
	err := d.blobs.Put(d.Context(), at+"/"+name, func(w io.Writer) (err error) {
		f.Size, f.CRC, err = snapshot.NewFileWriter(w, snapshot.None).Close()
		return err
	})
	if err != nil {
		d.Fatal(err)
	}
	m := &snapshot.Metadata{
		Job: "pages", Lineage: d.attempt.Lineage, Attempt: d.attempt.Number, ID: id, Kind: snapshot.Checkpoint, Completed: d.now(), Files: []snapshot.File{f},
	}
	if len(held) > 0 {
		m.Operators = []snapshot.Operator{{ID: "rows", CommittableFormat: &format, Committables: held}}
	}
	if err := snapshot.Store(d.Context(), d.blobs, at, m); err != nil {
		d.Fatal(err)
	}
}

// tree is what lies below the root.
func (d *dir) tree() string {
	d.Helper()
	var b strings.Builder
	err := filepath.WalkDir(d.root, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err == nil {
			fmt.Fprintln(&b, path, info.Size(), info.ModTime(), info.Mode())
		}
		return err
	})
	if err != nil {
		d.Fatal(err)
	}
	return b.String()
}

func (d *dir) damage(name string) {
	d.Helper()
	path := filepath.Join(d.root, name)
	data, err := os.ReadFile(path)
	if err != nil {
		d.Fatal(err)
	}
	data[len(data)-1] ^= 1
	if err := os.WriteFile(path, data, 0o600); err != nil {
		d.Fatal(err)
	}
}

// result is what a command did.
type result struct {
	code     int
	out, err string
}

// weir runs a command; input is what somebody types, "" for nobody.
func weir(t *testing.T, input string, args ...string) result {
	t.Helper()
	return weirIn(t, nil, input, args...)
}

// weirIn is weir where running jobs are announced in the directories.
func weirIn(t *testing.T, runtimeDirs []string, input string, args ...string) result {
	t.Helper()
	var out, errs bytes.Buffer
	p := Program{Stdin: strings.NewReader(input), Stdout: &out, Stderr: &errs, Interactive: input != "", Now: func() time.Time { return time.Now().Add(time.Minute) }, RuntimeDirs: runtimeDirs}
	code := p.Run(t.Context(), args)
	return result{code, out.String(), errs.String()}
}

func (r result) want(t *testing.T, code int, says ...string) {
	t.Helper()
	if r.code != code {
		t.Fatalf("exit code %d, want %d\n%s%s", r.code, code, r.out, r.err)
	}
	for _, s := range says {
		if !strings.Contains(r.out+r.err, s) {
			t.Errorf("it does not say %q:\n%s%s", s, r.out, r.err)
		}
	}
}

func (r result) wantNot(t *testing.T, says ...string) {
	t.Helper()
	for _, s := range says {
		if strings.Contains(r.out+r.err, s) {
			t.Errorf("it says %q:\n%s%s", s, r.out, r.err)
		}
	}
}
