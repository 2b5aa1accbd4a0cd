package codec

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/netip"
	"reflect"
	"testing"
	"time"
)

// byValue and byPointer write themselves, with one receiver or the other.
type (
	byValue   struct{ N int }
	byPointer struct{ N int }
	textHook  struct{ N int }
)

func (v byValue) MarshalJSON() ([]byte, error)    { return fmt.Appendf(nil, `"v%d"`, v.N), nil }
func (p *byPointer) MarshalJSON() ([]byte, error) { return fmt.Appendf(nil, `"p%d"`, p.N), nil }
func (p *byPointer) UnmarshalJSON(b []byte) error {
	_, err := fmt.Sscanf(string(b), `"p%d"`, &p.N)
	return err
}
func (h *textHook) MarshalText() ([]byte, error) { return fmt.Appendf(nil, "t%d", h.N), nil }
func (h *textHook) UnmarshalText(b []byte) error {
	_, err := fmt.Sscanf(string(b), "t%d", &h.N)
	return err
}

type (
	chain struct {
		N    int
		Next *chain
		More map[string][]chain
	}
	quoted struct {
		F  float64     `json:"f,string"`
		I  int         `json:"i,omitempty,string"`
		Nr json.Number `json:"nr,string"`
		H  textHook    `json:"h,string"` //nolint:staticcheck // it does nothing in encoding/json
	}
	deepPointer struct{ A []map[string][1]**byValue }
	embeds      struct{ quoted }
	recursive   struct {
		Next *recursive
		P    **byPointer
	}
	hidden struct {
		p **byValue //nolint:unused // it must not count
		A **byValue `json:"-"`
		N int
	}
)

func TestNeedsStandard(t *testing.T) {
	for _, c := range []struct {
		t    reflect.Type
		want bool
	}{
		{reflect.TypeFor[click](), false},
		{reflect.TypeFor[document](), false},
		{reflect.TypeFor[chain](), false},
		{reflect.TypeFor[map[string]time.Time](), false},
		{reflect.TypeFor[map[netip.Addr]*byPointer](), false},
		{reflect.TypeFor[map[string][]byPointer](), false}, // addressable
		{reflect.TypeFor[**int](), false},
		{reflect.TypeFor[hidden](), false},
		{reflect.TypeFor[**byValue](), true},
		{reflect.TypeFor[***byPointer](), true},
		{reflect.TypeFor[**textHook](), true},
		{reflect.TypeFor[deepPointer](), true},
		{reflect.TypeFor[recursive](), true},
		{reflect.TypeFor[quoted](), true},
		{reflect.TypeFor[embeds](), true},
		{reflect.TypeFor[map[string]byPointer](), true},
		{reflect.TypeFor[map[string]struct{ A [2]textHook }](), true},
	} {
		if got := needsStandard(c.t); got != c.want {
			t.Errorf("%v: %v", c.t, got)
		}
	}
	if planFor(reflect.TypeFor[struct {
		N int `json:",string"`
	}]()) != nil || planFor(reflect.TypeFor[quoted]()) != nil {
		t.Error("a plan takes the option string")
	}
}

// sameAsStandard encodes a value and decodes inputs as encoding/json does.
func sameAsStandard[T any](t *testing.T, v T, inputs ...string) {
	t.Helper()
	c := JSON[T]()
	want, wantErr := json.Marshal(&v)
	got, err := c.Append(nil, v)
	if !bytes.Equal(got, want) || (err == nil) != (wantErr == nil) {
		t.Errorf("%T: encoded as %s, %v; encoding/json has %s, %v", v, got, err, want, wantErr)
	}
	for _, in := range append(inputs, string(want)) {
		var want T
		wantErr := json.Unmarshal([]byte(in), &want)
		got, err := c.Decode([]byte(in))
		if (err == nil) != (wantErr == nil) || err == nil && !reflect.DeepEqual(got, want) {
			t.Errorf("%T: %s decoded as %+v, %v; encoding/json has %+v, %v", v, in, got, err, want, wantErr)
		}
		many, err := c.(BatchDecoder[T]).DecodeBatch(nil, [][]byte{[]byte(in)})
		if (err == nil) != (wantErr == nil) || err == nil && !reflect.DeepEqual(many[0], want) {
			t.Errorf("%T: %s decoded in a batch as %+v, %v; encoding/json has %+v, %v", v, in, many, err, want, wantErr)
		}
	}
}

func TestJSONWhereTheLibraryDiffers(t *testing.T) {
	v, p, h := &byValue{1}, &byPointer{2}, &textHook{3}
	sameAsStandard(t, v)
	sameAsStandard(t, p, `null`, `"p7"`)
	sameAsStandard(t, &p, `null`, `"p7"`)
	sameAsStandard(t, &h, `null`, `"t7"`)
	sameAsStandard(t, deepPointer{[]map[string][1]**byValue{{"a": {&v}}}})
	sameAsStandard(t, recursive{&recursive{P: &p}, nil}, `{"Next":{"P":"p5"}}`)
	sameAsStandard(t, quoted{F: 1.5, I: 2, Nr: "3", H: *h},
		`{"f":"NaN"}`, `{"f":"Inf"}`, `{"f":".1"}`, `{"f":"+1"}`, `{"i":"+1"}`, `{"nr":"+1"}`, `{"nr":"NaN"}`, `{"nr":"12"}`, `{"h":"t4"}`, `{"f":null}`, `{"i":""}`)
	sameAsStandard(t, map[string]byPointer{"a": *p}, `{"a":"p7"}`, `{"a":null}`)
	sameAsStandard(t, map[string]struct{ A [2]textHook }{"a": {}}, `{"a":{"A":["t1","t2"]}}`)
	sameAsStandard(t, map[textHook]int{}, `{"t1":1}`)
	// These stay with the library.
	sameAsStandard(t, map[string]time.Time{"a": time.Unix(1, 0).UTC()}, `{"a":null}`, `{"a":"x"}`)
	sameAsStandard(t, []byPointer{*p}, `["p7",null]`)
	sameAsStandard(t, byPointer{4}, `"p7"`)
}
