package checkpoint

import (
	"errors"
	"strconv"
	"strings"
	"testing"

	"github.com/weirstream/weir/checkpoint"
	"github.com/weirstream/weir/internal/script"
	"github.com/weirstream/weir/internal/snapshot"
	"github.com/weirstream/weir/internal/stage"
)

// TestTraces feeds the core the events of each script in testdata/core. What
// it does stands below each event.
func TestTraces(t *testing.T) {
	script.Run(t, "core", func(t *testing.T, say script.Say) func([]string) {
		tr := &trace{t: t}
		return func(words []string) {
			for _, a := range tr.run(words) {
				say("%v", a)
			}
		}
	})
}

// trace runs one script.
type trace struct {
	t    *testing.T
	core *Core
	now  int64
}

func (tr *trace) run(words []string) (actions []Action) {
	if words[0] == "at" {
		tr.now = tr.number(words[1])
		words = words[2:]
	}
	if words[0] == "options" {
		tr.core = NewCore(tr.options(words[1:]))
		return nil
	}
	for _, ev := range tr.events(words) {
		actions = append(actions, tr.core.Step(tr.now, ev)...)
	}
	return actions
}

func (tr *trace) events(words []string) []Event {
	arg := func(i int) string {
		if i < len(words) {
			return words[i]
		}
		return ""
	}
	var err error
	if text := strings.Join(words[min(len(words), 2):], " "); text != "" {
		err = errors.New(text)
	}
	var events []Event
	switch words[0] {
	case "started":
		return []Event{Started{tr.tasks(words[1:])}}
	case "tick":
		return []Event{Tick{}}
	case "request": // KIND TOKEN [stop|drain] [PATH]
		r := Requested{Kind: snapshot.Kind(words[1]), Token: tr.number(words[2]), Stop: arg(3) == "stop" || arg(3) == "drain", Drain: arg(3) == "drain"}
		if r.Path = arg(3); r.Stop {
			r.Path = arg(4)
		}
		return []Event{r}
	case "ack": // ID TASK...
		for _, task := range tr.tasks(words[2:]) {
			events = append(events, Acked{task, tr.number(words[1])})
		}
	case "decline": // ID TASK REASON...
		return []Event{Declined{tr.tasks(words[2:3])[0], tr.number(words[1]), errors.New(strings.Join(words[3:], " "))}}
	case "enumerator-failed": // ID REASON...
		return []Event{EnumeratorFailed{tr.number(words[1]), err}}
	case "published": // ID OUTCOME [COMMITTABLES]
		p := Published{ID: tr.number(words[1]), Outcome: PublishOutcome(words[2])}
		switch p.Outcome {
		case PublishedFenced:
			p.Err = ErrFenced
		case PublishedFailed:
			p.Err = errors.New("disk full")
		case PublishedOK:
			if len(words) > 3 {
				p.Committables = int(tr.number(words[3]))
			}
		}
		return []Event{p}
	case "recorded": // KIND [ERROR...]
		return []Event{Recorded{RecordKind(words[1]), err}}
	case "marked": // ID [ERROR...]
		return []Event{Marked{tr.number(words[1]), err}}
	case "committed": // ID
		return []Event{CommittedUpTo{tr.number(words[1])}}
	case "commit-failed":
		return []Event{CommitFailed{errors.New(strings.Join(words[1:], " "))}}
	case "ended":
		for _, task := range tr.tasks(words[1:]) {
			events = append(events, Ended{task})
		}
	case "cancel":
		return []Event{Cancel{}}
	case "region": // ID failed|stopped|restarted TASK...
		r := Region{ID: int(tr.number(words[1])), Tasks: tr.tasks(words[3:])}
		switch words[2] {
		case "failed":
			return []Event{RegionFailed{r, errors.New("broken")}}
		case "stopped":
			return []Event{RegionStopped{r}}
		}
		return []Event{RegionRestarted{r}}
	default:
		tr.t.Fatalf("unknown event %q", words)
	}
	return events
}

func (tr *trace) options(words []string) CoreOptions {
	o := CoreOptions{Timeout: 10_000, MaxConcurrent: 1, Retained: 1, Retention: checkpoint.RetainAlways, NextID: 1}
	for _, w := range words {
		name, value, _ := strings.Cut(w, "=")
		switch name {
		case "off":
			o.Off = true
		case "at-least-once":
			o.AtLeastOnce = true
		case "interval":
			o.Interval = tr.number(value)
		case "min-pause":
			o.MinPause = tr.number(value)
		case "timeout":
			o.Timeout = tr.number(value)
		case "max-concurrent":
			o.MaxConcurrent = int(tr.number(value))
		case "tolerable":
			o.TolerableFailures = int(tr.number(value))
		case "retained":
			o.Retained = int(tr.number(value))
		case "retention":
			o.Retention = checkpoint.Retention(value)
		case "savepoint-dir":
			o.SavepointDir = value
		case "next":
			o.NextID = tr.number(value)
		case "seed":
			o.Seed = uint64(tr.number(value))
		case "owned":
			for _, id := range strings.Split(value, ",") {
				o.Owned = append(o.Owned, tr.number(id))
			}
		default:
			tr.t.Fatalf("unknown option %q", w)
		}
	}
	return o
}

func (tr *trace) tasks(names []string) (tasks []stage.TaskID) {
	for _, name := range names {
		id, subtask, _ := strings.Cut(name, "/")
		tasks = append(tasks, stage.TaskID{Stage: id, Subtask: int(tr.number(subtask))})
	}
	return tasks
}

func (tr *trace) number(s string) int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		tr.t.Fatalf("not a number: %q", s)
	}
	return n
}
