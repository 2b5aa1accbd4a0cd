package parquet

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	goparquet "github.com/parquet-go/parquet-go"
	"go.uber.org/goleak"

	"github.com/weirstream/weir/connector"
	"github.com/weirstream/weir/connector/connectortest"
	"github.com/weirstream/weir/connector/file"
	"github.com/weirstream/weir/connector/splitreader"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type visit struct {
	User string  `parquet:"user"`
	N    int64   `parquet:"n"`
	Note *string `parquet:"note,optional"`
}

func visits(n int) []visit {
	vals := make([]visit, n)
	for i := range vals {
		vals[i] = visit{User: fmt.Sprintf("user-%d", i), N: int64(i)}
		if i%3 == 0 {
			note := fmt.Sprintf("note %d", i)
			vals[i].Note = &note
		}
	}
	return vals
}

// written makes a file with row groups of perGroup rows.
func written[T any](t testing.TB, vals []T, perGroup int, opts ...goparquet.WriterOption) []byte {
	t.Helper()
	var b bytes.Buffer
	w := goparquet.NewGenericWriter[T](&b, opts...)
	for group := range slices.Chunk(vals, perGroup) {
		if _, err := w.Write(group); err != nil {
			t.Fatal(err)
		}
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func source[T any](content []byte, opts ...file.Option) *file.Files[T] {
	fsys := fstest.MapFS{"d/f.parquet": {Data: content, ModTime: time.Unix(1, 0)}}
	return file.Source("d", Format[T](), append([]file.Option{file.In(file.FS(fsys))}, opts...)...)
}

func read[T any](t testing.TB, src *file.Files[T]) ([]T, error) {
	t.Helper()
	r, err := connectortest.StartSource(src, 2, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	err = r.Run(ctx)
	return r.Values(), err
}

func keys(vals []visit) []string {
	k := make([]string, len(vals))
	for i, v := range vals {
		k[i] = key(v)
	}
	return k
}

func key(v visit) string {
	if v.Note == nil {
		return fmt.Sprintf("%s %d", v.User, v.N)
	}
	return fmt.Sprintf("%s %d %s", v.User, v.N, *v.Note)
}

func TestRows(t *testing.T) {
	want := visits(5000)
	for _, opts := range [][]goparquet.WriterOption{
		nil,
		{goparquet.Compression(&goparquet.Snappy)},
		{goparquet.Compression(&goparquet.Zstd), goparquet.DataPageVersion(2)},
		{goparquet.PageBufferSize(256)},
	} {
		for _, perGroup := range []int{5000, 700} {
			got, err := read(t, source[visit](written(t, want, perGroup, opts...)))
			if err != nil || !slices.Equal(keys(got), keys(want)) {
				t.Errorf("groups of %d rows: %d values, %v", perGroup, len(got), err)
			}
		}
	}
	for _, content := range [][]byte{nil, written[visit](t, nil, 1)} {
		if got, err := read(t, source[visit](content)); err != nil || len(got) != 0 {
			t.Errorf("a file of no row: %v, %v", got, err)
		}
	}
}

// TestRanges cuts a file into ranges of every size.
func TestRanges(t *testing.T) {
	want := visits(60)
	content := written(t, want, 7)
	for size := int64(40); size < int64(len(content)); size += 1 + size/4 {
		got, err := read(t, source[visit](content, file.SplitSize(size)))
		slices.SortFunc(got, func(a, b visit) int { return int(a.N - b.N) })
		if err != nil || !slices.Equal(keys(got), keys(want)) {
			t.Fatalf("ranges of %d of %d bytes: %d values, %v", size, len(content), len(got), err)
		}
	}
}

func TestColumnsAreMatchedByName(t *testing.T) {
	type narrow struct {
		N     int64  `parquet:"n"`
		Added string `parquet:"added"`
		User  string `parquet:"user"`
	}
	got, err := read(t, source[narrow](written(t, visits(3), 2)))
	if err != nil || !slices.Equal(got, []narrow{{0, "", "user-0"}, {1, "", "user-1"}, {2, "", "user-2"}}) {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestDamagedFiles(t *testing.T) {
	content := written(t, visits(200), 50, goparquet.Compression(&goparquet.Snappy))
	damaged := bytes.Clone(content)
	for i := 40; i < 400; i++ {
		damaged[i] ^= 0x5a
	}
	for name, src := range map[string]*file.Files[visit]{
		"no Parquet": source[visit]([]byte("Obj something else, long enough")),
		"cut":        source[visit](content[:len(content)-10]),
		"short":      source[visit](content[:3]),
		"damaged":    source[visit](damaged),
		"gzip":       source[visit](content, file.Compressed(file.Gzip)),
	} {
		t.Run(name, func(t *testing.T) {
			got, err := read(t, src)
			if err == nil || !strings.Contains(err.Error(), "d/f.parquet") {
				t.Errorf("%d values, %v", len(got), err)
			}
		})
	}
}

func TestSource(t *testing.T) {
	content := written(t, visits(30), 8)
	connectortest.TestSource(t, connectortest.SourceSuite[visit, file.Split, file.Enumeration]{
		New: func() connector.Source[visit, file.Split, file.Enumeration] {
			return source[visit](content, file.SplitSize(int64(len(content)/3)))
		},
		Want: visits(30),
		Key:  key,
		Time: func(v visit) int64 { return v.N },
	})
}

// FuzzFile reads anything as a Parquet file.
func FuzzFile(f *testing.F) {
	f.Add(written(f, visits(7), 3))
	f.Add(written(f, visits(7), 3, goparquet.Compression(&goparquet.Snappy)))
	f.Fuzz(func(t *testing.T, content []byte) {
		s := file.Split{Info: file.Info{Path: "f", Size: int64(len(content))}, To: int64(len(content)), Next: file.Begin}
		storage := file.FS(fstest.MapFS{"f": {Data: content}})
		r, err := Format[visit]().Open(file.NewPart(t.Context(), storage, s, file.Uncompressed))
		if err != nil {
			return
		}
		var into splitreader.Batch[visit]
		for err == nil {
			into.Vals, into.Times, into.Ends = into.Vals[:0], into.Times[:0], into.Ends[:0]
			err = r.Read(&into, 100)
		}
		_ = r.Close()
	})
}
