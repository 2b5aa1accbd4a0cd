package file

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/weirstream/weir/connector/splitreader"
)

func TestF06ConcatenatedAndTruncated(t *testing.T) {
	for _, c := range []struct {
		suffix string
		pack   func(...string) string
	}{{".gz", gzipped}, {".zst", zstded}} {
		t.Run(c.suffix, func(t *testing.T) {
			name := "in/f" + c.suffix
			src := func(content string) *Files[string] {
				return Source(name, Lines(), In(FS(files(name, content))))
			}
			want(t, read(t, src(c.pack("a\n", "b\n"))), "a", "b")
			want(t, read(t, src(c.pack("a", "b\nc"))), "ab", "c")
			want(t, read(t, src(""))) // empty, compressed or not
			want(t, read(t, src(c.pack(""))))

			whole := c.pack(strings.Repeat("some text\n", 1000))
			for cut := 1; cut < len(whole); cut++ {
				err := fails(t, src(whole[:cut]))
				if !errors.Is(err, io.ErrUnexpectedEOF) {
					t.Fatalf("cut to %d of %d bytes: %v", cut, len(whole), err)
				}
				wantError(t, err, name, "unexpected end of compressed data")
			}
			wantError(t, fails(t, src("this is no compressed text")), name, "compressed data")
		})
	}
}

func TestCompressionByOption(t *testing.T) {
	want(t, read(t, Source("f", Lines(), In(FS(files("f", gzipped("a\n")))), Compressed(Gzip))), "a")
	want(t, read(t, Source("f.gz", Lines(), In(FS(files("f.gz", "a\n"))), Compressed(Uncompressed))), "a")
}

// TestCompressedFilesAreNotCut gives a small split size.
func TestCompressedFilesAreNotCut(t *testing.T) {
	text := strings.Repeat("line\n", 50)
	r := start(t, Source("*", Lines(), In(FS(files("f.gz", gzipped(text), "g", text))), SplitSize(100)), 1, nil, nil)
	r.toEnd()
	var ids []string
	for _, e := range r.Records() {
		if !slices.Contains(ids, e.Split) {
			ids = append(ids, e.Split)
		}
	}
	want(t, ids, "f.gz@0", "g@0", "g@84", "g@167")
}

// FuzzCompressedResume packs a text as members of any size and reads it from
// every line on.
func FuzzCompressedResume(f *testing.F) {
	f.Add("one\ntwo\n\nthree", uint8(3), uint8(1), true)
	f.Add("\ufeffone\r\ntwo", uint8(5), uint8(2), false)
	f.Fuzz(func(t *testing.T, text string, member, n uint8, gz bool) {
		if len(text) > 200 {
			return
		}
		var members []string
		for m := range slices.Chunk([]byte(text), int(member)+1) {
			members = append(members, string(m))
		}
		name, packed := "f.zst", zstded(members...)
		if gz {
			name, packed = "f.gz", gzipped(members...)
		}
		plain := readResuming(t, Lines(), cut(Info{Path: "f", Size: int64(len(text))}, 0)[0], FS(files("f", text)), 1000)
		got := readResuming(t, Lines(), Split{Info: Info{Path: name, Size: int64(len(packed))}, To: Whole, Next: Begin}, FS(files(name, packed)), int(n)+1)
		if !slices.Equal(got, plain) {
			t.Errorf("%q: %q, want %q", text, got, plain)
		}
	})
}

// FuzzCompressedBytes reads what is no compressed file, or a damaged one.
func FuzzCompressedBytes(f *testing.F) {
	f.Add([]byte(gzipped("a\n", "b\n")), true)
	f.Add([]byte(zstded("a\n", "b\n")), false)
	f.Fuzz(func(t *testing.T, content []byte, gz bool) {
		name := "f.zst"
		if gz {
			name = "f.gz"
		}
		s := Split{Info: Info{Path: name, Size: int64(len(content))}, To: Whole, Next: Begin}
		r, err := Lines(MaxLine(1 << 16)).Open(NewPart(t.Context(), FS(files(name, string(content))), s, BySuffix))
		if err != nil {
			return
		}
		var into splitreader.Batch[string]
		for err == nil {
			into.Vals, into.Times, into.Ends = into.Vals[:0], into.Times[:0], into.Ends[:0]
			err = r.Read(&into, 100)
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

// TestResumeCompressedAtAShorterFile restores a position that is not there.
func TestResumeCompressedAtAShorterFile(t *testing.T) {
	packed := gzipped("a\n")
	s := Split{Info: Info{Path: "f.gz", Size: int64(len(packed))}, To: Whole, Next: 10}
	_, err := Lines().Open(NewPart(t.Context(), FS(files("f.gz", packed)), s, BySuffix))
	wantError(t, err, fmt.Sprint("it has ", 2, " bytes"), "from 10 on")
}
