package agg

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/weirstream/weir/codec"
)

// TopN keeps the n records with the greatest score, encoded by c; the result
// has the greatest first, and of equal scores the earlier. Records whose score
// is NaN are left out and counted; without any other there is no result.
func TopN[T any](n int, score func(T) float64, c codec.Codec[T]) Aggregator[T, []byte, []T] {
	t := &topN[T]{n: n, score: score, codec: c}
	if n < 1 {
		t.err = fmt.Errorf("top %d: it must be at least 1", n)
	}
	return t
}

// An accumulator of TopN is empty, or the number of records left out (uint64)
// and the entries in descending order of score: score float64, length uint32,
// the encoded record.
const (
	topHeader   = 8
	entryHeader = 12
)

var errTop = errors.New("accumulator is not that of a top n")

type topN[T any] struct {
	n     int
	score func(T) float64
	codec codec.Codec[T]
	err   error
}

func (t *topN[T]) Err() error { return t.err }

func (*topN[T]) Init(acc *[]byte) { *acc = (*acc)[:0] }

func (t *topN[T]) Add(acc *[]byte, in T) error {
	b, err := t.begun(*acc)
	if err != nil {
		return err
	}
	score := t.score(in)
	if score != score {
		setU64(b, 0, u64(b, 0)+1)
		*acc = b
		return nil
	}
	at, ok := t.place(b, score)
	if !ok {
		*acc = b
		return nil
	}
	end := len(b)
	b = append(b, make([]byte, entryHeader)...)
	if b, err = t.codec.Append(b, in); err != nil {
		return fmt.Errorf("top %d: %w", t.n, err)
	}
	setF64(b, end, score)
	binary.LittleEndian.PutUint32(b[end+8:], uint32(len(b)-end-entryHeader))
	*acc = t.trim(rotate(b, at, end))
	return nil
}

// begun checks an accumulator and gives it a header.
func (t *topN[T]) begun(b []byte) ([]byte, error) {
	if len(b) == 0 {
		return append(b, make([]byte, topHeader)...), nil
	}
	if !validTop(b) {
		return nil, errTop
	}
	return b, nil
}

func validTop(b []byte) bool {
	if len(b) < topHeader {
		return len(b) == 0
	}
	for b = b[topHeader:]; len(b) > 0; {
		if len(b) < entryHeader || uint64(len(b)-entryHeader) < uint64(binary.LittleEndian.Uint32(b[8:])) {
			return false
		}
		b = b[entrySize(b, 0):]
	}
	return true
}

// entrySize is the size of the entry at an offset.
func entrySize(b []byte, at int) int {
	return entryHeader + int(binary.LittleEndian.Uint32(b[at+8:]))
}

// place returns where an entry with the score goes, or false if it is not
// among the first n.
func (t *topN[T]) place(b []byte, score float64) (at int, ok bool) {
	at = topHeader
	for i := 0; i < t.n; i++ {
		if at == len(b) || f64(b, at) < score {
			return at, true
		}
		at += entrySize(b, at)
	}
	return 0, false
}

// rotate moves b[end:] in front of b[at:end].
func rotate(b []byte, at, end int) []byte {
	slices.Reverse(b[at:end])
	slices.Reverse(b[end:])
	slices.Reverse(b[at:])
	return b
}

// trim drops what is behind the n-th entry.
func (t *topN[T]) trim(b []byte) []byte {
	at := topHeader
	for i := 0; i < t.n && at < len(b); i++ {
		at += entrySize(b, at)
	}
	return b[:at]
}

func (t *topN[T]) Merge(acc, other *[]byte) error {
	o := *other
	if !validTop(o) {
		return errTop
	}
	if len(o) == 0 {
		return nil
	}
	b, err := t.begun(*acc)
	if err != nil {
		return err
	}
	setU64(b, 0, u64(b, 0)+u64(o, 0))
	for from := topHeader; from < len(o); from += entrySize(o, from) {
		at, ok := t.place(b, f64(o, from))
		if !ok {
			break
		}
		end := len(b)
		b = append(b, o[from:from+entrySize(o, from)]...)
		b = t.trim(rotate(b, at, end))
	}
	*acc = b
	return nil
}

func (t *topN[T]) Result(acc *[]byte) ([]T, bool) {
	b := *acc
	if len(b) <= topHeader || !validTop(b) {
		return nil, false
	}
	var out []T
	for at := topHeader; at < len(b) && len(out) < t.n; at += entrySize(b, at) {
		v, err := t.codec.Decode(b[at+entryHeader : at+entrySize(b, at)])
		if err != nil {
			return nil, false
		}
		out = append(out, v)
	}
	return out, true
}

func (*topN[T]) Skipped(acc *[]byte) int64 {
	if len(*acc) < topHeader {
		return 0
	}
	return int64(min(u64(*acc, 0), math.MaxInt64))
}

func (t *topN[T]) Kind() string {
	return fmt.Sprintf("top(%d,%s)", t.n, t.codec.Format().ID)
}
