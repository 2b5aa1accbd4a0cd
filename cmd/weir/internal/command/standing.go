package command

import (
	"fmt"
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
	// job and snapshot say who needs it, why says what is unclear.
	job      string
	snapshot *checkpoint.TimelineSnapshot
	why      string
	// saved is its identity as the snapshot has it, nil if none lists it.
	saved *kafka.Transaction
	// outcome is what became of it: open, or, if a snapshot lists it, what a
	// commit would find.
	outcome string
	// newest tells that the attempt is the job's newest.
	newest bool
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
	// jobs by lineage.
	jobs map[string]*checkpoint.Timeline
	// unreadable says of a job why its snapshots are not all known.
	unreadable map[string]string
	given      bool
}

// newRegister takes what snapshots list and is not proven to be committed; of
// several snapshots that list one the live one counts, and the newest.
func newRegister(lines []*checkpoint.Timeline) *register {
	r := &register{held: map[identity]held{}, jobs: map[string]*checkpoint.Timeline{}, unreadable: map[string]string{}, given: lines != nil}
	for _, t := range lines {
		for _, a := range t.Attempts {
			r.jobs[a.Lineage] = t
		}
		if t.Next.Does == checkpoint.IsRefused {
			r.unreadable[t.Job] = "a start of the job is refused: " + t.Next.Why
		}
		for i := range t.Snapshots {
			r.take(t.Job, &t.Snapshots[i])
		}
	}
	return r
}

func (r *register) take(job string, s *checkpoint.TimelineSnapshot) {
	if s.Damage != "" && s.Kind == "" {
		r.unreadable[job] = fmt.Sprintf("snapshot %s cannot be read: %s", s.Path, s.Damage)
	}
	for _, o := range s.Open {
		if o.Format == nil {
			continue
		}
		c, ours, err := kafka.DecodeCommittable(*o.Format, o.Data)
		switch {
		case err != nil:
			r.unreadable[job] = fmt.Sprintf("what snapshot %s lists of sink %s cannot be read: %v", s.Path, o.Operator, err)
			continue
		case !ours:
			continue
		}
		h := held{txn: c.Txn, job: job, snap: s}
		_, h.name, _ = kafka.ParseTransactionalID(c.Txn.ID)
		id := identityOf(c.Txn)
		if before, ok := r.held[id]; !ok || s.Alive || !before.snap.Alive {
			r.held[id] = h
		}
	}
}

// entryOf says what is known of a transaction of the brokers.
func (r *register) entryOf(l kafka.ListedTransaction) entry {
	e := entry{ListedTransaction: l, standing: unclear, outcome: "open"}
	if !l.Open() {
		e.outcome = l.State
	}
	t := r.jobs[l.Name.Lineage]
	if t == nil {
		e.why = "no --checkpoint-dir is given"
		if r.given {
			e.why = "its lineage is none of the jobs' in the directory"
		}
		return e
	}
	e.job = t.Job
	e.newest = len(t.Attempts) > 0 && t.Attempts[len(t.Attempts)-1].Attempt <= l.Name.Attempt
	h, listed := r.held[identityOf(l.Transaction)]
	switch {
	case listed && h.snap.Alive:
		e.standing, e.snapshot, e.saved = needed, h.snap, &h.txn
	case r.unreadable[t.Job] != "":
		e.why = r.unreadable[t.Job]
	default:
		e.standing = leftover
	}
	return e
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
		e := entry{ListedTransaction: kafka.ListedTransaction{Transaction: h.txn, Name: h.name, State: "forgotten"}, standing: needed, job: h.job, snapshot: h.snap, saved: &h.txn, outcome: "unknown"}
		e.Prefix, _, _ = kafka.ParseTransactionalID(h.txn.ID)
		if l, ok := byID[id.id]; ok {
			e.State, e.outcome = l.State, l.Outcome(h.txn)
		}
		out = append(out, e)
	}
	return out
}

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
		return "whether a snapshot lists it is not known (" + e.why + "): if none does, and the job is started again, its output is published a second time"
	}
	return "whether a snapshot lists it is not known (" + e.why + "): if one does, its output is lost for good"
}

// waitsFor says what a start of the job does with it.
func (e entry) waitsFor() string {
	switch {
	case e.standing == unclear:
		return "unclear: " + e.why
	case e.standing == needed && e.outcome == "open":
		return fmt.Sprintf("a start commits it: snapshot %s lists it", e.snapshot.Path)
	case e.standing == needed && e.outcome == "committed":
		return fmt.Sprintf("committed: snapshot %s lists it, a start sees that", e.snapshot.Path)
	case e.standing == needed:
		return fmt.Sprintf("%s: snapshot %s lists it, a start from there will be refused until a decision", e.outcome, e.snapshot.Path)
	case !e.Open():
		return "ended"
	case e.newest:
		return "the newest attempt writes it, or left it; a start aborts it: no live snapshot lists it"
	}
	return "a start aborts it: no live snapshot lists it"
}

func sortEntries(all []entry) {
	slices.SortFunc(all, func(a, b entry) int {
		switch {
		case a.Name.Lineage != b.Name.Lineage:
			return strings.Compare(a.Name.Lineage, b.Name.Lineage)
		case a.Name.Attempt != b.Name.Attempt:
			return int(a.Name.Attempt - b.Name.Attempt)
		}
		return strings.Compare(a.ID, b.ID)
	})
}
