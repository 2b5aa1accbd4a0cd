package checkpoint

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weirstream/weir/codec"
	"github.com/weirstream/weir/internal/snapshot"
	"github.com/weirstream/weir/internal/storage"
	"github.com/weirstream/weir/internal/storage/location"
)

// LookOptions say which job to look at.
type LookOptions struct {
	Job   string
	Blobs storage.Blobs
	// OpenPath opens snapshots elsewhere that the ledger names. Nil leaves
	// them out.
	OpenPath func(path string) (blobs storage.Blobs, dir string, err error)
	// Verify reads all data files and compares their checksums, but for those
	// that a running job writes meanwhile. Without it their sizes are compared.
	Verify bool
}

// Timeline is all that a job's directory says: who started the job, from what,
// how that ended, which snapshots there are and what each is good for.
type Timeline struct {
	Job       string `json:"job"`
	Directory string `json:"directory"`
	// WrittenAs is the name of the job under which the directory was last
	// written, if that is another one: it was renamed or copied.
	WrittenAs string `json:"written_as,omitempty"`
	// Lineage is the one that the next start carries on.
	Lineage string `json:"lineage"`
	// ExactlyOnceSinks are those that a snapshot names. What is said of restores
	// assumes that the job has no others.
	ExactlyOnceSinks []string           `json:"exactly_once_sinks"`
	Attempts         []TimelineAttempt  `json:"attempts"`
	Snapshots        []TimelineSnapshot `json:"snapshots"`
	// Unfinished are directories without _metadata: no snapshots, or none yet.
	Unfinished []UnfinishedSnapshot `json:"unfinished"`
	Losses     []AcceptedLoss       `json:"accepted_losses"`
	Next       NextStart            `json:"next_start"`
}

// TimelineAttempt is a start of the job.
type TimelineAttempt struct {
	Attempt int64  `json:"attempt"`
	Lineage string `json:"lineage"`
	Host    string `json:"host"`
	PID     int    `json:"pid"`
	// Storage is the directory of checkpoints, as the attempt named it.
	Storage string    `json:"storage"`
	Claimed time.Time `json:"claimed"`
	// Asked are the flags that it was started with, "" for none.
	Asked string `json:"asked"`
	// Chose tells that it came to choose what to begin from: From, nil for
	// nothing.
	Chose bool `json:"chose"`
	From  *Ref `json:"from"`
	// End says how it ended, as far as anybody knows.
	End string `json:"end"`
	// Ended is when that was recorded, nil if it was not.
	Ended *time.Time `json:"ended"`
	// Refused is why it was refused, as far as that is still known.
	Refused string `json:"refused,omitempty"`
}

// TimelineSnapshot is a snapshot, and what it is good for.
type TimelineSnapshot struct {
	Ref
	Kind snapshot.Kind `json:"kind"`
	// Completed is when its _metadata was written.
	Completed time.Time `json:"completed"`
	// Bytes of all files.
	Bytes int64 `json:"bytes"`
	// Committables that it lists; Open are those not proven to be committed.
	Committables int               `json:"committables"`
	Open         []OpenCommittable `json:"open,omitempty"`
	// Committed tells of the mark: all committables are committed.
	Committed bool `json:"committed"`
	// Alive: a start may go on from it. Else Void says why not.
	Alive bool   `json:"alive"`
	Void  string `json:"void,omitempty"`
	// Damage is why it cannot be read, "" if it can, as far as was looked.
	Damage string `json:"damage,omitempty"`
	// Restore are the flags to begin from it; Next tells that none are needed.
	// Refused is why it cannot be begun from. Cost is what it costs.
	Restore string `json:"restore,omitempty"`
	Next    bool   `json:"next"`
	Refused string `json:"refused,omitempty"`
	Cost    string `json:"cost,omitempty"`
	// Deletes are the snapshots that its completion deletes.
	Deletes []string `json:"deletes,omitempty"`
}

// OpenCommittable is a committable that is not proven to be committed.
type OpenCommittable struct {
	Operator   string        `json:"operator"`
	Format     *codec.Format `json:"-"`
	Checkpoint int64         `json:"checkpoint"`
	Subtask    int           `json:"subtask"`
	Data       []byte        `json:"-"`
}

// UnfinishedSnapshot is a directory without _metadata.
type UnfinishedSnapshot struct {
	Path  string `json:"path"`
	Files int    `json:"files"`
	Bytes int64  `json:"bytes"`
}

// AcceptedLoss is what an operator has given up.
type AcceptedLoss struct {
	Attempt  int64     `json:"attempt"`
	Time     time.Time `json:"time"`
	Host     string    `json:"host"`
	PID      int       `json:"pid"`
	Snapshot Ref       `json:"snapshot"`
	Losses   []Loss    `json:"losses"`
	Note     string    `json:"note"`
}

// NextStart is what the same command would do.
type NextStart struct {
	// Does is one of the constants below.
	Does NextStep `json:"does"`
	// From is what it goes on from.
	From *Ref `json:"from"`
	// Why is the reason of a refusal, or that nothing is left to do. Last is the
	// attempt that was refused at From, for what From holds is lost, 0 if none
	// was: the next one will be, too, unless it is told what to do. Ledger
	// tells that it is the ledger: then nothing said of snapshots is certain.
	Why    string `json:"why,omitempty"`
	Last   int64  `json:"last_refused,omitempty"`
	Ledger bool   `json:"ledger,omitempty"`
}

// NextStep is what a start without flags would do.
type NextStep string

// The steps.
const (
	GoesOn            NextStep = "goes on"
	BeginsFromNothing NextStep = "begins from nothing"
	HasFinished       NextStep = "has finished"
	// WasCanceled: a start is refused, for the checkpoints were deleted with
	// the job; all that they held was committed before.
	WasCanceled NextStep = "was canceled"
	IsRefused   NextStep = "is refused"
	// CannotBeTold: it goes on from a snapshot elsewhere that cannot be looked at
	// now, as where one is not let in. Why is the error.
	CannotBeTold NextStep = "cannot be told"
)

// Jobs lists the jobs that have a directory in a storage.
func Jobs(ctx context.Context, blobs storage.Blobs) ([]string, error) {
	seen := map[string]bool{}
	err := blobs.List(ctx, "", func(name string, _ int64) error {
		parts := strings.Split(name, "/")
		if len(parts) == 3 && (parts[1] == LedgerName && IsRecord(parts[2]) || IsCheckpoint(parts[1])) {
			seen[parts[0]] = true
		}
		return nil
	})
	return sortedKeys(seen), err
}

// looks is how often a look is repeated where a running job deletes what is
// being looked at.
const looks = 20

// Look reads a job's directory, by the eyes of a start, and writes nothing. A
// damaged ledger is part of the picture; an error is one of the storage.
func Look(ctx context.Context, o LookOptions) (*Timeline, error) {
	check := unverified
	if o.Verify {
		var err error
		if check, err = verifyAll(ctx, o.start()); err != nil {
			return nil, err
		}
	}
	for n := 1; ; n++ {
		s := o.start()
		s.verify = check
		t, err := s.timeline(ctx)
		if err != nil {
			return nil, err
		}
		gone, err := s.gone(ctx, t)
		switch {
		case err != nil:
			return nil, err
		case len(gone) == 0:
			return t, nil
		case n == looks:
			return t, o.blurred(ctx, t, gone)
		}
	}
}

// blurred is for a job that deletes faster than one can look: what is gone is
// left out, and a start goes on from what is newest by now, unchecked.
func (o LookOptions) blurred(ctx context.Context, t *Timeline, gone map[string]bool) error {
	t.Snapshots = slices.DeleteFunc(t.Snapshots, func(s TimelineSnapshot) bool { return !s.External && gone[s.Path] })
	s := o.start()
	if err := s.ledger.load(ctx); err != nil {
		return err
	}
	if err := s.look(ctx); err != nil {
		return err
	}
	if all := s.view.continuation(); len(all) > 0 {
		t.Next = NextStart{Does: GoesOn, From: &all[0].ref}
	}
	for i := range t.Snapshots {
		if one := &t.Snapshots[i]; one.Next {
			one.Next, one.Restore, one.Refused = false, "", "a newer one was completed meanwhile"
		}
	}
	return nil
}

func (o LookOptions) start() *start {
	so := StartOptions{Job: o.Job, Blobs: o.Blobs, OpenPath: o.OpenPath}
	so.ensureDefaults()
	return &start{StartOptions: so, ledger: newLedger(o.Blobs, o.Job), verify: unverified}
}

// gone are the directories of the snapshots that were deleted during the look,
// if anything in the picture is bad: then that may be why. _metadata goes first.
func (s *start) gone(ctx context.Context, t *Timeline) (map[string]bool, error) {
	damaged := func(s TimelineSnapshot) bool { return s.Damage != "" }
	if t.Next.Does != IsRefused && !slices.ContainsFunc(t.Snapshots, damaged) {
		return nil, nil
	}
	dirs, err := directories(ctx, s.Blobs, s.Job)
	if err != nil {
		return nil, err
	}
	gone := map[string]bool{}
	for id, files := range s.dirs {
		if has(files, snapshot.MetadataName) && !has(dirs[id], snapshot.MetadataName) {
			gone[snapshot.CheckpointDir(s.Job, id)] = true
		}
	}
	return gone, nil
}

func (s *start) timeline(ctx context.Context) (*Timeline, error) {
	broken := s.ledger.load(ctx)
	if broken != nil && !Fatal(broken) {
		return nil, broken
	}
	if err := s.look(ctx); err != nil {
		return nil, err
	}
	t := &Timeline{
		Job: s.Job, Directory: location.Join(s.Blobs.String(), s.Job), Lineage: s.view.lineage(),
		Attempts: []TimelineAttempt{}, Snapshots: []TimelineSnapshot{}, Unfinished: []UnfinishedSnapshot{}, Losses: []AcceptedLoss{},
	}
	if name := s.view.writtenAs(); name != s.Job {
		t.WrittenAs = name
	}
	t.ExactlyOnceSinks = s.view.sinks()
	s.ExactlyOnceSinks, s.view.exactlyOnce = len(t.ExactlyOnceSinks) > 0, len(t.ExactlyOnceSinks) > 0
	t.Attempts = append(t.Attempts, s.view.timeline()...)
	t.Losses = append(t.Losses, s.ledger.acceptedLosses()...)
	var err error
	if t.Next, err = s.next(ctx, broken); err != nil {
		return nil, err
	}
	notes, err := readRefusals(ctx, s.Blobs, s.Job)
	if err != nil {
		return nil, err
	}
	snapshots, err := s.snapshots(ctx, t.Next.From)
	t.Snapshots = append(t.Snapshots, snapshots...)
	t.addRefusals(notes)
	for _, id := range sortedKeys(s.dirs) {
		if files := s.dirs[id]; !has(files, snapshot.MetadataName) {
			t.Unfinished = append(t.Unfinished, UnfinishedSnapshot{snapshot.CheckpointDir(s.Job, id), len(files), sum(files)})
		}
	}
	return t, err
}

func sum(files map[string]int64) (n int64) {
	for _, size := range files {
		n += size
	}
	return n
}

// sinks are the exactly-once sinks in snapshots. Older ones tell of them only
// by their committables.
func (v *view) sinks() []string {
	seen := map[string]bool{}
	for _, f := range v.found {
		if f.meta == nil {
			continue
		}
		for _, op := range f.meta.Operators {
			if op.CommittableFormat != nil || len(op.Committables) > 0 {
				seen[op.ID] = true
			}
		}
	}
	return sortedKeys(seen)
}

func (l *ledger) acceptedLosses() []AcceptedLoss {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []AcceptedLoss
	for _, r := range l.records {
		if r.Kind == AcceptedLossRecord {
			out = append(out, AcceptedLoss{r.Attempt, timeOf(r.Time), r.Host, r.PID, *r.Snapshot, r.Losses, r.Note})
		}
	}
	return out
}

func timeOf(ms int64) time.Time { return time.UnixMilli(ms).UTC() }

// timeline lists the attempts, oldest first.
func (h *history) timeline() []TimelineAttempt {
	var out []TimelineAttempt
	for _, n := range sortedKeys(h.claims) {
		c := h.claims[n]
		a := TimelineAttempt{Attempt: n, Lineage: c.Lineage, Host: c.Host, PID: c.PID, Storage: c.Storage, Claimed: timeOf(c.Time)}
		if c.Request != nil {
			a.Asked = c.Request.String()
		}
		if c.AcceptLoss != 0 {
			a.Asked = strings.TrimSpace(fmt.Sprintf("%s --accept-loss %d", a.Asked, c.AcceptLoss))
		}
		var r Record
		if r, a.Chose = h.restored[n]; a.Chose {
			a.From = r.Snapshot
		}
		a.End, a.Ended = h.end(n)
		out = append(out, a)
	}
	return out
}
