package killmatrix

import (
	"fmt"
	"slices"
	"testing"
)

// fault is a way in which output differs from what it must be. The parts name
// a record.
type fault struct {
	kind string
	what any
}

func (f fault) String() string { return fmt.Sprintf("%s: %+v", f.kind, f.what) }

// checkNumbered compares with the input: every reading once and unchanged, and
// for every key the numbers from 1 on, each once.
func checkNumbered(readings []reading, got []numbered) (faults []fault) {
	seen := make([]int, len(readings))
	numbers := map[int64][]int64{}
	for _, g := range got {
		i := g.Reading.Index
		if i < 0 || i >= int64(len(readings)) || readings[i] != g.Reading {
			faults = append(faults, fault{"changed", g})
			continue
		}
		if seen[i]++; seen[i] > 1 {
			faults = append(faults, fault{"duplicated", g})
		}
		numbers[g.Reading.Key] = append(numbers[g.Reading.Key], g.Number)
	}
	for i, n := range seen {
		if n == 0 {
			faults = append(faults, fault{"lost", readings[i]})
		}
	}
	for key, ns := range numbers {
		slices.Sort(ns)
		for i, n := range ns {
			if n != int64(i+1) {
				faults = append(faults, fault{fmt.Sprintf("number %d of key %d is", i+1, key), n})
				break
			}
		}
	}
	return faults
}

// checkTotals compares the windows with sums made in one pass.
func checkTotals(readings []reading, got []total) (faults []fault) {
	type window struct{ key, start int64 }
	sums := map[window]int64{}
	size := windowSize.Milliseconds()
	for _, r := range readings {
		start := r.At - ((r.At%size)+size)%size
		sums[window{r.Key, start}] += r.Value
	}
	seen := map[window]bool{}
	for _, g := range got {
		w := window{g.Key, g.Start}
		sum, ok := sums[w]
		switch {
		case !ok || sum != g.Sum:
			faults = append(faults, fault{fmt.Sprintf("changed, the sum is %d", sum), g})
		case seen[w]:
			faults = append(faults, fault{"duplicated", g})
		}
		seen[w] = true
	}
	for w := range sums {
		if !seen[w] {
			faults = append(faults, fault{"lost", w})
		}
	}
	return faults
}

func TestChecksFindFaults(t *testing.T) {
	size := windowSize.Milliseconds()
	readings := []reading{{0, 1, 10, -1}, {1, 2, 20, 0}, {2, 1, 30, size - 1}, {3, 1, 40, size}}
	numbers := []numbered{{readings[0], 2}, {readings[1], 1}, {readings[2], 1}, {readings[3], 3}}
	totals := []total{{1, -size, 10}, {2, 0, 20}, {1, 0, 30}, {1, size, 40}}
	changedNumber := slices.Clone(numbers)
	changedNumber[3].Number = 4
	changedReading := slices.Clone(numbers)
	changedReading[1].Reading.Value++
	changedTotal := slices.Clone(totals)
	changedTotal[0].Sum++
	for _, c := range []struct {
		name    string
		numbers []numbered
		totals  []total
		want    int
	}{
		{"exact", numbers, totals, 0},
		{"lost reading", numbers[:3], totals, 1},
		{"duplicated reading", append(slices.Clone(numbers), numbered{readings[1], 2}), totals, 1},
		{"changed reading is lost, too", changedReading, totals, 2},
		{"changed number", changedNumber, totals, 1},
		{"lost total", numbers, totals[1:], 1},
		{"duplicated total", numbers, append(slices.Clone(totals), totals[0]), 1},
		{"changed total", numbers, changedTotal, 1},
		{"unknown total", numbers, append(slices.Clone(totals), total{1, 2 * size, 1}), 1},
	} {
		if got := append(checkNumbered(readings, c.numbers), checkTotals(readings, c.totals)...); len(got) != c.want {
			t.Errorf("%s: found %v, want %d faults", c.name, got, c.want)
		}
	}
}
