package file

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/weirstream/weir/codec"
	"github.com/weirstream/weir/connector"
	"github.com/weirstream/weir/connector/connectortest"
	"github.com/weirstream/weir/connector/splitreader"
)

var lineCases = []struct {
	content string
	lines   []string
}{
	{"foo\r\nbar", []string{"foo", "bar"}},
	{"a\n\nb", []string{"a", "", "b"}},
	{"a\nb\n", []string{"a", "b"}},
	{"", nil},
	{"\n", []string{""}},
	{"\r\n", []string{""}},
	{"a\rb", []string{"a\rb"}},
	{"a\r", []string{"a\r"}},
	{"a\r\r\n", []string{"a\r"}},
	{"x\u00e9\u4e16\U0001F600\ny", []string{"x\u00e9\u4e16\U0001F600", "y"}},
	{"\ufeffa\n\ufeffb\n", []string{"a", "\ufeffb"}},
	{"\ufeff", nil},
	{"\xef\xbb", []string{"\xef\xbb"}},
	{"one\ntwo\r\nthree\n\n\nfour", []string{"one", "two", "three", "", "", "four"}},
}

func TestF03Lines(t *testing.T) {
	for _, c := range lineCases {
		for chunk := 1; chunk <= 16; chunk++ {
			storage := chunked{FS(files("f", c.content)), chunk}
			want(t, read(t, Source("f", Lines(blockOf(chunk)), In(storage))), c.lines...)
			want(t, read(t, Source("f", LinesOf(codec.String(), blockOf(chunk)), In(storage))), nonEmpty(c.lines)...)
		}
	}
}

// TestF03LinesOfRanges cuts the files at every place.
func TestF03LinesOfRanges(t *testing.T) {
	for _, c := range lineCases {
		for size := int64(1); size <= 9; size++ {
			for _, parallelism := range []int{1, 3} {
				r := start(t, Source("f", Lines(blockOf(4)), In(FS(files("f", c.content))), SplitSize(size)), parallelism, nil, nil)
				if got := inOrder(t, r); !slices.Equal(got, c.lines) {
					t.Errorf("%q in ranges of %d: %q, want %q", c.content, size, got, c.lines)
				}
				r.close()
			}
		}
	}
}

// inOrder runs to the end and returns the values in the order of the splits.
func inOrder(t *testing.T, r *run[string]) []string {
	t.Helper()
	r.toEnd()
	bySplit := map[string][]string{}
	for _, e := range r.Records() {
		bySplit[fmt.Sprintf("%12s", e.Split)] = append(bySplit[fmt.Sprintf("%12s", e.Split)], e.Value)
	}
	var ids, all []string
	for id := range bySplit {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	for _, id := range ids {
		all = append(all, bySplit[id]...)
	}
	return all
}

func TestF03LongLine(t *testing.T) {
	long := strings.Repeat("x", 3<<20)
	got := read(t, Source("f", Lines(), In(FS(files("f", "a\n"+long+"\nb\n")))))
	if len(got) != 3 || got[1] != long || got[2] != "b" {
		t.Fatalf("%d lines, the second of %d bytes", len(got), len(got[1]))
	}
	got = read(t, Source("f", Lines(), In(FS(files("f", long)))))
	if len(got) != 1 || len(got[0]) != 3145728 {
		t.Fatalf("%d lines, the first of %d bytes", len(got), len(got[0]))
	}
}

func TestLineLimit(t *testing.T) {
	for _, block := range []int{2, 64} {
		src := func(content string) *Files[string] {
			return Source("d/f", Lines(MaxLine(10), blockOf(block)), In(FS(files("d/f", content))))
		}
		want(t, read(t, src("0123456789\r\n0123456789\n0123456789")), "0123456789", "0123456789", "0123456789")
		for _, content := range []string{"ab\n0123456789X\nc\n", "ab\n0123456789X"} {
			wantError(t, fails(t, src(content)), "d/f", "offset 3", "longer than 10 bytes", "file.MaxLine")
		}
		decoded := Source("d/f", LinesOf(codec.String(), MaxLine(10), blockOf(block)), In(FS(files("d/f", "ab\n0123456789X\nc\n"))))
		wantError(t, fails(t, decoded), "d/f", "offset 3", "longer than 10 bytes", "file.MaxLine")
	}
}

type click struct {
	Page string `json:"page"`
	N    int    `json:"n"`
}

func TestJSONLines(t *testing.T) {
	content := "{\"page\":\"a\",\"n\":1}\r\n\n  \t\n {\"page\":\"b\",\"n\":2}\n{\"page\":\"c\"}"
	want(t, read(t, Source("f", JSONLines[click](), In(FS(files("f", content))))), click{"a", 1}, click{"b", 2}, click{"c", 0})
}

func TestF14UndecodableLines(t *testing.T) {
	content := "{\"n\":1}\n{\"n\":2}\n{\"n\":{\"x\":1}}\n{\"n\":4}\n"
	storage := In(FS(files("in/f", content)))
	err := fails(t, Source("in/f", JSONLines[click](), storage))
	wantError(t, err, "in/f", "position 16", "file.SkipUndecodable")

	r := start(t, Source("in/f", JSONLines[click](), storage, SkipUndecodable()), 1, nil, nil)
	want(t, r.toEnd(), click{"", 1}, click{"", 2}, click{"", 4})
	if n := r.Context.Counter("recordsUndecodable"); n != 1 {
		t.Errorf("%d records counted as undecodable, want 1", n)
	}

	var bad []Undecodable
	got := read(t, Source("in/f", JSONLines[click](), storage, OnUndecodable(func(u Undecodable) error {
		bad = append(bad, u)
		return nil
	})))
	if len(got) != 3 || len(bad) != 1 || bad[0].Path != "in/f" || bad[0].Position != 16 || string(bad[0].Raw) != `{"n":{"x":1}}` || bad[0].Err == nil {
		t.Errorf("%d values, undecodable: %+v", len(got), bad)
	}

	refuse := OnUndecodable(func(Undecodable) error { return fmt.Errorf("no more") })
	wantError(t, fails(t, Source("in/f", JSONLines[click](), storage, refuse)), "in/f", "position 16", "no more")
}

// remote is a codec that needs something to decode "far", which is away.
type remote struct{ codec.Codec[string] }

func (r remote) Decode(src []byte) (string, error) {
	switch string(src) {
	case "bad":
		return "", errors.New("a bad value")
	case "far":
		return "", fmt.Errorf("the registry is away: %w", codec.ErrUnavailable)
	}
	return string(src), nil
}

// A record is not to blame, and not skipped, where the codec lacks something
// else.
func TestUnavailableIsNotUndecodable(t *testing.T) {
	storage := In(FS(files("in/f", "a\nbad\nfar\nb\n")))
	r := start(t, Source("in/f", LinesOf[string](remote{codec.String()}), storage, SkipUndecodable()), 1, nil, nil)
	err := r.Run(deadline(t))
	wantError(t, err, "in/f", "position 6", "the registry is away")
	if bad := (*UndecodableError)(nil); errors.As(err, &bad) {
		t.Errorf("got %v", bad)
	}
	if n := r.Context.Counter("recordsUndecodable"); n != 1 {
		t.Errorf("%d records counted as undecodable, want 1", n)
	}
}

type exploding struct{ codec.Codec[string] }

func (e exploding) Decode(src []byte) (string, error) {
	if string(src) == "bomb" {
		panic("boom")
	}
	return string(src), nil
}

func TestPanicOfACodecIsTheRecordsFault(t *testing.T) {
	src := func(opts ...Option) *Files[string] {
		return Source("f", LinesOf[string](exploding{codec.String()}), append(opts, In(FS(files("f", "a\nbomb\nb\n"))))...)
	}
	wantError(t, fails(t, src()), "position 2", "boom")
	want(t, read(t, src(SkipUndecodable())), "a", "b")
}

// batches decodes lines together as a function says.
type batches struct {
	codec.Codec[string]
	fn func(dst []string, srcs [][]byte) []string
}

func (b batches) DecodeBatch(dst []string, srcs [][]byte) ([]string, error) {
	return b.fn(dst, srcs), nil
}

// TestBatchDecoderOfAnotherNumberOfValues: a line must not be lost, nor get the
// position of another one.
func TestBatchDecoderOfAnotherNumberOfValues(t *testing.T) {
	for count, fn := range map[string]func([]string, [][]byte) []string{
		"appended 2 values for 3 records": func(dst []string, _ [][]byte) []string { return append(dst, "a", "b") },
		"appended 4 values for 3 records": func(dst []string, _ [][]byte) []string { return append(dst, "a", "b", "c", "d") },
	} {
		src := Source("f", LinesOf[string](batches{codec.String(), fn}), SkipUndecodable(), In(FS(files("f", "a\nb\nc\n"))))
		wantError(t, fails(t, src), "file.batches", count)
	}
}

func TestPanicOfABatchDecoderIsLoggedOnce(t *testing.T) {
	panics := batches{codec.String(), func([]string, [][]byte) []string { panic("too many") }}
	var log bytes.Buffer
	ctx := &connectortest.Context{Ctx: t.Context(), Log: logTo(&log)}
	r := start(t, Source("f", LinesOf[string](panics), In(FS(files("f", "a\nb\nc\n"))), SplitSize(2)), 1, nil, ctx)
	want(t, r.toEnd(), "a", "b", "c")
	if got := log.String(); strings.Count(got, "DecodeBatch panicked") != 1 || !strings.Contains(got, `panic="too many"`) || !strings.Contains(got, "codec=file.batches") {
		t.Errorf("logged %s", got)
	}
}

// TestLinesAllocateByTheBlock reads lines without an allocation for each.
func TestLinesAllocateByTheBlock(t *testing.T) {
	content := bytes.Repeat([]byte("a line of forty bytes, the end included\n"), 40_000)
	part := NewPart(t.Context(), FS(files("f", string(content))), cut(Info{Path: "f", Size: int64(len(content))}, 0)[0], BySuffix)
	var into splitreader.Batch[string]
	lines := 0
	allocs := testing.AllocsPerRun(1, func() {
		r, err := Lines().Open(part)
		if err != nil {
			t.Fatal(err)
		}
		for err == nil {
			err = r.Read(&into, 1024)
			lines += len(into.Vals)
			into.Vals, into.Times, into.Ends = into.Vals[:0], into.Times[:0], into.Ends[:0]
		}
		_ = r.Close()
	})
	if lines != 80_000 || allocs > 100 {
		t.Errorf("%d lines in two runs, %v allocations in one", lines, allocs)
	}
}

// FuzzLines reads a file in ranges, from every position on, and compares with
// strings.Split.
func FuzzLines(f *testing.F) {
	for _, c := range lineCases {
		f.Add(c.content, uint8(3), uint8(2), uint8(5))
	}
	f.Fuzz(func(t *testing.T, content string, size, block, n uint8) {
		if len(content) > 300 {
			return // every range reads what lies before
		}
		var whole []string
		text := strings.TrimPrefix(content, "\ufeff")
		if text != "" {
			whole = strings.Split(strings.TrimSuffix(text, "\n"), "\n")
			for i, l := range whole {
				if i < len(whole)-1 || strings.HasSuffix(text, "\n") {
					whole[i] = strings.TrimSuffix(l, "\r")
				}
			}
		}
		info := Info{Path: "f", Size: int64(len(content))}
		storage := FS(files("f", content))
		var got []string
		for _, s := range cut(info, int64(size)) {
			got = append(got, readResuming(t, Lines(blockOf(int(block)+1)), s, storage, int(n)+1)...)
		}
		if !slices.Equal(got, whole) {
			t.Errorf("%q in ranges of %d: %q, want %q", content, size, got, whole)
		}
	})
}

// readResuming reads a split, n records at a time, each time from where the
// last ended.
func readResuming[T any](t *testing.T, f Format[T], s Split, storage Storage, n int) (all []T) {
	t.Helper()
	for {
		r, err := f.Open(NewPart(t.Context(), storage, s, BySuffix))
		if err != nil {
			t.Fatal(err)
		}
		var into splitreader.Batch[T]
		err = r.Read(&into, n)
		if cerr := r.Close(); cerr != nil {
			t.Fatal(cerr)
		}
		if len(into.Vals) != len(into.Times) || len(into.Vals) != len(into.Ends) || len(into.Vals) > n {
			t.Fatalf("%d values, %d times, %d ends; asked for %d", len(into.Vals), len(into.Times), len(into.Ends), n)
		}
		for i, at := range into.Times {
			if at != connector.NoTimestamp || into.Ends[i] > into.End {
				t.Fatalf("time %d, end %d of %d", at, into.Ends[i], into.End)
			}
		}
		all = append(all, into.Vals...)
		if isEOF(err) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		s = s.At(into.End, into.Epoch)
	}
}

func nonEmpty(lines []string) (kept []string) {
	for _, l := range lines {
		if strings.Trim(l, " \t\r") != "" {
			kept = append(kept, l)
		}
	}
	return kept
}
