package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/weirstream/weir/connector"
	"github.com/weirstream/weir/internal/script"
	"github.com/weirstream/weir/internal/snapshot"
	"github.com/weirstream/weir/internal/stage"
	"github.com/weirstream/weir/internal/storage"
	"github.com/weirstream/weir/internal/storage/mem"
)

// TestLedgerTraces runs the scripts in testdata/ledger: starts of a job that
// overtake, outlive and copy each other.
func TestLedgerTraces(t *testing.T) {
	script.Run(t, "ledger", func(t *testing.T, say script.Say) func([]string) {
		w := &world{t: t, ctx: t.Context(), say: say}
		w.reset()
		return w.run
	})
}

// world is a job's storage, another directory's, and what runs.
type world struct {
	t        *testing.T
	ctx      context.Context
	stores   map[string]storage.Blobs // "/weir" is the job's own
	starts   map[string]*start
	attempts map[string]*Attempt
	lineages int
	say      script.Say
	expired  map[string]bool // committables
}

func (w *world) reset() {
	w.stores = map[string]storage.Blobs{"/weir": mem.New()}
	w.starts, w.attempts, w.lineages, w.expired = map[string]*start{}, map[string]*Attempt{}, 0, map[string]bool{}
}

// run carries out a line; who is the directory of a start's job, with its
// name behind an @ where it is not the job's own.
func (w *world) run(words []string) {
	switch words[0] {
	case "reset":
		w.reset()
	case "start": // NAME [FLAG...]: a start from beginning to end
		if w.begin(words[1], words[2:]) {
			w.end(words[1])
		}
	case "begin": // NAME [FLAG...]: up to the look at the directory
		w.begin(words[1], words[2:])
	case "end": // NAME: the rest
		w.end(words[1])
	case "publish": // NAME ID [KIND] [SINK=CHECKPOINT:DATA,...] [deletes=ID,...] [to=DIR]
		w.publish(words[1], words[2:])
	case "newest": // NAME: is its claim still the newest?
		w.tell(w.attempts[words[1]].StillNewest(w.ctx))
	case "stopping", "stopped": // NAME ID OUTCOME [DIR]
		w.record(words)
	case "mark": // PATH [NAME]: the mark of what lies there, or of what NAME had there
		blobs, dir := w.open(words[1])
		w.mark(blobs, dir, w.attempts[words[len(words)-1]])
	case "delete": // PATH
		blobs, dir := w.open(words[1])
		w.tell(deleteDirectory(w.ctx, blobs, dir))
	case "corrupt": // PATH of a file
		blobs, name := w.open(words[1])
		w.tell(blobs.Put(w.ctx, name, func(to io.Writer) error {
			_, err := to.Write([]byte("damaged"))
			return err
		}))
	case "copy": // PATH PATH
		w.copy(words[1], words[2])
	case "resolve": // NAME [SINK...]
		w.resolve(words[1], words[2:])
	case "expired": // DATA...: transactions that the brokers have aborted
		for _, data := range words[1:] {
			w.expired[data] = true
		}
	case "unnamed": // NAME: its claim, as versions wrote it that left out the job
		w.unnamed(w.attempts[words[1]])
	case "look": // NAME: what is alive, and what is whose
		w.look(words[1])
	default:
		w.t.Fatalf("unknown command %q", words)
	}
}

func (w *world) tell(err error) {
	if err != nil {
		w.say("error: %v", err)
	}
}

// home is the storage of a start: that of "B@/copy" is /copy.
func (w *world) home(name string) storage.Blobs {
	_, dir, found := strings.Cut(name, "@")
	if !found {
		dir = "/weir"
	}
	if w.stores[dir] == nil {
		w.stores[dir] = elsewhere{mem.New(), dir}
	}
	return w.stores[dir]
}

// elsewhere is a storage with a name of its own.
type elsewhere struct {
	storage.Blobs
	name string
}

func (e elsewhere) String() string { return e.name }

// open resolves "/weir/job/chk-1" to a storage and a name in it.
func (w *world) open(p string) (storage.Blobs, string) {
	root, rest, _ := strings.Cut(strings.TrimPrefix(p, "/"), "/")
	return w.home("@/" + root), rest
}

func (w *world) begin(name string, flags []string) bool {
	o := StartOptions{
		Job: "job", Blobs: w.home(name), Host: "host-" + name, PID: 1, Now: func() int64 { return 0 },
		NewLineage: func() string {
			w.lineages++
			return fmt.Sprintf("L%d", w.lineages)
		},
		OpenPath: func(p string) (storage.Blobs, string, error) {
			blobs, dir := w.open(p)
			return blobs, dir, nil
		},
		Logger: slog.New(slog.NewTextHandler(warnings{w.say}, &slog.HandlerOptions{
			Level: slog.LevelWarn,
			ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
				if a.Key == slog.TimeKey {
					return slog.Attr{}
				}
				return a
			},
		})),
	}
	for i := 0; i < len(flags); i++ {
		switch flags[i] {
		case "exactly-once":
			o.ExactlyOnceSinks = true
		case "-s":
			i++
			o.RestorePath = flags[i]
		case "--rewind":
			o.Rewind = true
		case "--fresh":
			o.Fresh = true
		case "--claim":
			o.Claim = true
		case "--accept-loss":
			i++
			o.AcceptLoss = w.number(flags[i])
		default:
			key, value, _ := strings.Cut(flags[i], "=")
			switch key {
			case "job":
				o.Job = value
			case "nth":
				o.Nth = int(w.number(value))
			}
		}
	}
	s, err := newStart(o)
	if err == nil {
		err = s.begin(w.ctx)
	}
	w.tell(err)
	w.starts[name] = s
	return err == nil
}

func (w *world) end(name string) {
	a, err := w.starts[name].end(w.ctx)
	if err != nil {
		w.tell(err)
		return
	}
	w.attempts[name] = a
	from := "nothing"
	if a.Restored != nil {
		from = fmt.Sprintf("%s (id %d of attempt %d)", a.RestoredDir, a.Restored.ID, a.Restored.Attempt)
	}
	w.say("attempt %d of %s from %s, next id %d, owns %v", a.Number, a.Lineage, from, a.NextID, a.owned)
	if a.Share {
		w.say("may refer to its shared files")
	}
	for _, id := range sortedKeys(a.claimed) {
		w.say("%d lies at %s", id, a.claimed[id].path)
	}
	for _, f := range a.FormerLineages {
		w.say("ends what is open of %s up to attempt %d", f.Lineage, f.LastAttempt)
	}
}

func (w *world) publish(name string, words []string) {
	a := w.attempts[name]
	id := w.number(words[0])
	job := w.starts[name].Job
	m := &snapshot.Metadata{Job: job, Lineage: a.Lineage, Attempt: a.Number, Ledger: a.ledgerID, ID: id, Kind: snapshot.Checkpoint}
	blobs, dir := w.home(name), snapshot.CheckpointDir(job, id)
	for _, word := range words[1:] {
		key, value, _ := strings.Cut(word, "=")
		switch key {
		case "to":
			blobs, dir = w.open(value)
		case "deletes":
			for _, id := range strings.Split(value, ",") {
				m.Deletes = append(m.Deletes, snapshot.CheckpointDir(job, w.number(id)))
			}
		default:
			if value == "" {
				m.Kind = snapshot.Kind(word)
				continue
			}
			op := snapshot.Operator{ID: key}
			for c := range strings.SplitSeq(value, ",") {
				checkpoint, data, _ := strings.Cut(c, ":")
				op.Committables = append(op.Committables, snapshot.Committable{Checkpoint: w.number(checkpoint), Data: []byte(data)})
			}
			m.Operators = append(m.Operators, op)
		}
	}
	w.tell(snapshot.Store(w.ctx, blobs, dir, m))
}

func (w *world) mark(blobs storage.Blobs, dir string, by *Attempt) {
	m, err := snapshot.Load(w.ctx, blobs, dir)
	if err != nil {
		w.t.Fatal(err)
	}
	ref := refOf(m, dir)
	if by != nil {
		ref.Attempt = by.Number
	}
	w.tell(putMark(w.ctx, blobs, dir, ref, 0))
}

func (w *world) unnamed(a *Attempt) {
	l := a.ledger
	i := slices.IndexFunc(l.records, func(r Record) bool { return r.Kind == ClaimRecord && r.Attempt == a.Number })
	l.records[i].Job = ""
	data, err := l.records[i].encode()
	if err == nil {
		err = l.blobs.Put(w.ctx, l.name(i+1), func(to io.Writer) error {
			_, err := to.Write(data)
			return err
		})
	}
	w.tell(err)
}

func (w *world) record(words []string) {
	a := w.attempts[words[1]]
	ref := &Ref{Lineage: a.Lineage, Attempt: a.Number, ID: w.number(words[2]), Path: w.starts[words[1]].Job + "/chk-" + words[2]}
	outcome := Outcome("")
	if words[0] == "stopped" {
		outcome = Outcome(words[3])
	}
	if last := words[len(words)-1]; strings.HasPrefix(last, "/") {
		ref.Path, ref.External = last, true
	}
	if ref.ID == 0 {
		ref = nil
	}
	w.tell(a.record(w.ctx, RecordKind(words[0]), ref, outcome))
}

func (w *world) copy(from, to string) {
	source, dir := w.open(from)
	target, newDir := w.open(to)
	err := source.List(w.ctx, dir, func(name string, _ int64) error {
		data, err := source.Get(w.ctx, name)
		if err != nil {
			return err
		}
		return target.PutIfAbsent(w.ctx, path.Join(newDir, strings.TrimPrefix(name, dir)), data)
	})
	w.tell(err)
}

func (w *world) resolve(name string, sinks []string) {
	if w.attempts[name] == nil {
		w.t.Fatalf("%s did not start", name)
	}
	committers := map[string]stage.Committer{}
	for _, s := range sinks {
		committers[s] = sayingCommitter{w, s}
	}
	w.tell(w.attempts[name].ResolveSinks(w.ctx, committers))
}

func (w *world) look(name string) {
	job := w.starts[name].Job
	s := &start{StartOptions: StartOptions{Job: job, Blobs: w.home(name)}, ledger: newLedger(w.home(name), job)}
	if err := s.ledger.load(w.ctx); err != nil {
		w.tell(err)
		return
	}
	if err := s.look(w.ctx); err != nil {
		w.tell(err)
		return
	}
	owned, _ := s.owned(w.ctx)
	for _, f := range s.view.found {
		switch {
		case f.meta == nil:
			w.say("%s unreadable: %v", f.ref.Path, f.err)
		case slices.Contains(owned, f.ref.ID):
			w.say("%s alive, owned", f.ref.Path)
		case s.view.alive(f.ref):
			w.say("%s alive", f.ref.Path)
		default:
			w.say("%s void", f.ref.Path)
		}
	}
}

func (w *world) number(s string) int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		w.t.Fatalf("not a number: %q", s)
	}
	return n
}

type sayingCommitter struct {
	w    *world
	name string
}

func (c sayingCommitter) Commit(_ context.Context, data [][]byte) error {
	c.w.say("%s commits %s", c.name, data)
	var failed []error
	for i, d := range data {
		if c.w.expired[string(d)] {
			failed = append(failed, &connector.CommitError{Index: i, Err: fmt.Errorf("%w: %s has expired", connector.ErrTransactionLost, d)})
		}
	}
	return errors.Join(failed...)
}

func (c sayingCommitter) Sweep(_ context.Context, stillNewest func() error) error {
	err := stillNewest()
	c.w.say("%s sweeps: %v", c.name, err)
	return err
}

func (sayingCommitter) Close() error { return nil }

// warnings are log lines.
type warnings struct{ say script.Say }

func (w warnings) Write(p []byte) (int, error) {
	w.say("%s", strings.TrimSuffix(string(p), "\n"))
	return len(p), nil
}
