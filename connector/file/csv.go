package file

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/weirstream/weir/connector"
	"github.com/weirstream/weir/connector/splitreader"
)

// CSVOption changes what CSV reads.
type CSVOption func(*csvConfig)

type csvConfig struct {
	comma      rune
	comment    rune
	lazyQuotes bool
	headerless bool
	splittable bool
	limit      int
}

// Comma is what separates fields; '\t' reads tab-separated values. Default ','.
func Comma(r rune) CSVOption { return func(c *csvConfig) { c.comma = r } }

// Comment makes lines that begin with r comments. By default there are none.
func Comment(r rune) CSVOption { return func(c *csvConfig) { c.comment = r } }

// LazyQuotes lets quotes appear inside of fields as they do in files that were
// not written by the rules.
func LazyQuotes() CSVOption { return func(c *csvConfig) { c.lazyQuotes = true } }

// NoHeader is for files whose first line is a record: the struct's fields are
// the columns, all of them, in order.
func NoHeader() CSVOption { return func(c *csvConfig) { c.headerless = true } }

// OneLinePerRecord promises that no field contains an end of line, and so lets
// large files be read in ranges.
func OneLinePerRecord() CSVOption { return func(c *csvConfig) { c.splittable = true } }

// MaxRecord is how many bytes a record may have; a longer one fails the job,
// for it is likely that a quote is not closed. Default 16 MiB.
func MaxRecord(bytes int) CSVOption {
	return func(c *csvConfig) { c.limit = max(1, bytes) }
}

// CSV reads comma-separated values (RFC 4180) into structs. The first line
// names the columns; a field takes the column of its name, or of its tag
// csv:"name", and none with csv:"-". A field with csv:"name,optional" may lack
// its column; columns without a field are left out. Fields are strings,
// numbers, booleans, time.Time (RFC 3339), types that unmarshal text, and
// pointers to these, which are nil where a value is empty.
//
// Quoted fields may contain ends of lines, which is why a file is not cut
// unless OneLinePerRecord says so; CR LF inside of a field becomes LF. Empty
// lines are left out.
func CSV[T any](opts ...CSVOption) Format[T] {
	f := csvFormat[T]{config: csvConfig{comma: ',', limit: defaultMaxLine}}
	for _, opt := range opts {
		opt(&f.config)
	}
	f.columns, f.err = columnsOf[T]()
	return f
}

type csvFormat[T any] struct {
	config  csvConfig
	columns []column
	err     error
}

func (f csvFormat[T]) Splittable() bool { return f.config.splittable }

func (f csvFormat[T]) Open(p *Part) (RecordReader[T], error) {
	if f.err != nil {
		return nil, connector.Fatal(f.err)
	}
	r := &csvReader[T]{part: p, limit: f.config.limit}
	var names []string
	var err error
	if !f.config.headerless {
		if names, r.start, err = f.header(p); err != nil {
			return nil, err
		}
	}
	if r.row, err = bind[T](f.columns, names, f.config.headerless); err != nil {
		return nil, err
	}
	if err := r.open(f.config); err != nil {
		return nil, err
	}
	return r, nil
}

// header reads the names of the columns and returns where the records begin.
// A file of nothing has none.
func (f csvFormat[T]) header(p *Part) (names []string, end int64, err error) {
	file, err := p.Open(0)
	if err != nil {
		return nil, 0, err
	}
	defer file.Close()
	source := &bounded{Reader: file, limit: f.config.limit}
	text := bufio.NewReaderSize(source, 64<<10)
	mark := skipMark(text)
	c := f.config.reader(text)
	names, err = c.Read()
	if errors.Is(err, io.EOF) {
		return nil, mark + c.InputOffset(), nil
	}
	if err != nil {
		return nil, 0, fmt.Errorf("header: %w", err)
	}
	return names, mark + c.InputOffset(), nil
}

// reader makes a reader of csv.
func (c csvConfig) reader(r io.Reader) *csv.Reader {
	cr := csv.NewReader(r)
	cr.Comma, cr.Comment, cr.LazyQuotes = c.comma, c.comment, c.lazyQuotes
	cr.FieldsPerRecord = -1 // counted by us
	cr.ReuseRecord = true
	return cr
}

// skipMark drops a byte order mark and returns its size.
func skipMark(r *bufio.Reader) int64 {
	if head, _ := r.Peek(len(byteOrderMark)); !bytes.Equal(head, byteOrderMark) {
		return 0
	}
	n, _ := r.Discard(len(byteOrderMark))
	return int64(n)
}

// csvReader reads the records of a part.
type csvReader[T any] struct {
	part  *Part
	limit int
	start int64 // where the records of the file begin
	row   *row[T]

	file    io.ReadCloser
	opened  int64 // where file was opened
	source  *bounded
	text    *bufio.Reader // csv reads from it and buffers nothing
	csv     *csv.Reader
	comment rune
	origin  int64 // what csv's offsets count from
	at      int64
	to      int64 // records that begin here are another part's
}

// open goes to the part's first record.
func (r *csvReader[T]) open(c csvConfig) (err error) {
	r.at, r.to = r.part.Next, r.part.To
	seeking := r.at == Begin && r.part.From > r.start
	switch {
	case seeking:
		r.at = r.part.From - 1
	case r.at == Begin:
		r.at = r.start
	}
	r.opened = r.at
	if r.file, err = r.part.Open(r.opened); err != nil {
		return err
	}
	source := &bounded{Reader: r.file, limit: r.limit}
	r.text = bufio.NewReaderSize(source, 64<<10)
	switch {
	case seeking:
		skipped, err := skipLine(r.text, r.part.To-r.at)
		if err != nil {
			return errors.Join(err, r.file.Close())
		}
		r.at += skipped
	case r.at == 0:
		mark := skipMark(r.text)
		r.at, r.to = mark, max(r.to, mark+1) // the first record begins with its mark
	}
	r.source, r.origin = source, r.at
	r.csv, r.comment = c.reader(r.text), c.comment
	return nil
}

// judge decides about a record that could not be read.
func (r *csvReader[T]) judge(begin int64, err error) error {
	var syntax *csv.ParseError
	var value *valueError
	switch {
	case errors.As(err, &syntax):
		return r.part.Undecodable(begin, nil, syntax.Err)
	case errors.As(err, &value):
		return r.part.Undecodable(begin, nil, err)
	}
	return fmt.Errorf("at offset %d: %w", begin, err)
}

// skipBlank goes to the line where the next record begins, which may be
// another part's.
func (r *csvReader[T]) skipBlank() error {
	for r.at < r.to {
		head, _ := r.text.Peek(utf8.UTFMax)
		first, _ := utf8.DecodeRune(head)
		comment := r.comment != 0 && first == r.comment
		if !comment && !bytes.HasPrefix(head, []byte("\n")) && !bytes.HasPrefix(head, []byte("\r\n")) {
			return nil // what keeps from peeking keeps from reading
		}
		r.source.used = r.at - r.opened
		n, err := skipLine(r.text, Whole)
		r.at += n
		r.origin += n
		if err != nil {
			return err
		}
	}
	return nil
}

// skipLine goes behind the next end of a line, or beyond limit bytes.
func skipLine(r *bufio.Reader, limit int64) (n int64, err error) {
	for n < limit {
		piece, err := r.ReadSlice('\n')
		n += int64(len(piece))
		switch {
		case err == nil, errors.Is(err, io.EOF):
			return n, nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return n, err
		}
	}
	return n, nil
}

func (r *csvReader[T]) Read(into *splitreader.Batch[T], n int) error {
	from := r.at
	defer func() { into.End = r.at }()
	for len(into.Vals) < n && r.at-from < blockBytes {
		if err := r.skipBlank(); err != nil {
			return fmt.Errorf("at offset %d: %w", r.at, err)
		}
		if r.at >= r.to {
			return io.EOF
		}
		r.source.used = r.at - r.opened
		fields, err := r.csv.Read()
		if errors.Is(err, io.EOF) {
			r.at = r.origin + r.csv.InputOffset()
			return io.EOF
		}
		begin := r.at
		r.at = r.origin + r.csv.InputOffset()
		if err == nil {
			err = r.row.set(fields)
		}
		if err == nil {
			into.Append(r.row.value, connector.NoTimestamp, r.at)
		} else if err = r.judge(begin, err); err != nil {
			return err
		}
	}
	return nil
}

func (r *csvReader[T]) Close() error { return r.file.Close() }

// bounded ends with an error where a record takes more than limit bytes.
type bounded struct {
	io.Reader
	limit int
	given int64 // to the readers above
	used  int64 // ... up to the record at hand
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.given-b.used > int64(b.limit) {
		return 0, fmt.Errorf("the record is longer than %d bytes; file.MaxRecord raises the limit, if no quote is left open", b.limit)
	}
	n, err := b.Reader.Read(p)
	b.given += int64(n)
	return n, err
}
