package heap

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"

	"github.com/weirstream/weir/internal/snapshot"
)

// removedKey is a key that was removed, with its hash.
type removedKey struct {
	hash uint32
	key  []byte
}

func (k removedKey) compare(o removedKey) int {
	return cmp.Or(cmp.Compare(k.hash, o.hash), bytes.Compare(k.key, o.key))
}

// appendRemoved lists a key.
func appendRemoved(dst []byte, hash uint32, keyBytes int, key []byte) []byte {
	return snapshot.AppendItem(binary.LittleEndian.AppendUint32(dst, hash), keyBytes, key)
}

// cutRemoved adds the keys of a list to keys.
func cutRemoved(keys []removedKey, list []byte, keyBytes int) ([]removedKey, error) {
	for len(list) > 0 {
		if len(list) < 4 {
			return nil, errors.New("the list of removed keys is cut off") // of our own making
		}
		key, rest, err := snapshot.Item(list[4:], keyBytes)
		if err != nil {
			return nil, err
		}
		keys = append(keys, removedKey{binary.LittleEndian.Uint32(list), key})
		list = rest
	}
	return keys, nil
}
