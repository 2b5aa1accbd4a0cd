package datagen

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/weirstream/weir/codec"
)

// Split is the indices From, From+Step, From+2·Step, … below To. Next is the
// first that was not emitted.
type Split struct {
	// Number tells the splits of one sequence apart, from 0.
	Number         int64
	From, To, Step int64
	Next           int64
}

// SplitID returns the split's number.
func (s Split) SplitID() string { return strconv.FormatInt(s.Number, 10) }

// Position says where reading goes on, for messages.
func (s Split) Position() string { return "record " + strconv.FormatInt(s.Next, 10) }

// left is how many records are still to come.
func (s Split) left() int64 {
	if s.Next >= s.To {
		return 0
	}
	return (s.To-s.Next-1)/s.Step + 1
}

// advance moves the split on by k records, k <= left.
func (s *Split) advance(k int64) {
	if k == s.left() {
		s.Next = s.To // the next index may lie beyond int64
		return
	}
	s.Next += k * s.Step
}

// Enumeration is the enumerator's state: how many splits there are, and those
// that no reader has. It is empty before the splits were made.
type Enumeration struct {
	Splits  int64
	Pending []Split
}

// cut makes the splits of a sequence for p subtasks.
func cut(n int64, p int, interleave, single bool) []Split {
	count := int64(p)
	if single {
		count = 1
	}
	if n < 0 {
		n, interleave = math.MaxInt64, true
	}
	count = min(count, n)
	splits := make([]Split, 0, count)
	for i := range count {
		s := Split{Number: i, From: i, To: n, Step: count}
		if !interleave {
			size, rest := n/count, n%count
			s.From = i*size + min(i, rest)
			s.To, s.Step = s.From+size, 1
			if i < rest {
				s.To++
			}
		}
		s.Next = s.From
		splits = append(splits, s)
	}
	return splits
}

type splitCodec struct{}

func (splitCodec) Format() codec.Format { return codec.Format{ID: "weir.datagen.split", Version: 1} }

func (splitCodec) Append(dst []byte, s Split) ([]byte, error) { return appendSplit(dst, s), nil }

func (splitCodec) Decode(src []byte) (Split, error) {
	s, rest, err := readSplit(src)
	if err == nil && len(rest) != 0 {
		err = errors.New("bytes left over")
	}
	if err != nil {
		return Split{}, fmt.Errorf("datagen split: %w", err)
	}
	return s, nil
}

type enumerationCodec struct{}

func (enumerationCodec) Format() codec.Format {
	return codec.Format{ID: "weir.datagen.enumeration", Version: 1}
}

func (enumerationCodec) Append(dst []byte, e Enumeration) ([]byte, error) {
	dst = binary.AppendVarint(dst, e.Splits)
	for _, s := range e.Pending {
		dst = appendSplit(dst, s)
	}
	return dst, nil
}

func (enumerationCodec) Decode(src []byte) (Enumeration, error) {
	var e Enumeration
	n, size := binary.Varint(src)
	if size <= 0 || n < 0 {
		return e, errors.New("datagen enumerator: number of splits cannot be read")
	}
	e.Splits = n
	for rest := src[size:]; len(rest) > 0; {
		s, r, err := readSplit(rest)
		if err != nil {
			return Enumeration{}, fmt.Errorf("datagen enumerator: %w", err)
		}
		if s.Number >= n {
			return Enumeration{}, fmt.Errorf("datagen enumerator: split %d of %d", s.Number, n)
		}
		e.Pending, rest = append(e.Pending, s), r
	}
	return e, nil
}

func appendSplit(dst []byte, s Split) []byte {
	for _, v := range [...]int64{s.Number, s.From, s.To, s.Step, s.Next} {
		dst = binary.AppendVarint(dst, v)
	}
	return dst
}

func readSplit(src []byte) (s Split, rest []byte, err error) {
	for _, p := range [...]*int64{&s.Number, &s.From, &s.To, &s.Step, &s.Next} {
		v, size := binary.Varint(src)
		if size <= 0 {
			return Split{}, nil, errors.New("truncated")
		}
		*p, src = v, src[size:]
	}
	if s.Number < 0 || s.From < 0 || s.To < s.From || s.Step < 1 || s.Next < s.From || s.Next > s.To {
		return Split{}, nil, fmt.Errorf("indices %d to %d by %d, at %d, make no sense", s.From, s.To, s.Step, s.Next)
	}
	return s, src, nil
}
