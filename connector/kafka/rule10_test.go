package kafka

import "testing"

// TestRule10PreCommitComparesIdentities: what is pre-committed is the identity
// that wrote the records, or nothing.
func TestRule10PreCommitComparesIdentities(t *testing.T) {
	j := newJob(newCluster(t))
	j.start(1, nil)
	j.write(1)
	j.flush()
	j.parts[0].live.produced.identity.epoch-- // the client was initialised anew since
	if _, err := j.tryCheckpoint(); err == nil {
		t.Error("a transaction was pre-committed under an identity that wrote none of its records")
	}
}
