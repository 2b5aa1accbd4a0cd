package avro

import (
	"bytes"
	"slices"
	"testing"

	goavro "github.com/twmb/avro"
	"github.com/twmb/avro/ocf"
)

// A record that a schema defines once may be read as several types, some of
// which have fewer fields, and where it is defined may not be read at all.
func TestSharedRecordIsReadAsSeveralTypes(t *testing.T) {
	for name, namespace := range map[string]string{"no namespace": "", "a namespace": `"namespace":"org.example",`} {
		t.Run(name, func(t *testing.T) { testSharedRecord(t, namespace) })
	}
}

func testSharedRecord(t *testing.T, namespace string) {
	schema := goavro.MustParse(`{"type":"record","name":"E",` + namespace + `"fields":[
		{"name":"id","type":"long"},
		{"name":"home","type":{"type":"record","name":"Place","fields":[{"name":"zip","type":"long"},{"name":"city","type":"string"}]}},
		{"name":"work","type":["null","Place"]},
		{"name":"note","type":"string"}]}`)
	var b bytes.Buffer
	w, err := ocf.NewWriter(&b, schema)
	if err != nil {
		t.Fatal(err)
	}
	home, work := map[string]any{"city": "Ulm", "zip": int64(5)}, map[string]any{"city": "Bonn", "zip": int64(7)}
	for id := range int64(2) {
		if err := w.Encode(map[string]any{"id": id, "home": home, "work": work, "note": "n"}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}

	type city struct {
		City string `avro:"city"`
	}
	type place struct {
		City string `avro:"city"`
		Zip  int64  `avro:"zip"`
	}
	type narrowFirst struct {
		Home city  `avro:"home"`
		Work place `avro:"work"`
	}
	type narrowLast struct {
		Home place `avro:"home"`
		Work city  `avro:"work"`
	}
	type withoutDefinition struct {
		ID   int64 `avro:"id"`
		Work city  `avro:"work"`
	}
	wantBoth(t, b.Bytes(), narrowFirst{city{"Ulm"}, place{"Bonn", 7}}, narrowFirst{city{"Ulm"}, place{"Bonn", 7}})
	wantBoth(t, b.Bytes(), narrowLast{place{"Ulm", 5}, city{"Bonn"}}, narrowLast{place{"Ulm", 5}, city{"Bonn"}})
	wantBoth(t, b.Bytes(), withoutDefinition{0, city{"Bonn"}}, withoutDefinition{1, city{"Bonn"}})
}

func wantBoth[T comparable](t *testing.T, content []byte, want ...T) {
	t.Helper()
	got, err := read(t, source[T](content))
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("got %+v (%v), want %+v", got, err, want)
	}
}
