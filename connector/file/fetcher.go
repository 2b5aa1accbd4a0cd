package file

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"runtime/debug"
	"slices"

	"github.com/weirstream/weir/codec"
	"github.com/weirstream/weir/connector/splitreader"
)

// batchRecords is how many records a batch has at most.
const batchRecords = 1024

// fetcher is the SplitReader: it reads one split after the other.
type fetcher[T any] struct {
	ctx    context.Context // ends with the reader, not with a fetch
	config *sourceConfig
	format Format[T]
	count  func(string, int64)
	log    *slog.Logger

	splits []*reading[T]
	paused map[string]bool

	warning splitreader.PanicWarning
}

// reading is a split and, once it was opened, what reads it.
type reading[T any] struct {
	Split
	id      string
	records RecordReader[T]
}

func (f *fetcher[T]) HandleSplits(added []Split) error {
	for _, s := range added {
		f.splits = append(f.splits, &reading[T]{Split: s, id: s.SplitID()})
	}
	return nil
}

func (f *fetcher[T]) PauseSplits(pause, resume []string) {
	for _, id := range pause {
		f.paused[id] = true
	}
	for _, id := range resume {
		delete(f.paused, id)
	}
}

// next returns the split to read, nil if all are paused.
func (f *fetcher[T]) next() *reading[T] {
	for _, r := range f.splits {
		if !f.paused[r.id] {
			return r
		}
	}
	return nil
}

func (f *fetcher[T]) Fetch(ctx context.Context, into *splitreader.Batch[T]) error {
	r := f.next()
	if r == nil {
		<-ctx.Done()
		return ctx.Err()
	}
	err := f.read(r, into)
	switch {
	case err == nil:
		return nil
	case f.ctx.Err() != nil:
		return f.ctx.Err()
	case errors.Is(err, fs.ErrNotExist) && f.config.skipVanished:
		f.log.Warn("file source skips what is left of a file that is gone", "file", r.Path, "position", r.Next)
		f.count("filesVanished", 1)
		*into = splitreader.Batch[T]{Vals: into.Vals[:0], Times: into.Times[:0], Ends: into.Ends[:0]}
		return f.finish(r, into)
	}
	return f.explain(r, err)
}

// read reads the next records of a split into the batch.
func (f *fetcher[T]) read(r *reading[T], into *splitreader.Batch[T]) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("reading it panicked: %v\n%s", p, debug.Stack())
		}
	}()
	if r.records == nil {
		if err := f.unchanged(r); err != nil {
			return err
		}
		if r.records, err = f.format.Open(f.part(r)); err != nil {
			return err
		}
	}
	into.Split = r.id
	err = r.records.Read(into, batchRecords)
	if errors.Is(err, io.EOF) {
		// A file that changed was perhaps cut short: its last records do not
		// go out. One that was deleted meanwhile has been read.
		if err := f.unchanged(r); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return f.finish(r, into)
	}
	return err
}

// unchanged checks that a file is the one that was found.
func (f *fetcher[T]) unchanged(r *reading[T]) error {
	now, err := f.config.storage.Stat(f.ctx, r.Path)
	if err != nil {
		return err
	}
	if !same(now, r.Info) {
		return &ChangedError{r.Info, now}
	}
	return nil
}

// explain makes the error of reading a split. Where a file ends too early the
// reason may be that it changed.
func (f *fetcher[T]) explain(r *reading[T], err error) error {
	var changed *ChangedError
	var bad *UndecodableError
	if errors.As(err, &changed) || errors.As(err, &bad) {
		return err
	}
	if cerr := f.unchanged(r); errors.As(cerr, &changed) {
		return cerr
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("it was found, and is gone before it was read to its end; bring it back, or let file.SkipVanished go on without it: %w", err)
	}
	return &ReadError{r.Path, err}
}

// part is a split as its format sees it.
func (f *fetcher[T]) part(r *reading[T]) *Part {
	p := NewPart(f.ctx, f.config.storage, r.Split, f.config.compression)
	p.warning = &f.warning
	failing := p.undecodable
	p.undecodable = func(position int64, raw []byte, err error) error {
		switch {
		case errors.Is(err, codec.ErrUnavailable):
			return fmt.Errorf("decode the record at position %d: %w", position, err)
		case f.config.undecodable != nil:
			bad := Undecodable{Path: p.Path, Position: position, Raw: slices.Clone(raw), Err: err}
			if err := f.config.undecodable(bad); err != nil {
				return fmt.Errorf("handler of undecodable records, at position %d: %w", position, err)
			}
		case !f.config.skip:
			return failing(position, raw, err)
		}
		f.count("recordsUndecodable", 1)
		return nil
	}
	return p
}

// finish ends a split with the batch.
func (f *fetcher[T]) finish(r *reading[T], into *splitreader.Batch[T]) error {
	into.Split, into.Finished = r.id, true
	f.splits = slices.DeleteFunc(f.splits, func(s *reading[T]) bool { return s == r })
	delete(f.paused, r.id)
	if r.records == nil {
		return nil
	}
	return r.records.Close()
}

func (f *fetcher[T]) Close() error {
	var err error
	for _, r := range f.splits {
		if r.records != nil {
			err = errors.Join(err, r.records.Close())
		}
	}
	f.splits = nil
	return err
}
