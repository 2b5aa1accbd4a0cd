package kafka

import (
	"errors"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/weirstream/weir/connector"
)

// answers is what Apache Kafka's coordinator says of a transaction that was
// written by producer p at epoch e: codes to EndTxn, the last one for ever, and
// the state that it describes. kfake does not keep what became of one.
type answers struct {
	name  string
	v4    []*kerr.Error // nil stands for no error
	v5    []*kerr.Error
	state string
	// other is set if the id has another producer by now, bumped is how far
	// its epoch is from e.
	other  bool
	bumped int16
	// want4 and want5 are the outcomes of a commit in the version.
	want4, want5 error
}

func says(codes ...*kerr.Error) []*kerr.Error { return codes }

// install answers the requests of a committer.
func (a answers) install(c *cluster, t Transaction) (sent *[]int16) {
	var versions []int16
	c.fake.ControlKey(int16(kmsg.EndTxn), func(req kmsg.Request) (kmsg.Response, error, bool) {
		c.fake.KeepControl()
		codes := a.v4
		if req.GetVersion() >= endTxnV2 {
			codes = a.v5
		}
		versions = append(versions, req.GetVersion())
		resp := req.ResponseKind().(*kmsg.EndTxnResponse)
		if code := codes[min(len(versions), len(codes))-1]; code != nil {
			resp.ErrorCode = code.Code
		}
		return resp, nil, true
	})
	producer := t.ProducerID
	if a.other {
		producer++
	}
	fault(c.fake, kmsg.DescribeTransactions, -1, describeTransactions(a.state, producer, t.Epoch+a.bumped, 0))
	return &versions
}

// Failures 13, 25, 26, 30 and 35: every answer that the releases of Kafka give
// to a repeated commit, in both versions of the request.
func TestFailure26EveryAnswerOfACoordinator(t *testing.T) {
	lost, unknown := connector.ErrTransactionLost, connector.ErrTransactionUnknown
	fenced, state, mapping, busy := kerr.ProducerFenced, kerr.InvalidTxnState, kerr.InvalidProducerIDMapping, kerr.ConcurrentTransactions
	for _, a := range []answers{
		{name: "open", v4: says(nil), v5: says(nil), state: "Ongoing"},
		{name: "decided, markers under way", v4: says(busy, busy, busy, nil), v5: says(busy, busy, busy, nil), state: "PrepareCommit"},
		{name: "coordinator moves", v4: says(kerr.NotCoordinator, kerr.CoordinatorNotAvailable, kerr.CoordinatorLoadInProgress, nil),
			v5: says(kerr.NotCoordinator, kerr.CoordinatorNotAvailable, kerr.CoordinatorLoadInProgress, nil), state: "Ongoing"},
		// A version that did not commit it cannot tell, which is why the
		// committable holds the version.
		{name: "committed by v5", v4: says(fenced), v5: says(nil), state: "CompleteCommit", bumped: 1, want4: unknown},
		{name: "committed by v5, its answer lost", v4: says(fenced), v5: says(fenced), state: "CompleteCommit", bumped: 1, want4: unknown},
		{name: "committed by v5, epochs used up", v4: says(mapping), v5: says(nil), state: "CompleteCommit", other: true, want4: unknown},
		{name: "committed by v4", v4: says(nil), v5: says(state), state: "CompleteCommit", want5: unknown},
		{name: "committed by v4, its answer lost", v4: says(fenced), v5: says(state), state: "CompleteCommit", want5: unknown},
		{name: "committed, and the id in use again", v4: says(fenced), v5: says(fenced), state: "Ongoing", bumped: 2, want4: unknown, want5: unknown},
		{name: "expired, 4.0.0", v4: says(fenced), v5: says(fenced), state: "CompleteAbort", bumped: 2, want4: unknown, want5: lost},
		{name: "expired, 4.1 to 4.3", v4: says(fenced), v5: says(state), state: "CompleteAbort", bumped: 1, want4: lost, want5: lost},
		{name: "expired, later", v4: says(fenced), v5: says(fenced), state: "CompleteAbort", bumped: 1, want4: lost, want5: lost},
		{name: "expiring", v4: says(fenced), v5: says(fenced), state: "PrepareEpochFence", bumped: 1, want4: lost, want5: lost},
		{name: "expired, in the words of EndTxn v1", v4: says(kerr.InvalidProducerEpoch), v5: says(kerr.InvalidProducerEpoch), state: "CompleteAbort", bumped: 1, want4: lost, want5: lost},
		{name: "aborted by somebody", v4: says(state), v5: says(state), state: "CompleteAbort", want4: lost, want5: lost},
		{name: "id initialised by somebody", v4: says(fenced), v5: says(fenced), state: "Empty", bumped: 1, want4: unknown, want5: unknown},
		{name: "nothing was ever written", v4: says(state), v5: says(state), state: "Empty", want4: unknown, want5: unknown},
		{name: "id forgotten", v4: says(mapping), v5: says(mapping), state: "Dead", want4: unknown, want5: unknown},
	} {
		t.Run(a.name, func(t *testing.T) {
			for version, want := range map[int16]error{endTxnV1: a.want4, endTxnV2: a.want5} {
				j := newJob(newCluster(t))
				j.start(1, nil)
				j.write(1)
				j.checkpoint()
				j.pending[0].Txn.EndTxn = version
				sent := a.install(j.cluster, j.pending[0].Txn)
				err := j.committer.Commit(j.deadline(), j.pending)
				if !errors.Is(err, want) || want == nil && err != nil {
					t.Errorf("EndTxn v%d: got %v, want %v", version, err, want)
				}
				for _, v := range *sent {
					if v != version { // failure 29
						t.Errorf("EndTxn v%d was sent for a committable of v%d", v, version)
					}
				}
			}
		})
	}
}
