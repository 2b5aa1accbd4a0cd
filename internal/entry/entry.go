// Package entry is the layout of a state entry and the cursor on the current
// one: what the handles of package state read and write, and what the
// backends fill.
//
// All state of one operator for one key hangs off one entry:
//
//	offset 0  uint32  hash of the key
//	offset 4  uint32  bits: Used, Displaced, and one presence bit per field
//	offset 8  key     in line (see the backend)
//	then      fields  each at an offset that is a multiple of 8
//
// Entries lie in memory that the garbage collector does not scan: nothing in
// them is a Go pointer. Variable parts lie in the Arena behind handles.
package entry

import (
	"fmt"
	"unsafe"

	"github.com/weirstream/weir/codec"
	"github.com/weirstream/weir/internal/memory"
	"github.com/weirstream/weir/internal/snapshot"
)

// Bits of the word at offset 4.
const (
	// Used marks an occupied position.
	Used uint32 = 1 << 31
	// Displaced marks an entry that lies at its secondary position.
	Displaced uint32 = 1 << 30
	// MaxFields is how many fields an operator may declare.
	MaxFields = 30
	// Present masks the presence bits of all fields.
	Present uint32 = 1<<MaxFields - 1
)

// Kind is the kind of a state.
type Kind string

// The kinds of keyed state. Their names are stored in snapshots.
const (
	Value            Kind = "value"
	List             Kind = "list"
	Map              Kind = "map"
	Reducing         Kind = "reducing"
	Aggregating      Kind = "aggregating"
	EventTimers      Kind = "event-timers"
	ProcessingTimers Kind = "processing-timers"
	Slices           Kind = "slices"
)

// Field is one state of an operator as the backend sees it. Package state
// (and the window operator) makes fields; Plan places them; the backend moves
// entries about and calls the functions. p is always the entry's first byte.
//
// A field whose presence bit is clear has no value and owns nothing in the
// arena; its bytes in the entry are then undefined.
type Field struct {
	Name string
	Kind Kind
	// Format of the value; Key is that of a map's keys, zero elsewhere.
	Format, Key codec.Format
	// Detail is anything else that must be equal at restore, for example
	// agg.Aggregator.Kind.
	Detail string
	// ItemSize is the number of encoded bytes of each element of a list or
	// value of a map, without its time; 0 if it varies, and for other kinds.
	ItemSize int
	// TTL tells whether values carry a time of last access; it is stored in
	// the section, so that TTL may be switched on or off between runs.
	TTL bool
	// Lifetime is the time to live in milliseconds, 0 for none; Sweep is how many
	// positions are to be looked at for expired values per record, 0 for none.
	Lifetime int64
	Sweep    int

	// Size is the number of bytes in the entry, Off and Bit are set by Plan.
	Size uintptr
	Off  uintptr
	Bit  uint32

	// Convert returns how values of a stored state of this kind, but of another
	// form, become what Load takes; call Conversion. nil if there is no other.
	Convert func(stored snapshot.State) (Conversion, error)
	// Append encodes the value of the entry, which is present, as it is stored in a
	// snapshot. It runs off the stage's goroutine on a copy of the entry.
	Append func(dst []byte, p unsafe.Pointer, a memory.View) ([]byte, error)
	// Load decodes what Append of the same formats wrote into the entry and
	// sets the presence bit, unless nothing is left of it (expired). ttl tells
	// whether the stored form carries times; now is the TTL clock in ms.
	Load func(src []byte, ttl bool, p unsafe.Pointer, a *memory.Arena, now int64) error
	// Clear releases what the present value owns in the arena and clears the
	// presence bit.
	Clear func(p unsafe.Pointer, a *memory.Arena)
	// Expire drops what has expired at now, and clears the field when nothing
	// is left. nil without TTL. The entry is writable (see Cursor).
	Expire func(p unsafe.Pointer, a *memory.Arena, now int64)
	// Prune appends to dst what has not expired at now of a value as Append encoded
	// it; nothing, if nothing is left. nil without TTL. Any goroutine may call it.
	Prune func(dst, value []byte, now int64) ([]byte, error)
	// Touch loads a word of each line of what the next access will need from the
	// arena and returns their sum, so that a loop over many entries overlaps the
	// cache misses. nil if everything is in line. The field is present.
	Touch func(p unsafe.Pointer, v memory.View) byte
}

// Cursor points at the current entry. The backend sets P before each call of
// user code; handles use it. One goroutine owns it.
//
// While P is set the entry may be written in place: the backend has already
// saved the page for every pending snapshot. Arena blocks are different: see
// memory.Arena.
type Cursor struct {
	// P is the first byte of the current entry; nil where no key is current,
	// which makes a handle return ErrNoKey.
	P unsafe.Pointer
	// Arena holds the variable parts of the operator's state.
	Arena *memory.Arena
	// Now is the time of the TTL clock in milliseconds, read once per batch.
	Now int64
	// Timers registers timers of the current key; nil if the operator
	// declared none.
	Timers Timers
}

// Domain is a time domain of timers.
type Domain int

// The two time domains.
const (
	EventTime Domain = iota
	ProcessingTime
)

// Timers sets and deletes timers of the current key, in milliseconds.
type Timers interface {
	Set(d Domain, millis int64)
	Delete(d Domain, millis int64)
}

// Bits returns the address of the entry's bits.
func Bits(p unsafe.Pointer) *uint32 { return (*uint32)(unsafe.Add(p, 4)) }

// Hash returns the address of the entry's hash.
func Hash(p unsafe.Pointer) *uint32 { return (*uint32)(p) }

// Has reports whether the field is present in the entry.
func (f *Field) Has(p unsafe.Pointer) bool { return *Bits(p)&f.Bit != 0 }

// At returns the address of the field's bytes in the entry.
func (f *Field) At(p unsafe.Pointer) unsafe.Pointer { return unsafe.Add(p, f.Off) }

// HeaderSize is the size of what precedes the key.
const HeaderSize = 8

// Plan gives each field its offset and bit and returns the size of an entry,
// a multiple of 8. keySize is the number of bytes the key takes in line.
func Plan(keySize uintptr, fields []*Field) (uintptr, error) {
	if len(fields) > MaxFields {
		return 0, fmt.Errorf("%d states in one operator; at most %d are possible", len(fields), MaxFields)
	}
	off := HeaderSize + align8(keySize)
	for i, f := range fields {
		f.Off, f.Bit = off, 1<<i
		off += align8(f.Size)
	}
	return off, nil
}

func align8(n uintptr) uintptr { return (n + 7) &^ 7 }
