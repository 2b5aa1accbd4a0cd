// Package file reads files: lines, CSV, JSON, or what a Format of your own
// makes of them, plain or compressed, of the local file system or another
// Storage. Packages below it read Avro and Parquet.
//
// A file is read once, as it was when it was found, each record exactly once
// after failures, too; large files are read in ranges by several subtasks at
// the same time. Files are handed out in the order of their paths.
package file

import (
	"fmt"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/weirstream/weir/codec"
	"github.com/weirstream/weir/connector"
)

// Files reads files. It implements connector.Source.
type Files[T any] struct {
	format Format[T]
	config sourceConfig
}

// Option changes what a source does.
type Option func(*sourceConfig)

type sourceConfig struct {
	storage      Storage
	targets      []target
	ignored      []string
	compression  Compression
	splitSize    int64
	every        time.Duration // 0: bounded
	remember     time.Duration
	quiet        time.Duration
	skipVanished bool
	undecodable  func(Undecodable) error
	skip         bool
	err          error
}

const (
	defaultSplitSize = 64 << 20
	defaultRemember  = 24 * time.Hour
)

// Source reads the files that where names: a file; a directory, with all that
// is below it; or a pattern, whose elements are those of path.Match, and "**",
// which stands for any number of directories. Directories and wildcards leave
// out names that begin with "." or "_". Unless options say otherwise the
// source is bounded: it reads what is there at the first start.
//
// Without a timestamp of the format's (the formats here have none) records
// get theirs by a watermark strategy.
func Source[T any](where string, format Format[T], opts ...Option) *Files[T] {
	s := &Files[T]{format: format, config: sourceConfig{storage: Local(), splitSize: defaultSplitSize, remember: defaultRemember}}
	Paths(where)(&s.config)
	for _, opt := range opts {
		opt(&s.config)
	}
	switch c := &s.config; {
	case c.err != nil:
	case format == nil:
		c.err = invalid("file source: a format is needed, file.Lines() for example")
	case c.every > 0 && c.quiet >= c.remember:
		c.err = invalid(fmt.Sprintf("file source: file.QuietFor(%v) must be less than the %v that the source remembers files for; give file.Remember a longer time", c.quiet, c.remember))
	}
	return s
}

func (c *sourceConfig) fail(message string) {
	if c.err == nil {
		c.err = invalid("file source: " + message)
	}
}

// Paths reads these files, directories and patterns as well. A file that
// several of them name is read once.
func Paths(where ...string) Option {
	return func(c *sourceConfig) {
		for _, w := range where {
			t, err := newTarget(w)
			if err != nil && c.err == nil {
				c.err = err
			}
			c.targets = append(c.targets, t)
		}
	}
}

// In reads files of another storage. The default is Local.
func In(s Storage) Option {
	return func(c *sourceConfig) {
		if s == nil {
			c.fail("file.In without a storage")
		}
		c.storage = s
	}
}

// Ignore leaves out files whose name, without directories, matches one of the
// patterns (of path.Match): "*.tmp" for files that are being written.
func Ignore(patterns ...string) Option {
	return func(c *sourceConfig) {
		for _, p := range patterns {
			if _, err := path.Match(p, ""); err != nil {
				c.fail(fmt.Sprintf("pattern %q of file.Ignore: %v", p, err))
			}
		}
		c.ignored = append(c.ignored, patterns...)
	}
}

// Watch makes the source unbounded: it looks for new files every so often, and
// reads each once. A file is known by its path: one that is touched, or
// written on, is not read again. See Remember for how long a path is known.
func Watch(every time.Duration) Option {
	return func(c *sourceConfig) {
		if every <= 0 {
			c.fail(fmt.Sprintf("file.Watch(%v); give a time above 0", every))
		}
		c.every = every
	}
}

// Remember is how long a source that watches remembers the paths it has found:
// those of files written within that time before the newest file. New files
// older than that are not read (and logged, if they come while the job runs),
// and a path may be used again when its old file is older. Default 24 h.
func Remember(d time.Duration) Option {
	return func(c *sourceConfig) {
		if d <= 0 {
			c.fail(fmt.Sprintf("file.Remember(%v); give a time above 0", d))
		}
		c.remember = d
	}
}

// QuietFor takes files only when nothing was written to them for that long, by
// the clock of this machine. A bounded source leaves others out. Default 0:
// files must be complete when they appear, as those are that were renamed.
func QuietFor(d time.Duration) Option {
	return func(c *sourceConfig) { c.quiet = max(0, d) }
}

// SplitSize is how large the ranges are, in bytes, that large files are cut
// into, if their format allows for it and they are not compressed; 0 or less:
// files are not cut. Default 64 MiB.
func SplitSize(bytes int64) Option {
	return func(c *sourceConfig) { c.splitSize = max(0, bytes) }
}

// Compressed says how all the files are compressed. Default BySuffix.
func Compressed(how Compression) Option {
	return func(c *sourceConfig) {
		if how < BySuffix || how > Zstd {
			c.fail(fmt.Sprintf("file.Compressed(%d): there is no such compression", how))
			return
		}
		c.compression = how
	}
}

// SkipVanished goes on without what is left of files that are gone when they
// are to be read, counted as "filesVanished". By default they fail the job.
func SkipVanished() Option { return func(c *sourceConfig) { c.skipVanished = true } }

// SkipUndecodable drops records that cannot be decoded, counted as
// "recordsUndecodable". By default they fail the job with an
// UndecodableError.
func SkipUndecodable() Option { return func(c *sourceConfig) { c.skip = true } }

// Undecodable is a record that could not be decoded.
type Undecodable struct {
	// Path and Position are where it is, as in UndecodableError.
	Path     string
	Position int64
	// Raw are its bytes, as far as the format has them.
	Raw []byte
	// Err is the decoder's error.
	Err error
}

// OnUndecodable has a function deal with records that cannot be decoded, and
// goes on without them, counted as "recordsUndecodable"; its error fails the
// job. The function is called by one goroutine per subtask, and again for the
// same record after a failure.
func OnUndecodable(fn func(Undecodable) error) Option {
	return func(c *sourceConfig) { c.undecodable = fn }
}

// ignores says whether a file is left out by Ignore.
func (c *sourceConfig) ignores(file string) bool {
	name := path.Base(filepath.ToSlash(file))
	for _, p := range c.ignored {
		if ok, err := path.Match(p, name); ok && err == nil {
			return true
		}
	}
	return false
}

// where names what is read, for messages.
func (c *sourceConfig) where() string {
	names := make([]string, len(c.targets))
	for i, t := range c.targets {
		names[i] = t.where
	}
	return strings.Join(names, ", ")
}

// Bounded says whether the source ends by itself: unless Watch was given.
func (s *Files[T]) Bounded() bool { return s.config.every <= 0 }

// SplitCodec encodes splits.
func (s *Files[T]) SplitCodec() codec.Codec[Split] { return splitCodec{} }

// EnumeratorCodec encodes the enumerator's state.
func (s *Files[T]) EnumeratorCodec() codec.Codec[Enumeration] { return enumerationCodec{} }

// NewEnumerator makes the enumerator.
func (s *Files[T]) NewEnumerator(ctx connector.EnumeratorContext[Split], restored *Enumeration) (connector.Enumerator[Split, Enumeration], error) {
	if s.config.err != nil {
		return nil, s.config.err
	}
	return newEnumerator(ctx, &s.config, s.format.Splittable(), restored), nil
}

// NewReader makes the reader of one subtask.
func (s *Files[T]) NewReader(ctx connector.ReaderContext) (connector.Reader[T, Split], error) {
	if s.config.err != nil {
		return nil, s.config.err
	}
	return newReader(ctx, &s.config, s.format), nil
}
