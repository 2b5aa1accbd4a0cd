package main

import (
	"bytes"
	"encoding/json"
	"slices"
	"testing"
)

func TestTrafficIsTheSameForASeed(t *testing.T) {
	a, b := newTraffic(5000, 7), newTraffic(5000, 7)
	if !slices.Equal(a.clicks, b.clicks) || !slices.Equal(a.closing, b.closing) || !slices.Equal(a.late, b.late) {
		t.Error("two runs of seed 7 differ")
	}
	if c := newTraffic(5000, 8); slices.Equal(a.clicks, c.clicks) {
		t.Error("seeds 7 and 8 make the same clicks")
	}
}

func TestRepeatedRequestsHaveTheSameBytes(t *testing.T) {
	first := map[uint32][]byte{}
	repeated := 0
	tr := newTraffic(20_000, 3)
	for _, c := range append(slices.Clone(tr.clicks), tr.late...) {
		data := c.append(nil)
		if before, ok := first[c.request]; !ok {
			first[c.request] = data
		} else if repeated++; !bytes.Equal(before, data) {
			t.Fatalf("request %d is %s, then %s", c.request, before, data)
		}
	}
	if share := float64(repeated) / 20_000; share < 0.03 || share > 0.06 {
		t.Errorf("%.3f of the records are repetitions, want about 0.05", share)
	}
}

func TestDisorderStaysWithinItsBound(t *testing.T) {
	for _, records := range []int{1000, 50_000} {
		tr := newTraffic(records, 11)
		var newest [partitions]int64
		behind := 0
		for _, c := range append(slices.Clone(tr.clicks), tr.closing...) {
			n := &newest[c.partition]
			if *n-c.at > disorder.Milliseconds() {
				t.Fatalf("%d records: one is %d ms behind its partition, more than %v", records, *n-c.at, disorder)
			}
			if c.at < *n {
				behind++
			}
			*n = max(*n, c.at)
		}
		if behind < records/10 {
			t.Errorf("%d records: only %d are out of order", records, behind)
		}
	}
}

func TestOneRequestIsMarkedInTheSecondQuarter(t *testing.T) {
	for seed := range uint64(50) {
		clicks := newTraffic(1000, seed).clicks
		at := slices.IndexFunc(clicks, func(c sent) bool { return c.marked })
		if at < 250 || at >= 500 {
			t.Fatalf("seed %d: record %d is the first that is marked, want one from 250 to 499", seed, at)
		}
		for _, c := range clicks {
			if c.marked && c.request != clicks[at].request {
				t.Fatalf("seed %d: requests %d and %d are marked", seed, clicks[at].request, c.request)
			}
		}
	}
}

func TestClosingAndLateRecordsLieOutsideAllWindows(t *testing.T) {
	tr := newTraffic(1000, 5)
	size, slide := windowSize.Milliseconds(), windowSlide.Milliseconds()
	lastEnd := int64(0)
	for _, c := range tr.clicks {
		lastEnd = max(lastEnd, c.at-c.at%slide+size)
	}
	for p, c := range tr.closing {
		if int(c.partition) != p {
			t.Errorf("closing record %d is in partition %d", p, c.partition)
		}
		if wm := c.at - disorder.Milliseconds() - 1; wm < lastEnd-1 {
			t.Errorf("the watermark %d after the closing records leaves a window open that ends at %d", wm, lastEnd)
		}
		if first := c.at - c.at%slide - size + slide; first <= lastEnd-size {
			t.Errorf("a closing record falls into the window from %d, which clicks are in, too", first)
		}
	}
	known := map[uint32]bool{}
	for _, c := range tr.clicks {
		known[c.request] = true
	}
	for _, c := range tr.late {
		if known[c.request] {
			t.Errorf("late record %d repeats a click", c.request)
		}
		if end := c.at - c.at%slide + size; end > lastEnd {
			t.Errorf("late record at %d is for a window that no click is in", c.at)
		}
	}
}

func TestRecordsDecodeToTheirClicks(t *testing.T) {
	for _, c := range newTraffic(1000, 2).clicks {
		var got click
		if err := json.Unmarshal(c.append(nil), &got); err != nil {
			t.Fatal(err)
		}
		if got != c.click() {
			t.Fatalf("%s is %+v, want %+v", c.append(nil), got, c.click())
		}
	}
}
