package checkpoint

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"time"

	"github.com/weirstream/weir/connector"
	"github.com/weirstream/weir/internal/killpoint"
	"github.com/weirstream/weir/internal/snapshot"
	"github.com/weirstream/weir/internal/stage"
	"github.com/weirstream/weir/internal/storage"
)

// StartOptions are what a start of a job depends on.
type StartOptions struct {
	// Job is the name of the job, and of its directory in Blobs.
	Job   string
	Blobs storage.Blobs
	// RestorePath is the snapshot of -s, "" to go on from the newest: an
	// absolute path, so that it means the same at the next start.
	RestorePath string
	// OpenPath opens the storage of a snapshot outside Blobs; dir is its
	// directory there. It is called for RestorePath and for external paths
	// that the ledger names.
	OpenPath func(path string) (blobs storage.Blobs, dir string, err error)
	// Claim makes the snapshot of RestorePath the engine's: it is deleted as
	// retention says, and in the job's directory its shared files are referred
	// to. Without, it stays the user's, and nothing depends on it after the first
	// checkpoint.
	Claim bool
	// Rewind accepts that going back to RestorePath repeats output; Fresh
	// begins from nothing.
	Rewind, Fresh bool
	// Nth is the N of --rewind=N and --fresh=N, for what is meant once more; 0
	// and 1 are without.
	Nth int
	// AcceptLoss is the id of the snapshot whose committables may be given up
	// where they are lost or their outcome is unknown, 0 for none. It counts
	// for no other snapshot: a supervisor that repeats it accepts no new loss.
	AcceptLoss int64
	// Prepare is called once the snapshot is chosen and loaded, and before the
	// choice is on record: it makes sure that the job fits a.Restored, and makes
	// the committers, by operator id. It must change nothing that outlives the
	// process. May be nil.
	Prepare func(ctx context.Context, a *Attempt) (map[string]stage.Committer, error)
	// Describer puts splits and committables into words. May be nil.
	Describer Describer
	// After is the attempt of this process that the start follows, 0 for the
	// first one. If another process has claimed the job since, the start ends
	// with ErrFenced: a restart must not take the job back.
	After int64
	// ExactlyOnceSinks tells that the job has sinks with that delivery.
	ExactlyOnceSinks bool
	// Host and PID go into the claim. Default: this process.
	Host string
	PID  int
	// Process tells the process from others with its Host and PID, as those of
	// containers may have: whoever sets After sets it to something random.
	Process string
	// Now is the wall clock in ms since the epoch. Default: the system's.
	Now func() int64
	// NewLineage makes a lineage id, of letters and digits. Default: random.
	NewLineage func() string
	// Logger defaults to none.
	Logger *slog.Logger

	without rules // for tests
}

func (o *StartOptions) ensureDefaults() {
	if o.Host == "" {
		o.Host, _ = os.Hostname()
	}
	if o.PID == 0 {
		o.PID = os.Getpid()
	}
	if o.Now == nil {
		o.Now = wallClock
	}
	if o.NewLineage == nil {
		o.NewLineage = newLineage
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
}

func wallClock() int64 { return time.Now().UnixMilli() }

func newLineage() string {
	var id [8]byte
	rand.Read(id[:]) // never fails
	return hex.EncodeToString(id[:])
}

// Attempt is a start that has claimed the job and chosen what it begins from.
type Attempt struct {
	Lineage string
	Number  int64
	// FormerLineages are the other lineages of earlier attempts, as far as they
	// had the storage under the same name.
	FormerLineages []connector.FormerLineage
	// Restored is the snapshot that it begins from, nil for nothing;
	// RestoredDir is its directory in RestoredBlobs.
	Restored      *snapshot.Metadata
	RestoredDir   string
	RestoredBlobs storage.Blobs
	// Share tells that checkpoints of this attempt may refer to the shared files
	// of Restored: it lies in the job's directory, and is the engine's own.
	Share bool
	// NextID is the id of the attempt's first checkpoint.
	NextID int64

	ledger *ledger
	// ledgerID tells the ledger from others of the job. It does not change, so
	// that nobody who asks for it waits for a reader of the storage.
	ledgerID string
	now      func() int64
	log      *slog.Logger
	// begun is the start that chose Restored, from is the choice.
	begun *start
	from  origin
	// left is what the job would have gone on from, had a request not chosen
	// another place, where it stands since the attempt moved; nil for nothing, or
	// if the job had gone on from Restored anyway, or has got further.
	left  *candidate
	moved int64
	// owned are the ids of earlier checkpoints that are the engine's to
	// delete, ascending.
	owned []int64
	// claimed are those of them that lie elsewhere.
	claimed map[int64]target
	// shares are the snapshots in the job's directory, as far as they refer to
	// shared files.
	shares *shares
	// open are the restored committables not proven to be committed.
	open map[string][]snapshot.Committable
}

// Start claims the job, chooses and loads the snapshot to begin from, and
// records it. Errors wrap ErrFinished if there is nothing left to do,
// ErrRefused if a decision is wanted, ErrFenced if yet another start has
// claimed the job; of others Fatal tells whether they may pass.
//
// ResolveSinks must follow before any task starts.
func Start(ctx context.Context, o StartOptions) (*Attempt, error) {
	s, err := newStart(o)
	if err != nil {
		return nil, err
	}
	return s.run(ctx)
}

func newStart(o StartOptions) (*start, error) {
	req := RestoreRequest{Path: o.RestorePath, Rewind: o.Rewind, Fresh: o.Fresh}
	if o.Nth > 1 && (o.Rewind || o.Fresh) {
		req.Nth = o.Nth
	}
	switch {
	case req.Rewind && req.Path == "":
		return nil, refuse("--rewind needs the snapshot to go back to: add -s PATH")
	case req.Fresh && req.Path != "":
		return nil, refuse("--fresh begins from nothing and -s from a snapshot: leave one out")
	}
	o.ensureDefaults()
	s := &start{StartOptions: o, req: req, ledger: newLedger(o.Blobs, o.Job), verify: verify}
	s.ledger.without = o.without
	return s, nil
}

// start is a start under way.
type start struct {
	StartOptions
	req    RestoreRequest
	ledger *ledger
	claim  Record
	view   *view
	// barred tells a look that a start takes no snapshot with -s either.
	barred bool
	// formerNames are those of other jobs under which the directory was written.
	formerNames []string
	// verify compares the checksums of data files.
	verify func(context.Context, origin) error
	// listed is what the look has listed; dirs are its directories of
	// checkpoints.
	listed listing
	dirs   map[int64]map[string]int64
}

// origin is what a start begins from.
type origin struct {
	*found // nil for nothing
	blobs  storage.Blobs
	dir    string
	// explicit tells that the request chose it.
	explicit bool
}

func (s *start) run(ctx context.Context) (a *Attempt, err error) {
	if err = s.begin(ctx); err == nil {
		a, err = s.end(ctx)
	}
	err = s.ledger.overtaken(ctx, s.claim.Attempt, err)
	s.noteRefusal(ctx, err)
	return a, err
}

// begin claims the job and looks at what there is.
func (s *start) begin(ctx context.Context) (err error) {
	killpoint.Reach("start.begin")
	if err := s.ledger.load(ctx); err != nil {
		return s.refuseLedger(err)
	}
	if err := s.checkLedger(ctx); err != nil {
		return err
	}
	if err := s.checkCopy(ctx); err != nil {
		return err
	}
	if s.claim, err = s.ledger.claim(ctx, s.newClaim); err != nil {
		return err
	}
	killpoint.Reach("start.claimed")
	s.warnIfMoved()
	return s.look(ctx)
}

// end chooses, loads and records what the attempt begins from.
func (s *start) end(ctx context.Context) (*Attempt, error) {
	from, err := s.choose(ctx)
	if err != nil {
		return nil, fmt.Errorf("job %s in %s: %w", s.Job, s.Blobs, err)
	}
	killpoint.Reach("start.chosen")
	a := s.attempt(from)
	if err := s.prepare(ctx, a); err != nil {
		return nil, err
	}
	restored := Record{
		Version: RecordVersion, Kind: RestoredRecord, Attempt: a.Number, Time: s.Now(), Explicit: from.explicit,
	}
	if s.req != (RestoreRequest{}) {
		restored.Request = &s.req
	}
	if from.found != nil {
		restored.Snapshot = &from.ref
		restored.Claim = from.explicit && s.Claim
	} else if from.explicit {
		restored.NextID = a.NextID
	}
	if err := s.ledger.append(ctx, restored); err != nil {
		return nil, err
	}
	killpoint.Reach("start.recorded")
	a.owned, a.claimed = s.owned(ctx)
	a.shares = s.shares(ctx)
	a.Share = from.found != nil && !from.ref.External && s.ledger.history().owned(from.ref)
	s.Logger.Info("job started", "job", s.Job, "lineage", a.Lineage, "attempt", a.Number, "from", describeOrigin(from))
	return a, nil
}

func describeOrigin(from origin) string {
	if from.found == nil {
		return "nothing"
	}
	return from.ref.String()
}

// newClaim is the claim of this start as the ledger now stands.
func (s *start) newClaim(h *history) (Record, error) {
	if c := h.claims[h.claimed]; s.After > 0 && c.Attempt > s.After && (c.Host != s.Host || c.PID != s.PID || c.Process != s.Process) {
		return Record{}, fencedBy(c, s.After)
	}
	if h.claimed < s.After {
		return Record{}, refuse("the ledger in %s does not know attempt %d of this process: %v. Put the directory back; "+
			"beginning from nothing would repeat output", s.Blobs, s.After, errLedgerGone)
	}
	r := Record{
		Version: RecordVersion, Kind: ClaimRecord, Attempt: h.claimed + 1, Time: s.Now(),
		Lineage: h.lineage(), Host: s.Host, PID: s.PID, Process: s.Process, Storage: storage.Identity(s.Blobs), Job: s.Job, AcceptLoss: s.AcceptLoss,
	}
	h.without = s.without
	_, moved := h.moved(r.Storage)
	if r.Lineage == "" || moved || s.req.Fresh && h.carriedOut(s.req, nil) == 0 {
		r.Lineage = s.NewLineage()
	}
	if s.req != (RestoreRequest{}) {
		r.Request = &s.req
	}
	return r, nil
}

// choose decides what to begin from, and loads it.
func (s *start) choose(ctx context.Context) (origin, error) {
	if s.req == (RestoreRequest{}) {
		return s.goOn(ctx)
	}
	if attempt := s.view.carriedOut(s.req, nil); attempt != 0 {
		s.done(attempt, nil)
		return s.goOn(ctx)
	}
	if s.req.Fresh {
		return s.beginAnew(ctx)
	}
	return s.goTo(ctx)
}

// goOn begins from the newest live candidate.
func (s *start) goOn(ctx context.Context) (origin, error) {
	if err := s.view.ended(); err != nil {
		return origin{}, err
	}
	var tried []string
	for _, c := range s.view.continuation() {
		from, err := s.loadVerified(ctx, c)
		switch {
		case err == nil:
			return from, nil
		case c.named && (missing(err) || errors.Is(err, errReplaced)):
			return origin{}, s.refuseGone(c.ref, err)
		case errors.Is(err, snapshot.ErrNewer):
			return origin{}, s.refuseNewer(ctx, c.ref, err)
		case !corrupt(err):
			return origin{}, err
		case s.ExactlyOnceSinks:
			return origin{}, s.refuseUnusable(ctx, c.ref, err)
		}
		tried = append(tried, fmt.Sprintf("%s: %v", c.ref, err))
		s.Logger.Warn("the newest snapshot cannot be used; going back to the one before", "snapshot", c.ref.String(), "error", err)
	}
	if len(tried) > 0 {
		return origin{}, s.refuseAll(ctx, tried)
	}
	return origin{}, nil
}

// beginAnew begins a new lineage from nothing.
func (s *start) beginAnew(ctx context.Context) (origin, error) {
	if all := s.view.continuation(); len(all) > 0 {
		c := all[0]
		newest, err := s.load(ctx, c)
		switch {
		case missing(err), errors.Is(err, errReplaced):
			s.Logger.Warn("the snapshot that the job would go on from is gone", "snapshot", c.ref.String(), "error", err)
		case unreadable(err) && s.ExactlyOnceSinks:
			return origin{}, refuse("--fresh would drop %s, which cannot be read (%v): what it holds may not be committed, and would never be published. "+
				"Choices: repair it, restore its files from a backup, or start the version of Weir that wrote it, and start without --fresh once; %s", c.ref, err, s.withoutAll())
		case unreadable(err):
		case err != nil:
			return origin{}, err
		default:
			if open := s.view.unproven(newest.found); len(open) > 0 {
				return origin{}, refuse("--fresh would drop %s, which holds %s not known to be committed: their output would never be published. "+
					"Start the job without --fresh once and suspend it: that commits them, and costs nothing (if that start finds them lost, it takes --accept-loss %d). If it cannot be started, %s",
					newest.ref, s.describe(open), newest.ref.ID, s.byHand())
			}
		}
	}
	return origin{explicit: true}, nil
}

// goTo begins from the snapshot that the request names.
func (s *start) goTo(ctx context.Context) (origin, error) {
	from, err := s.loadExternal(ctx, s.req.Path, nil)
	if err == nil {
		if attempt := s.view.carriedOut(s.req, &from.ref); attempt != 0 {
			s.done(attempt, &from.ref)
			return s.goOn(ctx)
		}
		from, err = s.ownOf(ctx, from)
	}
	switch {
	case unreadable(err):
		return origin{}, refuse("-s %s: %v. %s", s.req.Path, err, s.instead(ctx, from.found, err))
	case err != nil:
		return origin{}, fmt.Errorf("-s %s: %w", s.req.Path, err)
	}
	warning, err := s.view.explicit(from.found, s.req.Rewind)
	if err != nil {
		return origin{}, fmt.Errorf("%w. %s", err, s.instead(ctx, from.found, nil))
	}
	if warning != "" {
		s.Logger.Warn("rewinding: " + warning)
	}
	from.explicit = true
	return from, nil
}

// ownOf verifies what -s names, and prefers the same snapshot in the job's own
// directory, unless that is damaged.
func (s *start) ownOf(ctx context.Context, from origin) (origin, error) {
	for i := range s.view.found {
		f := &s.view.found[i]
		if f.meta == nil || !f.ref.same(from.ref) {
			continue
		}
		own, err := s.loadVerified(ctx, candidate{ref: f.ref, found: f})
		if !corrupt(err) {
			return own, err
		}
		s.Logger.Warn("the snapshot that -s names lies in the job's directory as well, and is damaged there", "directory", f.ref.Path, "error", err)
	}
	return from, s.verify(ctx, from)
}

// nextID is larger than all ids in the directory and in the ledger.
func (s *start) nextID() int64 {
	largest := s.view.largestID()
	for id := range s.dirs {
		largest = max(largest, id)
	}
	return largest + 1
}

func (s *start) attempt(from origin) *Attempt {
	a := &Attempt{
		Lineage: s.claim.Lineage, Number: s.claim.Attempt, FormerLineages: s.view.former(s.claim), ledger: s.ledger, ledgerID: s.view.id(), now: s.Now, log: s.Logger,
		NextID: s.nextID(), begun: s, from: from,
	}
	a.left, a.moved = s.left(from)
	if from.found != nil {
		a.Restored, a.RestoredBlobs, a.RestoredDir = from.meta, from.blobs, from.dir
		a.NextID = max(a.NextID, from.meta.ID+1)
		a.open = s.view.unproven(from.found)
	}
	return a
}

// StillNewest returns ErrFenced if another start has claimed the job since.
func (a *Attempt) StillNewest(ctx context.Context) error {
	return a.ledger.stillNewest(ctx, a.Number)
}

// record appends a record about how the attempt ends.
func (a *Attempt) record(ctx context.Context, kind RecordKind, last *Ref, outcome Outcome) error {
	return a.ledger.append(ctx, Record{
		Version: RecordVersion, Kind: kind, Attempt: a.Number, Time: a.now(), Snapshot: last, Outcome: outcome,
	})
}

// ResolveSinks brings the restored committables to a definite outcome, those
// of all sinks, and only then lets each committer sweep what else earlier
// attempts left open. Committers are by operator id. It refuses a job that
// lacks a sink whose committables are not committed yet.
func (a *Attempt) ResolveSinks(ctx context.Context, committers map[string]stage.Committer) error {
	if err := a.lacksNone(committers); err != nil {
		a.begun.noteRefusal(ctx, err)
		return err
	}
	killpoint.Reach("resolve.begin")
	if err := a.commitRestored(ctx, committers); err != nil {
		a.begun.noteRefusal(ctx, err)
		return err
	}
	a.markRestored(ctx)
	killpoint.Reach("resolve.committed")
	stillNewest := func() error { return a.StillNewest(ctx) }
	for _, op := range sortedKeys(committers) {
		if err := committers[op].Sweep(ctx, stillNewest); err != nil {
			return fmt.Errorf("sweep what earlier attempts left open in sink %s: %w", op, err)
		}
	}
	killpoint.Reach("resolve.swept")
	return nil
}

// payloads orders committables by checkpoint and subtask and takes their data.
func payloads(cs []snapshot.Committable) [][]byte {
	slices.SortStableFunc(cs, compareCommittables)
	data := make([][]byte, len(cs))
	for i, c := range cs {
		data[i] = c.Data
	}
	return data
}
