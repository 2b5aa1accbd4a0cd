package checkpoint

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"strings"
)

// RecordVersion is the version of the records that this package writes.
const RecordVersion = 1

// RecordKind tells what a record of the ledger says.
type RecordKind string

const (
	// ClaimRecord: a start has begun. It fences all earlier attempts.
	ClaimRecord RecordKind = "claim"
	// RestoredRecord: the attempt has chosen what it begins from.
	RestoredRecord RecordKind = "restored"
	// StoppingRecord: the final snapshot stands, its commits have not begun.
	StoppingRecord RecordKind = "stopping"
	// StoppedRecord: the commits of the final snapshot have returned.
	StoppedRecord RecordKind = "stopped"
	// AcceptedLossRecord: an operator has given up committables of the snapshot
	// that the attempt began from.
	AcceptedLossRecord RecordKind = "accepted-loss"
)

// Outcome is how a job ended.
type Outcome string

const (
	// Finished: its input ended.
	Finished Outcome = "finished"
	// Stopped: it was suspended, or stopped with a savepoint; it can go on.
	Stopped Outcome = "stopped"
	// Canceled: it was cancelled. Recorded only where its checkpoints were
	// deleted with it.
	Canceled Outcome = "canceled"
)

// Record is one record of the ledger.
type Record struct {
	// Version is RecordVersion.
	Version int        `json:"version"`
	Kind    RecordKind `json:"kind"`
	// Attempt is the attempt that wrote the record.
	Attempt int64 `json:"attempt"`
	// Time is when it was written, in ms since the epoch.
	Time int64 `json:"time"`

	// Lineage, Host, PID, Storage (its name, as the attempt saw it) and Job
	// belong to a claim; Host and PID also to an accepted-loss record. Claims of
	// earlier versions lack Job.
	Lineage string `json:"lineage,omitempty"`
	Host    string `json:"host,omitempty"`
	PID     int    `json:"pid,omitempty"`
	Storage string `json:"storage,omitempty"`
	// Process tells the claim's process from others with its Host and PID.
	Process string `json:"process,omitempty"`
	Job     string `json:"job,omitempty"`

	// Request is what was asked for: in a claim and, where it is used up, in
	// a restored record.
	Request *RestoreRequest `json:"request,omitempty"`
	// AcceptLoss is what a claim was asked to accept, 0 for nothing.
	AcceptLoss int64 `json:"accept_loss,omitempty"`
	// Explicit tells that the request chose the snapshot of a restored
	// record, and not the ledger.
	Explicit bool `json:"explicit,omitempty"`
	// Claim tells that an explicit restored record makes its snapshot the
	// engine's to delete; else it stays the user's.
	Claim bool `json:"claim,omitempty"`
	// Snapshot is what a restored record begins from, nil for nothing, the
	// final snapshot in stopping and stopped records, and the one that holds
	// the losses of an accepted-loss record.
	Snapshot *Ref `json:"snapshot,omitempty"`
	// NextID belongs to a restored record of --fresh: ids of snapshots from
	// before are smaller. 0 in those of earlier versions.
	NextID int64 `json:"next_id,omitempty"`
	// Outcome belongs to a stopped record.
	Outcome Outcome `json:"outcome,omitempty"`
	// Losses are what an accepted-loss record gives up; Note says what it costs.
	Losses []Loss `json:"losses,omitempty"`
	Note   string `json:"note,omitempty"`
}

// RestoreRequest is what the user of a start asked for, beyond going on.
type RestoreRequest struct {
	// Path is the snapshot of -s.
	Path   string `json:"path,omitempty"`
	Rewind bool   `json:"rewind,omitempty"`
	Fresh  bool   `json:"fresh,omitempty"`
	// Nth is the N of --rewind=N and --fresh=N, 0 without: a request is carried
	// out once, and one with another number is another one.
	Nth int `json:"time,omitempty"`
}

func (r RestoreRequest) String() string {
	var parts []string
	if r.Path != "" {
		parts = append(parts, "-s "+r.Path)
	}
	if r.Rewind {
		parts = append(parts, "--rewind")
	}
	if r.Fresh {
		parts = append(parts, "--fresh")
	}
	s := strings.Join(parts, " ")
	if r.Nth != 0 {
		s += fmt.Sprintf("=%d", r.Nth)
	}
	return s
}

// Ref names a snapshot: by who wrote it, and where it lies.
type Ref struct {
	Lineage string `json:"lineage"`
	Attempt int64  `json:"attempt"`
	ID      int64  `json:"id"`
	// Path is the directory: a name in the job's storage or, if External, a
	// path as a user would give it.
	Path     string `json:"path"`
	External bool   `json:"external,omitempty"`
}

// same reports whether a and b are one snapshot, wherever it lies.
func (a Ref) same(b Ref) bool {
	return a.Lineage == b.Lineage && a.Attempt == b.Attempt && a.ID == b.ID
}

func (a Ref) String() string {
	if a.Attempt == 0 {
		return fmt.Sprintf("%s (id %d)", a.Path, a.ID)
	}
	return fmt.Sprintf("%s (id %d, attempt %d)", a.Path, a.ID, a.Attempt)
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

const checksumLine = "crc32c %08x\n"

// encode returns the bytes of the record: readable JSON, then a line with the
// checksum of what precedes.
func (r *Record) encode() ([]byte, error) {
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode ledger record: %w", err)
	}
	data = append(data, '\n')
	return fmt.Appendf(data, checksumLine, crc32.Checksum(data, castagnoli)), nil
}

// parseRecord is the inverse of encode; it refuses whatever encode would not
// have written.
func parseRecord(data []byte) (*Record, error) {
	size := len(data) - len("crc32c 00000000\n")
	if size < 0 {
		return nil, errors.New("truncated")
	}
	body, sum := data[:size], data[size:]
	if want := fmt.Appendf(nil, checksumLine, crc32.Checksum(body, castagnoli)); !bytes.Equal(sum, want) {
		return nil, fmt.Errorf("checksum mismatch: the last line is %q, not %q", sum, want)
	}
	var r Record
	if err := json.Unmarshal(body, &r); err != nil {
		return nil, fmt.Errorf("malformed: %w", err)
	}
	return &r, r.check()
}

func (r *Record) check() error {
	if r.Version > RecordVersion {
		return fmt.Errorf("written by a newer version of Weir (record version %d, this one reads up to %d); upgrade to read it", r.Version, RecordVersion)
	}
	if r.Version < 1 || r.Attempt < 1 {
		return fmt.Errorf("malformed: version %d, attempt %d", r.Version, r.Attempt)
	}
	switch r.Kind {
	case ClaimRecord:
		if r.Lineage == "" {
			return errors.New("malformed: a claim without lineage")
		}
	case RestoredRecord:
	case AcceptedLossRecord:
		if r.Snapshot == nil {
			return errors.New("malformed: an accepted-loss record without snapshot")
		}
	case StoppingRecord, StoppedRecord:
		if r.Snapshot == nil && r.Outcome != Canceled {
			return fmt.Errorf("malformed: a %s record without snapshot", r.Kind)
		}
	default:
		return fmt.Errorf("malformed: unknown kind %q", r.Kind)
	}
	return nil
}
