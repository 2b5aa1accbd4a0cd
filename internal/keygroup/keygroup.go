// Package keygroup divides the keys of an operator into key groups, the unit
// in which keyed state is distributed over subtasks and redistributed when
// the parallelism changes.
//
// From the 32-bit hash of a key on, group and subtask are computed exactly as
// in Apache Flink. The hash itself is Weir's own (HashName). Every constant
// here is frozen: changing one makes existing snapshots unreadable.
package keygroup

import (
	"fmt"
	"math/bits"
)

const (
	// MaxGroups is the largest possible number of key groups.
	MaxGroups = 1 << 15
	// minDefault is the smallest number of key groups DefaultMax returns.
	minDefault = 128
)

// Range is a run of key groups, both ends inclusive. It is empty if Last is
// below First.
type Range struct{ First, Last int }

// Len is the number of groups in r.
func (r Range) Len() int { return max(0, r.Last-r.First+1) }

// Contains reports whether group lies in r.
func (r Range) Contains(group int) bool { return r.First <= group && group <= r.Last }

// Intersect returns the groups that are in both r and s; the result may be empty.
func (r Range) Intersect(s Range) Range {
	return Range{max(r.First, s.First), min(r.Last, s.Last)}
}

// String is "first-last", or "none" for an empty range.
func (r Range) String() string {
	if r.Len() == 0 {
		return "none"
	}
	return fmt.Sprintf("%d-%d", r.First, r.Last)
}

// Check returns an error unless 1 <= parallelism <= max <= MaxGroups, which
// the other functions of the package rely on.
func Check(parallelism, max int) error {
	switch {
	case max < 1 || max > MaxGroups:
		return fmt.Errorf("max parallelism %d: it must be between 1 and %d", max, MaxGroups)
	case parallelism < 1:
		return fmt.Errorf("parallelism %d: it must be at least 1", parallelism)
	case parallelism > max:
		return fmt.Errorf("parallelism %d is above the max parallelism %d; lower it", parallelism, max)
	}
	return nil
}

// Group returns the key group, in [0, max), of a key with the given hash.
func Group(hash uint32, max int) int {
	if max&(max-1) == 0 { // the usual case, without a division
		return int(murmur(hash)) & (max - 1)
	}
	return int(murmur(hash) % uint32(max))
}

// Groups is Group for a batch: it sets out[i] to the group of hashes[i].
func Groups(hashes []uint32, max int, out []uint16) {
	out = out[:len(hashes)]
	if n := uint32(max); n&(n-1) == 0 { // the usual case, without a division
		for i, h := range hashes {
			out[i] = uint16(murmur(h) & (n - 1))
		}
		return
	}
	for i, h := range hashes {
		out[i] = uint16(murmur(h) % uint32(max))
	}
}

// Subtask returns the index of the subtask that owns group.
func Subtask(group, parallelism, max int) int {
	return int(int64(group) * int64(parallelism) / int64(max))
}

// RangeOf returns the groups that a subtask owns.
func RangeOf(subtask, parallelism, max int) Range {
	i, p, m := int64(subtask), int64(parallelism), int64(max)
	return Range{int((i*m + p - 1) / p), int(((i+1)*m - 1) / p)}
}

// DefaultMax returns the number of key groups for a job that sets none: one
// and a half times the parallelism, rounded up to a power of two, at least
// 128 and at most MaxGroups.
func DefaultMax(parallelism int) int {
	want := min(parallelism+parallelism/2, MaxGroups)
	if want <= minDefault {
		return minDefault
	}
	return 1 << bits.Len(uint(want-1))
}

// Table returns the subtask of each group.
func Table(parallelism, max int) []uint16 {
	table := make([]uint16, max)
	for g := range table {
		table[g] = uint16(Subtask(g, parallelism, max))
	}
	return table
}

// murmur scrambles a hash into [0, 2^31). A negative outcome is folded by
// negation, not by masking the sign.
func murmur(c uint32) uint32 {
	c *= 0xCC9E2D51
	c = bits.RotateLeft32(c, 15)
	c *= 0x1B873593
	c = bits.RotateLeft32(c, 13)
	c = c*5 + 0xE6546B64
	c ^= 4
	c ^= c >> 16
	c *= 0x85EBCA6B
	c ^= c >> 13
	c *= 0xC2B2AE35
	c ^= c >> 16
	if int32(c) < 0 {
		c = -c & 0x7fffffff // the mask is for the smallest int32, which becomes 0
	}
	return c
}
