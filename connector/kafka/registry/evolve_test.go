package registry

import (
	"reflect"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/sr"
)

// decoded reads a value that was written by a schema.
func decoded[T any](t *testing.T, schema string, value any) (T, error) {
	t.Helper()
	s := newServer(t)
	s.SeedSchema("topic-value", 1, 7, sr.Schema{Schema: schema})
	return newAvro[T](t, s.client()).Decode(record(t, 7, schema, value))
}

func wantDecoded[T any](t *testing.T, want T, schema string, value any) {
	t.Helper()
	got, err := decoded[T](t, schema, value)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
}

type fields = map[string]any

func TestFieldsOfOtherTypesAndPlaces(t *testing.T) {
	type event struct {
		Name  string    `avro:"name"`
		N     int64     `avro:"n"`
		Small int8      `avro:"small"`
		Ratio float64   `avro:"ratio"`
		At    time.Time `avro:"at"`
		Kind  string    `avro:"kind"`
		Maybe *string   `avro:"maybe"`
		Flat  string    `avro:"flat"`
	}
	at := time.UnixMicro(1234567).UTC()
	maybe := "yes"
	wantDecoded(t, event{"a", 5, 6, 0.5, at, "B", &maybe, ""},
		`{"type":"record","name":"com.other.Thing","fields":[
			{"name":"left","type":{"type":"array","items":"string"}},
			{"name":"flat","type":["null","string"]},
			{"name":"maybe","type":["string","null"]},
			{"name":"kind","type":{"type":"enum","name":"Kind","symbols":["A","B"]}},
			{"name":"at","type":{"type":"long","logicalType":"timestamp-micros"}},
			{"name":"ratio","type":"float"},
			{"name":"small","type":"long"},
			{"name":"n","type":"int"},
			{"name":"name","type":"string"}]}`,
		fields{"left": []any{"x"}, "flat": nil, "maybe": "yes", "kind": "B", "at": at, "ratio": float32(0.5), "small": int64(6), "n": int32(5), "name": "a"})
}

func TestAddedFields(t *testing.T) {
	type place struct {
		City    string `avro:"city"`
		Country string `avro:"country,default=DE"`
	}
	type event struct {
		ID       string  `avro:"id"`
		Currency string  `avro:"currency,default=EUR"`
		Rank     int32   `avro:"rank,default=3"`
		Paid     bool    `avro:"paid,default=true"`
		Rate     float64 `avro:"rate,default=1.5"`
		Note     string  `avro:"note"`
		Opt      *int64  `avro:"opt"`
		Home     place   `avro:"home"`
		Others   []place `avro:"others"`
	}
	ulm := fields{"city": "Ulm"}
	wantDecoded(t, event{"a", "EUR", 3, true, 1.5, "", nil, place{"Ulm", "DE"}, []place{{"Ulm", "DE"}, {"Ulm", "DE"}}},
		`{"type":"record","name":"Event","fields":[{"name":"id","type":"string"},
			{"name":"home","type":{"type":"record","name":"Place","fields":[{"name":"city","type":"string"}]}},
			{"name":"others","type":{"type":"array","items":"Place"}}]}`,
		fields{"id": "a", "home": ulm, "others": []any{ulm, ulm}})
}

func TestRenamedFields(t *testing.T) {
	type event struct {
		Key   string `avro:"key,alias=id,alias=name"`
		Total int64  `avro:"total,alias=[sum,amount]"`
	}
	for schema, value := range map[string]fields{
		`{"type":"record","name":"E","fields":[{"name":"id","type":"string"},{"name":"sum","type":"long"}]}`:                                          {"id": "a", "sum": int64(5)},
		`{"type":"record","name":"E","fields":[{"name":"amount","type":"int"},{"name":"name","type":"string"}]}`:                                      {"name": "a", "amount": int32(5)},
		`{"type":"record","name":"E","fields":[{"name":"id","type":"string"},{"name":"key","type":"string"},{"name":"total","type":"long"}]}`:         {"id": "old", "key": "a", "total": int64(5)},
		`{"type":"record","name":"E","fields":[{"name":"key","type":"string","aliases":["total"]},{"name":"sum","type":"long"}]}`:                     {"key": "a", "sum": int64(5)},
		`{"type":"record","name":"E","aliases":["F"],"namespace":"x","fields":[{"name":"id","type":["null","string"]},{"name":"sum","type":"long"}]}`: {"id": "a", "sum": int64(5)},
	} {
		wantDecoded(t, event{"a", 5}, schema, value)
	}
}

// The same record of the writer may be read as two types.
func TestSharedRecords(t *testing.T) {
	type city struct {
		City string `avro:"city"`
	}
	type place struct {
		City string `avro:"city"`
		Zip  int64  `avro:"zip"`
		Land string `avro:"land,default=DE"`
	}
	type renamed struct {
		Town string `avro:"town,alias=city"`
	}
	const schema = `{"type":"record","name":"E","fields":[
		{"name":"left","type":{"type":"record","name":"Place","fields":[{"name":"city","type":"string"},{"name":"zip","type":"int"}]}},
		{"name":"a","type":"Place"},{"name":"b","type":["null","Place"]}]}`
	ulm, bonn := fields{"city": "Ulm", "zip": int32(1)}, fields{"city": "Bonn", "zip": int32(2)}
	value := fields{"left": ulm, "a": ulm, "b": bonn}
	type event struct {
		A city   `avro:"a"`
		B *place `avro:"b"`
	}
	wantDecoded(t, event{city{"Ulm"}, &place{"Bonn", 2, "DE"}}, schema, value)
	type contradiction struct {
		A city    `avro:"a"`
		B renamed `avro:"b"`
	}
	_, err := decoded[contradiction](t, schema, value)
	wantError(t, err, "field city of Place is to be read as", "town")
	wantKind(t, err, false, false)
	type other struct {
		City string `avro:"city"`
		Land string `avro:"land,default=CH"`
	}
	type disagreement struct {
		A other `avro:"a"`
		B place `avro:"b"`
	}
	_, err = decoded[disagreement](t, schema, value)
	wantError(t, err, "field land, which Place lacks, is to be CH and DE")
}

func TestRecursiveRecords(t *testing.T) {
	type node struct {
		Name string `avro:"name,alias=label"`
		Next *node  `avro:"next"`
		Size int64  `avro:"size,default=1"`
	}
	const schema = `{"type":"record","name":"L","fields":[{"name":"label","type":"string"},{"name":"next","type":["null","L"]}]}`
	wantDecoded(t, node{"a", &node{"b", nil, 1}, 1}, schema, fields{"label": "a", "next": fields{"label": "b", "next": nil}})
}

func TestValuesWithoutFields(t *testing.T) {
	wantDecoded(t, "a", `"string"`, "a")
	wantDecoded[any](t, map[string]any{"id": "a"}, `{"type":"record","name":"E","fields":[{"name":"id","type":"string"}]}`, fields{"id": "a"})
}

func TestReferences(t *testing.T) {
	s := newServer(t)
	s.SeedSchema("city", 3, 5, sr.Schema{Schema: `{"type":"record","name":"com.x.City","fields":[{"name":"name","type":"string"}]}`})
	s.SeedSchema("place", 1, 6, sr.Schema{
		Schema:     `{"type":"record","name":"com.x.Place","fields":[{"name":"city","type":"com.x.City"}]}`,
		References: []sr.SchemaReference{{Name: "com.x.City", Subject: "city", Version: 3}},
	})
	text := `{"type":"record","name":"E","fields":[{"name":"home","type":"com.x.Place"},{"name":"born","type":"com.x.City"}]}`
	s.SeedSchema("topic-value", 1, 7, sr.Schema{Schema: text, References: []sr.SchemaReference{
		{Name: "com.x.Place", Subject: "place", Version: 1}, {Name: "com.x.City", Subject: "city", Version: 3},
	}})
	type city struct {
		Town string `avro:"town,alias=name"`
	}
	type place struct {
		City city `avro:"city"`
	}
	type event struct {
		Home place `avro:"home"`
		Born city  `avro:"born"`
	}
	got, err := newAvro[event](t, s.client()).Decode([]byte("\x00\x00\x00\x00\x07\x02a\x02b"))
	if want := (event{place{city{"a"}}, city{"b"}}); err != nil || got != want {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
}
