package heap

import (
	"encoding/binary"
	"errors"

	"github.com/weirstream/weir/internal/snapshot"
)

// decodeTimers reads the event timers of all keys, strings, from sections.
func decodeTimers(sections []section) (map[string][]int64, error) {
	got := map[string][]int64{}
	for _, sec := range sections {
		if sec.st.Kind != "event-timers" {
			continue
		}
		data := sec.data
		for range sec.count {
			key, rest, err := snapshot.Item(data, 0)
			if err != nil {
				return nil, err
			}
			value, rest, err := snapshot.Item(rest, 0)
			if err != nil {
				return nil, err
			}
			data = rest
			n, k := binary.Uvarint(value)
			if k <= 0 || len(value) != k+8*int(n) {
				return nil, errors.New("malformed timers")
			}
			for i := range int(n) {
				got[string(key)] = append(got[string(key)], int64(binary.LittleEndian.Uint64(value[k+8*i:])))
			}
		}
	}
	return got, nil
}
