package snapshot

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
)

// MetadataName is the name of the file that makes a directory a snapshot.
const MetadataName = "_metadata"

// crcLine begins the last line of _metadata.
const crcLine = "crc32c "

// crcLineSize is the length of the last line, its newline included.
const crcLineSize = len(crcLine) + 8 + 1

// EncodeMetadata returns the content of _metadata: m as indented JSON and a
// last line with the checksum of it. FormatVersion is set to the lowest version
// that knows all that m holds.
func EncodeMetadata(m *Metadata) ([]byte, error) {
	v := *m
	v.FormatVersion = m.version()
	if err := m.check(); err != nil {
		return nil, fmt.Errorf("encode %s: %w", MetadataName, err)
	}
	b, err := json.MarshalIndent(&v, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", MetadataName, err)
	}
	b = append(b, '\n')
	return fmt.Appendf(b, "%s%08x\n", crcLine, checksum(b)), nil
}

// version is 3 where readers of earlier ones would miss files, and 2 where one of
// version 1 would take a state for an even-split list, or for one that lies under
// keys.
func (m *Metadata) version() int {
	if slices.ContainsFunc(m.Files, func(f File) bool { return IsShared(f.Name) }) {
		return 3
	}
	for _, op := range m.Operators {
		if slices.ContainsFunc(op.Subtasks, func(s Subtask) bool { return len(s.Increments) > 0 || s.Native != nil }) {
			return 3
		}
	}
	for _, op := range m.Operators {
		if slices.ContainsFunc(op.States, func(s State) bool { return s.Kind == RawKind }) {
			return 2
		}
		for _, sub := range op.Subtasks {
			if slices.ContainsFunc(sub.Lists, func(l ListState) bool { return l.Kind != EvenSplit }) {
				return 2
			}
		}
	}
	return 1
}

// DecodeMetadata checks and decodes the content of _metadata. Its errors wrap
// ErrNotSnapshot, ErrTruncated, ErrChecksum, ErrNewer or ErrMalformed. Fields
// that it does not know are skipped.
func DecodeMetadata(b []byte) (*Metadata, error) {
	body, err := checkMetadata(b)
	if err != nil {
		return nil, err
	}
	var head struct {
		FormatVersion *uint64 `json:"format_version"`
	}
	if err := json.Unmarshal(body, &head); err != nil {
		return nil, fmt.Errorf("%w: its JSON cannot be read: %w", ErrNotSnapshot, err)
	}
	if head.FormatVersion == nil {
		return nil, fmt.Errorf("%w: its JSON has no format_version", ErrNotSnapshot)
	}
	if err := checkVersion(*head.FormatVersion, MetadataVersion); err != nil {
		return nil, err
	}
	m := new(Metadata)
	if err := json.Unmarshal(body, m); err != nil {
		return nil, malformed("%v", err)
	}
	if err := m.check(); err != nil {
		return nil, err
	}
	return m, nil
}

// checkMetadata verifies the last line and returns what precedes it.
func checkMetadata(b []byte) ([]byte, error) {
	at := max(len(b)-crcLineSize, 0)
	body, last := b[:at], b[at:]
	if bytes.HasPrefix(last, []byte(crcLine)) && last[crcLineSize-1] == '\n' {
		// Compared as text: "0A" is not "0a".
		if want := fmt.Sprintf("%s%08x\n", crcLine, checksum(body)); string(last) != want {
			return nil, fmt.Errorf("%w: its CRC32C is %s, its last line says %s",
				ErrChecksum, want[len(crcLine):crcLineSize-1], last[len(crcLine):crcLineSize-1])
		}
		return body, nil
	}
	if len(b) > 0 && b[0] != '{' {
		return nil, fmt.Errorf("%w: it does not begin with \"{\"", ErrNotSnapshot)
	}
	return nil, fmt.Errorf("%w or damaged: its last line is not \"%s\" with a checksum", ErrTruncated, crcLine)
}
