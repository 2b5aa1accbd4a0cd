package snapshot

import (
	"bytes"
	"errors"
	"io"
	"reflect"
	"testing"

	"github.com/weirstream/weir/internal/storage/mem"
)

// reseal puts right checksums on a damaged payload, so that fuzzing gets
// behind them.
func reseal(payload []byte) {
	if len(payload) < groupHeaderSize+endMarkerSize {
		return
	}
	copy(payload, groupMagic)
	copy(payload[12:], le32(checksum(payload[:12])))
	end := payload[len(payload)-endMarkerSize:]
	end[0] = endMarker
	for i, n := 0, len(payload)-endMarkerSize; i < 8; i++ {
		end[9+i] = byte(n >> (8 * i))
	}
	copy(end[17:], le32(checksum(end[:17])))
	for chunks := payload[groupHeaderSize : len(payload)-endMarkerSize]; len(chunks) >= chunkHeaderSize; {
		n := int(chunks[5]) | int(chunks[6])<<8
		n = min(n, len(chunks)-chunkHeaderSize)
		copy(chunks[5:], []byte{byte(n), byte(n >> 8), 0, 0})
		copy(chunks[9:], le32(checksum(chunks[:9], chunks[chunkHeaderSize:chunkHeaderSize+n])))
		chunks = chunks[chunkHeaderSize+n:]
	}
}

func FuzzReadPayload(f *testing.F) {
	for _, c := range []Compression{None, S2, Zstd} {
		var buf bytes.Buffer
		w := NewGroupWriter(&buf, c, 3)
		check(f, w.Section("op", keyFormat, countState, 2, bytes.Repeat([]byte("ab"), 300)))
		check(f, w.Section("op2", keyFormat, recordState, 0, nil))
		_, _, err := w.Close()
		check(f, err)
		f.Add(buf.Bytes(), false)
		f.Add(buf.Bytes(), true)
	}
	f.Fuzz(func(t *testing.T, payload []byte, seal bool) {
		payload = bytes.Clone(payload)
		if seal {
			reseal(payload)
		}
		r, err := ReadPayload(payload)
		if err != nil {
			return
		}
		sections, err := readAll(r)
		if err != nil {
			return
		}
		// What was read can be written and reads the same.
		var buf bytes.Buffer
		w := NewGroupWriter(&buf, S2, r.Group)
		for _, s := range sections {
			if isChange(s.State.Kind) {
				return // not in a payload that stands alone
			}
			check(t, w.Section(s.Operator, s.KeyFormat, s.State, s.Count, s.Data))
		}
		_, _, err = w.Close()
		check(t, err)
		again, err := ReadPayload(buf.Bytes())
		check(t, err)
		got, err := readAll(again)
		check(t, err)
		if len(got) != len(sections) || len(got) > 0 && !reflect.DeepEqual(got, sections) {
			t.Fatalf("read %+v, wrote it, read %+v", sections, got)
		}
	})
}

func FuzzOpenFile(f *testing.F) {
	data, _ := writeFile(f, S2, sample(40))
	f.Add(data, false)
	f.Add(data, true)
	empty, _ := writeFile(f, S2, nil)
	f.Add(empty, true)
	f.Fuzz(func(t *testing.T, data []byte, seal bool) {
		data = bytes.Clone(data)
		if n := len(data); seal && n >= fileHeaderSize+trailerSize {
			trailer := data[n-trailerSize:]
			size := min(int(trailer[0])|int(trailer[1])<<8, n-fileHeaderSize-trailerSize)
			copy(trailer, []byte{byte(size), byte(size >> 8), 0, 0, Version, 0, 0, 0})
			copy(trailer[8:], le32(checksum(data[n-trailerSize-size:n-trailerSize+8])))
			copy(trailer[12:], trailerMagic)
		}
		blobs := mem.New()
		store(t, blobs, "data", data)
		file := File{Size: int64(len(data)), CRC: checksum(data)}
		r, err := OpenFile(t.Context(), blobs, "data", file)
		if err != nil {
			return
		}
		for _, g := range r.Groups() {
			if group, err := r.ReadGroup(t.Context(), g); err == nil {
				_, _ = readAll(group)
			}
			for _, op := range r.Operators() {
				if group, err := r.ReadOperator(t.Context(), g, op); err == nil {
					_, _ = readAll(group)
				}
				scanAll(r.Scan(t.Context(), g, op))
			}
		}
		check(t, r.Verify(t.Context()))
	})
}

// scanAll takes all items off all sections, as far as they can be read.
func scanAll(s *Scanner) {
	defer s.Close()
	for {
		h, err := s.Next()
		for err == nil {
			if _, err = s.Item(h.KeyFormat.Size); err == nil {
				_, err = s.Item(h.State.Format.Size)
			}
		}
		if !errors.Is(err, io.EOF) || h.Operator == "" && h.State.Name == "" {
			return
		}
	}
}

func FuzzDecodeMetadata(f *testing.F) {
	for _, large := range []int{8, maxInline + 4} {
		for _, m := range []*Metadata{sampleMetadata(large), sampleMetadata2(large), sampleMetadata3(large)} {
			m, _ = moveOut(m)
			b, err := EncodeMetadata(m)
			check(f, err)
			f.Add(b, false)
			f.Add(b[:len(b)-crcLineSize], true)
		}
	}
	f.Fuzz(func(t *testing.T, b []byte, seal bool) {
		if seal {
			b = appendCRCLine(b)
		}
		m, err := DecodeMetadata(b)
		if err != nil {
			return
		}
		again, err := EncodeMetadata(m)
		check(t, err)
		got, err := DecodeMetadata(again)
		check(t, err)
		if first, err := EncodeMetadata(got); err != nil || !bytes.Equal(first, again) {
			t.Fatalf("%v: %s then %s", err, again, first)
		}
		_ = m.moveIn(func(o Outside) ([]byte, error) { return nil, io.ErrUnexpectedEOF })
	})
}

func FuzzItem(f *testing.F) {
	f.Add([]byte("\x03abc\x00\x01x"), 0)
	f.Add([]byte("0123456789"), 4)
	f.Fuzz(func(t *testing.T, src []byte, size int) {
		size %= 1 << 16
		for rest := src; ; {
			item, next, err := Item(rest, size)
			if err != nil {
				return
			}
			again, _, err := Item(AppendItem(nil, size, item), size)
			if err != nil || !bytes.Equal(again, item) {
				t.Fatalf("item %x came back as %x, %v", item, again, err)
			}
			if len(next) >= len(rest) {
				t.Fatal("no progress")
			}
			rest = next
		}
	})
}
