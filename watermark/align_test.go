package watermark_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/weirstream/weir/watermark"
)

func TestAlignOptions(t *testing.T) {
	s := watermark.Bounded[int](0, nil)
	got := s.Align("g", 3*time.Second).Alignment()
	if want := (watermark.Alignment{Group: "g", Drift: 3000, Interval: 1000}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	got = s.Align("g", 0).AlignInterval(20 * time.Millisecond).AlignUnalignedSplits().Alignment()
	if want := (watermark.Alignment{Group: "g", Interval: 20, UnalignedSplits: true}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	for part, s := range map[string]watermark.Strategy[int]{
		"name of a group":     s.Align("", time.Second),
		"not negative":        s.Align("g", -time.Second),
		"makes no watermarks": watermark.Strategy[int]{}.Align("g", time.Second),
		"must be positive":    s.Align("g", time.Second).AlignInterval(0),
	} {
		if err := s.Err(); err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("got %v, want %q", err, part)
		}
	}
}

func TestAlignSplits(t *testing.T) {
	s := watermark.NewSplits(watermark.Monotonous[int](nil).Idle(100 * time.Millisecond))
	at := func(id string, ms int64) { s.OnBatch(id, []int{0}, []int64{ms}, 0) }
	want := func(what string, limit int64, pause, resume []string) {
		t.Helper()
		s.Advance()
		var paused, resumed []string
		if err := s.Align(limit, func(p, r []string) error { paused, resumed = p, r; return nil }); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(paused, pause) || !reflect.DeepEqual(resumed, resume) {
			t.Errorf("%s: paused %v, resumed %v, want %v and %v", what, paused, resumed, pause, resume)
		}
	}
	s.Add("a")
	at("a", 1000)
	want("one split is the source", 10, nil, nil)
	s.Add("b")
	at("b", 1)
	want("a is ahead", 10, []string{"a"}, nil)
	want("it is paused already", 20, nil, nil)
	at("b", 990)
	want("the limit has risen", 999, nil, []string{"a"})
	want("both are ahead", 5, []string{"a", "b"}, nil)
	s.Release("b")
	want("the other is released", 5, nil, []string{"a"})
	s.Add("c")
	s.Tick(0, true)
	at("c", 7000)
	s.Tick(1, true)
	s.Tick(500, true)
	want("a and c are idle", 5, nil, nil)
}
