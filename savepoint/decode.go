package savepoint

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weirstream/weir/codec"
	"github.com/weirstream/weir/internal/snapshot"
	"github.com/weirstream/weir/window"
)

// entryDecoder decodes the entries of one keyed state.
type entryDecoder struct {
	state      snapshot.State
	key, value func([]byte) any
	mapKey     func([]byte) any
	// size is that of elements and map values, 0 if it varies.
	size int
	// unsure is set where their size cannot be told.
	unsure  bool
	windows window.Assigner
	known   bool // windows is
}

func (s *Snapshot) newEntryDecoder(op *snapshot.Operator, st snapshot.State) *entryDecoder {
	d := &entryDecoder{state: st, mapKey: s.decoder(st.Key)}
	var key codec.Format
	if op.KeyFormat != nil {
		key = *op.KeyFormat
	}
	d.key = s.decoder(key)
	format := st.Format
	switch st.Kind {
	case Slices:
		format = accumulatorFormat(st.Format.Schema)
		d.size = codec.FixedSize(format)
		if at := strings.LastIndex(st.Detail, " in "); at >= 0 {
			var err error
			d.windows, err = window.Parse(st.Detail[at+len(" in "):])
			d.known = err == nil
		}
	case List, Map:
		d.size = st.ItemSize
		if d.size == 0 {
			d.size = codec.FixedSize(format)
		}
		if d.size == 0 {
			_, d.unsure = codec.Untyped(format)
			d.unsure = !d.unsure
		}
	}
	d.value = s.decoder(format)
	return d
}

// accumulatorFormat is the format of accumulators, by the schema of slices.
func accumulatorFormat(schema string) codec.Format {
	f := codec.Format{ID: schema, Version: 1}
	switch {
	case strings.HasPrefix(schema, "struct{"):
		f.ID, f.Schema = "struct", schema
	case strings.HasPrefix(schema, "["):
		f.ID, f.Schema = "array", schema
	}
	return f
}

// decode yields what an entry holds.
func (d *entryDecoder) decode(raw rawEntry, yield func(Entry, error) bool) (more bool, err error) {
	e := Entry{Group: raw.group}
	if d.state.Kind != KeyedRaw {
		e.Key = d.key(raw.key)
	}
	ended := false
	err = d.parts(raw.state, raw.value, func(p part) bool {
		at := e
		at.Index, at.Accessed = p.index, p.accessed
		switch d.state.Kind {
		case EventTimers, ProcessingTimers:
			at.Value = p.at
		case Slices:
			at.Start = p.at
			if w, ok := d.window(p.at); ok {
				at.End = w
			}
			at.Value = d.value(p.value)
		case Map:
			at.MapKey, at.Value = d.mapKey(p.key), d.value(p.value)
		default:
			at.Value = d.value(p.value)
		}
		ended = !yield(at, nil)
		return !ended
	})
	return !ended, err
}

func (d *entryDecoder) window(start time.Time) (end time.Time, ok bool) {
	if !d.known {
		return time.Time{}, false
	}
	w, ok := d.windows.Slice(start.UnixMilli())
	return millis(w.End), ok
}

// part is one value of an entry: an element, a map entry, a timer, a slice.
type part struct {
	index      int
	key, value []byte
	at         time.Time
	accessed   time.Time
}

// parts takes an entry apart. It checks its form, whoever wants the parts.
func (d *entryDecoder) parts(st snapshot.State, value []byte, yield func(part) bool) error {
	switch st.Kind {
	case List, Map, Slices, EventTimers, ProcessingTimers:
		if d.unsure {
			break
		}
		return d.many(st, value, yield)
	}
	p := part{value: value}
	if st.TTL && !d.unsure {
		var err error
		if p.accessed, p.value, err = takeTime(value); err != nil {
			return err
		}
	}
	yield(p)
	return nil
}

func takeTime(src []byte) (time.Time, []byte, error) {
	if len(src) < 8 {
		return time.Time{}, nil, malformed("it ends within a time")
	}
	return millis(int64(binary.LittleEndian.Uint64(src))), src[8:], nil
}

func malformed(format string, args ...any) error {
	return fmt.Errorf("%w: %s", snapshot.ErrMalformed, fmt.Sprintf(format, args...))
}

// many takes apart what begins with a count.
func (d *entryDecoder) many(st snapshot.State, src []byte, yield func(part) bool) error {
	n, k := binary.Uvarint(src)
	if k <= 0 || n > uint64(len(src)-k) {
		return malformed("it has no room for what it counts")
	}
	src = src[k:]
	last := int64(0)
	for i := range int(n) {
		p, rest, err := d.one(st, src)
		if err != nil {
			return fmt.Errorf("%d of %d: %w", i+1, n, err)
		}
		if st.Kind == Slices || st.Kind == EventTimers || st.Kind == ProcessingTimers {
			if now := p.at.UnixMilli(); i > 0 && now <= last {
				return malformed("times are not ascending")
			}
			last = p.at.UnixMilli()
		}
		p.index, src = i, rest
		if !yield(p) {
			return nil
		}
	}
	if len(src) > 0 {
		return malformed("%d bytes follow the last of %d", len(src), n)
	}
	return nil
}

// one takes the first part off src.
func (d *entryDecoder) one(st snapshot.State, src []byte) (p part, rest []byte, err error) {
	switch {
	case st.Kind == EventTimers || st.Kind == ProcessingTimers:
		p.at, rest, err = takeTime(src)
		return p, rest, err
	case st.Kind == Slices:
		if p.at, src, err = takeTime(src); err != nil {
			return p, nil, err
		}
	case st.TTL:
		if p.accessed, src, err = takeTime(src); err != nil {
			return p, nil, err
		}
	}
	if st.Kind == Map {
		if p.key, src, err = snapshot.Item(src, st.Key.Size); err != nil {
			return p, nil, fmt.Errorf("%w: key: %w", snapshot.ErrMalformed, err)
		}
	}
	if p.value, rest, err = snapshot.Item(src, d.size); err != nil {
		return p, nil, fmt.Errorf("%w: %w", snapshot.ErrMalformed, err)
	}
	p.value = slices.Clip(p.value)
	return p, rest, nil
}
