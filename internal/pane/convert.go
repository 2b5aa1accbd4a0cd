package pane

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"github.com/weirstream/weir/codec"
	"github.com/weirstream/weir/internal/entry"
	"github.com/weirstream/weir/internal/snapshot"
)

var errWindows = errors.New("the windows of an operator cannot change")

// conversion is entry.Field.Convert.
func (s *Store[Acc]) conversion(stored snapshot.State) (entry.Conversion, error) {
	if stored.Format.ID != s.field.Format.ID || stored.Format.Version != s.field.Format.Version {
		return entry.Conversion{}, fmt.Errorf("slices in format %s of version %d are not known", stored.Format.ID, stored.Format.Version)
	}
	kind, ok := strings.CutSuffix(stored.Detail, " in "+s.windows.String())
	if !ok {
		return entry.Conversion{}, errWindows
	}
	size, conv, err := s.convert(accumulatorFormat(stored.Format.Schema), kind == s.kind)
	if err != nil || conv.Same() {
		return conv, err
	}
	return entry.Conversion{Notes: conv.Notes, Append: func(dst, src []byte) ([]byte, error) {
		return s.convertSlices(dst, src, size, conv)
	}}, nil
}

// accumulatorFormat is the format of accumulators that a schema describes.
func accumulatorFormat(schema string) codec.Format {
	switch {
	case strings.HasPrefix(schema, "struct{"):
		return codec.Format{ID: "struct", Version: 1, Schema: schema}
	case strings.HasPrefix(schema, "["):
		return codec.Format{ID: "array", Version: 1, Schema: schema}
	}
	return codec.Format{ID: schema, Version: 1}
}

// convertSlices converts the accumulators of a key.
func (s *Store[Acc]) convertSlices(dst, src []byte, size int, conv entry.Conversion) ([]byte, error) {
	count, k := binary.Uvarint(src)
	if k <= 0 || count > uint64(len(src)) {
		return dst, errShort
	}
	dst, src = append(dst, src[:k]...), src[k:]
	var acc []byte
	for range count {
		if len(src) < startSize {
			return dst, errShort
		}
		dst, src = append(dst, src[:startSize]...), src[startSize:]
		part, rest, err := snapshot.Item(src, size)
		if err != nil {
			return dst, err
		}
		src = rest
		if acc, err = conv.Append(acc[:0], part); err != nil {
			return dst, err
		}
		if s.flat {
			dst = binary.AppendUvarint(dst, uint64(len(acc)))
		}
		dst = append(dst, acc...)
	}
	if len(src) > 0 {
		return dst, fmt.Errorf("%d bytes follow the last slice", len(src))
	}
	return dst, nil
}
