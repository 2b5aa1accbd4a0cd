//go:build unix

package file

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirstream/weir/codec"
	"github.com/weirstream/weir/connector/connectortest"
	"github.com/weirstream/weir/connector/splitreader"
)

// corpus writes a file of lines of about size bytes and returns its path.
func corpus(b *testing.B, total, size int) string {
	b.Helper()
	var text bytes.Buffer
	for i := 0; text.Len() < total; i++ {
		fmt.Fprintf(&text, "%0*d\n", size-1-i%7, i)
	}
	path := filepath.Join(b.TempDir(), "lines")
	if err := os.WriteFile(path, text.Bytes(), 0o600); err != nil {
		b.Fatal(err)
	}
	return path
}

// BenchmarkLines compares, in one run: a bare bufio reader that makes strings,
// the format, and the whole source up to the engine's border.
func BenchmarkLines(b *testing.B) {
	for _, size := range []int{20, 100, 1000} {
		path := corpus(b, 64<<20, size)
		st, err := os.Stat(path)
		if err != nil {
			b.Fatal(err)
		}
		for _, way := range []struct {
			name string
			read func(*testing.B, string) int
		}{{"bufio", readBufio}, {"scanner", readScanner}, {"format", readFormat}, {"source", readSource}} {
			b.Run(fmt.Sprintf("%dB/%s", size, way.name), func(b *testing.B) {
				b.SetBytes(st.Size())
				b.ReportAllocs()
				before := cpu(b)
				for b.Loop() {
					if n := way.read(b, path); n < 1000 {
						b.Fatal(n)
					}
				}
				b.ReportMetric(float64(st.Size())*float64(b.N)/(cpu(b)-before).Seconds()/1e9, "GB/cpu-s")
			})
		}
	}
}

// cpu is the processor time of the process so far: what a machine that is busy
// otherwise does not change much.
func cpu(b *testing.B) time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// readBufio makes a string of each line.
func readBufio(b *testing.B, path string) (n int) {
	f, err := os.Open(path)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	for r := bufio.NewReaderSize(f, blockBytes); ; n++ {
		line, err := r.ReadString('\n')
		if errors.Is(err, io.EOF) {
			return n
		}
		kept = strings.TrimSuffix(line, "\n")
	}
}

func readScanner(b *testing.B, path string) (n int) {
	f, err := os.Open(path)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	s := bufio.NewScanner(f)
	for s.Scan() {
		kept = s.Text()
		n++
	}
	return n
}

// kept keeps the compiler from leaving work out.
var kept string

func readFormat(b *testing.B, path string) (n int) {
	info, err := Local().Stat(b.Context(), path)
	if err != nil {
		b.Fatal(err)
	}
	r, err := Lines().Open(NewPart(b.Context(), Local(), cut(info, 0)[0], BySuffix))
	if err != nil {
		b.Fatal(err)
	}
	defer r.Close()
	var into splitreader.Batch[string]
	for err == nil {
		into.Vals, into.Times, into.Ends = into.Vals[:0], into.Times[:0], into.Ends[:0]
		err = r.Read(&into, batchRecords)
		n += len(into.Vals)
	}
	return n
}

func readSource(b *testing.B, path string) (n int) {
	return drain(b, Source(path, Lines()))
}

func drain[T any](b *testing.B, src *Files[T]) (n int) {
	r, err := connectortest.StartSource(src, 1, nil, nil)
	if err != nil {
		b.Fatal(err)
	}
	defer r.Close()
	err = r.Until(b.Context(), func() bool {
		n += len(r.Records())
		r.Forget()
		return r.Ended()
	})
	if err != nil {
		b.Fatal(err)
	}
	return n
}

// BenchmarkDecoded reads values of lines of about 60 bytes.
func BenchmarkDecoded(b *testing.B) {
	var js, cs bytes.Buffer
	cs.WriteString("page,n\n")
	for i := range 500_000 {
		fmt.Fprintf(&js, "{\"page\":\"/products/category/%08d\",\"n\":%d}\n", i, i)
		fmt.Fprintf(&cs, "/products/category/with/a/longer/path/%08d,%d\n", i, i)
	}
	dir := b.TempDir()
	type row struct {
		Page string `csv:"page"`
		N    int    `csv:"n"`
	}
	for _, c := range []struct {
		name    string
		content []byte
		read    func(string) int
	}{
		{"JSON", js.Bytes(), func(path string) int { return drain(b, Source(path, JSONLines[click]())) }},
		{"CSV", cs.Bytes(), func(path string) int { return drain(b, Source(path, CSV[row]())) }},
		{"strings of codec", js.Bytes(), func(path string) int { return drain(b, Source(path, LinesOf(codec.String()))) }},
		{"lines.gz", []byte(gzipped(js.String())), func(path string) int { return drain(b, Source(path, Lines(), Compressed(Gzip))) }},
		{"lines.zst", []byte(zstded(js.String())), func(path string) int { return drain(b, Source(path, Lines(), Compressed(Zstd))) }},
	} {
		path := filepath.Join(dir, c.name)
		if err := os.WriteFile(path, c.content, 0o600); err != nil {
			b.Fatal(err)
		}
		b.Run(c.name, func(b *testing.B) {
			b.SetBytes(int64(js.Len()))
			b.ReportAllocs()
			for b.Loop() {
				if n := c.read(path); n != 500_000 {
					b.Fatal(n)
				}
			}
		})
	}
}
