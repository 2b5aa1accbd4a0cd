package keygroup

import (
	"testing"

	"github.com/weirstream/weir/codec"
)

func formatOf[K comparable](t *testing.T) codec.Format {
	t.Helper()
	e, err := NewEncoding[K]()
	if err != nil {
		t.Fatal(err)
	}
	return e.Format()
}

type (
	route   struct{ From, To string }
	back    struct{ To, From string }
	renamed struct{ Source, To string }
	both    struct{ Source, Target string }
	moved   struct{ To, Via string }
	number  struct{ From, To int64 }
	hops    struct {
		_     int32
		Hops  [2]route
		Owner [4]byte
	}
	hopsBack struct {
		Hops  [2]back
		Owner [4]byte
	}
)

// A key's fields may have other names, but not change places: all state would lie
// under other keys.
func TestFieldsOfKeysDoNotChangePlaces(t *testing.T) {
	stored := formatOf[route](t)
	if want := (codec.Format{ID: "struct{string;string}", Version: 1, Schema: "struct{From string; To string}"}); stored != want {
		t.Fatalf("the format is %+v, not %+v", stored, want)
	}
	if got := stored.Describe(); got != "struct{From string; To string}" {
		t.Errorf("it is described as %s", got)
	}
	unnamed := codec.Format{ID: stored.ID, Version: 1}
	for name, c := range map[string]struct {
		stored, wanted codec.Format
		same           bool
	}{
		"the same":              {stored, stored, true},
		"exchanged":             {stored, formatOf[back](t), false},
		"one renamed":           {stored, formatOf[renamed](t), true},
		"all renamed":           {stored, formatOf[both](t), true},
		"moved to the front":    {stored, formatOf[moved](t), false},
		"other types":           {stored, formatOf[number](t), false},
		"no struct":             {stored, formatOf[string](t), false},
		"stored without names":  {unnamed, stored, true},
		"within arrays":         {formatOf[hops](t), formatOf[hopsBack](t), false},
		"the same in arrays":    {formatOf[hops](t), formatOf[hops](t), true},
		"numbers, the same":     {formatOf[int64](t), formatOf[int](t), true},
		"arrays without fields": {formatOf[[2]int64](t), formatOf[[2]int64](t), true},
		"another version":       {codec.Format{ID: stored.ID, Version: 2}, stored, false},
	} {
		if got := SameKeys(c.stored, c.wanted); got != c.same {
			t.Errorf("%s: %v", name, got)
		}
	}
	if f := formatOf[[2]int64](t); f.Schema != "" {
		t.Errorf("an array of numbers has names: %+v", f)
	}
}
