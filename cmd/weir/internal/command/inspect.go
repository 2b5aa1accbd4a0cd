package command

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/weirstream/weir/codec"
	"github.com/weirstream/weir/savepoint"
)

const inspectUsage = `Usage: weir inspect PATH [flags]
       weir inspect PATH --state OPERATOR/STATE [--key KEY] [--limit N] [flags]

Show what a snapshot holds: its operators, the states of each with their types,
sizes and key groups, where sources read, and what sinks have not committed. PATH
is the directory of a savepoint or checkpoint, or its _metadata. Nothing is
written, and the job may run meanwhile.

With --state its entries are shown, one a line: the value of each key, each
element of a list, entry of a map, timer, and slice of windows. They come by key
group and hash of the key, and are read as they are shown. The types are those
that the snapshot names: the job's program is not needed.

--key chooses one key: a string as it is, a number, bytes in hexadecimal digits,
and a struct or array as JSON, [1,"a"], with its parts in order, or as shown.
`

// inspection is what is asked for.
type inspection struct {
	state, key string
	keyed      bool
	limit      int
}

func (p *Program) inspect(ctx context.Context, args []string) error {
	f := newFlags(inspectUsage)
	f.forms = []string{"text", "table", "json", "csv", "parquet"}
	f.rows[0] = "  --output FORM\n        text (or table), or json for programs; with --state json has an entry a line, and csv and parquet are possible. Default text.\n"
	var in inspection
	f.text(&in.state, "state", "OPERATOR/STATE", "Show the entries of a state. Timers are called event-timers and processing-timers, windows as the table of states says.")
	f.Func("key", "", func(text string) error { in.key, in.keyed = text, true; return nil })
	f.rows = append(f.rows, "  --key KEY\n        Show the entries of one key; only its key group is read.\n")
	f.IntVar(&in.limit, "limit", 0, "")
	f.rows = append(f.rows, "  --limit N\n        Show the first N entries. Default 0, all.\n")
	operands, proceed, err := f.parse(p.Stdout, args)
	switch {
	case err != nil || !proceed:
		return err
	case len(operands) != 1:
		return misuse("inspect needs one snapshot: weir inspect PATH")
	case in.state == "" && (in.keyed || in.limit != 0):
		return misuse("--key and --limit need --state OPERATOR/STATE")
	case in.state == "" && (f.output == "csv" || f.output == "parquet"):
		return misuse("--output %s needs --state OPERATOR/STATE", f.output)
	case in.limit < 0:
		return misuse("--limit %d: it must not be negative", in.limit)
	}
	s, err := savepoint.Open(ctx, operands[0], decoders()...)
	if err != nil {
		return err
	}
	if in.state != "" {
		return p.entries(ctx, s, in, f.output)
	}
	info, err := s.Info(ctx)
	if err != nil {
		return err
	}
	if f.output == "json" {
		return p.writeJSON(info)
	}
	writeInfo(p.Stdout, info)
	return nil
}

func writeInfo(w io.Writer, info *savepoint.Info) {
	var bytes int64
	for _, f := range info.Files {
		bytes += f.Bytes
	}
	kind := info.Kind
	if kind == "final" {
		kind = "final snapshot"
	}
	fmt.Fprintf(w, "%s %d of job %s, lineage %s, attempt %d\n", strings.ToUpper(kind[:1])+kind[1:], info.ID, info.Job, info.Lineage, info.Attempt)
	fmt.Fprintf(w, "Completed %s, %v after it was triggered. Written by Weir %s, format %d. %d data files, %s\n",
		stamp(info.Completed), info.Completed.Sub(info.Triggered), info.Weir, info.FormatVersion, len(info.Files), size(bytes))

	operators := table{head: []string{"operator", "kind", "parallelism", "max", "keys", "event time", "ended"}}
	states := table{head: []string{"state", "kind", "type", "entries", "size", "key groups"}}
	splits := table{head: []string{"source", "subtask", "split"}}
	committables := table{head: []string{"sink", "checkpoint", "subtask", "committable"}}
	for _, op := range info.Operators {
		keys, most := "-", "-"
		if op.KeyFormat != nil {
			keys = formatText(*op.KeyFormat)
		}
		if op.MaxParallelism > 0 {
			most = strconv.Itoa(op.MaxParallelism)
		}
		operators.add(nil, op.ID, op.Kind, strconv.Itoa(op.Parallelism), most, keys, eventTime(op), ended(op))
		for _, s := range op.States {
			groups := "-"
			if s.Keyed() {
				groups = strconv.Itoa(s.Groups)
			}
			states.add(nil, op.ID+"/"+s.Name, s.Kind, typeText(s), strconv.FormatInt(s.Count, 10), size(s.Bytes), groups)
		}
		for _, s := range op.Splits {
			splits.add(nil, op.ID, strconv.Itoa(s.Subtask), cell(s.Value))
		}
		if op.Enumerator != nil {
			splits.add(nil, op.ID, "enumerator", cell(op.Enumerator))
		}
		for _, c := range op.Committables {
			committables.add(nil, op.ID, strconv.FormatInt(c.Checkpoint, 10), strconv.Itoa(c.Subtask), cell(c.Value))
		}
	}
	for _, t := range []struct {
		title string
		table
	}{{"Operators", operators}, {"States", states}, {"Source positions", splits}, {"Committables", committables}} {
		fmt.Fprintf(w, "\n%s\n", t.title)
		t.write(w)
	}
	for _, u := range info.Unread {
		fmt.Fprintf(w, "\n%s\n", u)
	}
}

// eventTime is the lowest of the subtasks.
func eventTime(op savepoint.Operator) string {
	if len(op.Watermarks) == 0 {
		return "-"
	}
	low := op.Watermarks[0].Time
	for _, w := range op.Watermarks {
		if w.Time.Before(low) {
			low = w.Time
		}
	}
	return cell(low)
}

func ended(op savepoint.Operator) string {
	switch n := len(op.Ended); n {
	case 0:
		return "-"
	case op.Parallelism:
		return "all"
	default:
		return fmt.Sprintf("%d of %d", n, op.Parallelism)
	}
}

// typeText says of what type a state is.
func typeText(s savepoint.State) string {
	text := formatText(s.Format)
	switch s.Kind {
	case savepoint.EventTimers, savepoint.ProcessingTimers:
		text = "time"
	case savepoint.Slices:
		text = s.Format.Schema + ", " + s.Detail
	case savepoint.Aggregating:
		text += ", " + s.Detail
	}
	if s.MapKeyFormat != nil {
		text = formatText(*s.MapKeyFormat) + " to " + text
	}
	if s.TTL {
		text += ", with a time to live"
	}
	return text
}

// formatText names a format; of Avro its record, as the whole schema is long.
func formatText(f codec.Format) string {
	text := f.ID
	switch {
	case f.ID == "struct" || f.ID == "array":
		text = f.Schema
	case f.ID == "avro":
		text = "avro " + recordText(f.Schema)
	}
	if f.Version > 1 {
		text += fmt.Sprintf(" (version %d)", f.Version)
	}
	return text
}

func recordText(schema string) string {
	var record struct {
		Name   string
		Fields []struct{ Name string }
	}
	if json.Unmarshal([]byte(schema), &record) != nil || record.Name == "" {
		return schema
	}
	names := make([]string, len(record.Fields))
	for i, f := range record.Fields {
		names[i] = f.Name
	}
	return record.Name + "{" + strings.Join(names, ", ") + "}"
}
