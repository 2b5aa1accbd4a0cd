// Package state holds what a function keeps per key and per subtask: typed
// handles on state, and the Registry through which they are declared.
//
// A constructor takes a *Registry and declares its state in it:
//
//	type dedupe struct{ seen state.Value[bool] }
//
//	func newDedupe(r *state.Registry) *dedupe {
//		return &dedupe{seen: state.ValueIn[bool](r, "seen", state.TTL(24*time.Hour))}
//	}
//
// Handles are scoped by the current key, which the engine sets before each
// record and each timer. They are used on the goroutine that calls the
// function, and nowhere else. What they return may be kept; what was passed
// to them may be changed afterwards. A handle that no constructor declared is
// of no use: its methods panic.
//
// # How values are kept
//
// How a T is kept is settled once, when it is declared:
//
//   - numbers, bools, and arrays and structs of them of at most 48 bytes lie
//     in the key's entry; to read or write one is a plain memory access;
//   - strings, byte slices and larger arrays and structs without pointers lie
//     beside it, short strings in the entry itself;
//   - everything else (slices, maps, pointers, structs that hold any) is
//     encoded when it is set and decoded when it is read, with the codec of
//     codec.For or the one given by Codec. So are integer types with
//     MarshalText and UnmarshalText, and what holds one, so that an enumeration
//     is stored by name.
//
// A snapshot says the form of each state. A restore converts what is stored in
// another one: structs may gain, lose, reorder and rename fields, and numbers
// become wider (see codec.Resolve); Migrate converts what no rule covers. What
// cannot be converted is refused, with both forms named.
//
// A nil []byte is kept as an empty one. Nil pointers are refused with ErrNil.
package state
