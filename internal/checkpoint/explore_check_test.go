package checkpoint

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/weirstream/weir/connector"
	"github.com/weirstream/weir/connector/twophase"
	"github.com/weirstream/weir/internal/snapshot"
)

// output is what a job has published, in order.
type output struct {
	committed string // a byte per record
	// base are the positions that the job's first start began from.
	base []int
	// rewinds are the positions that starts went back to because a user
	// accepted that output is repeated.
	rewinds [][]int
	sum     uint64
}

// allowed is how often a record may be published.
func (o *output) allowed(subtask, n int) int {
	if o.base != nil && n < o.base[subtask] {
		return 0
	}
	times := 1
	for _, to := range o.rewinds {
		if to == nil || to[subtask] <= n {
			times++
		}
	}
	return times
}

func (o *output) count(value int) int { return strings.Count(o.committed, string([]byte{byte(value)})) }

// publish makes records of a transaction visible.
func (u *universe) publish(topic, records string) {
	o := u.outputs[topic]
	o.committed += records
	o.sum = mix(o.sum ^ hashOf(records))
	u.outputs[topic] = o
	u.say("  %s publishes %v", topic, []byte(records))
	for _, r := range []byte(records) {
		subtask, n := int(r-1)>>5, int(r-1)&31
		if times := o.count(int(r)); times > o.allowed(subtask, n) {
			u.violated("record %d of subtask %d is published %d times", n, subtask, times)
		}
	}
}

// checkExact holds what a job that has finished published against its input.
func (u *universe) checkExact(root string) {
	o := u.outputs[root]
	for s := range u.sc.subtasks {
		last := -1
		for n := range u.sc.records {
			if o.allowed(s, n) > 0 && o.count(record(s, n)) == 0 {
				u.violated("record %d of subtask %d is lost", n, s)
			}
			at := strings.IndexByte(o.committed, byte(record(s, n)))
			if at >= 0 && at < last && len(o.rewinds) == 0 {
				u.violated("record %d of subtask %d is out of order", n, s)
			}
			last = max(last, at)
		}
	}
}

// checkEnded holds that nothing is left open that holds readers back.
func (u *universe) checkEnded(a *Attempt) {
	if a == nil {
		return
	}
	ends := func(n twophase.Name) bool {
		return n.Lineage == a.Lineage || slices.ContainsFunc(a.FormerLineages, func(f connector.FormerLineage) bool {
			return n.Lineage == f.Lineage && n.Attempt <= f.LastAttempt
		})
	}
	for id, t := range u.brokers.ids {
		if n, err := twophase.ParseName(id); err == nil && t.state == transactionOngoing && ends(n) {
			u.violated("transaction %s stays open", id)
		}
	}
}

// checkEnd looks at how a process ends by itself: well, or because another one
// has taken the job over, or because the storage failed.
func (u *universe) checkEnd(p *proc) {
	switch err := p.err; {
	case err == nil && p.c.Status().Outcome == Finished, errors.Is(err, ErrFinished):
		u.checkExact(p.root)
	case err == nil, errors.Is(err, ErrFenced), errors.Is(err, errStorage), errors.Is(err, ErrRefused) && p.refusable && p.attempt == nil:
	default:
		u.violated("process %d ends with: %v", p.number, err)
	}
}

// written looks at a blob as it comes to be.
func (u *universe) written(root, at string, data []byte) error {
	switch {
	case path.Base(at) == snapshot.MetadataName:
		m, err := u.decode(data)
		if err != nil {
			return err
		}
		u.metas[at] = m
		u.tooEarly(m)
	case path.Base(at) == CommittedName:
		if m := u.metas[path.Join(path.Dir(at), snapshot.MetadataName)]; m != nil && marks(data, refOf(m, "")) {
			u.checkCommitted(at, m)
		}
	case isLedger(at):
		r, err := parseRecord(data)
		if err != nil {
			return err
		}
		u.recorded(root, *r)
	}
	return nil
}

func (l *lasting) decode(data []byte) (*snapshot.Metadata, error) {
	if m := l.decoded[string(data)]; m != nil {
		return m, nil
	}
	m, err := snapshot.DecodeMetadata(data)
	l.decoded[string(data)] = m
	return m, err
}

// recorded keeps account of rewinds, and checks what a record says.
func (u *universe) recorded(root string, r Record) {
	n, copied := u.copied[root]
	first := !slices.ContainsFunc(u.records[root][n:], func(r Record) bool { return r.Kind == RestoredRecord })
	u.records[root] = append(u.records[root], r)
	var at string
	if r.Snapshot != nil {
		at = path.Join(r.Snapshot.Path, snapshot.MetadataName)
		if !r.Snapshot.External {
			at = path.Join(root, at)
		}
	}
	u.say("  attempt %d %s %s", r.Attempt, r.Kind, at)
	switch {
	case r.Kind == StoppedRecord && r.Snapshot != nil:
		u.checkCommitted("the stopped record of "+at, u.metas[at])
	case r.Kind == RestoredRecord && (r.Explicit || first && copied):
		o := u.outputs[root]
		var to []int
		if m := u.metas[at]; m != nil {
			to = positions(m)
		}
		switch {
		case first:
			o.base = to
		case r.Request.Rewind || r.Request.Fresh:
			o.rewinds = append(slices.Clip(o.rewinds), to)
		}
		u.outputs[root] = o
	}
}

// checkCommitted: all that the snapshot lists is committed.
func (u *universe) checkCommitted(what string, m *snapshot.Metadata) {
	for _, h := range handles(m) {
		if !u.brokers.done[h] {
			u.violated("%s, but %s is not committed", what, h)
		}
	}
}

func handles(m *snapshot.Metadata) (hs []handle) {
	if m == nil {
		return nil
	}
	for _, op := range m.Operators {
		for _, c := range op.Committables {
			t, err := committableOf(c)
			if err != nil {
				panic(err) // of our own making
			}
			hs = append(hs, t.Txn)
		}
	}
	return hs
}

func committableOf(c snapshot.Committable) (twophase.Committable[handle], error) {
	return twophase.Sink[int, handle](kafkaSink{}).CommittableCodec().Decode(c.Data)
}

// tooEarly does, where a rule is off, what must wait until a snapshot is
// completed as soon as its _metadata stands.
func (u *universe) tooEarly(m *snapshot.Metadata) {
	p := u.current.p
	pending := p.d.core.publishing
	plain := m.Kind == snapshot.Savepoint && !pending.stop
	if u.off.has(reportWhenMarked) && plain {
		u.reports++
	}
	if u.off.has(commitWhenCompleted) && !plain {
		p.c.post(func(d *driver) { d.perform(Commit{m.ID}) })
	}
	if u.off.has(reuseWhenCompleted) && !plain {
		p.Committed(pending.reusable)
	}
	if u.off.has(deleteWhenCompleted) && len(pending.deletes) > 0 {
		p.c.post(func(d *driver) { d.perform(Delete{pending.deletes}) })
	}
}

// reported looks at what a user is told.
func (u *universe) reported(p *proc, r Request, result Result) {
	u.say("%d reports %s %s", p.number, r.Kind, result.Path)
	if r.Kind != snapshot.Savepoint {
		return
	}
	u.reports++
	if _, marked := u.blobs[path.Join(result.Path, CommittedName)]; !marked {
		u.violated("%s is reported and has no mark", result.Path)
	}
}

// aborting checks an abort: no live snapshot lists the transaction.
func (u *universe) aborting(id string, t kafkaTxn) {
	u.say("  aborts %v", []byte(t.records))
	aborted := handle{id, t.pid, t.epoch}
	for at, m := range u.metas {
		if slices.Contains(handles(m), aborted) && u.live(m) {
			u.violated("%s is aborted, and the live snapshot %s lists it", aborted, at)
		}
	}
}

// live reports whether a start may go on from a snapshot.
func (u *universe) live(m *snapshot.Metadata) bool {
	for _, records := range u.records {
		if h := newHistory(records); h.alive(refOf(m, "")) {
			return true
		}
	}
	return false
}

// deleting checks a deletion: live snapshots stay whole, the newest one stays,
// and what one holds uncommitted is in another one.
func (u *universe) deleting(root, at string) {
	if path.Dir(at) == path.Join(root, snapshot.SharedDir("job")) {
		u.deletingShared(at)
		return
	}
	marker := path.Join(path.Dir(at), snapshot.MetadataName)
	m := u.metas[marker]
	if m == nil {
		return
	}
	if u.named(m) {
		u.violated("%s is deleted, and -s named its snapshot", at)
	}
	if !u.live(m) {
		return
	}
	if at != marker {
		if slices.ContainsFunc(m.Files, func(f snapshot.File) bool { return f.Name == path.Base(at) }) {
			u.violated("%s of a live snapshot is deleted", at)
		}
		return
	}
	h := newHistory(u.records[root])
	newer := false
	var listed []handle
	for other, n := range u.metas {
		if other == at || !u.live(n) {
			continue
		}
		listed = append(listed, handles(n)...)
		final := h.final[h.running].Snapshot
		newer = newer || n.ID > m.ID && (n.Kind != snapshot.Savepoint || final != nil && final.same(refOf(n, "")))
	}
	if !newer {
		u.violated("the newest live snapshot %s is deleted", at)
	}
	for _, open := range handles(m) {
		if !u.brokers.done[open] && !slices.Contains(listed, open) {
			u.violated("%s is deleted with %s not committed", at, open)
		}
	}
}

// named reports whether a user named the snapshot with -s and did not give it to
// the engine.
func (u *universe) named(m *snapshot.Metadata) bool {
	for _, records := range u.records {
		named := false
		for _, r := range records {
			if r.Kind == RestoredRecord && r.Explicit && r.Snapshot != nil && r.Snapshot.same(refOf(m, "")) {
				named = !r.Claim
			}
		}
		if named {
			return true
		}
	}
	return false
}

// deletingShared checks that no live snapshot, and none that a user named, needs
// a file.
func (u *universe) deletingShared(at string) {
	for marker, m := range u.metas {
		if dir := path.Dir(marker); slices.Contains(m.SharedFiles(dir), at) && (u.live(m) || u.named(m)) {
			u.violated("%s is deleted, and %s needs it", at, dir)
		}
	}
}

// checkShared holds that an attempt that completed a checkpoint and ended left
// no shared file that no snapshot refers to.
func (u *universe) checkShared(p *proc) {
	if p.d == nil || !p.d.core.swept {
		return
	}
	listed := map[string]bool{}
	for marker, m := range u.metas {
		for _, name := range m.SharedFiles(path.Dir(marker)) {
			listed[name] = true
		}
	}
	for at := range u.blobs {
		if path.Dir(at) == path.Join(p.root, snapshot.SharedDir("job")) && !listed[at] {
			u.violated("%s is in no snapshot, and stays", at)
		}
	}
}

// checkFresh lets the power fail here, and then starts each of the commands
// that must finish the job, undisturbed and from the same state.
func (u *universe) checkFresh() {
	for _, c := range u.sc.finishers {
		v := newUniverse(u.sc, u.lasting.clone(), []command{c})
		v.tracing = u.tracing
		p := v.order[0]
		for f := v.turn(); f != nil; f = v.turn() {
			v.perform(f)
		}
		if p.err == nil && v.violation == "" {
			v.checkExact(p.root)
			v.checkEnded(p.attempt)
			v.checkShared(p)
		}
		v.close()
		if v.violation != "" {
			u.violated("power fails, then %q: %s", c, v.violation)
			u.log = append(u.log, "-- power fails; "+fmt.Sprintf("%q:", c))
			u.log = append(u.log, v.log...)
			return
		}
	}
}
