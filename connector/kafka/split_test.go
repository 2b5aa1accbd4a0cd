package kafka

import (
	"slices"
	"testing"
)

func FuzzSplit(f *testing.F) {
	b, _ := splitCodec{}.Append(nil, Split{"t", [16]byte{1}, 2, 3, NoStop, 5})
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := splitCodec{}.Decode(b)
		if err != nil {
			return
		}
		again, _ := splitCodec{}.Append(nil, s)
		if back, err := (splitCodec{}).Decode(again); err != nil || back != s {
			t.Errorf("%+v came back as %+v, %v", s, back, err)
		}
	})
}

func FuzzEnumeration(f *testing.F) {
	b, _ := enumerationCodec{}.Append(nil, Enumeration{true, []Identity{{"t", [16]byte{1}, 2}}, []Split{{"t", [16]byte{1}, 2, 3, NoStop, 5}}})
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := enumerationCodec{}.Decode(b)
		if err != nil {
			return
		}
		again, _ := enumerationCodec{}.Append(nil, e)
		back, err := enumerationCodec{}.Decode(again)
		if err != nil || back.Started != e.Started || !slices.Equal(back.Known, e.Known) || !slices.Equal(back.Unassigned, e.Unassigned) {
			t.Errorf("%+v came back as %+v, %v", e, back, err)
		}
	})
}
