package main

import (
	"slices"
	"testing"
	"time"
)

// pageAt is a click of page 1 with a latency, seconds after the epoch.
func pageAt(request uint32, seconds int64, latency int32) sent {
	return sent{at: epoch + 1000*seconds, request: request, latency: latency * 100, page: 1}
}

func TestReferenceOfAFewClicks(t *testing.T) {
	tr := &traffic{
		clicks: []sent{
			pageAt(1, 0, 10), pageAt(2, 9, 20), pageAt(2, 9, 20), pageAt(3, 10, 40), pageAt(4, 65, 80),
		},
		late: []sent{pageAt(9, 1, 5), pageAt(9, 1, 5)},
	}
	want := newReference(tr)
	counts := map[int64]int64{
		-50: 2, -40: 3, -30: 3, -20: 3, -10: 3, 0: 3, 10: 2, 20: 1, 30: 1, 40: 1, 50: 1, 60: 1,
	}
	for start, n := range counts {
		got := want.windows[pageWindow{"/page/01", epoch + 1000*start}]
		if got.count != n {
			t.Errorf("window from %d s has %d requests, want %d", start, got.count, n)
		}
	}
	if len(want.windows) != len(counts) || len(want.late) != 1 || want.size() != len(counts)+1 {
		t.Errorf("%d windows and %d late records, want %d and 1", len(want.windows), len(want.late), len(counts))
	}
	// Of 10, 20, 40 the 75th percentile is half way from 20 to 40.
	p75 := want.windows[pageWindow{"/page/01", epoch}].p75
	for v, ok := range map[float64]bool{29.5: false, 29.8: true, 30: true, 30.2: true, 30.5: false} {
		if p75.hold(v) != ok {
			t.Errorf("%g for a percentile of 30 is accepted: %v, want %v", v, !ok, ok)
		}
	}
}

// right is the output that the reference wants.
func right(want *reference) (results []result, late []click) {
	for key, a := range want.windows {
		results = append(results, result{
			Page: key.page, Start: key.start, End: key.start + windowSize.Milliseconds(), Count: a.count,
			P75: (a.p75.low + a.p75.high) / 2, P99: (a.p99.low + a.p99.high) / 2,
		})
	}
	slices.SortFunc(results, func(a, b result) int { return int(a.Start - b.Start) })
	for _, c := range want.late {
		late = append(late, c)
	}
	return results, late
}

func TestVerdictFindsEveryFault(t *testing.T) {
	want := newReference(newTraffic(2000, 4))
	size, lateSize := want.size(), len(want.late)
	for _, c := range []struct {
		name  string
		fault func(rs []result, late []click) ([]result, []click)
		want  verdict
	}{
		{"none", func(rs []result, late []click) ([]result, []click) { return rs, late },
			verdict{Expected: size, Got: size, Late: lateSize}},
		{"result lost", func(rs []result, late []click) ([]result, []click) { return rs[1:], late },
			verdict{Expected: size, Got: size - 1, Lost: 1, Late: lateSize}},
		{"result twice", func(rs []result, late []click) ([]result, []click) { return append(rs, rs[3]), late },
			verdict{Expected: size, Got: size + 1, Duplicated: 1, Late: lateSize}},
		{"result twice, the second wrong", func(rs []result, late []click) ([]result, []click) {
			r := rs[3]
			r.Count++
			return append(rs, r), late
		}, verdict{Expected: size, Got: size + 1, Duplicated: 1, Late: lateSize}},
		{"count wrong", func(rs []result, late []click) ([]result, []click) { rs[5].Count++; return rs, late },
			verdict{Expected: size, Got: size, Wrong: 1, Late: lateSize}},
		{"p75 wrong", func(rs []result, late []click) ([]result, []click) { rs[5].P75 *= 1.03; return rs, late },
			verdict{Expected: size, Got: size, Wrong: 1, Late: lateSize}},
		{"p99 wrong", func(rs []result, late []click) ([]result, []click) { rs[5].P99 *= 0.97; return rs, late },
			verdict{Expected: size, Got: size, Wrong: 1, Late: lateSize}},
		{"window of another length", func(rs []result, late []click) ([]result, []click) { rs[5].End++; return rs, late },
			verdict{Expected: size, Got: size, Wrong: 1, Late: lateSize}},
		{"result of no window", func(rs []result, late []click) ([]result, []click) {
			return append(rs, result{Page: "/page/01", Start: epoch + time.Hour.Milliseconds()}), late
		}, verdict{Expected: size, Got: size + 1, Wrong: 1, Late: lateSize}},
		{"late record lost", func(rs []result, late []click) ([]result, []click) { return rs, late[1:] },
			verdict{Expected: size, Got: size - 1, Lost: 1, Late: lateSize - 1}},
		{"late record twice", func(rs []result, late []click) ([]result, []click) { return rs, append(late, late[0]) },
			verdict{Expected: size, Got: size + 1, Duplicated: 1, Late: lateSize}},
		{"late record changed", func(rs []result, late []click) ([]result, []click) { late[0].Latency++; return rs, late },
			verdict{Expected: size, Got: size, Wrong: 1, Late: lateSize}},
		{"click in the late topic", func(rs []result, late []click) ([]result, []click) {
			return rs, append(late, click{ID: "req-00000001"})
		}, verdict{Expected: size, Got: size + 1, Wrong: 1, Late: lateSize}},
	} {
		t.Run(c.name, func(t *testing.T) {
			results, late := c.fault(right(want))
			got := newVerdict(want, results, late)
			if c.want.Lost+c.want.Duplicated+c.want.Wrong != len(got.examples) {
				t.Errorf("the report names %q", got.examples)
			}
			got.examples = nil
			if got.Expected != c.want.Expected || got.Got != c.want.Got || got.Lost != c.want.Lost ||
				got.Duplicated != c.want.Duplicated || got.Wrong != c.want.Wrong || got.Late != c.want.Late {
				t.Errorf("verdict is %+v, want %+v", *got, c.want)
			}
			if exact := c.name == "none"; got.exact() != exact {
				t.Errorf("exact is %v, want %v", got.exact(), exact)
			}
		})
	}
}
