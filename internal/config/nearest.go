package config

import "strings"

// nearest returns the name that key is most likely a misspelling of, or "":
// one within an edit distance of a sixth of its length, or the shortest one
// that ends in key.
func nearest(key string, names []string) string {
	best, distance := "", max(2, len(key)/6)+1
	for _, n := range names {
		if d := editDistance(key, n); d < distance {
			best, distance = n, d
		}
	}
	if best != "" {
		return best
	}
	for _, n := range names {
		if strings.HasSuffix(n, "."+key) && (best == "" || len(n) < len(best)) {
			best = n
		}
	}
	return best
}

// editDistance counts the insertions, deletions, replacements and swaps of
// neighbours that turn a into b. Case does not count.
func editDistance(a, b string) int {
	a, b = strings.ToLower(a), strings.ToLower(b)
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
