// Package parquet reads Parquet files with package file.
package parquet

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"

	goparquet "github.com/parquet-go/parquet-go"

	"github.com/weirstream/weir/connector"
	"github.com/weirstream/weir/connector/file"
	"github.com/weirstream/weir/connector/splitreader"
)

// Format reads the rows of Parquet files as values of T, a struct whose fields
// are matched with columns by name, or by tag parquet:"name". Columns without a
// field are not read, and a field without a column keeps its zero value.
//
// Large files are read in ranges, as far as they consist of row groups that
// begin in them. Positions are numbers of rows. A file that cannot be decoded
// fails the job.
func Format[T any]() file.Format[T] { return format[T]{} }

type format[T any] struct{}

func (format[T]) Splittable() bool { return true }

func (format[T]) Open(p *file.Part) (file.RecordReader[T], error) {
	if p.Compressed() {
		return nil, errors.New("a Parquet file that is compressed as a whole cannot be read; decompress it, or say file.Compressed(file.Uncompressed)")
	}
	if p.Size == 0 {
		return &reader[T]{}, nil
	}
	f, err := p.ReaderAt()
	if err != nil {
		return nil, err
	}
	var r *reader[T]
	err = guard(func() (err error) {
		r, err = open[T](p, f)
		return err
	})
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return r, nil
}

// open finds the row groups of the part and where to go on in them.
func open[T any](p *file.Part, f file.ReaderAtCloser) (*reader[T], error) {
	if err := checkFooter(f, p.Size); err != nil {
		return nil, err
	}
	// Indexes and filters are for those who look for single rows.
	pq, err := goparquet.OpenFile(f, p.Size, goparquet.SkipPageIndex(true), goparquet.SkipBloomFilters(true))
	if err != nil {
		return nil, fmt.Errorf("it cannot be read as Parquet: %w", err)
	}
	r := &reader[T]{file: f}
	row := int64(0)
	for i, g := range pq.RowGroups() {
		n := g.NumRows()
		if n < 0 {
			return nil, fmt.Errorf("row group %d has %d rows", i, n)
		}
		if at := begin(pq, i); at >= p.From && at < p.To && row+n > p.Next {
			r.groups = append(r.groups, group{g, row})
		}
		row += n
	}
	r.at = max(p.Next, 0)
	return r, nil
}

// checkFooter checks the length that a file gives of its footer: the library
// takes the memory before it looks.
func checkFooter(f io.ReaderAt, size int64) error {
	var end [8]byte
	if size < 12 {
		return fmt.Errorf("it cannot be read as Parquet: it has %d bytes", size)
	}
	if n, err := f.ReadAt(end[:], size-8); n < len(end) {
		return err
	}
	if footer := binary.LittleEndian.Uint32(end[:]); string(end[4:]) != "PAR1" || int64(footer) > size-12 {
		return fmt.Errorf("it cannot be read as Parquet: it ends with %x, which is no end of a footer", end)
	}
	return nil
}

// begin is where the first page of a row group lies.
func begin(f *goparquet.File, group int) int64 {
	at := f.Size()
	for _, c := range f.Metadata().RowGroups[group].Columns {
		m := c.MetaData
		at = min(at, m.DataPageOffset)
		if m.DictionaryPageOffset > 0 {
			at = min(at, m.DictionaryPageOffset)
		}
	}
	// What is nowhere is at the beginning: one part has to read it.
	return max(0, min(at, f.Size()-1))
}

// group is a row group and the number of its first row in the file.
type group struct {
	goparquet.RowGroup
	first int64
}

// reader reads row groups one after the other.
type reader[T any] struct {
	file   file.ReaderAtCloser // nil for a file of no byte
	groups []group
	rows   *goparquet.GenericReader[T] // of the first group
	at     int64
}

// guard makes errors of panics: that is how the library meets some damage.
func guard(fn func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("it cannot be read as Parquet, it is damaged or of an unknown kind: %v", p)
		}
	}()
	return fn()
}

func (r *reader[T]) Read(into *splitreader.Batch[T], n int) error {
	return guard(func() error { return r.read(into, n) })
}

func (r *reader[T]) read(into *splitreader.Batch[T], n int) error {
	into.End = r.at
	if len(r.groups) == 0 {
		return io.EOF
	}
	if r.rows == nil {
		if err := r.openGroup(); err != nil {
			return err
		}
	}
	// A value that was read into before is not reused: it may be in use.
	into.Vals = slices.Grow(into.Vals[:0], n)[:n]
	clear(into.Vals)
	got, err := r.rows.Read(into.Vals)
	into.Vals = into.Vals[:got]
	for range got {
		r.at++
		into.Times = append(into.Times, connector.NoTimestamp)
		into.Ends = append(into.Ends, r.at)
	}
	into.End = r.at
	if errors.Is(err, io.EOF) {
		return r.closeGroup()
	}
	if err != nil {
		return fmt.Errorf("behind row %d: %w", r.at, err)
	}
	return nil
}

func (r *reader[T]) openGroup() error {
	g := r.groups[0]
	r.rows = goparquet.NewGenericRowGroupReader[T](g)
	r.at = max(r.at, g.first)
	if r.at == g.first {
		return nil
	}
	if err := r.rows.SeekToRow(r.at - g.first); err != nil {
		return fmt.Errorf("go to row %d: %w", r.at, err)
	}
	return nil
}

// closeGroup checks that a row group had as many rows as it was to have.
func (r *reader[T]) closeGroup() error {
	g := r.groups[0]
	if want := g.first + g.NumRows(); r.at != want {
		return fmt.Errorf("a row group ends at row %d instead of %d: the file is damaged", r.at, want)
	}
	r.groups = r.groups[1:]
	err := r.rows.Close()
	if r.rows = nil; err == nil && len(r.groups) == 0 {
		err = io.EOF
	}
	return err
}

func (r *reader[T]) Close() error {
	var err error
	if r.rows != nil {
		err = guard(r.rows.Close)
	}
	if r.file != nil {
		err = errors.Join(err, r.file.Close())
	}
	return err
}
