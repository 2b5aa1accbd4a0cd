package main

import "fmt"

// verdict is how the output compares with the reference. Results and late
// records count alike in Expected, Got, Lost, Duplicated and Wrong.
type verdict struct {
	// Expected is how many records there should be, Got how many there are.
	Expected int `json:"expected"`
	Got      int `json:"got"`
	// Lost are those that are not there at all, Duplicated the copies beyond
	// the first.
	Lost       int `json:"lost"`
	Duplicated int `json:"duplicated"`
	// Wrong are those whose content is not right, or that should not be there.
	Wrong int `json:"wrong"`
	// Late is how many of the late records are in the topic for them.
	Late int `json:"late"`

	examples []string
}

// exact reports whether the output is what it must be.
func (v *verdict) exact() bool {
	return v.Lost == 0 && v.Duplicated == 0 && v.Wrong == 0 && v.Got == v.Expected
}

// newVerdict compares all records of both output topics with the reference.
func newVerdict(want *reference, results []result, late []click) *verdict {
	v := &verdict{Expected: want.size(), Got: len(results) + len(late)}
	v.checkResults(want, results)
	v.checkLate(want, late)
	return v
}

func (v *verdict) checkResults(want *reference, results []result) {
	seen := make(map[pageWindow]bool, len(results))
	for _, r := range results {
		key := pageWindow{r.Page, r.Start}
		a, known := want.windows[key]
		switch {
		case !known:
			v.wrong("no such page and window: %+v", r)
		case seen[key]:
			v.duplicated("result %+v", r)
		default:
			v.checkResult(r, a)
		}
		seen[key] = true
	}
	for key, a := range want.windows {
		if !seen[key] {
			v.lost("result of %s from %d, %d requests", key.page, key.start, a.count)
		}
	}
}

func (v *verdict) checkResult(r result, a answer) {
	switch {
	case r.End-r.Start != windowSize.Milliseconds():
		v.wrong("window is not %v long: %+v", windowSize, r)
	case r.Count != a.count:
		v.wrong("%d distinct requests, not: %+v", a.count, r)
	case !a.p75.hold(r.P75):
		v.wrong("p75 is from %g to %g, not: %+v", a.p75.low, a.p75.high, r)
	case !a.p99.hold(r.P99):
		v.wrong("p99 is from %g to %g, not: %+v", a.p99.low, a.p99.high, r)
	}
}

func (v *verdict) checkLate(want *reference, late []click) {
	seen := make(map[string]bool, len(late))
	for _, c := range late {
		wanted, known := want.late[c.ID]
		switch {
		case !known:
			v.wrong("not a late record: %+v", c)
		case seen[c.ID]:
			v.duplicated("late record %+v", c)
		default:
			v.Late++
			if c != wanted {
				v.wrong("late record was %+v, not: %+v", wanted, c)
			}
		}
		seen[c.ID] = true
	}
	for id := range want.late {
		if !seen[id] {
			v.lost("late record %s", id)
		}
	}
}

func (v *verdict) lost(format string, args ...any) {
	v.Lost++
	v.example("lost: "+format, args)
}

func (v *verdict) duplicated(format string, args ...any) {
	v.Duplicated++
	v.example("duplicated: "+format, args)
}

func (v *verdict) wrong(format string, args ...any) {
	v.Wrong++
	v.example("wrong: "+format, args)
}

// example keeps the first few findings, for the report.
func (v *verdict) example(format string, args []any) {
	const enough = 10
	if len(v.examples) < enough {
		v.examples = append(v.examples, fmt.Sprintf(format, args...))
	}
}
