package codec

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/big"
	"net/netip"
	"net/url"
	"reflect"
	"strings"
	"testing"
	"time"
)

type (
	userID   string
	amount   int64
	small    uint8
	ratio    float64
	flag     bool
	raw      []byte
	uuid     [16]byte
	count    int
	level    int
	inner    struct{ X, Y int32 }
	everyday struct {
		Name     string `avro:"name"`
		Count    int
		Big      uint64
		Word     uint
		Small    uint8
		Ratio    float64
		Half     float32
		OK       bool
		Data     []byte
		ID       uuid
		At       time.Time
		Maybe    *time.Time
		Took     time.Duration
		Tags     []string
		Scores   map[string]float64
		In       inner
		Ins      []inner
		Ptr      *inner
		Level    level
		Times    []time.Time
		Fixed    [3]int64
		Addr     netip.Addr
		Left     string `avro:"-"`
		unlisted int    `avro:"-"` //nolint:unused // only its being there matters
	}
	node struct {
		V    int
		Next *node
	}
	pair[A, B any] struct {
		First  A
		Second B
	}
)

var levelNames = []string{"PROVINCE", "AGE"}

func (l level) MarshalText() ([]byte, error) {
	if l < 0 || int(l) >= len(levelNames) {
		return nil, fmt.Errorf("no level %d", int(l))
	}
	return []byte(levelNames[l]), nil
}

func (l *level) UnmarshalText(b []byte) error {
	for i, name := range levelNames {
		if name == string(b) {
			*l = level(i)
			return nil
		}
	}
	return fmt.Errorf("no level %q", b)
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// roundTrip encodes and decodes by the default codec, behind other bytes, and
// checks that the result is equal and keeps nothing of the source.
func roundTrip[T any](t *testing.T, id string, values ...T) {
	t.Helper()
	c, err := For[T]()
	check(t, err)
	roundTripBy(t, c, id, values...)
}

func roundTripBy[T any](t *testing.T, c Codec[T], id string, values ...T) {
	t.Helper()
	if f := c.Format(); f.ID != id || f.Version != 1 || f != c.Format() {
		t.Errorf("%T: format %+v, want id %s", c, f, id)
	}
	for _, v := range values {
		b, err := c.Append([]byte("before"), v)
		if err != nil {
			t.Fatalf("%T %+v: %v", v, v, err)
		}
		if !bytes.HasPrefix(b, []byte("before")) {
			t.Fatalf("%T %+v: Append changed what was there", v, v)
		}
		b = b[len("before"):]
		if size := c.Format().Size; size > 0 && len(b) != size {
			t.Errorf("%T %+v: %d bytes, the format says %d", v, v, len(b), size)
		}
		src := bytes.Clone(b)
		got, err := c.Decode(src)
		if err != nil {
			t.Fatalf("%T %+v as %x: %v", v, v, b, err)
		}
		for i := range src {
			src[i] = '#'
		}
		if !reflect.DeepEqual(got, v) {
			t.Errorf("%T %+v came back as %+v", v, v, got)
		}
		ends := id != "string" && id != "bytes" && id != "text" && id != "binary"
		if _, err := c.Decode(append(bytes.Clone(b), b...)); err == nil && len(b) > 0 && ends {
			t.Errorf("%T %+v: twice as many bytes, no error", v, v)
		}
	}
}

func TestScalars(t *testing.T) {
	roundTrip(t, "bool", true, false)
	roundTrip(t, "int64", 0, -1, math.MaxInt, math.MinInt)
	roundTrip(t, "int8", int8(-128), 127)
	roundTrip(t, "int16", int16(math.MinInt16), math.MaxInt16)
	roundTrip(t, "int32", 'x', math.MinInt32, math.MaxInt32)
	roundTrip(t, "int64", int64(math.MinInt64), math.MaxInt64)
	roundTrip(t, "uint64", uint(0), math.MaxUint)
	roundTrip(t, "uint8", byte(0), 255)
	roundTrip(t, "uint16", uint16(math.MaxUint16))
	roundTrip(t, "uint32", uint32(math.MaxUint32))
	roundTrip(t, "uint64", uint64(math.MaxUint64))
	roundTrip(t, "float32", float32(1.5), float32(math.Inf(-1)), math.SmallestNonzeroFloat32)
	roundTrip(t, "float64", 0.1, math.Inf(1), math.MaxFloat64)
	roundTrip(t, "string", "", "x", "ü\x00\xff not UTF-8")
	roundTrip(t, "bytes", []byte{}, []byte("\x00\xff"))
	roundTrip(t, "int64", time.Duration(math.MaxInt64))
	roundTrip(t, "string", userID("u-1"))
	roundTrip(t, "int64", amount(-5))
	roundTrip(t, "uint8", small(200))
	roundTrip(t, "float64", ratio(-0.25))
	roundTrip(t, "bool", flag(true))
	roundTrip(t, "bytes", raw("abc"))
	roundTrip(t, "fixed", uuid{0: 1, 15: 0xFF})
	roundTrip(t, "int64", count(-7))
	roundTrip(t, "text", netip.MustParseAddr("2001:db8::1"), netip.Addr{})
	roundTrip(t, "binary", url.URL{Scheme: "https", Host: "example.com", Path: "/a b"})
	roundTrip(t, "text", *big.NewInt(1).Lsh(big.NewInt(1), 200))
}

// TestScalarBytes pins the encodings: they are stored.
func TestScalarBytes(t *testing.T) {
	appendTo := func(c any, err error) []byte { t.Helper(); check(t, err); return c.([]byte) }
	for want, got := range map[string][]byte{
		"01":                       appendTo(Bool().Append(nil, true)),
		"feff":                     appendTo(Int16().Append(nil, -2)),
		"04030201":                 appendTo(Uint32().Append(nil, 0x01020304)),
		"feffffffffffffff":         appendTo(Int().Append(nil, -2)),
		"0807060504030201":         appendTo(Uint64().Append(nil, 0x0102030405060708)),
		"0000c03f":                 appendTo(Float32().Append(nil, 1.5)),
		"000000000000f83f":         appendTo(Float64().Append(nil, 1.5)),
		"c3bc":                     appendTo(String().Append(nil, "ü")),
		"0100000000000000ffc99a3b": appendTo(Time().Append(nil, time.Unix(1, 999_999_999))),
		"ffffffffffffffff01000000": appendTo(Time().Append(nil, time.Unix(-1, 1))),
	} {
		if fmt.Sprintf("%x", got) != want {
			t.Errorf("%x, want %s", got, want)
		}
	}
}

func TestFloatsKeepAllBits(t *testing.T) {
	for _, bits := range []uint64{0x7ff8000000000001, 0xfff0000000000123, 0x8000000000000000} {
		b, err := Float64().Append(nil, math.Float64frombits(bits))
		check(t, err)
		got, err := Float64().Decode(b)
		check(t, err)
		if math.Float64bits(got) != bits {
			t.Errorf("%x came back as %x", bits, math.Float64bits(got))
		}
	}
}

func TestTime(t *testing.T) {
	far := time.Date(math.MaxInt32, 1, 2, 3, 4, 5, 6, time.UTC)
	zone := time.FixedZone("", 3600)
	for _, v := range []time.Time{{}, time.Unix(0, 0), time.Unix(-1, 999_999_999), time.Now(), far, time.Date(2024, 2, 29, 1, 2, 3, 456_789_012, zone)} {
		b, err := Time().Append(nil, v)
		check(t, err)
		got, err := Time().Decode(b)
		check(t, err)
		if !got.Equal(v) || got.Location() != time.UTC || got.IsZero() != v.IsZero() {
			t.Errorf("%v came back as %v", v, got)
		}
	}
	roundTrip(t, "time", time.Time{}, time.Unix(5, 6).UTC())
}

func TestStructs(t *testing.T) {
	at := time.Date(2024, 2, 29, 1, 2, 3, 456_789_012, time.UTC)
	roundTrip(t, "avro", everyday{
		Name: "ü\xff", Count: math.MinInt64, Big: math.MaxUint64, Word: math.MaxUint, Small: 255, Ratio: math.Inf(1), Half: 1.5, OK: true,
		Data: []byte{0, 255}, ID: uuid{3: 4}, At: at, Maybe: &at, Took: math.MinInt64, Tags: []string{"a", ""}, Scores: map[string]float64{"x": 1},
		In: inner{1, -2}, Ins: []inner{{}, {3, 4}}, Ptr: &inner{5, 6}, Level: 1, Times: []time.Time{{}, at}, Fixed: [3]int64{1, 2, 3}, Addr: netip.MustParseAddr("::1"),
	})
	roundTrip(t, "avro", node{1, &node{2, nil}})
	roundTrip(t, "avro", pair[string, int64]{"a", 1})
	roundTrip(t, "avro", pair[uint64, time.Duration]{math.MaxUint64, -1})
	roundTrip(t, "avro", struct{ A int }{7})
	roundTrip(t, "avro", struct{}{})
	roundTrip(t, "avro", []int64{}, []int64{1, -1})
	roundTrip(t, "avro", []inner{{1, 2}})
	roundTrip(t, "avro", map[string]int{"a": 1}, map[string]int{})
	roundTrip(t, "avro", &inner{1, 2}, (*inner)(nil))
	roundTrip(t, "avro", []time.Time{at, {}})
	roundTrip(t, "avro", [2]string{"a", "b"})
	roundTrip(t, "avro", []*int64{new(int64), nil})
	roundTrip(t, "json", map[int]string{1: "a", -2: "b"})
	roundTrip(t, "json", map[level]int{1: 5})
	roundTrip(t, "json", pair[pair[int, int], string]{pair[int, int]{1, 2}, "x"})
	roundTrip(t, "json", struct{ In struct{ A int } }{struct{ A int }{4}})
}

// TestTimeKeepsOffset: in structs the offset is kept.
func TestTimeKeepsOffset(t *testing.T) {
	c, err := Avro[pair[time.Time, int]]()
	check(t, err)
	v := time.Date(2024, 2, 29, 1, 2, 3, 4, time.FixedZone("", -5400))
	b, err := c.Append(nil, pair[time.Time, int]{First: v})
	check(t, err)
	got, err := c.Decode(b)
	check(t, err)
	if _, offset := got.First.Zone(); !got.First.Equal(v) || offset != -5400 {
		t.Errorf("%v came back as %v", v, got.First)
	}
}

func TestLogicalTypesByTag(t *testing.T) {
	type tagged struct {
		At  time.Time `avro:"at,timestamp-micros"`
		Day time.Time `avro:"day,date"`
	}
	c, err := Avro[tagged]()
	check(t, err)
	if schema := c.Format().Schema; !strings.Contains(schema, "timestamp-micros") || !strings.Contains(schema, `"date"`) {
		t.Errorf("schema %s", schema)
	}
	v := tagged{time.Date(2024, 2, 29, 1, 2, 3, 456_789_000, time.UTC), time.Date(2024, 2, 29, 0, 0, 0, 0, time.UTC)}
	roundTripBy(t, c, "avro", v)
	type mixed struct {
		At   time.Time `avro:"at,timestamp-micros"`
		Took time.Duration
	}
	if _, err := Avro[mixed](); err == nil || !strings.Contains(err.Error(), "Took") {
		t.Errorf("mixed: error %v", err)
	}
}

func TestForRefusesWhatWouldBeLost(t *testing.T) {
	type hidden struct {
		A int
		b int //nolint:unused // that is the point
	}
	type deep struct{ Xs []map[string]*hidden }
	refuse := func(c any, err error, path string) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("error %v, want one that names %s (%T)", err, path, c)
		}
	}
	a, err := For[hidden]()
	refuse(a, err, "hidden.b")
	b, err := For[deep]()
	refuse(b, err, "deep.Xs[].b")
	c, err := For[any]()
	refuse(c, err, "interface")
	d, err := For[struct{ F func() }]()
	refuse(d, err, ".F")
	e, err := For[chan int]()
	refuse(e, err, "chan int")
	f, err := For[[]complex128]()
	refuse(f, err, "complex128")
	g, err := For[map[inner]int]()
	refuse(g, err, "inner")
	h, err := For[error]()
	refuse(h, err, "error")
	i, err := Avro[map[int]int]()
	refuse(i, err, "keys")
}

// TestS12EnumerationStoredByPosition: a constant added in front must not give stored
// values other names.
func TestS12EnumerationStoredByPosition(t *testing.T) {
	saved := levelNames
	defer func() { levelNames = saved }()
	key, err := For[level]()
	check(t, err)
	record, err := For[pair[level, int]]()
	check(t, err)
	province, err := key.Append(nil, 0)
	check(t, err)
	age, err := record.Append(nil, pair[level, int]{1, 2})
	check(t, err)

	levelNames = []string{"COUNTRY", "PROVINCE", "AGE"}
	if got, err := key.Decode(province); err != nil || got != 1 {
		t.Errorf("PROVINCE came back as %d, %v", int(got), err)
	}
	if got, err := record.Decode(age); err != nil || got.First != 2 || got.Second != 2 {
		t.Errorf("AGE came back as %+v, %v", got, err)
	}
	levelNames = []string{"AGE"}
	if got, err := key.Decode(province); err == nil {
		t.Errorf("a name that is gone came back as %d", int(got))
	}
}

func TestDecodeErrors(t *testing.T) {
	for _, test := range []struct {
		err    error
		format string
		offset int
	}{
		{second(Int64().Decode([]byte("short"))), "int64", 5},
		{second(Int64().Decode([]byte("much too long"))), "int64", 8},
		{second(Int().Decode(nil)), "int64", 0},
		{second(Uint().Decode(nil)), "uint64", 0},
		{second(Int8().Decode(nil)), "int8", 0},
		{second(Int16().Decode([]byte("123"))), "int16", 2},
		{second(Float32().Decode([]byte("12345"))), "float32", 4},
		{second(Bool().Decode([]byte{2})), "bool", 0},
		{second(Bool().Decode([]byte{1, 1})), "bool", 1},
		{second(Time().Decode([]byte("01234567890"))), "time", 11},
		{second(Time().Decode(bytes.Repeat([]byte{0xFF}, 12))), "time", 8},
		{second(JSON[inner]().Decode([]byte(`{"X":1}}`))), "json", 8},
		{second(JSON[inner]().Decode([]byte(`{"X":"a"}`))), "json", 8},
		{second(JSON[inner]().Decode(nil)), "json", 0},
	} {
		var d *DecodeError
		if !errors.As(test.err, &d) || d.Format != test.format || d.Offset != test.offset {
			t.Errorf("error %v, want one of %s at %d", test.err, test.format, test.offset)
		}
	}
	c, err := Avro[everyday]()
	check(t, err)
	full, err := c.Append(nil, everyday{Name: "x", Scores: map[string]float64{"a": 1}, Level: 1})
	check(t, err)
	for n := range full {
		if _, err := c.Decode(full[:n:n]); !strings.HasPrefix(fmt.Sprint(err), "decode avro: at byte ") {
			t.Fatalf("%d of %d bytes: error %v", n, len(full), err)
		}
	}
}

func second[T any](_ T, err error) error { return err }

func TestEncodeErrorsKeepTheBytesBefore(t *testing.T) {
	c, err := For[pair[level, string]]()
	check(t, err)
	b, err := c.Append([]byte("before"), pair[level, string]{First: 99})
	if err == nil || string(b) != "before" {
		t.Errorf("avro: %q, %v", b, err)
	}
	b, err = JSON[float64]().Append([]byte("before"), math.NaN())
	if err == nil || string(b) != "before" {
		t.Errorf("json: %q, %v", b, err)
	}
	cycle := &node{V: 1}
	cycle.Next = cycle
	n, err := For[*node]()
	check(t, err)
	if _, err := n.Append(nil, cycle); err == nil {
		t.Error("a cycle of pointers: no error")
	}
}

func TestResolve(t *testing.T) {
	type v1 struct {
		Name string
		N    int32
		Gone bool
		At   time.Time
	}
	type v2 struct {
		At    time.Time
		Extra string `avro:"Extra,default=new"`
		N     int64
		Full  string `avro:"Full,alias=Name"`
		Big   *uint64
	}
	old, err := Avro[v1]()
	check(t, err)
	now, err := Avro[v2]()
	check(t, err)
	stored := old.Format()
	stored.Schema = strings.Replace(stored.Schema, `"v1"`, `"v2"`, 1) // the same type, later
	c, err := Resolve(now, stored)
	check(t, err)
	at := time.Date(2024, 2, 29, 1, 2, 3, 456_789_012, time.UTC)
	b, err := old.Append(nil, v1{"ann", -7, true, at})
	check(t, err)
	got, err := c.Decode(b)
	check(t, err)
	if want := (v2{At: at, Extra: "new", N: -7, Full: "ann"}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if c.Format() != now.Format() {
		t.Errorf("format %+v", c.Format())
	}
	b, err = c.Append(nil, got)
	check(t, err)
	if again, err := now.Decode(b); err != nil || again != got {
		t.Errorf("%+v, %v", again, err)
	}
	same, err := Resolve(Int64(), Int64().Format())
	check(t, err)
	if same != Int64() {
		t.Error("equal formats made another codec")
	}
}

func TestResolveRefuses(t *testing.T) {
	type v1 struct{ A string }
	type changed struct{ A int64 }
	old, err := Avro[v1]()
	check(t, err)
	now, err := Avro[changed]()
	check(t, err)
	stored := old.Format()
	stored.Schema = strings.Replace(stored.Schema, `"v1"`, `"changed"`, 1)
	_, errType := Resolve(now, stored)
	_, errID := Resolve(JSON[changed](), now.Format())
	_, errVersion := Resolve(now, Format{ID: "avro", Version: 2, Schema: stored.Schema})
	_, errSchema := Resolve(now, Format{ID: "avro", Version: 1, Schema: "{"})
	_, errScalar := Resolve(Int32(), Int64().Format())
	for i, err := range []error{errType, errID, errVersion, errSchema, errScalar} {
		if !errors.Is(err, ErrIncompatible) || !strings.Contains(err.Error(), "stored as") || !strings.Contains(err.Error(), "wanted as") {
			t.Errorf("case %d: error %v", i, err)
		}
	}
}

func TestNoAllocation(t *testing.T) {
	buf := make([]byte, 0, 64)
	v, now := int64(5), time.Now()
	allocs := testing.AllocsPerRun(100, func() {
		buf, _ = Int64().Append(buf[:0], v)
		v, _ = Int64().Decode(buf)
		buf, _ = String().Append(buf[:0], "a string")
		buf, _ = Time().Append(buf[:0], now)
		now, _ = Time().Decode(buf)
	})
	if allocs != 0 {
		t.Errorf("%v allocations", allocs)
	}
}
