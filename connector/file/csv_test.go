package file

import (
	"encoding/csv"
	"errors"
	"io"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

type sale struct {
	Item  string
	Price float64   `csv:"price"`
	Count int32     `csv:"count"`
	At    time.Time `csv:"at,optional"`
	Note  *string   `csv:"note,optional"`
	Inner string    `csv:"-"`
}

func TestCSV(t *testing.T) {
	content := "\ufeffcount,Item,unused,price,at,note\r\n" +
		"1,apple,x,0.5,2026-03-01T12:00:00Z,\r\n" +
		"\r\n" +
		"2,\"pear, \"\"green\"\"\nand ripe\",y,1e2,2026-03-02T00:00:00+01:00,good"
	got := read(t, Source("f", CSV[sale](), In(FS(files("f", content)))))
	good := "good"
	want := []sale{
		{Item: "apple", Price: 0.5, Count: 1, At: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)},
		{Item: "pear, \"green\"\nand ripe", Price: 100, Count: 2, At: time.Date(2026, 3, 1, 23, 0, 0, 0, time.UTC), Note: &good},
	}
	for i := range got {
		got[i].At = got[i].At.UTC()
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

type pair struct{ A, B string }

func TestCSVVariants(t *testing.T) {
	for _, c := range []struct {
		name, content string
		format        Format[pair]
		want          []pair
	}{
		{"empty", "", CSV[pair](), nil},
		{"header only", "A,B", CSV[pair](), nil},
		{"no header", "1,2\n3,4\n", CSV[pair](NoHeader()), []pair{{"1", "2"}, {"3", "4"}}},
		{"no header, marked", "\ufeff1,2\n", CSV[pair](NoHeader()), []pair{{"1", "2"}}},
		{"tabs", "B\tA\n1\t2\n", CSV[pair](Comma('\t')), []pair{{"2", "1"}}},
		{"comments", "# x\nA,B\n# y\n1,2\n", CSV[pair](Comment('#')), []pair{{"1", "2"}}},
		{"lazy quotes", "A,B\na \"word\",2\n", CSV[pair](LazyQuotes()), []pair{{`a "word"`, "2"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			want(t, read(t, Source("f", c.format, In(FS(files("f", c.content))))), c.want...)
		})
	}
}

func TestCSVErrorsSayWhere(t *testing.T) {
	src := func(f Format[sale], content string, opts ...Option) *Files[sale] {
		return Source("in/f.csv", f, append(opts, In(FS(files("in/f.csv", content))))...)
	}
	const head = "Item,price,count\n"
	for _, c := range []struct {
		name, rows string
		parts      []string
	}{
		{"bad number", "a,1,1\nb,x,1\n", []string{"position 23", "column price", "x"}},
		{"too large", "a,1,99999999999\n", []string{"position 17", "column count"}},
		{"fields missing", "a,1,1\nb\n", []string{"position 23", "1 fields instead of 3"}},
		{"bare quote", "a\"b,1,1\n", []string{"position 17", "quote"}},
		{"open quote", "\"a,1,1\n", []string{"position 17", "quote"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := fails(t, src(CSV[sale](), head+c.rows))
			wantError(t, err, append(c.parts, "in/f.csv", "file.SkipUndecodable")...)
		})
	}
	t.Run("skipped", func(t *testing.T) {
		r := start(t, src(CSV[sale](), head+"a,1,1\nb,x,1\nc\"d,1,1\ne\nf,2,2\n", SkipUndecodable()), 1, nil, nil)
		got := r.toEnd()
		if len(got) != 2 || got[0].Item != "a" || got[1].Item != "f" || r.Context.Counter("recordsUndecodable") != 3 {
			t.Errorf("%+v, %d counted", got, r.Context.Counter("recordsUndecodable"))
		}
	})
	t.Run("columns", func(t *testing.T) {
		wantError(t, fails(t, src(CSV[sale](), "Item,count\na,1\n")), "in/f.csv", `no column "price"`, `"Item" "count"`)
		wantError(t, fails(t, src(CSV[sale](), "Item,price,count,Item\n")), "in/f.csv", `two columns "Item"`)
	})
	t.Run("record without end", func(t *testing.T) {
		content := head + "\"" + strings.Repeat("x\n", 1<<20)
		wantError(t, fails(t, src(CSV[sale](MaxRecord(1000)), content)), "in/f.csv", "longer than 1000 bytes", "file.MaxRecord")
	})
}

func TestCSVTypes(t *testing.T) {
	type id string
	type all struct {
		S   id
		B   bool
		I   int
		I8  int8
		U   uint
		U64 uint64
		F   float32
		P   *int
	}
	got := read(t, Source("f", CSV[all](), In(FS(files("f", "S,B,I,I8,U,U64,F,P\nx,true,-1,-128,7,18446744073709551615,1.5,3\n,false,0,0,0,0,0,\n")))))
	three := 3
	want := []all{{"x", true, -1, -128, 7, 1<<64 - 1, 1.5, &three}, {}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	_, err := columnsOf[struct{ M map[string]int }]()
	wantError(t, err, "M", "map[string]int", "UnmarshalText")
	_, err = columnsOf[string]()
	wantError(t, err, "structs", "string")
	_, err = columnsOf[struct {
		A string `csv:"a,maybe"`
	}]()
	wantError(t, err, "maybe", "optional")
}

// FuzzCSV reads in ranges where records are lines, whole otherwise, from every
// record on, and compares with encoding/csv.
func FuzzCSV(f *testing.F) {
	f.Add("A,B\n1,2\n3,4\n", true, uint8(3), uint8(1))
	f.Add("\ufeffA,B\r\n\"1\",\"x\ny\"\r\n\r\n3,4", false, uint8(3), uint8(2))
	f.Add("B,A\n\"a\"\"b\",\n\n,\n", false, uint8(0), uint8(1))
	f.Fuzz(func(t *testing.T, content string, oneLine bool, size, n uint8) {
		text, _ := strings.CutPrefix(content, "\ufeff")
		if len(content) > 300 || oneLine && strings.Contains(text, `"`) {
			return
		}
		whole, ok := reference(text)
		if !ok {
			return
		}
		opts := []CSVOption{}
		if oneLine {
			opts = append(opts, OneLinePerRecord())
		} else {
			size = 0
		}
		var got []pair
		for _, s := range cut(Info{Path: "f", Size: int64(len(content))}, int64(size)) {
			got = append(got, readResuming(t, CSV[pair](opts...), s, FS(files("f", content)), int(n)+1)...)
		}
		if !slices.Equal(got, whole) {
			t.Errorf("%q: %q, want %q", content, got, whole)
		}
	})
}

// reference reads by encoding/csv what has columns A and B and no error.
func reference(text string) (rows []pair, ok bool) {
	r := csv.NewReader(strings.NewReader(text))
	header, err := r.Read()
	if errors.Is(err, io.EOF) {
		return nil, true
	}
	a, b := slices.Index(header, "A"), slices.Index(header, "B")
	slices.Sort(header)
	if err != nil || a < 0 || b < 0 || len(slices.Compact(header)) != len(header) {
		return nil, false
	}
	for {
		row, err := r.Read()
		if errors.Is(err, io.EOF) {
			return rows, true
		}
		if err != nil {
			return nil, false
		}
		rows = append(rows, pair{row[a], row[b]})
	}
}
