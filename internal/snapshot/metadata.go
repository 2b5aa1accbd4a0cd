package snapshot

import "github.com/weirstream/weir/codec"

// Kind tells checkpoints from savepoints.
type Kind string

// The kinds of snapshots.
const (
	Checkpoint Kind = "checkpoint"
	Savepoint  Kind = "savepoint"
	// Final is the snapshot of a job that stops or whose input has ended; it
	// is stored like a checkpoint.
	Final Kind = "final"
)

// Metadata is the content of _metadata.
type Metadata struct {
	// FormatVersion is what EncodeMetadata chose, at most MetadataVersion.
	FormatVersion int    `json:"format_version"`
	Weir          string `json:"weir"`
	Job           string `json:"job"`
	Lineage       string `json:"lineage"`
	Attempt       int64  `json:"attempt"`
	// Ledger is the id of the ledger that the attempt is on record in, "" in
	// snapshots of earlier versions.
	Ledger string `json:"ledger,omitempty"`
	ID     int64  `json:"id"`
	Kind   Kind   `json:"kind"`
	// Triggered and Completed are milliseconds since the epoch.
	Triggered int64  `json:"triggered"`
	Completed int64  `json:"completed"`
	KeyHash   string `json:"key_hash"`
	// Deletes names the snapshots that the completion of this one deletes.
	Deletes   []string   `json:"deletes,omitempty"`
	Operators []Operator `json:"operators"`
	Files     []File     `json:"files"`
	// Outside lists byte fields that Store put into a file of their own, and
	// Load back in their place. It is empty outside of this package.
	Outside []Outside `json:"outside,omitempty"`
}

// Outside is a byte field whose content lies in a file beside _metadata.
type Outside struct {
	// Field is the JSON pointer (RFC 6901) to the field, which is empty.
	Field string `json:"field"`
	File  string `json:"file"`
	// Offset and Size say where in the file.
	Offset int64 `json:"offset"`
	Size   int64 `json:"size"`
	// CRC is the CRC32C of the content.
	CRC uint32 `json:"crc32c"`
}

// File is a data file, written by one subtask.
type File struct {
	// Name is relative to the directory of _metadata: that of a file in it, or a
	// SharedName.
	Name string `json:"name"`
	Size int64  `json:"size"`
	// CRC is the CRC32C of the whole file.
	CRC uint32 `json:"crc32c"`
}

// Operator is one operator's part of a snapshot.
type Operator struct {
	ID             string `json:"id"`
	Kind           string `json:"kind"`
	Parallelism    int    `json:"parallelism"`
	MaxParallelism int    `json:"max_parallelism,omitempty"`
	// KeyFormat is that of the keys of the keyed states, nil if it has none.
	KeyFormat *codec.Format `json:"key_format,omitempty"`
	// States lists the keyed states with their formats.
	States []State `json:"states,omitempty"`
	// Subtasks are in order of their index.
	Subtasks []Subtask `json:"subtasks"`
	// SplitFormat, EnumeratorFormat and CommittableFormat say how the bytes
	// below and in the subtasks are encoded.
	SplitFormat       *codec.Format `json:"split_format,omitempty"`
	EnumeratorFormat  *codec.Format `json:"enumerator_format,omitempty"`
	CommittableFormat *codec.Format `json:"committable_format,omitempty"`
	Enumerator        []byte        `json:"enumerator,omitempty"`
	// Committables not known to be committed, those of earlier checkpoints
	// included, in checkpoint order.
	Committables []Committable `json:"committables,omitempty"`
}

// State names a keyed state.
type State struct {
	Name   string       `json:"name"`
	Kind   string       `json:"kind"`
	Format codec.Format `json:"format"`
	Key    codec.Format `json:"key_format,omitzero"`
	Detail string       `json:"detail,omitempty"`
	TTL    bool         `json:"ttl,omitempty"`
	// ItemSize is the number of bytes of each element of a list or value of a
	// map, without its time: their format does not say it. It is 0 if it varies,
	// for other kinds, in the headers of sections and in older snapshots.
	ItemSize int `json:"item_size,omitempty"`
}

// Subtask is one subtask's part of an operator's snapshot.
type Subtask struct {
	Index int `json:"index"`
	// File is the data file with the operator's keyed state, "" if none.
	File string `json:"file,omitempty"`
	// Increments are the data files that complete File, oldest first: what one
	// of them holds of a key group replaces what those before it have there.
	Increments []string `json:"increments,omitempty"`
	// Native is the keyed state in the form of a backend, in place of File.
	Native *Native `json:"native,omitempty"`
	// Lists are the states of the subtask that belong to no key.
	Lists []ListState `json:"lists,omitempty"`
	// Splits of a source's reader.
	Splits [][]byte `json:"splits,omitempty"`
	// Watermark is the event time of the subtask, the bound for lateness
	// after a restore; nil if the operator keeps none.
	Watermark *int64 `json:"watermark,omitempty"`
	// Ended tells that the subtask's input had ended and been processed.
	Ended bool `json:"ended,omitempty"`
}

// Native is the keyed state of one operator's subtask as files of its backend.
type Native struct {
	// Format names the form, with its version, such as "pebble/1".
	Format string `json:"format"`
	// States are the operator's states in the order they have in the files.
	States []State      `json:"states,omitempty"`
	Files  []NativeFile `json:"files"`
}

// NativeFile is one file of a backend.
type NativeFile struct {
	// Local is its name in the backend's directory.
	Local string `json:"local"`
	// File is its name in Metadata.Files.
	File string `json:"file"`
}

// ListKind says how the items of a ListState are dealt out when the
// parallelism changes. The names are stored.
type ListKind string

const (
	// EvenSplit divides the items of all subtasks evenly.
	EvenSplit ListKind = ""
	// UnionList gives every subtask the items of all.
	UnionList ListKind = "union"
	// BroadcastMap is a map that all subtasks hold alike: one item, made of the
	// keys and values (AppendItem) in turn; none if the map is empty.
	BroadcastMap ListKind = "broadcast"
	// RawParts are items in a form of the function's own, divided evenly.
	RawParts ListKind = "raw"
)

// ChangedKeys is the kind of a section in a file of changes: the keys, in the
// order of (hash, encoded key), of which all that older files hold of the
// operator and key group is out of date. AllKeys has no entries and says so of
// all keys.
const (
	ChangedKeys = "changed-keys"
	AllKeys     = "all-keys"
)

// RawKind is the kind of a keyed State whose sections hold one entry without a
// key: bytes in a form of the function's own.
const RawKind = "raw"

// ListState is one state of a subtask that belongs to no key.
type ListState struct {
	Name   string       `json:"name"`
	Kind   ListKind     `json:"kind,omitempty"`
	Format codec.Format `json:"format"`
	// Key is the format of the keys of a BroadcastMap.
	Key   codec.Format `json:"key_format,omitzero"`
	Items [][]byte     `json:"items"`
}

// Committable is what a sink's committer needs to publish.
type Committable struct {
	Checkpoint int64  `json:"checkpoint"`
	Subtask    int    `json:"subtask"`
	Data       []byte `json:"data"`
}
