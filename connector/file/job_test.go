package file_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	"github.com/weirstream/weir/checkpoint"
	"github.com/weirstream/weir/connector/collect"
	"github.com/weirstream/weir/connector/file"
	"github.com/weirstream/weir/internal/jobtest"
	"github.com/weirstream/weir/runner/embedded"
	"github.com/weirstream/weir/stream"
)

// TestF01ExactlyOnceThroughFailures runs a job over plain, cut and compressed
// files whose function fails again and again while checkpoints are taken.
func TestF01ExactlyOnceThroughFailures(t *testing.T) {
	fsys, want := fstest.MapFS{}, []string(nil)
	for i := range 12 {
		var text bytes.Buffer
		for j := range 3000 {
			line := fmt.Sprintf("%02d-%05d", i, j)
			want = append(want, line)
			fmt.Fprintln(&text, line)
		}
		name, content := fmt.Sprintf("in/%02d", i), text.Bytes()
		if i%3 == 0 {
			var packed bytes.Buffer
			w := gzip.NewWriter(&packed)
			_, _ = w.Write(content)
			_ = w.Close()
			name, content = name+".gz", packed.Bytes()
		}
		fsys[name] = &fstest.MapFile{Data: content, ModTime: time.Unix(1, 0)}
	}

	const failures = 8
	var seen, failed atomic.Int64
	out := collect.NewExactlyOnce[string]()
	build := func(job *stream.Job) {
		lines := stream.From(job, "lines", file.Source("in", file.Lines(), file.In(file.FS(fsys)), file.SplitSize(7000)))
		stream.To(stream.TryMap(lines, func(line string) (string, error) {
			if seen.Add(1)%4001 == 0 && failed.Add(1) <= failures {
				return "", errors.New("now and then")
			}
			return line, nil
		}), "out", out)
	}
	jobtest.Run(t, embedded.Options{
		Parallelism: 3,
		Checkpoint:  checkpoint.Options{Dir: "memory:", Interval: time.Millisecond},
		Restart:     checkpoint.FixedDelay{Attempts: failures, Delay: time.Microsecond},
	}, build)

	got := out.Values()
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("%d lines, want %d, each once", len(got), len(want))
	}
	if n := failed.Load(); n < failures {
		t.Errorf("%d failures, want %d", n, failures)
	}
}
