package main

import (
	"math"
	"slices"
)

// pageWindow names a result: a page and the start of a window.
type pageWindow struct {
	page  string
	start int64
}

// answer is what is right for a page and a window.
type answer struct {
	count    int64
	p75, p99 bounds
}

// bounds are the smallest and the largest value that is right.
type bounds struct{ low, high float64 }

func (b bounds) hold(v float64) bool { return b.low <= v && v <= b.high }

// reference is the whole output that the job must produce.
type reference struct {
	windows map[pageWindow]answer
	late    map[string]click
}

func (r *reference) size() int { return len(r.windows) + len(r.late) }

// newReference computes the output from what is sent: by sorting, in memory,
// with nothing of the stream processor.
func newReference(t *traffic) *reference {
	r := &reference{windows: map[pageWindow]answer{}, late: map[string]click{}}
	byPage := make([][]sent, pages)
	for _, c := range distinct(t.clicks) {
		byPage[c.page] = append(byPage[c.page], c)
	}
	for _, cs := range byPage {
		r.addPage(cs)
	}
	for _, c := range t.late {
		r.late[c.id()] = c.click()
	}
	return r
}

// distinct keeps the first record of each request.
func distinct(cs []sent) []sent {
	seen := make(map[uint32]bool, len(cs))
	var first []sent
	for _, c := range cs {
		if !seen[c.request] {
			seen[c.request] = true
			first = append(first, c)
		}
	}
	return first
}

// addPage adds the windows of one page.
func (r *reference) addPage(cs []sent) {
	if len(cs) == 0 {
		return
	}
	slices.SortFunc(cs, func(a, b sent) int { return int(a.at - b.at) })
	size, slide := windowSize.Milliseconds(), windowSlide.Milliseconds()
	from, to := 0, 0
	first := cs[0].at - cs[0].at%slide - size + slide
	for start := first; start <= cs[len(cs)-1].at; start += slide {
		for from < len(cs) && cs[from].at < start {
			from++
		}
		for to < len(cs) && cs[to].at < start+size {
			to++
		}
		if from < to {
			r.windows[pageWindow{cs[0].pageName(), start}] = newAnswer(cs[from:to])
		}
	}
}

func newAnswer(cs []sent) answer {
	latencies := make([]float64, len(cs))
	for i, c := range cs {
		latencies[i] = c.latencyMS()
	}
	slices.Sort(latencies)
	return answer{
		count: int64(len(cs)),
		p75:   percentile(latencies, 0.75),
		p99:   percentile(latencies, 0.99),
	}
}

// percentile bounds what may be reported for the quantile q of sorted values:
// the exact one, interpolated between the two closest ranks, give or take the
// relative error of the sketch. The last factor is for rounding.
func percentile(sorted []float64, q float64) bounds {
	const rounding = 1e-9
	rank := q * float64(len(sorted)-1)
	low := int(math.Floor(rank))
	high := min(low+1, len(sorted)-1)
	part := rank - float64(low)
	exact := sorted[low]*(1-part) + sorted[high]*part
	return bounds{
		low:  exact * (1 - sketchError) * (1 - rounding),
		high: exact * (1 + sketchError) * (1 + rounding),
	}
}
