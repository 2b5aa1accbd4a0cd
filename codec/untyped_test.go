package codec

import (
	"encoding/json"
	"math"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"
)

type untypedInner struct {
	Name string
	Next *untypedInner
}

type untypedSample struct {
	Zulu  string
	Alpha int64
	At    time.Time
	For   time.Duration
	Big   uint64
	Tags  []string
	By    map[string]untypedInner
	Inner *untypedInner
	Raw   []byte
	On    bool
	Ratio float64
}

func untypedOf[T any](t *testing.T, v T) any {
	t.Helper()
	c, err := For[T]()
	if err != nil {
		t.Fatal(err)
	}
	b, err := c.Append(nil, v)
	if err != nil {
		t.Fatal(err)
	}
	d, ok := Untyped(c.Format())
	if !ok {
		t.Fatalf("nothing decodes %+v", c.Format())
	}
	got, err := d(b)
	if err != nil {
		t.Fatalf("%+v: %v", c.Format(), err)
	}
	return got
}

func TestUntypedDecodesWhatTypesWrite(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 30, 0, 5, time.UTC)
	for _, test := range []struct{ got, want any }{
		{untypedOf(t, true), true},
		{untypedOf(t, int8(-3)), int8(-3)},
		{untypedOf(t, 7), int64(7)},
		{untypedOf(t, uint(7)), uint64(7)},
		{untypedOf(t, float32(1.5)), float32(1.5)},
		{untypedOf(t, "text"), "text"},
		{untypedOf(t, []byte{1, 2}), []byte{1, 2}},
		{untypedOf(t, [3]byte{1, 2, 3}), []byte{1, 2, 3}},
		{untypedOf(t, at), at},
		{untypedOf(t, netip.MustParseAddr("10.0.0.1")), "10.0.0.1"},
		{untypedOf(t, []int64{4, 5}), []any{int64(4), int64(5)}},
		{untypedOf(t, map[int]string{4: "x"}), json.RawMessage(`{"4":"x"}`)},
	} {
		if !reflect.DeepEqual(test.got, test.want) {
			t.Errorf("decoded %T %v, want %T %v", test.got, test.got, test.want, test.want)
		}
	}
}

// TestUntypedKeepsTheOrderOfFields: a record of Avro has no order as a map.
func TestUntypedKeepsTheOrderOfFields(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 30, 0, 5, time.UTC)
	v := untypedSample{
		"z", -4, at, 90 * time.Second, 1 << 63, []string{"a", "b"}, map[string]untypedInner{"k": {"in a map", nil}},
		&untypedInner{"outer", &untypedInner{"inner", nil}}, []byte("raw"), true, 2.5,
	}
	b, err := json.Marshal(untypedOf(t, v))
	if err != nil {
		t.Fatal(err)
	}
	want := `{"Zulu":"z","Alpha":-4,"At":"2026-03-01T12:30:00.000000005Z","For":"1m30s","Big":9223372036854775808,"Tags":["a","b"],` +
		`"By":{"k":{"Name":"in a map","Next":null}},"Inner":{"Name":"outer","Next":{"Name":"inner","Next":null}},"Raw":"cmF3","On":true,"Ratio":2.5}`
	if string(b) != want {
		t.Errorf("got\n%s, want\n%s", b, want)
	}
}

func TestUntypedLayouts(t *testing.T) {
	for _, test := range []struct {
		format Format
		src    string
		want   any
		size   int
	}{
		{Format{ID: "struct", Version: 1, Schema: "struct{Sum float64; N int64; Größe uint8}", Size: 17}, "\x00\x00\x00\x00\x00\x00\xf0\x3f\x02\x00\x00\x00\x00\x00\x00\x00\x09",
			Record{{"Sum", 1.0}, {"N", int64(2)}, {"Größe", uint8(9)}}, 17},
		{Format{ID: "struct{int64;string;bytes2}", Version: 1}, "\x01\x00\x00\x00\x00\x00\x00\x00\x02abxy", Record{{"f1", int64(1)}, {"f2", "ab"}, {"f3", []byte("xy")}}, 0},
		{Format{ID: "array", Version: 1, Schema: "[2][2]uint8", Size: 4}, "abcd", []any{[]byte("ab"), []byte("cd")}, 4},
		{Format{ID: "[9999999][9999999][0]string", Version: 1}, "", []any{}, 1},
		{Format{ID: "[2]string", Version: 1}, "\x01a\x00", []any{"a", ""}, 0},
		{Format{ID: "bytes16", Version: 1, Size: 16}, "0123456789abcdef", []byte("0123456789abcdef"), 16},
		{Format{ID: "struct{}", Version: 1}, "", Record{}, 1},
		{Format{ID: "struct", Version: 1, Schema: "struct{}", Size: 1}, "\x00", Record{}, 1},
		{Format{ID: "complex128", Version: 1, Size: 16}, "\x00\x00\x00\x00\x00\x00\xf0\x3f\x00\x00\x00\x00\x00\x00\x00\x00", complex(1, 0), 16},
		{Format{ID: "struct", Version: 1, Schema: "struct{A struct{B bool}; C [3]int8}", Size: 4}, "\x01\x01\xff\x00", Record{{"A", Record{{"B", true}}}, {"C", []any{int8(1), int8(-1), int8(0)}}}, 4},
	} {
		d, ok := Untyped(test.format)
		if !ok {
			t.Errorf("%+v: no decoder", test.format)
			continue
		}
		got, err := d([]byte(test.src))
		if err != nil || !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s: %#v, %v, want %#v", test.format.ID, got, err, test.want)
		}
		if n := FixedSize(test.format); n != test.size {
			t.Errorf("%s: size %d, want %d", test.format.ID, n, test.size)
		}
		if _, err := d([]byte(test.src + "xyz")); err == nil {
			t.Errorf("%s: bytes too many are accepted", test.format.ID)
		}
	}
	for _, id := range []string{"", "weir.kafka.split", "struct{", "struct{int64", "[x]int8", "[-1]int8", "bytesx", "int128", "struct{string}x", strings.Repeat("struct{", 2000)} {
		if _, ok := Untyped(Format{ID: id, Version: 1}); ok {
			t.Errorf("format %.20q has a decoder", id)
		}
	}
	if _, ok := Untyped(Format{ID: "int64", Version: 2}); ok {
		t.Error("a later version is decoded as the first")
	}
}

func TestUntypedJSONHasNoNaN(t *testing.T) {
	b, err := json.Marshal(Record{{"a", math.NaN()}, {"b", []any{math.Inf(-1), float32(2)}}, {"c", complex(1, math.Inf(1))}})
	if want := `{"a":"NaN","b":["-Inf",2],"c":[1,"+Inf"]}`; err != nil || string(b) != want {
		t.Errorf("%s, %v, want %s", b, err, want)
	}
}

func FuzzUntyped(f *testing.F) {
	c, err := For[untypedSample]()
	if err != nil {
		f.Fatal(err)
	}
	b, err := c.Append(nil, untypedSample{Zulu: "z", Tags: []string{"a"}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add("avro", c.Format().Schema, b)
	f.Add("struct", "struct{A int64; B [3]uint8}", []byte("0123456789a"))
	f.Add("struct{int64;string}", "", []byte("01234567\x01a"))
	f.Add("json", "", []byte(`{"a":[1]}`))
	f.Add("[3][4]string", "", []byte{})
	f.Fuzz(func(t *testing.T, id, schema string, src []byte) {
		if id == "avro" {
			// Schemas are as safe as the library: arrays of nothing can be long.
			schema = c.Format().Schema
		}
		format := Format{ID: id, Version: 1, Schema: schema}
		FixedSize(format)
		d, ok := Untyped(format)
		if !ok {
			return
		}
		v, err := d(src)
		if err != nil {
			return
		}
		if _, err := json.Marshal(JSONValue(v)); err != nil && id != "avro" {
			t.Fatalf("%v has no form in JSON: %v", v, err)
		}
	})
}

func TestParseTextOfStructs(t *testing.T) {
	f := Format{ID: "struct{string;int32}", Version: 1, Schema: "struct{From string; To int32}"}
	for _, text := range []string{`["a",7]`, `{"To":7,"From":"a"}`} {
		if b, err := ParseText(f, text); err != nil || string(b) != "\x01a\x07\x00\x00\x00" {
			t.Errorf("%s is %q, %v", text, b, err)
		}
	}
	for text, want := range map[string]string{
		`{"From":"a"}`:                "1 fields where there are 2",
		`{"From":"a","too":7}`:        "there is no field To",
		`{"From":"a","To":7,"To2":1}`: "3 fields where there are 2",
		`"a"`:                         "no array of parts",
	} {
		if _, err := ParseText(f, text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
	decode, ok := Untyped(f)
	if !ok {
		t.Fatal("the format is not known")
	}
	if v, err := decode([]byte("\x01a\x07\x00\x00\x00")); err != nil || !reflect.DeepEqual(v, Record{{"From", "a"}, {"To", int32(7)}}) {
		t.Errorf("it is decoded as %v, %v", v, err)
	}
}
