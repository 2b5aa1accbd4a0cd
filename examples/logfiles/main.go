// Command logfiles counts the lines of log files by level and minute. It reads
// whatever lies in a directory, plain files and compressed ones:
//
//	go run ./examples/logfiles run
//	go run ./examples/logfiles run --input /var/log/myapp --watch 10s --checkpoint-dir /tmp/logfiles
//
// A line is a time, a level and a text: 2026-03-01T12:00:03Z ERROR disk is full
package main

import (
	"bytes"
	"flag"
	"fmt"
	"time"

	"github.com/weirstream/weir/agg"
	"github.com/weirstream/weir/checkpoint"
	"github.com/weirstream/weir/codec"
	"github.com/weirstream/weir/connector/file"
	"github.com/weirstream/weir/runner"
	"github.com/weirstream/weir/stream"
	"github.com/weirstream/weir/watermark"
	"github.com/weirstream/weir/window"
)

// options are the flags of the job.
type options struct {
	input string
	watch time.Duration
}

func (o *options) define(f *flag.FlagSet) {
	f.StringVar(&o.input, "input", "examples/logfiles/testdata/logs", "directory, file or pattern to read")
	f.DurationVar(&o.watch, "watch", 0, "look for new files this often; 0 reads what is there and ends")
}

// entry is a line of a log.
type entry struct {
	At    time.Time
	Level string
	Text  string
}

// lineCodec is how an entry is written.
type lineCodec struct{}

func (lineCodec) Format() codec.Format { return codec.Format{ID: "logline", Version: 1} }

func (lineCodec) Append(dst []byte, e entry) ([]byte, error) {
	return fmt.Appendf(dst, "%s %s %s", e.At.Format(time.RFC3339Nano), e.Level, e.Text), nil
}

func (lineCodec) Decode(src []byte) (entry, error) {
	at, rest, ok := bytes.Cut(src, []byte(" "))
	level, text, _ := bytes.Cut(rest, []byte(" "))
	if !ok || len(level) == 0 {
		return entry{}, fmt.Errorf("%.40q is not a time, a level and a text", src)
	}
	t, err := time.Parse(time.RFC3339Nano, string(at))
	return entry{t, string(level), string(text)}, err
}

// count is how many lines of a level came in a minute.
type count struct {
	Minute time.Time
	Level  string
	Lines  int64
}

func (c count) String() string {
	return fmt.Sprintf("%s %-5s %d", c.Minute.UTC().Format("15:04"), c.Level, c.Lines)
}

// source reads the files, and leaves out lines that are no entries, counted.
func (o *options) source() *file.Files[entry] {
	opts := []file.Option{file.SkipUndecodable()}
	if o.watch > 0 {
		// Files that are still being written wait.
		opts = append(opts, file.Watch(o.watch), file.QuietFor(o.watch))
	}
	return file.Source(o.input, file.LinesOf[entry](lineCodec{}), opts...)
}

// times says when entries happened. Files that are read once may come in any
// order: event time stands still until all are read. New files bring it
// forward, and what is more than five minutes behind them is late.
func (o *options) times() watermark.Strategy[entry] {
	if o.watch > 0 {
		return watermark.Bounded(5*time.Minute, func(e entry) time.Time { return e.At })
	}
	return watermark.Strategy[entry]{}.WithTimestamps(func(e entry, _ int64) int64 { return e.At.UnixMilli() })
}

func (o *options) counts(job *stream.Job) stream.Stream[count] {
	job.Parallelism(2)
	if o.watch > 0 {
		job.Checkpoints(checkpoint.Options{Interval: time.Second})
	}
	entries := stream.From(job, "logs", o.source(), o.times())
	byLevel := stream.KeyBy(entries, func(e entry) string { return e.Level })
	return stream.Aggregate(byLevel, "per-minute", window.Tumbling(time.Minute), agg.Count[entry](),
		func(level string, w window.Span, n int64) count { return count{w.StartTime(), level, n} })
}

func main() {
	var o options
	runner.Main("logfiles", func(job *stream.Job) { stream.Print(o.counts(job), "lines") }, runner.Flags(o.define))
}
