package checkpoint

import (
	"flag"
	"runtime/debug"
	"testing"
	"testing/synctest"
)

var explore = flag.Int("explore", 0, "how many more pauses, holds and faults an execution has, where the scenario has any")

const chk1 = "/weir/job/chk-1"

// explorations are the scenarios in which no rule may be seen broken.
var explorations = []scenario{
	{name: "restart", commands: []command{{script: "rcrc"}, {script: "rc"}}, budget: budget{pauses: 1, crashes: 1}},
	{name: "protocol 1", protocol: 1, commands: []command{{script: "rcrc"}, {script: "rc"}}, budget: budget{pauses: 1, crashes: 1}},
	{name: "three attempts", records: 2, commands: []command{{script: "rc"}, {script: "r"}, {}}, budget: budget{pauses: 1, crashes: 1}},
	{name: "overlapping checkpoints", concurrent: 3, commands: []command{{script: "rCrCrC"}, {script: "r"}}, budget: budget{crashes: 1, holds: 1}},
	{name: "savepoint", commands: []command{{script: "rcrsr"}, {script: "r"}}, budget: budget{pauses: 1, crashes: 1}},
	{name: "suspend", commands: []command{{script: "rcrx"}, {script: "rc"}}, budget: budget{pauses: 1, crashes: 1}},
	{name: "stop with savepoint", commands: []command{{script: "rcrS"}, {script: "rc"}}, budget: budget{pauses: 1, crashes: 1}},
	{name: "cancel", commands: []command{{script: "rcrk"}, {script: "rc"}}, budget: budget{pauses: 1, crashes: 1}},
	{name: "retention", commands: []command{{script: "rcrcrc"}, {script: "rc"}}, budget: budget{pauses: 1, crashes: 1}},
	{name: "faults", commands: []command{{script: "rcrc"}, {script: "r"}}, budget: budget{crashes: 1, faults: 1}},
	{name: "shared files", shared: true, commands: []command{{script: "rcrc"}, {script: "rc"}}, budget: budget{pauses: 1, crashes: 1}},
	{name: "shared files, three attempts", shared: true, records: 2, commands: []command{{script: "rc"}, {script: "r"}, {}}, budget: budget{pauses: 1, crashes: 1}},
	{name: "shared files, overlapping checkpoints", shared: true, concurrent: 3, commands: []command{{script: "rCrCrC"}, {script: "r"}}, budget: budget{crashes: 1, holds: 1}},
	{name: "shared files, faults", shared: true, commands: []command{{script: "rcrc"}, {script: "r"}}, budget: budget{crashes: 1, faults: 1}},
	{name: "shared files, savepoint", shared: true, commands: []command{{script: "rcrsr"}, {script: "r"}}, budget: budget{pauses: 1, crashes: 1}},
	{name: "shared files, suspend", shared: true, commands: []command{{script: "rcrx"}, {script: "rc"}}, budget: budget{pauses: 1, crashes: 1}},
	{name: "shared files, cancel", shared: true, commands: []command{{script: "rcrk"}, {script: "rc"}}, budget: budget{pauses: 1, crashes: 1}},
	{
		name: "shared files, back to an older one", shared: true, setup: []command{{script: "rcrcx"}}, retained: 3,
		commands:  []command{{from: chk1, rewind: true, script: "rc"}, {from: chk1, rewind: true, script: "r"}},
		finishers: []command{{from: chk1, rewind: true, script: "rcrc"}, {}}, budget: budget{pauses: 1, crashes: 1},
	},
	{
		name: "shared files, an older one claimed", shared: true, setup: []command{{script: "rcrcx"}}, retained: 3,
		commands:  []command{{from: chk1, rewind: true, claim: true, script: "rcrc"}, {from: chk1, rewind: true, claim: true, script: "r"}},
		finishers: []command{{from: chk1, rewind: true, claim: true, script: "rcrc"}, {}}, budget: budget{pauses: 1, crashes: 1},
	},
	{
		name: "the savepoint of a stop, claimed", shared: true, setup: []command{{script: "rcrS"}},
		commands:  []command{{from: stopped, claim: true, script: "rcrc"}, {from: stopped, claim: true, script: "r"}},
		finishers: []command{{from: stopped, claim: true}, {}}, budget: budget{pauses: 1, crashes: 1},
	},
	{
		name: "shared files, copied with the ledger", shared: true, setup: []command{{script: "rcx"}, {root: "/copy", copies: "/weir", script: "rx"}},
		commands:  []command{{script: "rcr"}, {root: "/copy", script: "r"}},
		finishers: []command{{}, {root: "/copy"}}, budget: budget{pauses: 1, crashes: 1},
	},
	{
		name: "back to an older one, by a supervisor", setup: []command{{script: "rcrcx"}}, retained: 3,
		commands:  []command{{from: chk1, rewind: true, script: "rc"}, {from: chk1, rewind: true, script: "r"}},
		finishers: []command{{from: chk1, rewind: true, script: "rcrc"}, {}}, budget: budget{pauses: 1, crashes: 1},
	},
	{
		name: "back to an older one without --rewind", retained: 3,
		commands:  []command{{script: "rcrc"}, {from: chk1, script: "r", refusable: true}},
		finishers: []command{{from: chk1, refusable: true}, {}}, budget: budget{pauses: 1, crashes: 1},
	},
	{
		name: "back under a running job", retained: 2,
		commands:  []command{{script: "rcrcrc"}, {from: chk1, rewind: true, script: "r", refusable: true}},
		finishers: []command{{from: chk1, rewind: true, refusable: true}, {}}, budget: budget{pauses: 1, crashes: 1},
	},
	{
		name: "from the savepoint of a stop", setup: []command{{script: "rcrS"}},
		commands:  []command{{from: "/sp/savepoint-job-2", script: "rc"}, {from: "/sp/savepoint-job-2", script: "r"}},
		finishers: []command{{from: "/sp/savepoint-job-2"}, {}}, budget: budget{pauses: 1, crashes: 1},
	},
	{
		name: "fresh", setup: []command{{script: "rcx"}},
		commands:  []command{{fresh: true, script: "rc"}, {fresh: true, script: "r"}},
		finishers: []command{{fresh: true}, {}}, budget: budget{pauses: 1, crashes: 1},
	},
	{
		name: "copy",
		commands: []command{
			{script: "rcrsr"},
			{root: "/copy", from: "/sp/savepoint-job-2", script: "r", refusable: true, after: func(u *universe) bool { return u.reports > 0 }},
		},
		finishers: []command{{}, {root: "/copy", from: "/sp/savepoint-job-2", refusable: true}}, budget: budget{pauses: 1, crashes: 1},
	},
	{
		name: "copied with its ledger", setup: []command{{script: "rcx"}, {root: "/copy", copies: "/weir", script: "rx"}},
		commands:  []command{{script: "rcr"}, {root: "/copy", script: "r"}},
		finishers: []command{{}, {root: "/copy"}}, budget: budget{pauses: 1, crashes: 1},
	},
	{
		name: "copied with its ledger and begun anew", setup: []command{{script: "rcx"}, {root: "/copy", copies: "/weir", fresh: true, script: "rx"}},
		commands:  []command{{script: "rcr"}, {root: "/copy", script: "r"}},
		finishers: []command{{}, {root: "/copy"}}, budget: budget{pauses: 1},
	},
}

// The explorer runs the real start (newStart, start.run, ResolveSinks), the
// real driver and Core, and the real writer and committer of package twophase,
// in processes whose every step is the explorer's to order. Modelled are only
// the surroundings:
//
//   - storage (explore_lasting_test.go): a map of blobs; operations that others
//     can see, or whose result others change, are steps;
//   - Kafka (explore_brokers_test.go): transactional ids with epochs, the
//     answers of either transaction protocol, aborts by initialisation;
//   - tasks and users (explore_process_test.go): a source that counts and a
//     writer per subtask, and scripts of checkpoints, savepoints and stops; in
//     scenarios with shared files also a backend that adds a file at each
//     checkpoint and keeps three (explore_task_test.go), by snapshot.Uploads;
//   - goroutines (explore_universe_test.go): fibers, that is coroutines which
//     hand back before each step. The driver's workers are fibers, too.
//
// TestExplorer goes through all executions that deviate from the undisturbed
// order (each process runs to its end, then the next begins) by no more than
// the scenario's budget: a process is paused at a step and goes on after the
// others; it crashes there; one of its fibers is held back; a write or a
// deletion fails, or succeeds and its answer is lost. States seen before are
// not gone through again: a state is what is stored plus what each process has
// learned, in order (explore_search_test.go).
//
// After every step (explore_check_test.go): nothing is published twice but
// behind an accepted rewind; nothing is aborted or deleted that a live snapshot
// needs, shared files included; marks and stopped records are true; processes end well, fenced, or
// with the fault they met. And from every lasting state, reached by a power
// failure, one undisturbed start finishes the job exactly, and leaves no shared
// file that no snapshot refers to.
//
// TestExplorerFindsViolationWithout switches single rules off
// (explore_rules_test.go). TestExplorerWalks takes random walks
// (explore_walk_test.go).
//
// Not modelled: transaction timeouts, damaged blobs, the loss of the ledger,
// --accept-loss, keyed state and rescaling, restarts inside a process, more
// than one sink, and the local lock file. Two goroutines of a process never
// run within a step.
func TestExplorer(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(400))
	for _, sc := range explorations {
		for _, n := range []*int{&sc.budget.pauses, &sc.budget.holds, &sc.budget.faults} {
			if *n > 0 {
				*n += *explore
			}
		}
		t.Run(sc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := newExplorer(sc)
				if underRace {
					e.limit = 30
				}
				if e.run() {
					t.Error(e.report())
				}
				t.Log(e)
			})
		})
	}
}
