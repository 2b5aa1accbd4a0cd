package file

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/weirstream/weir/codec"
)

// Begin is the Next of a split of which nothing was read.
const Begin int64 = -1

// Whole is the To of a split that goes to the end of a file of unknown length,
// a compressed one.
const Whole int64 = math.MaxInt64

// Split is a file, or a range of one.
type Split struct {
	// Info is the file as it was found: it must still be the same when it is
	// read.
	Info
	// From and To are the range of bytes, To exclusive.
	From, To int64
	// Next is the position of the next record: an offset or a number, as the
	// format counts, or Begin. Block is a second number, for formats that need it.
	Next, Block int64
}

// SplitID returns path and offset as "logs/a.log@0".
func (s Split) SplitID() string { return s.Path + "@" + strconv.FormatInt(s.From, 10) }

// Position says where reading goes on, for messages.
func (s Split) Position() string {
	switch {
	case s.Next == Begin:
		return "the beginning"
	case s.Block > 0:
		return fmt.Sprintf("position %d of block %d", s.Next, s.Block)
	}
	return "position " + strconv.FormatInt(s.Next, 10)
}

// At returns the split with its position.
func (s Split) At(next, block int64) Split {
	s.Next, s.Block = next, block
	return s
}

// cut makes the splits of a file; size is the largest, 0 for any.
func cut(f Info, size int64) []Split {
	if size <= 0 || f.Size <= size {
		return []Split{{Info: f, To: f.Size, Next: Begin}}
	}
	// Ranges of one size: the last one is not a crumb.
	n := (f.Size-1)/size + 1
	splits := make([]Split, 0, n)
	for i := range n {
		splits = append(splits, Split{Info: f, From: share(f.Size, i, n), To: share(f.Size, i+1, n), Next: Begin})
	}
	return splits
}

// share is where the i-th of n parts of size begins.
func share(size, i, n int64) int64 { return size/n*i + min(i, size%n) }

// Enumeration is the state of the enumerator.
type Enumeration struct {
	// Started says that the first discovery is done.
	Started bool
	// Seen are the files found that may be found again, Horizon the age of
	// those that need not be remembered: a file not listed in Seen and last
	// written before Horizon has been dealt with. Both are for continuous
	// sources.
	Seen    []Info
	Horizon time.Time
	// Unassigned are the splits that no reader has.
	Unassigned []Split
}

type splitCodec struct{}

func (splitCodec) Format() codec.Format { return codec.Format{ID: "weir.file.split", Version: 1} }

func (splitCodec) Append(dst []byte, s Split) ([]byte, error) { return appendSplit(dst, s), nil }

func (splitCodec) Decode(src []byte) (Split, error) {
	r := decoder{rest: src}
	s := r.split()
	if err := r.end(); err != nil {
		return Split{}, fmt.Errorf("split of a file source: %w", err)
	}
	return s, nil
}

type enumerationCodec struct{}

func (enumerationCodec) Format() codec.Format {
	return codec.Format{ID: "weir.file.enumeration", Version: 1}
}

func (enumerationCodec) Append(dst []byte, e Enumeration) ([]byte, error) {
	started := int64(0)
	if e.Started {
		started = 1
	}
	dst = binary.AppendVarint(dst, started)
	dst = appendTime(dst, e.Horizon)
	dst = binary.AppendVarint(dst, int64(len(e.Seen)))
	for _, f := range e.Seen {
		dst = appendInfo(dst, f)
	}
	dst = binary.AppendVarint(dst, int64(len(e.Unassigned)))
	for _, s := range e.Unassigned {
		dst = appendSplit(dst, s)
	}
	return dst, nil
}

func (enumerationCodec) Decode(src []byte) (Enumeration, error) {
	r := decoder{rest: src}
	e := Enumeration{Started: r.int() == 1, Horizon: r.time()}
	for n := r.count(); n > 0; n-- {
		e.Seen = append(e.Seen, r.info())
	}
	for n := r.count(); n > 0; n-- {
		e.Unassigned = append(e.Unassigned, r.split())
	}
	if err := r.end(); err != nil {
		return Enumeration{}, fmt.Errorf("enumerator of a file source: %w", err)
	}
	return e, nil
}

func appendSplit(dst []byte, s Split) []byte {
	dst = appendInfo(dst, s.Info)
	for _, v := range [...]int64{s.From, s.To, s.Next, s.Block} {
		dst = binary.AppendVarint(dst, v)
	}
	return dst
}

func appendInfo(dst []byte, f Info) []byte {
	dst = binary.AppendVarint(dst, int64(len(f.Path)))
	dst = append(dst, f.Path...)
	dst = binary.AppendVarint(dst, f.Size)
	return appendTime(dst, f.ModTime)
}

// appendTime keeps nanoseconds, and years that int64 nanoseconds have no room
// for: file systems hold such times, too.
func appendTime(dst []byte, t time.Time) []byte {
	dst = binary.AppendVarint(dst, t.Unix())
	return binary.AppendVarint(dst, int64(t.Nanosecond()))
}

// decoder reads what the functions above append; its first error stays.
type decoder struct {
	rest []byte
	err  error
}

func (d *decoder) fail(what string) {
	if d.err == nil {
		d.err = errors.New(what)
	}
	d.rest = nil
}

func (d *decoder) int() int64 {
	v, n := binary.Varint(d.rest)
	if n <= 0 {
		d.fail("truncated")
		return 0
	}
	d.rest = d.rest[n:]
	return v
}

// count reads a number of things that have a byte each at least.
func (d *decoder) count() int64 {
	n := d.int()
	if n < 0 || n > int64(len(d.rest)) {
		d.fail("a length that is none")
		return 0
	}
	return n
}

func (d *decoder) time() time.Time {
	sec, nano := d.int(), d.int()
	if nano < 0 || nano >= int64(time.Second) {
		d.fail("a time that is none")
	}
	return time.Unix(sec, nano)
}

func (d *decoder) info() Info {
	n := d.count()
	f := Info{Path: string(d.rest[:n])}
	d.rest = d.rest[n:]
	f.Size, f.ModTime = d.int(), d.time()
	if f.Size < 0 {
		d.fail("a negative size")
	}
	return f
}

func (d *decoder) split() Split {
	s := Split{Info: d.info(), From: d.int(), To: d.int(), Next: d.int(), Block: d.int()}
	if s.From < 0 || s.To < s.From || s.Next < Begin || s.Block < 0 {
		d.fail(fmt.Sprintf("range %d to %d at %d, %d makes no sense", s.From, s.To, s.Next, s.Block))
	}
	return s
}

func (d *decoder) end() error {
	if d.err == nil && len(d.rest) > 0 {
		return errors.New("bytes left over")
	}
	return d.err
}
