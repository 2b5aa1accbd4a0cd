package codec

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"
)

// document has members of every kind that decoders treat apart.
type document struct {
	A    int64            `json:"a"`
	B    string           `json:"b"`
	C    float64          `json:"c"`
	D    []int            `json:"d"`
	E    map[string]int   `json:"e"`
	F    *inner           `json:"f"`
	G    bool             `json:"g"`
	H    inner            `json:"h"`
	I    any              `json:"i"`
	U    uint8            `json:"u"`
	By   []byte           `json:"by"`
	St   int              `json:"st"`
	Arr  [2]int           `json:"arr"`
	T    time.Time        `json:"t"`
	L    level            `json:"l"`
	ML   map[level]string `json:"ml"`
	Raw  json.RawMessage  `json:"raw"`
	Num  json.Number      `json:"num"`
	Omit string           `json:"omit,omitempty"`
	F32  float32          `json:"f32"`
	PP   **int            `json:"pp"`
	Ds   []document       `json:"ds"`
}

// oddJSON are inputs on which libraries differ.
func oddJSON() []string {
	nested := func(open, end string, n int) string { return strings.Repeat(open, n) + strings.Repeat(end, n) }
	return []string{
		``, ` `, `{}`, `null`, `[]`, `"s"`, `1`, `{"a":1}`, `{"a":1}x`, `{"a":1} {"a":2}`, `{"a":1}]`, `{"a":1`, `{"a":}`,
		`{"a":1,}`, `{"a":1,,"b":"x"}`, `{"a" 1}`, `{a:1}`, `{'a':1}`, `{"a":1 "b":"c"}`, "\ufeff{}", "{}\x00", "\x00", "/**/{}", "{}//x",
		`{"a":1,"a":2}`, `{"e":{"x":1,"x":2}}`, `{"A":5}`, `{"a":1,"A":2}`, `{"\u0061":7}`, "{\"\u017ft\":7}",
		`{"b":"\ud800"}`, `{"b":"\ud83d\ude00"}`, `{"b":"\ude00\ud83d"}`, "{\"b\":\"\xff\"}", "{\"b\":\"a\x00b\"}", "{\"b\":\"a\nb\"}",
		`{"b":"\x41"}`, `{"b":"\u00e9\/\b"}`, `{"b":"\u12"}`, `{"b":"`, `{"b":1}`, `{"b":null}`,
		`{"a":9223372036854775807}`, `{"a":9223372036854775808}`, `{"a":-9223372036854775808}`, `{"a":-9223372036854775809}`,
		`{"a":1e3}`, `{"a":1.0}`, `{"a":01}`, `{"a":-}`, `{"a":+1}`, `{"a":"1"}`, `{"a":true}`,
		`{"c":1e400}`, `{"c":1e-400}`, `{"c":.5}`, `{"c":1.}`, `{"c":-0}`, `{"c":NaN}`, `{"c":0x10}`, `{"c":1e}`,
		`{"c":123456789012345678901234567890.5}`, `{"c":` + strings.Repeat("9", 5000) + `}`, `{"f32":1e39}`, `{"f32":0.1}`,
		`{"u":256}`, `{"u":-1}`, `{"u":255}`, `{"g":"true"}`, `{"g":1}`, `{"g":tru}`, `{"g":truex}`,
		`{"d":[1,2,]}`, `{"d":null}`, `{"d":{}}`, `{"d":[]}`, `{"d":[1,null,3]}`, `{"e":null}`, `{"f":null}`, `{"f":{"X":1}}`, `{"f":[]}`, `{"h":null}`,
		`{"i":{"z":[1,"x",null,true]}}`, `{"i":12345678901234567890}`, `{"num":"12"}`, `{"num":12.50}`, `{"num":"x"}`,
		`{"by":"aGk="}`, `{"by":"a"}`, `{"by":"aGk"}`, `{"by":null}`, `{"st":"5"}`, `{"st":5}`, `{"st":""}`, `{"st":"05"}`, `{"arr":[1,2,3]}`, `{"arr":[1]}`,
		`{"t":"2024-02-29T01:02:03.456789012+01:00"}`, `{"t":"yesterday"}`, `{"t":null}`, `{"l":"AGE"}`, `{"l":"NONE"}`, `{"l":1}`, `{"ml":{"AGE":"x"}}`, `{"ml":{"?":"x"}}`,
		`{"raw":{"a": [1 , 2]}}`, `{"raw":null}`, `{"pp":4}`, `{"pp":null}`, `{"ds":[{"a":1},null,{"ds":[{}]}]}`,
		`{"zz":tru,"a":1}`, `{"zz":"\ud800\x","a":1}`, `{"zz":01,"a":1}`, `{"zz":[1 2],"a":1}`, `{"zz":{"a"},"a":1}`, `{"zz":1e,"a":1}`, "{\"zz\":\"a\nb\"}", `{"zz":-,"a":2}`, "{\"zz\":\"\xff\",\"a\":1}",
		"{\"a\":\u00a01}", "{\"a\":\f1}", "\t\r\n {\t\"a\"\r:\n1 }",
		`{"zz":` + nested("[", "]", 9000) + `}`, `{"zz":` + nested("[", "]", 10001) + `}`, `{"i":` + nested("[", "]", 100000) + `}`, `{"zz":` + strings.Repeat("[", 5000) + `}`,
		strings.Repeat(`{"i":`, 200000), strings.Repeat(`{"zz":`, 200000), strings.Repeat(`{"ds":[`, 200000),
	}
}

// compareJSON decodes by the codec and by encoding/json, which must agree.
func compareJSON(t *testing.T, in string) {
	var want document
	wantErr := json.Unmarshal([]byte(in), &want)
	src := []byte(in)
	got, err := JSON[document]().Decode(src)
	if string(src) != in {
		t.Fatalf("%.80q: Decode changed its source", in)
	}
	for i := range src {
		src[i] = '#'
	}
	switch {
	case (err == nil) != (wantErr == nil):
		t.Fatalf("%.80q: error %v, encoding/json has %v", in, err, wantErr)
	case err != nil:
		var d *DecodeError
		if !errors.As(err, &d) || d.Offset < 0 || d.Offset > len(in) {
			t.Fatalf("%.80q: error %v", in, err)
		}
		if !reflect.DeepEqual(got, document{}) {
			t.Fatalf("%.80q: %+v in spite of error %v", in, got, err)
		}
		return
	case !reflect.DeepEqual(got, want):
		t.Fatalf("%.80q:\n%+v, encoding/json has\n%+v", in, got, want)
	}
	wantBytes, wantErr := json.Marshal(want)
	gotBytes, err := JSON[document]().Append(nil, got)
	if (err == nil) != (wantErr == nil) || !bytes.Equal(gotBytes, wantBytes) {
		t.Fatalf("%.80q: encoded as\n%s, %v, by encoding/json as\n%s, %v", in, gotBytes, err, wantBytes, wantErr)
	}
}

// TestJSONIsThatOfTheStandardLibrary pins the behaviour of the library used.
func TestJSONIsThatOfTheStandardLibrary(t *testing.T) {
	for _, in := range oddJSON() {
		compareJSON(t, in)
	}
}

func TestJSONMeaning(t *testing.T) {
	for in, want := range map[string]string{
		`{"a":1,"a":2}`:            "2 ",       // the last one counts
		`{"A":5}`:                  "5 ",       // names without regard to case
		"{\"b\":\"\xff\"}":         "0 \ufffd", // not UTF-8
		`{"b":"\ud800"}`:           "0 \ufffd", // half a surrogate pair
		`null`:                     "0 ",
		`{"unknown":[{}],"b":"x"}`: "0 x",
	} {
		got, err := JSON[document]().Decode([]byte(in))
		if err != nil || fmt.Sprintf("%d %s", got.A, got.B) != want {
			t.Errorf("%s: %d %q, %v; want %q", in, got.A, got.B, err, want)
		}
	}
	for _, bad := range []string{``, `{"a":1}x`, `{"a":1}{"a":2}`, `{"a":1.5}`, `{"a":9223372036854775808}`} {
		if got, err := JSON[document]().Decode([]byte(bad)); err == nil {
			t.Errorf("%s: %d and no error", bad, got.A)
		}
	}
}

func TestJSONEncode(t *testing.T) {
	seven := 7
	p := &seven
	for _, v := range []document{
		{}, {B: "<a>&\u2028\xff\x00\n\"\\", C: 1e21, F32: 0.1, E: map[string]int{"b": 1, "a": 2}, F: &inner{}, PP: &p},
		{C: math.Copysign(0, -1), D: []int{}, By: []byte{}, ML: map[level]string{1: "x", 0: "y"}, Raw: json.RawMessage(`{"a": 1}`), Num: "1.50", Omit: "x"},
		{C: math.SmallestNonzeroFloat64, T: time.Unix(1, 1).UTC(), Ds: []document{{A: 1}}, I: map[string]any{"z": 1, "a": []any{nil}}},
		{C: math.Inf(1)}, {L: 77}, {Raw: json.RawMessage(`{`)}, {Num: "x"},
	} {
		want, wantErr := json.Marshal(v)
		got, err := JSON[document]().Append(nil, v)
		if (err == nil) != (wantErr == nil) || !bytes.Equal(got, want) {
			t.Errorf("%s, %v; encoding/json has %s, %v", got, err, want, wantErr)
		}
	}
}

type click struct {
	User    string `json:"user"`
	Page    string `json:"page"`
	Latency int64  `json:"latency"`
	Time    int64  `json:"ts"`
	ID      string `json:"id"`
}

var clickJSON = []byte(`{"user":"user-123456","page":"/products/17","latency":231,"ts":1700000000123,"id":"0f8fad5b"}`)

func BenchmarkJSONDecode(b *testing.B) {
	b.Run("codec", func(b *testing.B) {
		c := JSON[click]()
		b.ReportAllocs()
		for b.Loop() {
			_, err := c.Decode(clickJSON)
			check(b, err)
		}
	})
	b.Run("library", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, err := jsonCodec[click]{}.decodeWhole(clickJSON)
			check(b, err)
		}
	})
	b.Run("std", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			var v click
			check(b, json.Unmarshal(clickJSON, &v))
		}
	})
}

func BenchmarkJSONEncode(b *testing.B) {
	var v click
	check(b, json.Unmarshal(clickJSON, &v))
	b.Run("codec", func(b *testing.B) {
		c, buf := JSON[click](), []byte(nil)
		b.ReportAllocs()
		for b.Loop() {
			var err error
			buf, err = c.Append(buf[:0], v)
			check(b, err)
		}
	})
	b.Run("library", func(b *testing.B) {
		buf := []byte(nil)
		b.ReportAllocs()
		for b.Loop() {
			var err error
			buf, err = jsonCodec[click]{}.appendWhole(buf[:0], v)
			check(b, err)
		}
	})
	b.Run("std", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, err := json.Marshal(v)
			check(b, err)
		}
	})
}

func BenchmarkAvro(b *testing.B) {
	var v click
	check(b, json.Unmarshal(clickJSON, &v))
	c, err := Avro[click]()
	check(b, err)
	buf, err := c.Append(nil, v)
	check(b, err)
	b.Run("encode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			buf, err = c.Append(buf[:0], v)
			check(b, err)
		}
	})
	b.Run("decode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, err := c.Decode(buf)
			check(b, err)
		}
	})
}
