package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"
	"sync"

	"github.com/weirstream/weir/internal/killpoint"
	"github.com/weirstream/weir/internal/storage"
)

// ErrFenced says that another start has claimed the job since: what this
// attempt does no longer counts.
var ErrFenced = errors.New("fenced: the job was started again elsewhere")

// recordDigits is the width of a record's number in its name, so that names
// sort like numbers.
const recordDigits = 10

// LedgerName is the name of the ledger's directory in a job's.
const LedgerName = "ledger"

// IsRecord reports whether a file of the ledger's directory is a record, by its
// name.
func IsRecord(name string) bool {
	_, err := strconv.ParseUint(name, 10, 64)
	return err == nil && len(name) == recordDigits
}

// ledger is one attempt's view of the log of records. Its methods may be
// called from any goroutine.
type ledger struct {
	blobs   storage.Blobs
	dir     string
	without rules

	mu      sync.Mutex
	records []Record // all that was read, gapless from number 1
	newest  Record   // the newest claim
}

func newLedger(blobs storage.Blobs, job string) *ledger {
	return &ledger{blobs: blobs, dir: path.Join(job, LedgerName)}
}

func (l *ledger) name(number int) string {
	return path.Join(l.dir, fmt.Sprintf("%0*d", recordDigits, number))
}

// load reads the ledger from the start. A gap is an error: what is missing
// may be a claim.
func (l *ledger) load(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	last, err := l.lastNumber(ctx)
	if err != nil {
		return err
	}
	for len(l.records) < last {
		found, err := l.readNextLocked(ctx)
		if err != nil {
			return err
		}
		if !found {
			return AsFatal(fmt.Errorf("ledger of %s: record %s is missing but later ones exist",
				l.blobs, l.name(len(l.records)+1)))
		}
	}
	return nil
}

func (l *ledger) lastNumber(ctx context.Context) (int, error) {
	last := 0
	err := l.blobs.List(ctx, l.dir+"/", func(name string, _ int64) error {
		base := strings.TrimPrefix(name, l.dir+"/")
		if n, err := strconv.Atoi(base); err == nil && IsRecord(base) {
			last = max(last, n)
		}
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("list ledger %s in %s: %w", l.dir, l.blobs, err)
	}
	return last, nil
}

// readNextLocked reads the record after those known, if there is one.
func (l *ledger) readNextLocked(ctx context.Context) (found bool, err error) {
	name := l.name(len(l.records) + 1)
	data, err := l.blobs.Get(ctx, name)
	if errors.Is(err, storage.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read ledger record %s in %s: %w", name, l.blobs, err)
	}
	r, err := parseRecord(data)
	if err != nil {
		return false, l.unreadable(name, err)
	}
	l.addLocked(*r)
	return true, nil
}

// unreadable is the error of a damaged record. Records do not change, so it
// does not pass.
func (l *ledger) unreadable(name string, err error) error {
	return AsFatal(fmt.Errorf("ledger record %s in %s cannot be used: %w", name, l.blobs, err))
}

func (l *ledger) addLocked(r Record) {
	l.records = append(l.records, r)
	if r.Kind == ClaimRecord {
		l.newest = r
	}
}

// readOnLocked reads to the end.
func (l *ledger) readOnLocked(ctx context.Context) error {
	for {
		found, err := l.readNextLocked(ctx)
		if err != nil || !found {
			return err
		}
	}
}

// claim appends the claim of a new attempt; fill sets what depends on the
// ledger as it stands, its attempt included, or refuses.
func (l *ledger) claim(ctx context.Context, fill func(h *history) (Record, error)) (Record, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for {
		if err := l.readOnLocked(ctx); err != nil {
			return Record{}, err
		}
		r, err := fill(newHistory(l.records))
		if err != nil {
			return Record{}, err
		}
		if taken, err := l.putLocked(ctx, r); err != nil || !taken {
			return r, err
		}
	}
}

// append appends a record of an attempt, or returns ErrFenced if a newer
// claim stands.
func (l *ledger) append(ctx context.Context, r Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for {
		if err := l.stillNewestLocked(ctx, r.Attempt); err != nil && !(fenced(err) && l.without.off(fenceRecords)) {
			return err
		}
		if taken, err := l.putLocked(ctx, r); err != nil || !taken {
			return err
		}
	}
}

// putLocked puts a record at the next number, or reports that it is taken.
func (l *ledger) putLocked(ctx context.Context, r Record) (taken bool, err error) {
	data, err := r.encode()
	if err != nil {
		return false, err
	}
	name := l.name(len(l.records) + 1)
	killpoint.ReachKind("ledger.append", string(r.Kind))
	err = l.blobs.PutIfAbsent(ctx, name, data)
	if errors.Is(err, storage.ErrExists) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("write ledger record %s (%s) in %s: %w", name, r.Kind, l.blobs, err)
	}
	killpoint.ReachKind("ledger.appended", string(r.Kind))
	l.addLocked(r)
	return false, nil
}

// stillNewest returns ErrFenced if a claim newer than the attempt's stands,
// and another error if the ledger is not the one that was read before.
func (l *ledger) stillNewest(ctx context.Context, attempt int64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.stillNewestLocked(ctx, attempt)
}

func (l *ledger) stillNewestLocked(ctx context.Context, attempt int64) error {
	if err := l.readOnLocked(ctx); err != nil {
		return err
	}
	if c := l.newest; c.Attempt > attempt {
		return fencedBy(c, attempt)
	}
	return l.standsLocked(ctx)
}

// standsLocked checks that the last known record is still there. Where the
// directory was deleted, or another volume is mounted in its place, newer
// claims would go unseen.
func (l *ledger) standsLocked(ctx context.Context) error {
	if len(l.records) == 0 {
		return nil
	}
	name, last := l.name(len(l.records)), l.records[len(l.records)-1]
	data, err := l.blobs.Get(ctx, name)
	if errors.Is(err, storage.ErrNotFound) {
		return fmt.Errorf("ledger record %s in %s is gone: %w", name, l.blobs, errLedgerGone)
	}
	if err != nil {
		return fmt.Errorf("read ledger record %s in %s: %w", name, l.blobs, err)
	}
	r, err := parseRecord(data)
	if err != nil {
		return l.unreadable(name, err)
	}
	if r.Kind != last.Kind || r.Attempt != last.Attempt || r.Time != last.Time || r.Lineage != last.Lineage {
		return fmt.Errorf("ledger record %s in %s is another one than before: %w", name, l.blobs, errLedgerGone)
	}
	return nil
}

// errLedgerGone says that the ledger disappeared under a running job.
var errLedgerGone = errors.New("the job's directory was deleted or replaced while the job was running")

func fencedBy(c Record, attempt int64) error {
	return fmt.Errorf("%w (attempt %d by pid %d on host %s; this is attempt %d)", ErrFenced, c.Attempt, c.PID, c.Host, attempt)
}

// history returns what the ledger says, as far as it was read.
func (l *ledger) history() *history {
	l.mu.Lock()
	defer l.mu.Unlock()
	h := newHistory(l.records)
	h.without = l.without
	return h
}
