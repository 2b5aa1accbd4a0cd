package checkpoint

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"strings"
	"testing"

	"github.com/weirstream/weir/internal/stage"
)

// Every refusal names what stands in the way, the choices, and their cost.
// What the ledger's traces hold of them word by word is not repeated here.
func TestRefusals(t *testing.T) {
	for name, c := range map[string]struct {
		set   func(j *lossJob)
		start StartOptions
		says  []string
	}{
		"newest is of a newer version": {
			func(j *lossJob) {
				j.publish(1, nil)
				j.publish(2, nil)
				rewriteBlob(j.T, j.blobs, "job/chk-2/_metadata", ofNewerVersion)
			},
			StartOptions{},
			[]string{"job job in memory:", "job/chk-2", "newer version of Weir", "start that version of Weir, or one after it, which costs nothing", "-s memory:/job/chk-1 --rewind"},
		},
		"newest is gone": {
			func(j *lossJob) {
				j.publish(1, nil)
				j.publish(2, nil)
				j.mustStart(StartOptions{})
				if err := j.blobs.Delete(j.Context(), "job/chk-2/_metadata"); err != nil {
					j.Fatal(err)
				}
			},
			StartOptions{},
			[]string{"job/chk-2 (id 2, attempt 1)", "put it back, which costs nothing", "go back to job/chk-1 (id 1, attempt 1) with -s memory:/job/chk-1 --rewind, which would publish again", "--fresh begins from nothing: all input is read again"},
		},
		"behind": {
			func(j *lossJob) { j.publish(1, nil); j.publish(2, nil) },
			StartOptions{RestorePath: "memory:/job/chk-1"},
			[]string{"job/chk-1 (id 1, attempt 1) lies behind job/chk-2 (id 2, attempt 1)", "exactly-once sinks publish it twice", "Leave out -s", "--rewind to accept the duplicates"},
		},
		"void by --fresh": {
			func(j *lossJob) {
				j.publish(1, nil)
				j.publish(2, nil, "2.0")
				if err := putMark(j.Context(), j.blobs, "job/chk-2", Ref{Lineage: j.a.Lineage, Attempt: 1, ID: 2}, 1); err != nil {
					j.Fatal(err)
				}
				j.mustStart(StartOptions{Fresh: true})
				if err := j.blobs.Delete(j.Context(), "job/chk-2/_committed"); err != nil {
					j.Fatal(err)
				}
			},
			StartOptions{RestorePath: "memory:/job/chk-2", Rewind: true},
			[]string{"job/chk-2 (id 2, attempt 1) is void: a start with --fresh has begun another lineage"},
		},
		"behind, where the newest cannot be used": {
			func(j *lossJob) {
				j.publish(1, nil)
				j.publish(2, nil)
				rewriteBlob(j.T, j.blobs, "job/chk-2/_metadata", flipLastBit)
			},
			StartOptions{RestorePath: "memory:/job/chk-1"},
			[]string{"Without -s the start is refused as well: the newest snapshot job/chk-2 (id 2) cannot be used"},
		},
		"fresh with committables": {
			func(j *lossJob) { j.publish(1, nil, "1.0", "1.1", "1.2", "1.3", "1.4", "1.5", "1.6") },
			StartOptions{Fresh: true},
			[]string{"job/chk-1", "7 committables of sink rows (transaction 1.0, transaction 1.1, transaction 1.2, transaction 1.3, transaction 1.4, and 2 more)", "would never be published", "that commits them, and costs nothing"},
		},
		"void": {
			func(j *lossJob) {
				j.publish(1, nil)
				j.publish(2, nil, "2.0")
				j.mustStart(StartOptions{RestorePath: "memory:/job/chk-1", Rewind: true})
			},
			StartOptions{RestorePath: "memory:/job/chk-2", Rewind: true},
			[]string{"job/chk-2 (id 2, attempt 1) is void", "1 committable of sink rows (transaction 2.0)", "missing for good", "attempt 2 began from job/chk-1 (id 1, attempt 1), before it", "Leave out -s to go on from memory:/job/chk-1. These can be begun from: -s memory:/job/chk-1"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			j := newLossJob(t)
			c.set(j)
			wantRefusal(t, j.start(c.start), c.says...)
		})
	}
}

// ofNewerVersion makes _metadata what a later version of Weir may write.
func ofNewerVersion(b []byte) []byte {
	b = bytes.Replace(b[:len(b)-len("crc32c 00000000\n")], []byte(`"format_version": 1`), []byte(`"format_version": 99`), 1)
	return fmt.Appendf(b, checksumLine, crc32.Checksum(b, castagnoli))
}

func TestRefusalOfALackingSink(t *testing.T) {
	j := newLossJob(t)
	j.publish(1, nil, "1.0")
	j.mustStart(StartOptions{})
	err := j.a.ResolveSinks(t.Context(), map[string]stage.Committer{})
	wantRefusal(t, err, "job job in memory:", "job/chk-1 (id 1, attempt 1)", "1 committable of sink rows (transaction 1.0)", "never be published", "Start the job with the sink once and suspend it, which costs nothing")
}

// The choice that a refusal offers is one that a start accepts.
func TestRefusalsOfferWhatWorks(t *testing.T) {
	j := newLossJob(t)
	j.publish(1, nil, "1.0")
	j.publish(2, nil, "2.0")
	rewriteBlob(t, j.blobs, "job/chk-2/_metadata", flipLastBit)
	err := j.start(StartOptions{})
	_, flags, ok := strings.Cut(err.Error(), "with -s ")
	path, _, rewind := strings.Cut(flags, " --rewind")
	if !ok || !rewind {
		t.Fatalf("no flags are offered: %v", err)
	}
	j.mustStart(StartOptions{RestorePath: path, Rewind: true})
	if j.a.Restored.ID != 1 {
		t.Errorf("began from %d", j.a.Restored.ID)
	}
}
