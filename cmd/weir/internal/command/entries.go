package command

import (
	"bufio"
	"context"
	"encoding/csv"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/weirstream/weir/codec"
	"github.com/weirstream/weir/savepoint"
)

// column is a column of the entries of a state.
type column struct {
	name   string
	format codec.Format
	value  func(savepoint.Entry) any
}

// rowWriter writes entries in a form. close follows the last one.
type rowWriter interface {
	write(row []any) error
	close() error
}

// entries writes those of a state as they are read.
func (p *Program) entries(ctx context.Context, s *savepoint.Snapshot, in inspection, form string) error {
	op, st, err := findState(ctx, s, in.state)
	if err != nil {
		return err
	}
	columns := columnsOf(op, st)
	w := bufio.NewWriterSize(p.Stdout, 64<<10)
	var out rowWriter
	switch form {
	case "json":
		out = newLines(w, columns)
	case "csv":
		out, err = newCSV(w, columns)
	case "parquet":
		out = newParquet(w, columns)
	default:
		out = newSheet(w, columns)
	}
	if err != nil {
		return err
	}
	all := s.Entries(ctx, op.ID, st.Name)
	if in.keyed {
		all = s.EntriesOf(ctx, op.ID, st.Name, in.key)
	}
	return errors.Join(writeEntries(all, columns, in.limit, out), out.close(), w.Flush())
}

func writeEntries(all iter.Seq2[savepoint.Entry, error], columns []column, limit int, out rowWriter) error {
	row, n := make([]any, len(columns)), 0
	for e, err := range all {
		if err != nil {
			return err
		}
		for i, c := range columns {
			row[i] = c.value(e)
		}
		if err := out.write(row); err != nil {
			return err
		}
		if n++; n == limit {
			break
		}
	}
	return nil
}

// findState finds the state that is called OPERATOR/STATE.
func findState(ctx context.Context, s *savepoint.Snapshot, name string) (*savepoint.Operator, *savepoint.State, error) {
	var names []string
	for _, op := range s.Operators() {
		for _, st := range op.States {
			full := op.ID + "/" + st.Name
			if full == name {
				return &op, &st, nil
			}
			names = append(names, full)
		}
	}
	if len(names) == 0 {
		return nil, nil, fmt.Errorf("%s has no state", s.Path())
	}
	return nil, nil, fmt.Errorf("%s has no state %s; there are %s", s.Path(), name, strings.Join(names, ", "))
}

var (
	integer = codec.Format{ID: "int64", Version: 1}
	instant = codec.Format{ID: "time", Version: 1}
)

// columnsOf are the columns that the entries of a state have.
func columnsOf(op *savepoint.Operator, st *savepoint.State) []column {
	var columns []column
	add := func(name string, f codec.Format, value func(savepoint.Entry) any) {
		columns = append(columns, column{name, f, value})
	}
	index := func() { add("index", integer, func(e savepoint.Entry) any { return int64(e.Index) }) }
	key := func(name string, f *codec.Format, value func(savepoint.Entry) any) {
		if f == nil {
			f = &codec.Format{}
		}
		add(name, *f, value)
	}
	switch {
	case st.Kind == savepoint.KeyedRaw:
		add("key_group", integer, func(e savepoint.Entry) any { return int64(e.Group) })
	case st.Kind == savepoint.Broadcast:
		key("key", st.MapKeyFormat, func(e savepoint.Entry) any { return e.MapKey })
	case st.Keyed():
		key("key", op.KeyFormat, func(e savepoint.Entry) any { return e.Key })
	default:
		add("subtask", integer, func(e savepoint.Entry) any { return int64(e.Subtask) })
		index()
	}
	value := st.Format
	switch st.Kind {
	case savepoint.List:
		index()
	case savepoint.Map:
		key("map_key", st.MapKeyFormat, func(e savepoint.Entry) any { return e.MapKey })
	case savepoint.Slices:
		value = savepoint.AccumulatorFormat(*st)
		add("start", instant, func(e savepoint.Entry) any { return e.Start })
		add("end", instant, func(e savepoint.Entry) any { return e.End })
	case savepoint.EventTimers, savepoint.ProcessingTimers:
		add("time", instant, func(e savepoint.Entry) any { return e.Value })
		return columns
	}
	add("value", value, func(e savepoint.Entry) any { return e.Value })
	if st.TTL {
		add("accessed", instant, func(e savepoint.Entry) any { return e.Accessed })
	}
	return columns
}

// lines are JSON objects, one a line.
type lines struct {
	w       io.Writer
	columns []column
}

func newLines(w io.Writer, columns []column) rowWriter { return &lines{w, columns} }

func (l *lines) write(row []any) error {
	r := make(codec.Record, len(row))
	for i, v := range row {
		r[i] = codec.Field{Name: l.columns[i].name, Value: v}
	}
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	_, err = l.w.Write(append(b, '\n'))
	return err
}

func (l *lines) close() error { return nil }

// newJSONLines returns a writer of values as JSON, one a line.
func newJSONLines(w io.Writer) func(v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc.Encode
}

// sheet is a table of which the first rows settle how wide it is.
type sheet struct {
	w       io.Writer
	columns []column
	first   table
	widths  []int
}

// settling is how many rows settle the widths of columns.
const settling = 100

func newSheet(w io.Writer, columns []column) rowWriter {
	s := &sheet{w: w, columns: columns}
	for _, c := range columns {
		s.first.head = append(s.first.head, c.name)
	}
	return s
}

func (s *sheet) write(row []any) error {
	cells := make([]string, len(row))
	for i, v := range row {
		cells[i] = cell(v)
	}
	if s.widths == nil {
		s.first.add(nil, cells...)
		if len(s.first.rows) == settling {
			s.flush()
		}
		return nil
	}
	_, err := fmt.Fprintln(s.w, tableLine(cells, s.widths))
	return err
}

func (s *sheet) flush() {
	s.widths = s.first.widths()
	s.first.write(s.w)
}

func (s *sheet) close() error {
	if s.widths == nil {
		s.flush()
	}
	return nil
}

// sheetCSV is CSV with a header.
type sheetCSV struct{ w *csv.Writer }

func newCSV(w io.Writer, columns []column) (rowWriter, error) {
	c := &sheetCSV{csv.NewWriter(w)}
	head := make([]string, len(columns))
	for i := range columns {
		head[i] = columns[i].name
	}
	return c, c.w.Write(head)
}

func (c *sheetCSV) write(row []any) error {
	cells := make([]string, len(row))
	for i, v := range row {
		cells[i] = plain(v)
	}
	return c.w.Write(cells)
}

func (c *sheetCSV) close() error {
	c.w.Flush()
	return c.w.Error()
}

// cell is a value in a table.
func cell(v any) string {
	if s, ok := v.(string); ok && !printable(s) {
		return strconv.Quote(s)
	}
	return plain(v)
}

// plain is a value as text: numbers and strings as they are, bytes in
// hexadecimal digits, times by RFC 3339, everything else as JSON.
func plain(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		return v
	case []byte:
		return hex.EncodeToString(v)
	case time.Time:
		if v.IsZero() {
			return ""
		}
		return v.Format(time.RFC3339Nano)
	case json.RawMessage:
		return string(v)
	case savepoint.Undecoded:
		text := fmt.Sprintf("%s (%s)", hex.EncodeToString(v.Bytes), v.Format.ID)
		if v.Err != "" {
			text += ": " + v.Err
		}
		return text
	}
	b, err := json.Marshal(codec.JSONValue(v))
	if err != nil {
		return fmt.Sprint(v)
	}
	var text string
	if json.Unmarshal(b, &text) == nil {
		return text // a NaN, a duration
	}
	return string(b)
}

func printable(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) })
}
