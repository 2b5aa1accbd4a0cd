package registry

import (
	"bytes"
	"testing"

	"github.com/twmb/avro"
)

// known is a registry that has schemas already, and is never asked.
func known(t testing.TB, schemas ...string) *Registry {
	r, err := New()
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	close(done)
	for i, s := range schemas {
		r.fetches[uint32(i)] = &fetch{done: done, schema: avro.MustParse(s)}
	}
	return r
}

// shape is a value with something of everything.
type shape struct {
	ID    string           `avro:"id,alias=name"`
	N     int32            `avro:"n,default=3"`
	Parts []shape          `avro:"parts"`
	By    map[string]int64 `avro:"by"`
	Opt   *float64         `avro:"opt"`
	Raw   []byte           `avro:"raw"`
}

const shapeSchema = `{"type":"record","name":"S","fields":[{"name":"name","type":"string"},
	{"name":"parts","type":{"type":"array","items":"S"}},{"name":"by","type":{"type":"map","values":"int"}},
	{"name":"opt","type":["null","float"]},{"name":"raw","type":"bytes"},{"name":"left","type":{"type":"fixed","name":"F","size":3}}]}`

// FuzzDecode decodes anything: what it takes it must take again when written.
func FuzzDecode(f *testing.F) {
	f.Add(record(f, 0, shapeSchema, map[string]any{
		"name": "a", "parts": []any{}, "by": map[string]any{"x": int32(1)}, "opt": float32(1), "raw": []byte("r"), "left": []byte("abc"),
	}))
	f.Add([]byte("\x00\x00\x00\x00\x01\x02a\x06\x00\x00\x00\x00"))
	f.Add([]byte(`{"id":"a"}`))
	own, err := avro.SchemaFor[shape](avro.WithName("shape"))
	if err != nil {
		f.Fatal(err)
	}
	r := known(f, shapeSchema, own.String())
	read := newAvro[shape](f, r)
	write := newAvro[shape](f, r).(*avroCodec[shape])
	write.prefix.Store(&[]byte{0, 0, 0, 0, 1})
	f.Fuzz(func(t *testing.T, src []byte) {
		src = bytes.Clone(src)
		if len(src) >= headerSize {
			src[1], src[2], src[3], src[4] = 0, 0, 0, src[4]&1
		}
		v, err := read.Decode(src)
		if err != nil {
			return
		}
		b, err := write.Append(nil, v)
		if err != nil {
			t.Fatalf("%+v was read and cannot be written: %v", v, err)
		}
		again, err := read.Decode(b)
		if err != nil {
			t.Fatalf("%+v was written and cannot be read: %v", v, err)
		}
		if b2, err := write.Append(nil, again); err != nil || len(b2) != len(b) {
			t.Fatalf("%+v became %+v, %v", v, again, err)
		}
	})
}

// FuzzSchema reads by anything that a registry may call a schema.
func FuzzSchema(f *testing.F) {
	f.Add(shapeSchema, []byte("\x02a\x00\x00\x00\x00abc"))
	f.Add(`{"type":"record","name":"a.b.S","fields":[{"name":"id","type":["null","string"],"aliases":["n"]}]}`, []byte("\x02\x02a"))
	f.Add(`{"type":"record","name":"S","fields":[{"name":"parts","type":["null",{"type":"array","items":["S","null"]}]}]}`, []byte("\x00"))
	own, err := avro.SchemaFor[shape](avro.WithName("shape"))
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text string, body []byte) {
		writer, err := avro.Parse(text)
		if err != nil {
			return
		}
		reader, err := readAs(writer, own)
		if err != nil {
			return
		}
		// The fields of the type change what is made of a record, not how long
		// it is.
		var v shape
		var whole any
		rest, err := reader.Decode(body, &v, avro.SkipUnknown())
		all, wholeErr := writer.Decode(body, &whole)
		if err == nil && wholeErr == nil && len(rest) != len(all) {
			t.Fatalf("%d bytes are left by %s, %d by the writer's schema", len(rest), reader, len(all))
		}
	})
}
