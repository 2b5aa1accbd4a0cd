package nexmark

import "math/bits"

// draws is a stream of random numbers: SplitMix64 (Steele, Lea, Flood, "Fast
// Splittable Pseudorandom Number Generators", 2014), which begins anew at each
// event.
type draws struct{ state uint64 }

const gamma = 0x9e3779b97f4a7c15

// random is the stream of an event.
func random(seed, event uint64) draws {
	s := draws{seed*gamma ^ event}
	return draws{s.next()}
}

func (s *draws) next() uint64 {
	s.state += gamma
	z := s.state
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// below is evenly distributed from 0 to n-1, but for one in 2^64/n.
func (s *draws) below(n int64) int64 {
	hi, _ := bits.Mul64(s.next(), uint64(n))
	return int64(hi)
}

// float is evenly distributed from 0 to less than 1.
func (s *draws) float() float64 { return float64(s.next()>>11) / (1 << 53) }
