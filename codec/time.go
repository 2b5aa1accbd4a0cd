package codec

import (
	"encoding/binary"
	"fmt"
	"time"
)

// timeSize is eight bytes of seconds and four of nanoseconds.
const timeSize = 12

// Time encodes an instant exactly, whatever the year: seconds since the Unix
// epoch as eight bytes and nanoseconds within the second as four, little
// endian. A decoded time is in UTC; the location and the reading of the
// monotonic clock are not kept.
func Time() Codec[time.Time] { return instant{} }

type instant struct{}

func (instant) Format() Format { return fixedFormat("time", timeSize) }

func (instant) Append(dst []byte, v time.Time) ([]byte, error) {
	dst = binary.LittleEndian.AppendUint64(dst, uint64(v.Unix()))
	return binary.LittleEndian.AppendUint32(dst, uint32(v.Nanosecond())), nil
}

func (instant) Decode(src []byte) (time.Time, error) {
	if len(src) != timeSize {
		return time.Time{}, wrongSize("time", len(src), timeSize)
	}
	nanos := binary.LittleEndian.Uint32(src[8:])
	if nanos >= 1e9 {
		return time.Time{}, &DecodeError{Format: "time", Offset: 8, Err: fmt.Errorf("%d nanoseconds are more than a second", nanos)}
	}
	return time.Unix(int64(binary.LittleEndian.Uint64(src)), int64(nanos)).UTC(), nil
}
