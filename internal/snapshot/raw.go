package snapshot

import (
	"fmt"

	"github.com/weirstream/weir/codec"
)

// RawGroup is the sections of one operator in a key group, in memory, for readers
// of state that is stored in another form.
type RawGroup struct {
	group    int
	operator string
	key      codec.Format
	sections []byte
}

// NewRawGroup returns one without sections.
func NewRawGroup(group int, operator string, key codec.Format) *RawGroup {
	return &RawGroup{group: group, operator: operator, key: key}
}

// Section adds a section; data is not kept.
func (r *RawGroup) Section(st State, count int, data []byte) error {
	r.sections = append(appendSectionHeader(r.sections, r.operator, &r.key, &st, count, len(data)), data...)
	return nil
}

// Scan is like FileReader.Scan.
func (r *RawGroup) Scan() *Scanner {
	return &Scanner{what: fmt.Sprintf("key group %d, operator %s", r.group, r.operator), raw: r.sections}
}

// Read is like FileReader.ReadOperator.
func (r *RawGroup) Read() *GroupReader {
	return &GroupReader{Group: r.group, sections: parser{src: r.sections}}
}
