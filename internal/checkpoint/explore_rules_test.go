package checkpoint

import (
	"flag"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
)

var showBroken = flag.Bool("explore.broken", false, "print the executions that break without a rule")

// switches are the rules that are off: those of the code, and those of the
// surroundings.
type switches struct {
	rules rules
	model modelRules
}

func (s switches) has(r modelRules) bool { return s.model&r != 0 }

// modelRules are the rules whose switch lies in the tests: in what they do in
// which order, or in the model of the sink.
type modelRules uint

const (
	// recordBeforeCommit: restored committables are committed only once the
	// restored record stands.
	recordBeforeCommit modelRules = 1 << iota
	// commitWhenCompleted, reuseWhenCompleted, deleteWhenCompleted: commits,
	// the reuse of slots and deletions wait until the ledger was read again.
	commitWhenCompleted
	reuseWhenCompleted
	deleteWhenCompleted
	// reuseWhenUnlisted: a slot is used again only when a completed checkpoint
	// no longer lists its transaction.
	reuseWhenUnlisted
	// ownIDs: transactional ids carry the attempt.
	ownIDs
	// sweepEarlier: only transactions of earlier attempts are aborted.
	sweepEarlier
	// rereadInSweep: the ledger is read between the list and the aborts.
	rereadInSweep
	// reportWhenMarked: a savepoint is reported once its mark stands.
	reportWhenMarked
	// shareCompleted: a checkpoint refers only to files that a completed one
	// lists.
	shareCompleted
)

// needed is a rule, or a pair, and a scenario in which output is lost or
// repeated, or a start fails, where it is not followed.
type needed struct {
	name string
	off  []switches
	sc   scenario
}

const (
	stopped     = "/sp/savepoint-job-2"
	firstRecord = "/weir/job/ledger/0000000001"
)

func there(path string) func(*universe) bool {
	return func(u *universe) bool { return u.blobs[path] != nil }
}

// deviates has only the named fibers deviate, once a blob is there.
func deviates(path string, names ...string) func(*fiber) bool {
	return func(f *fiber) bool {
		return f.p.u.blobs[path] != nil && slices.ContainsFunc(names, func(name string) bool { return strings.HasPrefix(f.name, name) })
	}
}

var neededRules = []needed{
	{"fence records", []switches{{rules: fenceRecords}}, scenario{
		commands: []command{{script: "rcrS"}, {script: "r"}}, budget: budget{pauses: 2},
	}},
	{"void by attempt", []switches{{rules: voidByAttempt}}, scenario{
		commands: []command{{script: "rcrc"}, {script: "r"}}, budget: budget{pauses: 1, crashes: 1},
	}},
	{"follow the final snapshot", []switches{{rules: followFinal}}, scenario{
		commands: []command{{script: "rcrS"}, {}},
	}},
	{"follow what was restored", []switches{{rules: followRestored}}, scenario{
		setup: []command{{script: "rcrS"}}, commands: []command{{from: stopped, script: "r"}}, finishers: []command{{from: stopped}},
	}},
	{"ask before a rewind", []switches{{rules: askBeforeRewind}}, scenario{
		retained: 3, setup: []command{{script: "rcrcx"}}, commands: []command{{from: chk1, refusable: true}}, finishers: []command{{}},
	}},
	{"refuse void snapshots", []switches{{rules: refuseVoid}}, scenario{
		commands: []command{
			{script: "rcrc"}, {script: "r"},
			{from: "/weir/job/chk-2", rewind: true, refusable: true, after: there("/weir/job/chk-2/_metadata")},
		},
		budget: budget{pauses: 1, crashes: 1}, only: deviates(chk1+"/_metadata", "records", "task", "main"),
	}},
	{"refuse what is being deleted", []switches{{rules: refuseDeleted}}, scenario{
		commands: []command{{script: "rcrcr"}, {from: chk1, rewind: true, script: "r", refusable: true}}, budget: budget{pauses: 2},
	}},
	{"refuse savepoints without mark", []switches{{rules: refuseUnmarked}}, scenario{
		commands: []command{
			{script: "rcrsr"},
			{root: "/copy", from: stopped, script: "r", refusable: true, after: there(stopped + "/_metadata")},
		},
		budget: budget{pauses: 1, crashes: 1},
	}},
	{"report savepoints with mark", []switches{{model: reportWhenMarked}}, scenario{
		commands: []command{
			{script: "rcrsr"},
			{root: "/copy", from: stopped, script: "r", after: func(u *universe) bool { return u.reports > 0 }},
		},
		budget: budget{crashes: 1},
	}},
	{"prove commits by the ledger", []switches{{rules: proveByLedger}}, scenario{
		retained: 5, records: 6, setup: []command{{script: "rcrcrcrcrx"}}, commands: []command{{from: chk1, rewind: true}},
	}},
	{"prove commits by descendants", []switches{{rules: proveByDescent}}, scenario{
		concurrent: 2, commands: []command{{script: "rcrCrC"}, {script: "rc"}},
		budget: budget{pauses: 1, crashes: 1, holds: 1}, only: deviates(chk1+"/_metadata", "store", "commits"),
	}},
	{"record before commits", []switches{{model: recordBeforeCommit}}, scenario{
		records: 2, commands: []command{{script: "rc"}, {}, {}},
		budget: budget{pauses: 3}, only: deviates(firstRecord, "records", "main"),
	}},
	{"commit when completed", []switches{{model: commitWhenCompleted}}, scenario{
		commands: []command{{script: "rcrc"}, {script: "r"}}, budget: budget{pauses: 2},
	}},
	{"reuse slots when completed", []switches{{model: reuseWhenCompleted}}, scenario{
		concurrent: 3, records: 9, commands: []command{{script: "rcrcrcrcrCrCr"}, {script: "r"}},
		budget: budget{pauses: 2, holds: 1}, only: deviates("/weir/job/chk-4/_metadata", "records", "task", "main"),
	}},
	{"delete when completed", []switches{{model: deleteWhenCompleted}}, scenario{
		commands: []command{{script: "rcrcr"}, {script: "r"}},
		budget:   budget{pauses: 2, holds: 1}, only: deviates(chk1+"/_metadata", "records", "main"),
	}},
	{"reuse slots when no longer listed", []switches{{model: reuseWhenUnlisted}}, scenario{
		records: 6, commands: []command{{script: "rcrcrcwrr"}}, budget: budget{holds: 1},
	}},
	{"ids of one's own attempt", []switches{{model: ownIDs}}, scenario{
		commands: []command{{script: "rcr"}, {script: "rc"}}, budget: budget{pauses: 2},
	}},
	{"a lineage of its own for a copy", []switches{{rules: lineageByPlace}}, scenario{
		setup:    []command{{script: "rcx"}},
		commands: []command{{script: "rcr"}, {root: "/copy", copies: "/weir", script: "r"}}, budget: budget{pauses: 1},
	}},
	{"leave what others opened", []switches{{rules: leaveOthers}}, scenario{
		setup:    []command{{script: "rcx"}, {root: "/copy", copies: "/weir", fresh: true, script: "rx"}},
		commands: []command{{script: "rcr"}, {root: "/copy", script: "r"}}, budget: budget{pauses: 1},
	}},
	{"keep what another snapshot refers to", []switches{{rules: countReferences}}, scenario{
		shared: true, commands: []command{{script: "rcrc"}}, budget: budget{crashes: 1},
	}},
	{"refer to files of completed checkpoints", []switches{{model: shareCompleted}}, scenario{
		shared: true, concurrent: 3, commands: []command{{script: "rCrCrC"}, {script: "r"}}, budget: budget{faults: 1, holds: 1},
	}},
	{"sweep earlier attempts, reading the ledger again", []switches{{model: sweepEarlier}, {model: rereadInSweep}}, scenario{
		setup: []command{{script: "rcx"}}, commands: []command{{script: "rc"}, {script: "rc"}},
		budget: budget{pauses: 2}, only: deviates(firstRecord, "main", "records", "commits"),
	}},
}

// TestExplorerFindsViolationWithout switches off each rule that an explorer
// once found to be needed: the scenario is clean with all rules, broken
// without this one. Of a pair, either rule alone is enough.
func TestExplorerFindsViolationWithout(t *testing.T) {
	if underRace {
		t.Skip("one fiber runs at a time: the race detector only makes this long")
	}
	defer debug.SetGCPercent(debug.SetGCPercent(400))
	for _, n := range neededRules {
		t.Run(n.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var all switches
				n.explore(t, all, false)
				for _, one := range n.off {
					all.rules |= one.rules
					all.model |= one.model
					if len(n.off) > 1 {
						n.explore(t, one, false)
					}
				}
				n.explore(t, all, true)
			})
		})
	}
}

func (n needed) explore(t *testing.T, off switches, broken bool) {
	n.sc.off = off
	e := newExplorer(n.sc)
	if !broken && *explore == 0 {
		e.limit = 100
	}
	found := e.run()
	t.Logf("%+v off: %v", off, e)
	switch {
	case found && !broken:
		t.Errorf("with %+v off: %s", off, e.report())
	case !found && broken:
		t.Errorf("with %+v off nothing is broken", off)
	case found && *showBroken:
		t.Log(e.report())
	}
}
