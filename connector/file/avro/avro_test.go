package avro

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	goavro "github.com/twmb/avro"
	"github.com/twmb/avro/ocf"
	"go.uber.org/goleak"

	"github.com/weirstream/weir/connector"
	"github.com/weirstream/weir/connector/connectortest"
	"github.com/weirstream/weir/connector/file"
	"github.com/weirstream/weir/connector/splitreader"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type visit struct {
	User  string  `avro:"user"`
	N     int64   `avro:"n"`
	Score float64 `avro:"score"`
}

func visits(n int) []visit {
	vals := make([]visit, n)
	for i := range vals {
		vals[i] = visit{fmt.Sprintf("user-%d", i), int64(i), float64(i) / 2}
	}
	return vals
}

// container writes an object container file with blocks of perBlock values.
func container[T any](t testing.TB, vals []T, perBlock int, opts ...ocf.WriterOpt) []byte {
	t.Helper()
	schema, err := goavro.SchemaFor[T](goavro.WithName("visit"))
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	w, err := ocf.NewWriter(&b, schema, append(opts, ocf.WithBlockCount(perBlock))...)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range vals {
		if err := w.Encode(&v); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func source[T any](content []byte, opts ...file.Option) *file.Files[T] {
	fsys := fstest.MapFS{"d/f.avro": {Data: content, ModTime: time.Unix(1, 0)}}
	return file.Source("d", Format[T](), append(opts, file.In(file.FS(fsys)))...)
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

func TestCodecs(t *testing.T) {
	want := visits(500)
	for _, codec := range []ocf.Codec{null{}, ocf.DeflateCodec(6), ocf.SnappyCodec(), ocf.MustZstdCodec(nil, nil)} {
		got, err := read(t, source[visit](container(t, want, 30, ocf.WithCodec(codec))))
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %d values, %v", codec.Name(), len(got), err)
		}
	}
	if got, err := read(t, source[visit](nil)); err != nil || len(got) != 0 {
		t.Errorf("a file of no byte: %v, %v", got, err)
	}
	if got, err := read(t, source[visit](container[visit](t, nil, 1))); err != nil || len(got) != 0 {
		t.Errorf("a file of no value: %v, %v", got, err)
	}
}

// TestRanges cuts a file into ranges of every size.
func TestRanges(t *testing.T) {
	want := visits(40)
	content := container(t, want, 3)
	for size := int64(1); size < int64(len(content)); size += 1 + size/8 {
		got, err := read(t, source[visit](content, file.SplitSize(size)))
		slices.SortFunc(got, func(a, b visit) int { return int(a.N - b.N) })
		if err != nil || !slices.Equal(got, want) {
			t.Fatalf("ranges of %d of %d bytes: %d values, %v", size, len(content), len(got), err)
		}
	}
}

func TestFieldsAreMatchedByName(t *testing.T) {
	type narrow struct {
		N     int32  `avro:"n"`
		User  string `avro:"user"`
		Added string `avro:"added"`
	}
	got, err := read(t, source[narrow](container(t, visits(2), 10)))
	if err != nil || !slices.Equal(got, []narrow{{0, "user-0", ""}, {1, "user-1", ""}}) {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestNestedFieldsAreMatchedByName(t *testing.T) {
	type place struct {
		City string `avro:"city"`
		Zip  int64  `avro:"zip"`
	}
	type wide struct {
		ID     string           `avro:"id"`
		Home   *place           `avro:"home"`
		Places []place          `avro:"places"`
		By     map[string]place `avro:"by"`
	}
	type city struct {
		City string `avro:"city"`
	}
	type narrow struct {
		Home *city           `avro:"home"`
		By   map[string]city `avro:"by"`
	}
	content := container(t, []wide{{ID: "a", Home: &place{"Ulm", 89073}, By: map[string]place{"x": {"Bonn", 53111}}}, {ID: "b"}}, 10)
	got, err := read(t, source[narrow](content))
	if err != nil || len(got) != 2 || got[0].Home.City != "Ulm" || got[0].By["x"].City != "Bonn" || got[1].Home != nil {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestDamagedFiles(t *testing.T) {
	content := container(t, visits(20), 5)
	marker := content[len(content)-16:]
	first := bytes.Index(content, marker) + 16
	replace := func(at int, with string) []byte {
		b := bytes.Clone(content)
		copy(b[at:], with)
		return b
	}
	for name, c := range map[string]struct {
		content []byte
		parts   []string
	}{
		"no Avro":     {[]byte("PAR1 something else"), []string{"not an Avro object container file"}},
		"codec":       {bytes.Replace(container(t, visits(2), 5, ocf.WithCodec(ocf.SnappyCodec())), []byte("\x0csnappy"), []byte("\x0cslappy"), 1), []string{"slappy"}},
		"marker":      {replace(len(content)-16, "damaged marker!!"), []string{"no marker"}},
		"block size":  {replace(first+1, "\xfe\xff\xff\xff\x7f"), []string{fmt.Sprint("block at offset ", first)}},
		"cut header":  {content[:20], []string{"header", "unexpected EOF"}},
		"cut block":   {content[:len(content)-20], []string{"block at offset", "unexpected EOF"}},
		"value count": {replace(first, "\x0c"), []string{fmt.Sprint("block at offset ", first)}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := read(t, source[visit](c.content))
			if err == nil {
				t.Fatal("no error")
			}
			for _, p := range append(c.parts, "d/f.avro") {
				if !strings.Contains(err.Error(), p) {
					t.Errorf("%q does not say %q", err, p)
				}
			}
		})
	}
}

func TestSource(t *testing.T) {
	content := container(t, visits(30), 4, ocf.WithCodec(ocf.DeflateCodec(1)))
	connectortest.TestSource(t, connectortest.SourceSuite[visit, file.Split, file.Enumeration]{
		New: func() connector.Source[visit, file.Split, file.Enumeration] {
			return source[visit](content, file.SplitSize(int64(len(content)/3)))
		},
		Want: visits(30),
		Time: func(v visit) int64 { return v.N },
	})
}

// FuzzContainer reads anything as a container file, in two ranges.
func FuzzContainer(f *testing.F) {
	f.Add(container(f, visits(7), 3), uint16(100))
	f.Add(container(f, visits(7), 3, ocf.WithCodec(ocf.SnappyCodec())), uint16(50))
	f.Add(container(f, visits(7), 3, ocf.WithCodec(ocf.MustZstdCodec(nil, nil))), uint16(0))
	f.Fuzz(func(t *testing.T, content []byte, border uint16) {
		info := file.Info{Path: "f", Size: int64(len(content))}
		at := min(int64(border), info.Size)
		for _, s := range []file.Split{{Info: info, To: at, Next: file.Begin}, {Info: info, From: at, To: info.Size, Next: file.Begin}} {
			storage := file.FS(fstest.MapFS{"f": {Data: content}})
			r, err := Format[visit]().Open(file.NewPart(t.Context(), storage, s, file.Uncompressed))
			if err != nil {
				continue
			}
			var into splitreader.Batch[visit]
			for err == nil {
				into.Vals, into.Times, into.Ends = into.Vals[:0], into.Times[:0], into.Ends[:0]
				err = r.Read(&into, 100)
			}
			if err := r.Close(); err != nil {
				t.Fatal(err)
			}
		}
	})
}
