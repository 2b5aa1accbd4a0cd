package checkpoint

import (
	"bytes"
	"reflect"
	"strings"
	"testing"
)

func sampleRecords() []Record {
	return []Record{
		{Version: 1, Kind: ClaimRecord, Attempt: 1, Time: 5, Lineage: "ab", Host: "h", PID: 7, Storage: "memory:", Process: "x", Job: "j", Request: &RestoreRequest{Path: "/x", Rewind: true}},
		{Version: 1, Kind: RestoredRecord, Attempt: 2, Explicit: true, Snapshot: &Ref{Lineage: "ab", Attempt: 1, ID: 9, Path: "/x", External: true}},
		{Version: 1, Kind: RestoredRecord, Attempt: 2},
		{Version: 1, Kind: RestoredRecord, Attempt: 3, Explicit: true, Request: &RestoreRequest{Fresh: true}, NextID: 11},
		{Version: 1, Kind: StoppingRecord, Attempt: 2, Snapshot: &Ref{Lineage: "ab", Attempt: 2, ID: 10, Path: "job/chk-10"}},
		{Version: 1, Kind: StoppedRecord, Attempt: 2, Snapshot: &Ref{Lineage: "ab", Attempt: 2, ID: 10, Path: "job/chk-10"}, Outcome: Finished},
		{Version: 1, Kind: StoppedRecord, Attempt: 2, Outcome: Canceled},
		{Version: 1, Kind: AcceptedLossRecord, Attempt: 2, Host: "h", PID: 7, Snapshot: &Ref{Lineage: "ab", Attempt: 1, ID: 9, Path: "job/chk-9"}, Note: "gone",
			Losses: []Loss{{Operator: "rows", Checkpoint: 9, Subtask: 1, Outcome: Lost, Digest: "00ff", Reason: "expired"}}},
	}
}

func encodeRecord(t testing.TB, r Record) []byte {
	t.Helper()
	data, err := r.encode()
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestRecordRoundTrip(t *testing.T) {
	for _, want := range sampleRecords() {
		got, err := parseRecord(encodeRecord(t, want))
		if err != nil {
			t.Errorf("%s: %v", want.Kind, err)
		} else if !reflect.DeepEqual(*got, want) {
			t.Errorf("got %+v, want %+v", *got, want)
		}
	}
}

// TestRecordDamage flips every bit and cuts at every length.
func TestRecordDamage(t *testing.T) {
	data := encodeRecord(t, sampleRecords()[0])
	for i := range data {
		if _, err := parseRecord(data[:i]); err == nil {
			t.Errorf("cut to %d bytes: not found", i)
		}
		for bit := range 8 {
			bad := bytes.Clone(data)
			bad[i] ^= 1 << bit
			if _, err := parseRecord(bad); err == nil {
				t.Errorf("byte %d, bit %d flipped: not found", i, bit)
			}
		}
	}
}

func TestRecordRefusals(t *testing.T) {
	for want, r := range map[string]Record{
		"newer version":   {Version: 2, Kind: ClaimRecord, Attempt: 1, Lineage: "a"},
		"version 0":       {Kind: ClaimRecord, Attempt: 1, Lineage: "a"},
		"attempt 0":       {Version: 1, Kind: ClaimRecord, Lineage: "a"},
		"without lineage": {Version: 1, Kind: ClaimRecord, Attempt: 1},
		"without snapsho": {Version: 1, Kind: StoppingRecord, Attempt: 1},
		"accepted-loss r": {Version: 1, Kind: AcceptedLossRecord, Attempt: 1},
		"unknown kind":    {Version: 1, Kind: "rumour", Attempt: 1},
	} {
		if _, err := parseRecord(encodeRecord(t, r)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v", want, err)
		}
	}
}

// FuzzRecord: whatever parses is what encode would have written of it.
func FuzzRecord(f *testing.F) {
	for _, r := range sampleRecords() {
		f.Add(encodeRecord(f, r))
	}
	f.Add([]byte("{}\ncrc32c 00000000\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := parseRecord(data)
		if err != nil {
			return
		}
		again, err := parseRecord(encodeRecord(t, *r))
		if err != nil || !reflect.DeepEqual(r, again) {
			t.Fatalf("%+v became %+v, %v", r, again, err)
		}
	})
}
