package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/weirstream/weir/codec"
	"github.com/weirstream/weir/connector"
	"github.com/weirstream/weir/internal/snapshot"
	"github.com/weirstream/weir/internal/stage"
	"github.com/weirstream/weir/internal/storage"
	"github.com/weirstream/weir/internal/storage/mem"
)

// lossyCommitter answers by what stands for a committable in fate; what does
// not is committed.
type lossyCommitter struct {
	fate map[string]error
	// coarse committers do not say which.
	coarse    bool
	committed []string
	swept     bool
}

func (c *lossyCommitter) Commit(_ context.Context, data [][]byte) error {
	var errs []error
	for i, d := range data {
		err := c.fate[string(d)]
		switch {
		case err == nil:
			c.committed = append(c.committed, string(d))
		case c.coarse:
			errs = append(errs, err)
		default:
			errs = append(errs, &connector.CommitError{Index: i, Err: fmt.Errorf("transaction %s: %w", d, err)})
		}
	}
	return errors.Join(errs...)
}

func (c *lossyCommitter) Sweep(_ context.Context, stillNewest func() error) error {
	c.swept = true
	return stillNewest()
}

func (*lossyCommitter) Close() error { return nil }

// plainWords says what splits and committables hold.
type plainWords struct{}

func (plainWords) Split(_ string, data []byte) (id, position string) {
	id, position, _ = strings.Cut(string(data), "@")
	return id, position
}
func (plainWords) Committable(_ string, data []byte) string { return "transaction " + string(data) }

// lossJob is a job in whose directory a test puts snapshots.
type lossJob struct {
	*testing.T
	blobs storage.Blobs
	a     *Attempt
}

func newLossJob(t *testing.T) *lossJob {
	j := &lossJob{T: t, blobs: mem.New()}
	j.mustStart(StartOptions{})
	return j
}

func (j *lossJob) start(o StartOptions) (err error) {
	j.Helper()
	o.Job, o.Blobs, o.ExactlyOnceSinks, o.Describer, o.Host, o.PID = "job", j.blobs, true, plainWords{}, "host-7", 4711
	o.OpenPath = func(p string) (storage.Blobs, string, error) {
		return j.blobs, strings.TrimSuffix(strings.TrimPrefix(p, "memory:/"), "/_metadata"), nil
	}
	j.a, err = Start(j.Context(), o)
	return err
}

func (j *lossJob) mustStart(o StartOptions) {
	j.Helper()
	if err := j.start(o); err != nil {
		j.Fatal(err)
	}
}

// publish stores a checkpoint at an offset, with a committable named
// "<checkpoint>.<subtask>" for each of held.
func (j *lossJob) publish(id int64, deletes []int64, held ...string) {
	j.Helper()
	sink := snapshot.Operator{ID: "rows", CommittableFormat: &codec.Format{ID: "text", Version: 1}}
	for _, h := range held {
		c := snapshot.Committable{Data: []byte(h)}
		if _, err := fmt.Sscanf(h, "%d.%d", &c.Checkpoint, &c.Subtask); err != nil {
			j.Fatal(err)
		}
		sink.Committables = append(sink.Committables, c)
	}
	source := snapshot.Operator{ID: "clicks", Subtasks: []snapshot.Subtask{{Splits: [][]byte{fmt.Appendf(nil, "orders-0@offset %d", 100*id), []byte("orders-1@offset 5")}}}}
	m := &snapshot.Metadata{Job: "job", Lineage: j.a.Lineage, Attempt: j.a.Number, Ledger: j.a.ledgerID, ID: id, Kind: snapshot.Checkpoint, Operators: []snapshot.Operator{source, sink}}
	for _, d := range deletes {
		m.Deletes = append(m.Deletes, snapshot.CheckpointDir("job", d))
	}
	if err := snapshot.Store(j.Context(), j.blobs, snapshot.CheckpointDir("job", id), m); err != nil {
		j.Fatal(err)
	}
}

// moveAway moves a snapshot.
func (j *lossJob) moveAway(from, to string) {
	j.Helper()
	for name, data := range contents(j.T, j.blobs) {
		rest, ok := strings.CutPrefix(name, from+"/")
		if !ok {
			continue
		}
		if err := errors.Join(j.blobs.PutIfAbsent(j.Context(), to+"/"+rest, []byte(data)), j.blobs.Delete(j.Context(), name)); err != nil {
			j.Fatal(err)
		}
	}
}

func (j *lossJob) resolve(c *lossyCommitter) error {
	j.Helper()
	return j.a.ResolveSinks(j.Context(), map[string]stage.Committer{"rows": c})
}

var errExpired = fmt.Errorf("%w: expired", connector.ErrTransactionLost)

func allLost(names ...string) *lossyCommitter {
	c := &lossyCommitter{fate: map[string]error{}}
	for _, n := range names {
		c.fate[n] = errExpired
	}
	return c
}

func wantLossError(t *testing.T, err error, says []string, not ...string) {
	t.Helper()
	var loss *LossError
	if !errors.As(err, &loss) || !errors.Is(err, ErrRefused) || !Fatal(err) {
		t.Fatalf("got %v, want a LossError", err)
	}
	for _, s := range says {
		if !strings.Contains(err.Error(), s) {
			t.Errorf("the error does not say %q:\n%v", s, err)
		}
	}
	for _, s := range not {
		if strings.Contains(err.Error(), s) {
			t.Errorf("the error says %q:\n%v", s, err)
		}
	}
}

// Rule 11: where all is lost going back is exact, is offered, and is allowed.
func TestAllLostOffersTheSnapshotBefore(t *testing.T) {
	j := newLossJob(t)
	j.publish(1, nil, "1.0", "1.1")
	j.publish(2, nil, "2.0", "2.1")
	j.mustStart(StartOptions{})
	c := allLost("2.0", "2.1")
	err := j.resolve(c)
	wantLossError(t, err, []string{
		"job/chk-2 (id 2, attempt 1)", "2 lost, 0 of unknown outcome, 0 committed",
		"lost: sink rows, subtask 0, checkpoint 2: transaction 2.0: transaction lost: expired", "subtask 1, checkpoint 2: transaction 2.1",
		"read between job/chk-1 (id 1, attempt 1) and job/chk-2 (id 2, attempt 1): source clicks, orders-0 from offset 100 to offset 200",
		"-s memory:/job/chk-1 --rewind: exact", "--accept-loss 2: the output in 2 lost transactions is missing for good",
	}, "orders-1", "was for another snapshot", "what was committed since")
	if !errors.Is(err, connector.ErrTransactionLost) {
		t.Error("the error hides that transactions are lost")
	}
	if c.swept {
		t.Error("a refused start swept")
	}
	if got := ledgerKinds(t, j.blobs); got != "claim restored claim restored" {
		t.Errorf("ledger: %s", got)
	}

	j.mustStart(StartOptions{RestorePath: "memory:/job/chk-1", Rewind: true})
	if j.a.Restored.ID != 1 || len(j.a.open) != 0 {
		t.Errorf("began from %d with %v to commit; a descendant proves that all is committed", j.a.Restored.ID, j.a.open)
	}
	if err := j.resolve(allLost()); err != nil {
		t.Fatal(err)
	}

	// The same place once more is another request, with a number.
	j.publish(3, nil, "3.0")
	j.mustStart(StartOptions{})
	wantLossError(t, j.resolve(allLost("3.0")), []string{"-s memory:/job/chk-1 --rewind=2: exact"})
}

// Where some are committed going back repeats them.
func TestSomeCommittedIsNotExact(t *testing.T) {
	for name, set := range map[string]func(j *lossJob) *lossyCommitter{
		"a committable of the same checkpoint": func(j *lossJob) *lossyCommitter {
			j.publish(1, nil)
			j.publish(2, nil, "2.0", "2.1")
			return allLost("2.1")
		},
		"unknown": func(j *lossJob) *lossyCommitter {
			j.publish(1, nil)
			j.publish(2, nil, "2.0")
			return &lossyCommitter{fate: map[string]error{"2.0": connector.ErrTransactionUnknown}}
		},
		"one of a later checkpoint": func(j *lossJob) *lossyCommitter {
			j.publish(1, nil)
			j.publish(2, nil, "2.0")
			j.publish(3, nil, "2.0", "3.0")
			return allLost("2.0") // 3.0 is committed
		},
		"a deleted one between": func(j *lossJob) *lossyCommitter {
			j.publish(1, nil)
			j.publish(3, []int64{2}, "3.0")
			return allLost("3.0")
		},
		"one between cannot be read": func(j *lossJob) *lossyCommitter {
			j.publish(1, nil)
			j.publish(2, nil, "2.0")
			j.publish(3, nil, "3.0")
			rewriteBlob(j.T, j.blobs, "job/chk-2/_metadata", flipLastBit)
			return allLost("3.0")
		},
		"one between lies elsewhere": func(j *lossJob) *lossyCommitter {
			j.publish(1, nil)
			j.publish(2, nil, "2.0")
			j.moveAway("job/chk-2", "moved")
			j.mustStart(StartOptions{RestorePath: "memory:/moved"})
			if err := j.resolve(allLost()); err != nil {
				j.Fatal(err)
			}
			j.publish(3, nil, "3.0")
			return allLost("3.0")
		},
	} {
		t.Run(name, func(t *testing.T) {
			j := newLossJob(t)
			c := set(j)
			j.mustStart(StartOptions{})
			wantLossError(t, j.resolve(c), []string{"-s memory:/job/chk-1 --rewind: nothing is missing then, but what was committed since that snapshot is published twice"}, "exact")
		})
	}
}

// What a start would refuse is not offered, however exact it were.
func TestLossReportOffersWhatWorks(t *testing.T) {
	j := newLossJob(t)
	j.publish(1, nil)
	j.publish(2, []int64{1}, "2.0")
	j.mustStart(StartOptions{})
	wantLossError(t, j.resolve(allLost("2.0")), []string{"no earlier snapshot is left from which this one stems and that -s takes", "all input is read again"}, "--rewind")
	wantRefusal(t, j.start(StartOptions{RestorePath: "memory:/job/chk-1", Rewind: true}), "is being deleted by the completion of job/chk-2")
}

// Committables that earlier checkpoints left: the one to go back to lies
// before the oldest loss, and those in between are lost, too.
func TestLossesOfSeveralCheckpoints(t *testing.T) {
	j := newLossJob(t)
	j.publish(1, nil, "1.0")
	j.publish(2, nil, "1.0", "2.0")
	j.publish(3, nil, "1.0", "2.0", "3.0")
	j.mustStart(StartOptions{})
	wantLossError(t, j.resolve(allLost("2.0", "3.0")), []string{
		"-s memory:/job/chk-1 --rewind: exact", "from offset 100 to offset 300",
		"committed: sink rows, subtask 0, checkpoint 1: transaction 1.0",
	})
	j.mustStart(StartOptions{})
	wantLossError(t, j.resolve(allLost("1.0", "2.0", "3.0")), []string{
		"no earlier snapshot is left from which this one stems", "between the beginning and job/chk-3", "orders-0 up to offset 300",
	})
}

// --accept-loss is recorded, counts for its snapshot only, and is used up.
func TestAcceptLoss(t *testing.T) {
	j := newLossJob(t)
	j.publish(1, nil)
	j.publish(2, nil, "2.0", "2.1", "2.2")
	j.mustStart(StartOptions{AcceptLoss: 2})
	c := &lossyCommitter{fate: map[string]error{"2.0": errExpired, "2.2": connector.ErrTransactionUnknown}}
	if err := j.resolve(c); err != nil {
		t.Fatal(err)
	}
	wantStrings(t, "committed", c.committed, "2.1")
	if !c.swept {
		t.Error("what earlier attempts left open was not swept")
	}
	l := newLedger(j.blobs, "job")
	if err := l.load(t.Context()); err != nil {
		t.Fatal(err)
	}
	r := l.records[len(l.records)-1]
	if r.Kind != AcceptedLossRecord || r.Attempt != 2 || r.Host != "host-7" || r.PID != 4711 || r.Snapshot == nil || r.Snapshot.ID != 2 || len(r.Losses) != 2 ||
		r.Losses[0].Outcome != Lost || r.Losses[1].Outcome != Unknown || r.Losses[1].Subtask != 2 || !strings.Contains(r.Losses[0].Reason, "2.0") ||
		!strings.Contains(r.Note, "from offset 100 to offset 200") {
		t.Errorf("record %+v", r)
	}

	// From the same snapshot again, without the flag: they are given up, and the
	// record proves that the other one was committed.
	j.mustStart(StartOptions{})
	again := allLost("2.0", "2.2")
	if err := j.resolve(again); err != nil {
		t.Error(err)
	}
	wantStrings(t, "committed again", again.committed)

	// A supervisor repeats the flag: new losses are another matter.
	j.publish(3, nil, "3.0")
	j.mustStart(StartOptions{AcceptLoss: 2})
	wantLossError(t, j.resolve(allLost("3.0")), []string{"--accept-loss 3", "--accept-loss 2 was for another snapshot"})
	if got := ledgerKinds(t, j.blobs); strings.Count(got, "accepted-loss") != 1 {
		t.Errorf("ledger: %s", got)
	}
}

func TestAcceptLossIsFenced(t *testing.T) {
	j := newLossJob(t)
	j.publish(1, nil, "1.0")
	j.mustStart(StartOptions{AcceptLoss: 1})
	old := j.a
	j.mustStart(StartOptions{})
	j.a = old
	if err := j.resolve(allLost("1.0")); !errors.Is(err, ErrFenced) {
		t.Errorf("got %v", err)
	}
}

// What may pass is no loss, even beside one.
func TestOtherFailuresAreNoLoss(t *testing.T) {
	passing := errors.New("broker away")
	for name, c := range map[string]*lossyCommitter{
		"alone":                {fate: map[string]error{"1.0": passing}},
		"beside a loss":        {fate: map[string]error{"1.0": errExpired, "1.1": passing}},
		"coarse":               {fate: map[string]error{"1.0": passing}, coarse: true},
		"coarse beside a loss": {fate: map[string]error{"1.0": errExpired, "1.1": passing}, coarse: true},
	} {
		t.Run(name, func(t *testing.T) {
			j := newLossJob(t)
			j.publish(1, nil, "1.0", "1.1")
			j.mustStart(StartOptions{AcceptLoss: 1})
			err := j.resolve(c)
			if !errors.Is(err, passing) || errors.Is(err, ErrRefused) || c.swept {
				t.Errorf("got %v, swept %v", err, c.swept)
			}
			if Fatal(err) {
				t.Errorf("it is not tried again: %v", err)
			}
			if n, err := readRefusals(t.Context(), j.blobs, "job"); n != nil || err != nil {
				t.Errorf("noted as refused: %+v, %v", n, err)
			}
		})
	}
}

// A committer that does not say which ones leaves all of them in doubt.
func TestCommitterWithoutDetails(t *testing.T) {
	j := newLossJob(t)
	j.publish(1, nil, "1.0", "1.1")
	j.mustStart(StartOptions{})
	c := allLost("1.1")
	c.coarse = true
	wantLossError(t, j.resolve(c), []string{"0 lost, 2 of unknown outcome"})
}

// What a committer's error says of each of two committables.
func TestLossesOfAnError(t *testing.T) {
	named := &connector.CommitError{Index: 1, Err: errExpired}
	passing := errors.New("broker away")
	cs := []snapshot.Committable{{Checkpoint: 1, Data: []byte("1.0")}, {Checkpoint: 1, Subtask: 1, Data: []byte("1.1")}}
	for name, c := range map[string]struct {
		err     error
		lost    string
		settled bool
	}{
		"none":                      {nil, "", true},
		"by name":                   {fmt.Errorf("commit: %w", errors.Join(named)), "1 lost", true},
		"by name, beside another":   {errors.Join(named, passing), "", false},
		"coarse":                    {fmt.Errorf("commit: %w", errExpired), "0 unknown 1 unknown", true},
		"coarse, of several":        {errors.Join(errExpired, connector.ErrTransactionUnknown), "0 unknown 1 unknown", true},
		"coarse, with the cause":    {fmt.Errorf("%w: %w", connector.ErrTransactionUnknown, passing), "0 unknown 1 unknown", true},
		"coarse, beside another":    {errors.Join(errExpired, passing), "", false},
		"another":                   {passing, "", false},
		"another, and no such name": {&connector.CommitError{Index: 2, Err: errExpired}, "", false},
	} {
		losses, settled := lossesOf("rows", cs, c.err)
		var got []string
		for _, l := range losses {
			got = append(got, fmt.Sprint(l.Subtask, " ", l.Outcome))
		}
		if settled != c.settled || strings.Join(got, " ") != c.lost {
			t.Errorf("%s: %q, settled %v; want %q, %v", name, got, settled, c.lost, c.settled)
		}
	}
}
