//go:build unix

package killmatrix

import (
	"fmt"
	"slices"
	"strings"
	"syscall"

	"github.com/weirstream/weir/internal/killpoint"
)

// blow is one way to die.
type blow struct {
	label string
	count int
	nudge syscall.Signal
}

func (b blow) String() string {
	s := fmt.Sprintf("%s,%d", b.label, b.count)
	if b.nudge != 0 {
		s += " by " + b.nudge.String()
	}
	return s
}

// discardPoint lies where a checkpoint under way is given up. For that the
// process is stopped within one and cancelled before it goes on.
const discardPoint = "discard.begin"

// operatorKind is the kind of the ledger's records that only an operator's
// decision after a loss writes: these jobs lose nothing.
const operatorKind = "accepted-loss"

// sharedPoint reports whether only jobs come by a label whose checkpoints share
// files, which are those with state on disk.
func sharedPoint(label string) bool { return strings.HasPrefix(label, "shared.") }

// needed are the labels at which a process must have been killed.
func needed() []string {
	return slices.DeleteFunc(killpoint.Labels(), func(l string) bool {
		return strings.HasSuffix(l, "."+operatorKind) || sharedPoint(l) && !*onDisk
	})
}

// blows are all labels, at several counts where a process comes by more than
// once.
func blows() (all []blow) {
	add := func(label string, nudge syscall.Signal, counts ...int) {
		for _, n := range counts {
			all = append(all, blow{label, n, nudge})
		}
	}
	for _, label := range killpoint.Labels() {
		group, kind := label[:strings.IndexByte(label, '.')], label[strings.LastIndexByte(label, '.')+1:]
		switch {
		case label == discardPoint, kind == operatorKind, sharedPoint(label) && !*onDisk:
		case group == "file" && kind == "ledger":
			add(label, 0, 1, 2)             // claim, restored
			add(label, suspendSignal, 3, 4) // stopping, stopped
			add(label, stopSignal, 3)
		case kind == "stopping", kind == "stopped", label == "job.ended":
			add(label, suspendSignal, 1)
			add(label, stopSignal, 1)
		case group == "mark", kind == "mark":
			add(label, suspendSignal, 1)
			add(label, stopSignal, 1)
			add(label, savepointSignal, 1)
		case group == "start", group == "resolve", group == "tasks", group == "ledger", group == "abandoned", label == "shared.sweep":
			add(label, 0, 1)
		case group == "sweep", group == "delete", label == "shared.delete":
			add(label, 0, 1, 2)
		default:
			add(label, 0, 1, 2, 5)
		}
		switch {
		case group == "metadata", kind == "metadata":
			add(label, savepointSignal, 2, 3)
			add(label, suspendSignal, 2)
			add(label, stopSignal, 2)
		case group == "complete":
			add(label, suspendSignal, 2)
		case group == "commit":
			add(label, suspendSignal, 2, 3)
		}
	}
	return all
}

// strike has the job die of a blow.
func (c *campaign) strike(b blow) (reached bool) {
	c.Helper()
	return c.insist(func() bool { return c.killAt(fmt.Sprintf("%s,%d", b.label, b.count), b.nudge) })
}

// insist starts the job until it comes to a point, six times at most. Some
// points are only on the way of a start that finds something left behind: then
// a process before it leaves it.
func (c *campaign) insist(comes func() bool) (reached bool) {
	c.Helper()
	for try := range 6 {
		if try > 0 {
			before := []string{"metadata.store,2", "metadata.stored,2", "precommit.flush,3"}[try%3]
			c.killAt(before, 0)
		}
		if comes() {
			return true
		}
	}
	return false
}

// strikeDiscard has the job die where it gives up a checkpoint.
func (c *campaign) strikeDiscard() (reached bool) {
	c.Helper()
	for range 20 {
		p := c.start("snapshot.ack,2,stop;" + discardPoint + ",1")
		if e := p.await(c.T, "paused"); e.kind == "exited" {
			c.want(p, e, -1)
		}
		p.signal(cancelSignal)
		p.signal(syscall.SIGCONT)
		e := p.await(c.T, "exited")
		if e.code() == -1 {
			all.kills.Add(1)
			return true
		}
		c.want(p, e, exitCanceled)
	}
	return false
}

// pauses are where a process is paused, and overtaken by another start; at a
// random moment where there is no label.
func pauses() []blow {
	all := make([]blow, 4)
	for label, counts := range map[string][]int{
		"start.begin": {1}, "ledger.append.claim": {1}, "start.claimed": {1}, "start.listed": {1}, "start.chosen": {1},
		"ledger.append.restored": {1}, "start.recorded": {1}, "resolve.committed": {1}, "sweep.list": {1}, "sweep.listed": {1}, "sweep.reread": {2},
		"tasks.make": {1}, "tasks.start": {1}, "transaction.begun": {1, 3},
		"precommit.flush": {2}, "precommit.flushed": {3}, "precommit.done": {2}, "snapshot.written": {3},
		"metadata.store": {1, 3}, "file.torn.metadata": {2}, "file.synced.metadata": {2}, "file.placed.metadata": {2},
		"metadata.stored": {2}, "metadata.reread": {2}, "complete.begin": {3}, "complete.notified": {2}, "complete.reusable": {3},
		"commit.begin": {2}, "commit.send": {2}, "commit.sent": {2}, "commit.end": {2}, "delete.begin": {2}, "delete.half": {1},
	} {
		for _, n := range counts {
			all = append(all, blow{label: label, count: n})
		}
	}
	for _, label := range []string{
		"metadata.store", "metadata.stored", "ledger.append.stopping", "ledger.appended.stopping", "commit.send", "commit.end",
		"mark.begin", "mark.end", "ledger.append.stopped", "ledger.appended.stopped", "job.ended",
	} {
		n := 1
		if label == "commit.send" || label == "commit.end" {
			n = 3
		}
		all = append(all, blow{label, n, suspendSignal})
	}
	slices.SortFunc(all, func(a, b blow) int { return strings.Compare(a.String(), b.String()) })
	return all
}
