package checkpoint

import (
	"testing"

	"github.com/weirstream/weir/internal/snapshot"
)

func TestMarkNamesItsSnapshot(t *testing.T) {
	own := Ref{Lineage: "ab", Attempt: 2, ID: 7, Path: "job/chk-7"}
	for name, c := range map[string]struct {
		of   Ref
		want bool
	}{
		"its own":         {own, true},
		"another place":   {Ref{Lineage: "ab", Attempt: 2, ID: 7, Path: "/sp", External: true}, true},
		"another attempt": {Ref{Lineage: "ab", Attempt: 1, ID: 7}, false},
		"another id":      {Ref{Lineage: "ab", Attempt: 2, ID: 8}, false},
		"another job":     {Ref{Lineage: "cd", Attempt: 2, ID: 7}, false},
	} {
		if got := marks(mark{Lineage: own.Lineage, Attempt: own.Attempt, ID: own.ID, Time: 5}.encode(), c.of); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	blobs := newStore()
	dir := snapshot.CheckpointDir("job", own.ID)
	for range 2 {
		if err := putMark(t.Context(), blobs, dir, own, 1); err != nil {
			t.Fatal(err)
		}
	}
	if err := putMark(t.Context(), blobs, dir, Ref{Lineage: "ab", Attempt: 3, ID: 7}, 1); err == nil {
		t.Error("the mark of another snapshot counts as one's own")
	}
}

// FuzzMark: only what names the snapshot is its mark.
func FuzzMark(f *testing.F) {
	own := Ref{Lineage: "ab", Attempt: 2, ID: 7}
	f.Add(mark{Lineage: "ab", Attempt: 2, ID: 7}.encode())
	f.Add([]byte("{}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if marks(data, own) && marks(data, Ref{Lineage: "ab", Attempt: 2, ID: 8}) {
			t.Errorf("%q is the mark of two snapshots", data)
		}
	})
}
