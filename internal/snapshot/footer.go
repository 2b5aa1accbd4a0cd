package snapshot

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
)

// encodeFooter returns footer and trailer.
func encodeFooter(groups []groupIndex, version uint32) ([]byte, error) {
	groups = slices.SortedFunc(slices.Values(groups), func(x, y groupIndex) int { return cmp.Compare(x.group, y.group) })
	var ids []string
	index := map[string]int{}
	var body []byte
	body = binary.AppendUvarint(body, uint64(len(groups)))
	for i, g := range groups {
		if i > 0 && g.group == groups[i-1].group {
			return nil, fmt.Errorf("snapshot: key group %d was written twice", g.group)
		}
		body = binary.AppendUvarint(body, uint64(g.group))
		body = binary.AppendUvarint(body, uint64(g.offset))
		body = binary.AppendUvarint(body, uint64(g.length))
		body = binary.AppendUvarint(body, uint64(len(g.parts)))
		for _, p := range g.parts {
			n, ok := index[p.operator]
			if !ok {
				n = len(ids)
				index[p.operator] = n
				ids = append(ids, p.operator)
			}
			body = binary.AppendUvarint(body, uint64(n))
			body = binary.AppendUvarint(body, uint64(p.offset))
		}
	}
	footer := binary.AppendUvarint(nil, uint64(len(ids)))
	for _, id := range ids {
		footer = appendString(footer, id)
	}
	footer = append(footer, body...)
	return appendTrailer(footer, version), nil
}

func appendTrailer(footer []byte, version uint32) []byte {
	n := len(footer)
	out := binary.LittleEndian.AppendUint32(footer, uint32(n))
	out = binary.LittleEndian.AppendUint32(out, version)
	out = binary.LittleEndian.AppendUint32(out, checksum(out))
	return append(out, trailerMagic...)
}

// footerSize reads the trailer and returns the length of the footer before it.
func footerSize(trailer []byte, fileSize int64) (int64, error) {
	if string(trailer[12:]) != trailerMagic {
		return 0, fmt.Errorf("%w or damaged: it does not end as a data file does", ErrTruncated)
	}
	n := int64(binary.LittleEndian.Uint32(trailer))
	if n > fileSize-fileHeaderSize-trailerSize {
		return 0, fmt.Errorf("%w in the trailer: a footer of %d bytes does not fit", ErrChecksum, n)
	}
	return n, nil
}

// decodeFooter checks and decodes footer and trailer of a file.
func decodeFooter(tail []byte, fileSize int64) ([]groupIndex, error) {
	footer, trailer := tail[:len(tail)-trailerSize], tail[len(tail)-trailerSize:]
	if checksum(footer, trailer[:8]) != binary.LittleEndian.Uint32(trailer[8:]) {
		return nil, fmt.Errorf("%w in the footer", ErrChecksum)
	}
	if err := checkVersion(uint64(binary.LittleEndian.Uint32(trailer[4:])), Version); err != nil {
		return nil, err
	}
	p := &parser{src: footer}
	var ids []string
	for n := p.number(); n > 0 && p.err == nil; n-- {
		ids = append(ids, p.string())
	}
	var groups []groupIndex
	for n := p.number(); n > 0 && p.err == nil; n-- {
		groups = append(groups, p.groupIndex(ids))
	}
	if p.err == nil && len(p.src) > 0 {
		p.fail("bytes are left over")
	}
	if p.err != nil {
		return nil, fmt.Errorf("footer: %w", p.err)
	}
	return groups, checkTiling(groups, fileSize-int64(len(tail)))
}

func (p *parser) groupIndex(ids []string) groupIndex {
	g := groupIndex{group: p.number(), offset: int64(p.number()), length: int64(p.number())}
	for n := p.number(); n > 0 && p.err == nil; n-- {
		id, offset := p.number(), int64(p.number())
		if p.err == nil && id >= len(ids) {
			p.fail(fmt.Sprintf("there is no operator %d", id))
		}
		if p.err == nil {
			g.parts = append(g.parts, part{ids[id], offset})
		}
	}
	return g
}

// checkTiling makes sure that the payloads, in ascending order of groups, fill
// the file up to its footer without gap or overlap, and their parts lie inside.
func checkTiling(groups []groupIndex, end int64) error {
	for i := 1; i < len(groups); i++ {
		if groups[i].group <= groups[i-1].group {
			return malformed("footer: key groups are not ascending")
		}
	}
	at := int64(fileHeaderSize)
	byOffset := slices.SortedFunc(slices.Values(groups), func(x, y groupIndex) int { return cmp.Compare(x.offset, y.offset) })
	for _, g := range byOffset {
		if g.offset != at || g.length < groupHeaderSize+endMarkerSize || g.length > end-at {
			return malformed("footer: key group %d does not begin where the one before ends", g.group)
		}
		at += g.length
		last := int64(groupHeaderSize)
		for i, p := range g.parts {
			if p.offset < last || i == 0 && p.offset != last || p.offset > g.length-endMarkerSize {
				return malformed("footer: operators of key group %d are out of order", g.group)
			}
			last = p.offset + 1
		}
	}
	if at != end {
		return malformed("footer: the key groups end at %d, the footer begins at %d", at, end)
	}
	return nil
}
