package codec

import (
	"bytes"
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"testing"
	"testing/quick"
)

// plain is a struct that a plan covers, with fields of all its kinds.
type plain struct {
	Key   string `json:"key"`
	TS    int64  `json:"ts"`
	Val   int    `json:"val,omitempty"`
	I8    int8   `json:"i8"`
	I16   int16  `json:",omitempty"`
	I32   int32
	U     uint    `json:"u"`
	U8    uint8   `json:"u8,omitempty"`
	U16   uint16  `json:"u16"`
	U32   uint32  `json:"u32"`
	U64   uint64  `json:"u64"`
	F32   float32 `json:"f32"`
	F64   float64 `json:"f64,omitempty"`
	Yes   bool    `json:"yes"`
	No    bool    `json:"no,omitempty"`
	Left  string  `json:"-"`
	Other string  `json:"other_1,omitempty"`
	Inner nested  `json:"inner"`
	_     string
}

type nested struct {
	Name string `json:"name"`
	Deep struct {
		Text string  `json:"text"`
		N    float64 `json:"n"`
	} `json:"deep,omitempty"`
}

func TestPlanCovers(t *testing.T) {
	type hooked struct{ L level }
	type twice struct {
		A int `json:"x"`
		B int `json:"X"`
	}
	for _, c := range []struct {
		v    any
		want bool
	}{
		{plain{}, true}, {click{}, true}, {nested{}, true}, {struct{}{}, true},
		{hooked{}, false}, {twice{}, false}, {document{}, false}, {struct{ nested }{}, false}, {struct{ P *int }{}, false},
		{struct {
			N int `json:"n,string"`
		}{}, false},
		{struct {
			N int `json:"ñ"`
		}{}, false},
		{struct {
			N int `json:"n,omitzero"`
		}{}, false},
		{struct{ N json.Number }{}, false}, {level(1), false}, {map[string]int{}, false},
	} {
		if got := planFor(reflect.TypeOf(c.v)) != nil; got != c.want {
			t.Errorf("plan for %T: %v", c.v, got)
		}
	}
}

// plainJSON are inputs for plain, regular and odd.
func plainJSON() []string {
	in := append(oddJSON(),
		`{"key":"user-1","ts":1700000000123,"val":12,"i8":-128,"I16":-3,"I32":2147483647,"u":1,"u8":255,"u16":65535,"u32":4294967295,"u64":123456789012345678,"f32":1.5,"f64":-2.5e-7,"yes":true,"no":false,"other_1":"x","inner":{"name":"n","deep":{"text":"t","n":1}}}`,
		`{"val":1,"key":"a","ts":2,"val":3}`, ` { "key" : "a" , "ts" : 1 , "url":"/x" } `, `{"KEY":"a"}`, `{"key":"a","Key":"b"}`, `{"key":"a","key":null}`, `{"key":"","other_1":""}`,
		`{"key":"\u0041\n"}`, `{"key":"ü"}`, "{\"key\":\"\xc3\"}", "{\"key\":\"12345678\xc3(\"}", `{"key":"1234567\"8"}`, "{\"key\":\"1234567\t8\"}", "{\"key\":\"\u2028\"}", `{"key":"<&>"}`, "{\"key\":\"a\x7f\"}",
		`{"ts":-0}`, `{"ts":00}`, `{"ts":-}`, `{"ts":123456789012345678}`, `{"ts":1234567890123456789}`, `{"ts":12345678}`, `{"ts":1234567}`, `{"ts":123456789}`, `{"ts":1234567890123456}`, `{"ts":1e2}`, `{"ts":1.0}`, `{"ts":1x}`, `{"ts":1`, `{"ts":12345678`, `{"ts":"1"}`,
		`{"i8":128}`, `{"i8":-129}`, `{"I16":32768}`, `{"I32":2147483648}`, `{"u":-1}`, `{"u8":256}`, `{"u16":65536}`, `{"u32":4294967296}`, `{"u64":18446744073709551615}`, `{"u64":18446744073709551616}`, `{"u64":-0}`,
		`{"f32":1e39}`, `{"f64":1e309}`, `{"f64":01}`, `{"f64":1.}`, `{"f64":.1}`, `{"f64":1e+}`, `{"f64":-0.0}`, `{"f64":1E-3}`, `{"f64":"1"}`, `{"f32":0.1}`, `{"f64":nul}`,
		`{"yes":null}`, `{"yes":tru}`, `{"yes":truee}`, `{"yes":0}`, `{"yes":"true"}`, `{"no":fals`, `{"inner":null}`, `{"inner":{}}`, `{"inner":[]}`, `{"inner":{"name":"a"},"inner":{"deep":{"n":2}}}`, `{"inner":{"NAME":"a"}}`, `{"inner":{"name":1}}`,
		`{"x":{"a":[1,{"b":"\u00e9"}],"c":null},"key":"a"}`, `{"x":[],"y":{},"key":"a"}`, `{"x":[1,],"key":"a"}`, `{"x":{"a":1,},"key":"a"}`, `{"x":{a:1},"key":"a"}`, `{"x":"\u12","key":"a"}`, `{"x":"\q","key":"a"}`, `{"x":"\`, `{"x":"\u12`, `{"x":-}`, `{"x":1.e1}`, `{"x":+1}`,
		"{\"x\":\"a\x01\"}", "{\"x\":\"\xff\"}", "{\"\xff\":1}", `{"\u006bey":"a"}`, "{\"\u212aey\":\"a\"}", `{"Left":"a"}`, `{"last":"a"}`, `{"":1}`, `{"`, `{"key"`, `{"key":`, `{"key":"`, `{,}`, `{"key":"a",}`, `{"key":"a"}}`, `{"key":"a"},`,
	)
	for _, n := range []int{30, 31, 32, 33, 40} {
		in = append(in, `{"x":`+strings.Repeat("[", n)+strings.Repeat("]", n)+`,"key":"a"}`)
	}
	return in
}

// comparePlain decodes in, alone and in a batch, and encodes the value; the
// codec and encoding/json must agree.
func comparePlain(t *testing.T, in string) {
	t.Helper()
	var want plain
	wantErr := json.Unmarshal([]byte(in), &want)
	c := JSON[plain]().(BatchDecoder[plain])
	src := []byte(in)
	good := []byte(`{"key":"before","inner":{"name":"it"}}`)
	got, err := c.Decode(src)
	batch, batchErr := c.DecodeBatch(make([]plain, 1, 2), [][]byte{good, src, good})
	for _, b := range [][]byte{src, good} {
		for i := range b {
			b[i] = '#' // values must not alias
		}
	}
	if (err == nil) != (wantErr == nil) || (batchErr == nil) != (wantErr == nil) {
		t.Fatalf("%.80q: error %v, in a batch %v, encoding/json has %v", in, err, batchErr, wantErr)
	}
	if wantErr != nil {
		if len(batch) != 1 || got != (plain{}) {
			t.Fatalf("%.80q: %d values and %+v in spite of an error", in, len(batch), got)
		}
		return
	}
	other := plain{Key: "before", Inner: nested{Name: "it"}}
	if got != want || len(batch) != 4 || batch[1] != other || batch[2] != want || batch[3] != other {
		t.Fatalf("%.80q:\n%+v, in a batch\n%+v, encoding/json has\n%+v", in, got, batch, want)
	}
	comparePlainEncoding(t, want)
}

func comparePlainEncoding(t *testing.T, v plain) {
	t.Helper()
	want, wantErr := json.Marshal(v)
	got, err := JSON[plain]().Append([]byte("x"), v)
	if (err == nil) != (wantErr == nil) || string(got) != "x"+string(want) {
		t.Fatalf("%+v: encoded as\n%s, %v, by encoding/json as\n%s, %v", v, got, err, want, wantErr)
	}
}

// TestPlanIsTheStandardLibrary decodes and encodes by a plan.
func TestPlanIsTheStandardLibrary(t *testing.T) {
	for _, in := range plainJSON() {
		comparePlain(t, in)
	}
	random := func(key, other, text string, ts int64, u uint64, f float64, f32 float32) bool {
		for _, f := range []float64{f, math.Float64frombits(u), float64(ts) / 1000, 1e-6, 1e21, 9.99e-7, 1e20} {
			if math.IsNaN(f) || math.IsInf(f, 0) {
				continue
			}
			comparePlainEncoding(t, plain{Key: key, Other: other, TS: ts, U64: u, F64: f, F32: f32, U8: uint8(u), I32: int32(ts), Inner: nested{Name: text}})
		}
		return true
	}
	if err := quick.Check(random, nil); err != nil {
		t.Error(err)
	}
	for _, s := range []string{"", "a<b>&", "\u2028", "é\u2029", "ü", "1234567\x00", "12345678\"", "\xff", "123456789\xe2\x80"} {
		comparePlainEncoding(t, plain{Key: s, F32: math.MaxFloat32})
	}
	if _, err := JSON[plain]().Append(nil, plain{F64: math.Inf(1)}); err == nil {
		t.Error("infinity was encoded")
	}
}

func FuzzPlanJSON(f *testing.F) {
	for _, in := range plainJSON() {
		if len(in) < 1000 {
			f.Add(in)
		}
	}
	f.Fuzz(comparePlain)
}

// TestStringsOfABatchAreOneBlock guards what a batch allocates: one block,
// whatever the number of values.
func TestStringsOfABatchAreOneBlock(t *testing.T) {
	c := JSON[click]().(BatchDecoder[click])
	srcs := make([][]byte, 100)
	for i := range srcs {
		srcs[i] = clickJSON
	}
	dst := make([]click, 0, len(srcs))
	n := testing.AllocsPerRun(10, func() {
		var err error
		dst, err = c.DecodeBatch(dst[:0], srcs)
		check(t, err)
	})
	if n != 1 {
		t.Errorf("%v allocations for a batch", n)
	}
	buf := make([]byte, 0, 1024)
	if n := testing.AllocsPerRun(10, func() {
		var err error
		buf, err = c.Append(buf[:0], dst[0])
		check(t, err)
	}); n != 0 {
		t.Errorf("%v allocations to encode a value", n)
	}
	if !bytes.Equal(buf, clickJSON) {
		t.Errorf("%s became %s", clickJSON, buf)
	}
}

// visit is the record of the Kafka benchmarks.
type visit struct {
	Key string `json:"key"`
	TS  int64  `json:"ts"`
	Val int64  `json:"val"`
}

var visitJSON = []byte(`{"key":"user-1234","ts":1700000012345,"val":512,"url":"/a/quite/ordinary/page/123"}`)

func BenchmarkJSONDecodeBatch(b *testing.B) {
	c := JSON[visit]().(BatchDecoder[visit])
	srcs := make([][]byte, 1000)
	for i := range srcs {
		srcs[i] = visitJSON
	}
	dst := make([]visit, 0, len(srcs))
	b.ReportAllocs()
	for b.Loop() {
		var err error
		dst, err = c.DecodeBatch(dst[:0], srcs)
		check(b, err)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1000, "ns/record")
}
