package killpoint

import (
	"slices"
	"strings"
)

// Labels returns all labels. Those with a kind ("ledger.append.claim") come
// from a call that names the rest at run time.
func Labels() []string {
	labels := slices.Clone(plain)
	for label, kinds := range kinded() {
		for _, kind := range kinds {
			labels = append(labels, label+"."+kind)
		}
	}
	slices.Sort(labels)
	return labels
}

// plain are the labels of Reach, in the order in which a process comes by.
var plain = []string{
	// A start.
	"start.begin", "start.claimed", "start.listed", "start.load", "start.chosen", "start.recorded",
	"resolve.begin", "resolve.committed", "resolve.swept",
	"sweep.list", "sweep.listed", "sweep.reread", "sweep.abort", "sweep.aborted",
	"tasks.make", "tasks.start", "tasks.started",
	// A transaction and its pre-commit.
	"transaction.begin", "transaction.begun", "kafka.open", "kafka.opened", "precommit.flush", "precommit.flushed", "precommit.done",
	// A snapshot.
	"snapshot.trigger", "snapshot.write", "snapshot.written", "snapshot.ack",
	"metadata.store", "metadata.stored", "metadata.reread",
	"complete.begin", "complete.notified", "complete.reusable",
	"commit.begin", "commit.send", "commit.sent", "commit.end",
	"delete.begin", "delete.half", "delete.end", "discard.begin", "abandoned.begin", "shared.delete", "shared.sweep",
	"mark.begin", "mark.end",
	// The end.
	"job.ended",
}

// kinded are the labels of ReachKind, ReachFile and Tear, with their kinds. A
// variable would be filled at the start of every program, and put the labels
// into it.
func kinded() map[string][]string {
	records := []string{"claim", "restored", "stopping", "stopped", "accepted-loss"}
	files := []string{"ledger", "metadata", "mark", "data"}
	return map[string][]string{
		"ledger.append":   records,
		"ledger.appended": records,
		"file.torn":       files,
		"file.synced":     files,
		"file.placed":     files,
	}
}

// kindOf is the kind of a file by its path.
func kindOf(path string) string {
	dir, name := "", path
	if i := strings.LastIndexByte(path, '/'); i >= 0 {
		dir, name = path[:i], path[i+1:]
	}
	switch {
	case strings.HasSuffix(dir, "/ledger"):
		return "ledger"
	case name == "_metadata":
		return "metadata"
	case name == "_committed":
		return "mark"
	}
	return "data"
}
