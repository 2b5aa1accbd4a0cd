package command

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/weirstream/weir/connector/kafka"
	"github.com/weirstream/weir/connector/twophase"
	"github.com/weirstream/weir/internal/checkpoint"
)

// standing is what the job's directory says of a transaction.
type standing string

const (
	// needed: a live snapshot lists it; a start commits it.
	needed standing = "needed"
	// leftover: no live snapshot lists it; a start aborts it.
	leftover standing = "leftover"
	// unclear: it cannot be told.
	unclear standing = "unclear"
)

// entry is a transaction, with all that is known of it.
type entry struct {
	kafka.ListedTransaction
	standing standing
	// job says whose it is, runs that the job runs now; claimants are the jobs
	// whose directories claim its lineage.
	job       string
	claimants []string
	runs      bool
	// snapshot lists it, nil if none does; saved is its identity as that has it.
	snapshot *checkpoint.TimelineSnapshot
	saved    *kafka.Transaction
	// why says what is unclear.
	why string
	// outcome is what became of it: open, or, if a snapshot lists it, what a
	// commit would find.
	outcome string
	// newest tells that the attempt is the job's newest.
	newest bool
	// result is what came of ending it in this run: committed, aborted or why
	// not, "" if that was not tried.
	result string
}

// held is a transaction that a snapshot lists.
type held struct {
	txn  kafka.Transaction
	name twophase.Name
	job  string
	snap *checkpoint.TimelineSnapshot
}

// identity tells transactions apart that use one id after the other.
type identity struct {
	id       string
	producer int64
	epoch    int16
}

func identityOf(t kafka.Transaction) identity { return identity{t.ID, t.ProducerID, t.Epoch} }

// register is what the directories of jobs say of transactions.
type register struct {
	held map[identity]held
	// jobs by lineage: those of which a start is on record, and those that only
	// snapshots name.
	jobs, unclaimed map[string]*checkpoint.Timeline
	// unreadable says of a job why its snapshots are not all known, uncertain why
	// it is not known which of them count.
	unreadable, uncertain map[string]string
	runs                  map[string]bool
	// claimants are the jobs of the checkpoint directory by lineage.
	claimants map[string][]string
	given     bool
}

// newRegister takes what snapshots list and is not proven to be committed; of
// several snapshots that list one the live one counts, and the newest. The
// jobs in runs run now.
func newRegister(lines []*checkpoint.Timeline, claimants map[string][]string, runs map[string]bool) *register {
	r := &register{
		held: map[identity]held{}, jobs: map[string]*checkpoint.Timeline{}, unclaimed: map[string]*checkpoint.Timeline{},
		unreadable: map[string]string{}, uncertain: map[string]string{}, runs: runs, claimants: claimants, given: lines != nil,
	}
	for _, t := range copiesFirst(lines) {
		for _, a := range t.Attempts {
			r.jobs[a.Lineage] = t
		}
		if t.Next.Does == checkpoint.CannotBeTold {
			r.unreadable[t.Job] = "what the job goes on from cannot be looked at: " + t.Next.Why
		}
		if t.Next.Does == checkpoint.IsRefused {
			why, _, _ := strings.Cut(t.Next.Why, ". ")
			r.unreadable[t.Job] = "a start of the job is refused: " + why
			if t.Next.Ledger {
				r.uncertain[t.Job] = r.unreadable[t.Job]
			}
		}
		if where := startedElsewhere(t); where != "" {
			r.uncertain[t.Job] = fmt.Sprintf("the job was last started in %s, and this is %s: if this is a copy, look there", where, filepath.Dir(t.Directory))
		}
		if t.WrittenAs != "" {
			r.uncertain[t.Job] = fmt.Sprintf("job %s wrote this directory, %s: if this is a copy, look there", t.WrittenAs, t.Directory)
		}
		for i := range t.Snapshots {
			r.unclaimed[t.Snapshots[i].Lineage] = t
			r.take(t.Job, &t.Snapshots[i])
		}
	}
	return r
}

// copiesFirst has what is known of a lineage come from the job that wrote it,
// rather than from a copy under another name.
func copiesFirst(lines []*checkpoint.Timeline) []*checkpoint.Timeline {
	lines = slices.Clone(lines)
	slices.SortStableFunc(lines, func(a, b *checkpoint.Timeline) int {
		return -cmp.Compare(min(len(a.WrittenAs), 1), min(len(b.WrittenAs), 1))
	})
	return lines
}

// startedElsewhere is the directory that the job was last started in, "" if it
// is the one looked at, or cannot be told from it.
func startedElsewhere(t *checkpoint.Timeline) string {
	if len(t.Attempts) == 0 {
		return ""
	}
	there := t.Attempts[len(t.Attempts)-1].Storage
	if !filepath.IsAbs(there) || resolved(there) == resolved(filepath.Dir(t.Directory)) {
		return ""
	}
	return there
}

// resolved is the path without symbolic links, as far as it exists.
func resolved(path string) string {
	if r, err := filepath.EvalSymlinks(path); err == nil {
		return r
	}
	return filepath.Clean(path)
}

func (r *register) take(job string, s *checkpoint.TimelineSnapshot) {
	if s.Damage != "" && s.Kind == "" {
		r.unreadable[job] = fmt.Sprintf("snapshot %s cannot be read: %s", s.Path, s.Damage)
	}
	for _, o := range s.Open {
		txn, ours, err := transactionOf(o)
		switch {
		case err != nil:
			r.unreadable[job] = fmt.Sprintf("what snapshot %s lists of sink %s cannot be read: %v", s.Path, o.Operator, err)
			continue
		case !ours:
			continue
		}
		h := held{txn: txn, job: job, snap: s}
		_, h.name, _ = kafka.ParseTransactionalID(txn.ID)
		id := identityOf(txn)
		if before, ok := r.held[id]; !ok || s.Alive || !before.snap.Alive {
			r.held[id] = h
		}
	}
}

// transactionOf reads what a snapshot lists; ours is false for other sinks'.
func transactionOf(o checkpoint.OpenCommittable) (t kafka.Transaction, ours bool, err error) {
	if o.Format == nil {
		return t, false, nil
	}
	c, ours, err := kafka.DecodeCommittable(*o.Format, o.Data)
	return c.Txn, ours, err
}

// entryOf says what is known of a transaction of the brokers.
func (r *register) entryOf(l kafka.ListedTransaction) entry {
	e := entry{ListedTransaction: l, outcome: "open"}
	if !l.Open() {
		e.outcome = l.State
	}
	h, listed := r.held[identityOf(l.Transaction)]
	if listed {
		e.snapshot, e.saved = h.snap, &h.txn
	}
	r.judge(&e, listed && h.snap.Alive)
	return e
}

// judge says what a start of the job does with it; alive tells that a live
// snapshot lists it.
func (r *register) judge(e *entry, alive bool) {
	lineage := e.Name.Lineage
	t := r.jobs[lineage]
	e.standing = unclear
	switch {
	case t == nil && r.unclaimed[lineage] != nil:
		t = r.unclaimed[lineage]
		e.why = "the ledger knows no start of its lineage"
	case t == nil && r.given:
		e.why = "its lineage is none of the jobs' in the directory"
	case t == nil:
		e.why = "no --checkpoint-dir is given"
	}
	if t == nil {
		return
	}
	e.job, e.claimants = t.Job, r.claimants[lineage]
	e.runs = r.runs[t.Job] || slices.ContainsFunc(e.claimants, func(job string) bool { return r.runs[job] })
	newest := int64(0)
	if n := len(t.Attempts); n > 0 {
		newest = t.Attempts[n-1].Attempt
	}
	e.newest = newest <= e.Name.Attempt
	switch {
	case e.why != "":
	case len(e.claimants) > 1:
		e.why = fmt.Sprintf("the directories of jobs %s all claim its lineage, so some are copies: move those out of the checkpoint directory", strings.Join(e.claimants, ", "))
	case r.uncertain[t.Job] != "":
		e.why = r.uncertain[t.Job]
	case alive:
		e.standing = needed
	case r.unreadable[t.Job] != "":
		e.why = r.unreadable[t.Job]
	case e.Name.Attempt > newest:
		e.why = fmt.Sprintf("the ledger here ends with attempt %d: it is an older copy", newest)
	default:
		if e.why = notOurs(t, e.Name); e.why == "" {
			e.standing = leftover
		}
	}
}

// notOurs says why a transaction may be of the job in another directory, of
// which this one is a copy, "" if it is this job's.
func notOurs(t *checkpoint.Timeline, n twophase.Name) string {
	of := func(a checkpoint.TimelineAttempt) bool { return a.Lineage == n.Lineage && a.Attempt == n.Attempt }
	i := slices.IndexFunc(t.Attempts, of)
	switch now := filepath.Dir(t.Directory); {
	case i < 0:
		return fmt.Sprintf("the ledger here knows no attempt %d of its lineage: if this directory is a copy, look in the other one", n.Attempt)
	case filepath.IsAbs(t.Attempts[i].Storage) && resolved(t.Attempts[i].Storage) != resolved(now):
		return fmt.Sprintf("attempt %d ran in %s, and this is %s: if this is a copy, look there", n.Attempt, t.Attempts[i].Storage, now)
	}
	return ""
}

// ended returns entries for what live snapshots list and is not open any more:
// a commit finds it committed, or lost. The brokers' list must hold ended
// transactions, too.
func (r *register) ended(listed []kafka.ListedTransaction) []entry {
	byID, open := map[string]kafka.ListedTransaction{}, map[identity]bool{}
	for _, l := range listed {
		byID[l.ID] = l
		open[identityOf(l.Transaction)] = l.Open()
	}
	var out []entry
	for id, h := range r.held {
		if !h.snap.Alive || open[id] {
			continue
		}
		e := entry{ListedTransaction: kafka.ListedTransaction{Transaction: h.txn, Name: h.name, State: forgotten}, snapshot: h.snap, saved: &h.txn, outcome: "unknown"}
		e.Prefix, _, _ = kafka.ParseTransactionalID(h.txn.ID)
		if l, ok := byID[id.id]; ok {
			if e.State, e.outcome = l.State, l.Outcome(h.txn); e.outcome == "unknown" {
				e.State = replaced
			}
		}
		r.judge(&e, true)
		out = append(out, e)
	}
	return out
}

// forgotten is the state of a transaction that the brokers do not know.
const forgotten = "forgotten"

// replaced is the state of one whose id has gone on to another.
const replaced = "replaced"

// need is the flag that an action takes on top of --yes, "" for none.
func (e entry) need(commit bool) string {
	switch {
	case commit && e.standing != needed:
		return "--accept-duplicates"
	case !commit && e.standing != leftover:
		return "--accept-loss"
	}
	return ""
}

// cost is what an action costs.
func (e entry) cost(commit bool) string {
	switch e.standing {
	case needed:
		if commit && !e.Open() {
			return fmt.Sprintf("snapshot %s lists it, and it is not open: it is asked for once more, and reported if it is lost", e.snapshot.Path)
		}
		if commit {
			return fmt.Sprintf("snapshot %s lists it: a start of the job does the same. Costs nothing", e.snapshot.Path)
		}
		return fmt.Sprintf("snapshot %s lists it, so its output is lost for good: a start from there is refused until --accept-loss %d, or goes back with -s PATH --rewind", e.snapshot.Path, e.snapshot.ID)
	case leftover:
		if commit {
			return "no live snapshot lists it: a start of the job reads its input again, and publishes it a second time"
		}
		return "no live snapshot lists it: a start of the job does the same, and reads its input again. Nothing is lost"
	}
	if commit {
		return e.doubt() + ". If no snapshot that counts lists it, and the job is started again, its output is published a second time"
	}
	return e.doubt() + ". If a snapshot that counts lists it, its output is lost for good"
}

// doubt says what is unclear.
func (e entry) doubt() string {
	if e.snapshot != nil {
		return fmt.Sprintf("unclear: snapshot %s lists it, but %s", e.snapshot.Path, e.why)
	}
	return "unclear: " + e.why
}

// waitsFor says what a start of the job does with it, or the job that runs.
func (e entry) waitsFor() string {
	who := "a start"
	if e.runs {
		who = "the job, which runs,"
	}
	switch {
	case e.standing == unclear:
		return e.doubt()
	case e.standing == needed && e.outcome == "open":
		return fmt.Sprintf("%s commits it: snapshot %s lists it", who, e.snapshot.Path)
	case e.standing == needed && e.outcome == "committed":
		return fmt.Sprintf("committed: snapshot %s lists it, a start sees that", e.snapshot.Path)
	case e.standing == needed && e.State == forgotten:
		return fmt.Sprintf("%s: snapshot %s lists it, and these brokers do not know it: is it the right cluster (--bootstrap-servers)? If it is, a start from there will be refused until a decision", e.outcome, e.snapshot.Path)
	case e.standing == needed:
		return fmt.Sprintf("%s: snapshot %s lists it, a start from there will be refused until a decision", e.outcome, e.snapshot.Path)
	case !e.Open():
		return "ended"
	case e.newest && e.runs:
		return "the job, which runs, writes it: its next checkpoint ends it"
	case e.newest:
		return "the newest attempt left it; a start aborts it: no live snapshot lists it"
	}
	return who + " aborts it: no live snapshot lists it"
}

func sortEntries(all []entry) {
	slices.SortFunc(all, func(a, b entry) int {
		return cmp.Or(cmp.Compare(a.Name.Lineage, b.Name.Lineage), cmp.Compare(a.Name.Attempt, b.Name.Attempt), cmp.Compare(a.ID, b.ID))
	})
}
