package kafka

import (
	"errors"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/weirstream/weir/connector"
	"github.com/weirstream/weir/connector/connectortest"
)

// initialise takes a transactional id as another client does, and thereby
// aborts what is open on it. It returns the new epoch.
func (j *job) initialise(id string) int16 {
	j.Helper()
	req := kmsg.NewPtrInitProducerIDRequest()
	req.TransactionalID, req.TransactionTimeoutMillis, req.ProducerID, req.ProducerEpoch = &id, 60000, -1, -1
	for {
		resp, err := req.RequestWith(j.deadline(), j.client)
		if err != nil {
			j.Fatal(err)
		}
		if err := kerr.ErrorForCode(resp.ErrorCode); err == nil {
			return resp.ProducerEpoch
		} else if !errors.Is(err, kerr.ConcurrentTransactions) {
			j.Fatal(err)
		}
		pause(j.deadline(), minPause)
	}
}

// Rule 9: where the state of the id no longer tells, the witness does, and only
// of what was committed.
func TestRule09WitnessTellsWhatTheIDNoLongerDoes(t *testing.T) {
	protocols(t, func(t *testing.T, c *cluster) {
		for name, witness := range map[string]bool{"with": true, "without": false} {
			t.Run(name+" witness", func(t *testing.T) {
				var opts []SinkOption
				if witness {
					opts = append(opts, Witness())
				}
				j := newJob(connect(t, &cluster{T: t, fake: c.fake, servers: c.servers}), opts...)
				j.start(1, nil)
				j.write(2)
				s := j.checkpoint()
				j.complete(s)
				j.commit(s.id)
				j.settle()
				j.write(1)
				lost := j.checkpoint() // its transaction is aborted by somebody
				for _, held := range [][]byte{s.held[0], lost.held[0]} {
					txn, err := j.sink.CommittableCodec().Decode(held)
					if err != nil {
						t.Fatal(err)
					}
					j.initialise(txn.Txn.ID)
				}
				j.crash()
				err := j.tryStart(1, s)
				if witness && err != nil || !witness && !errors.Is(err, connector.ErrTransactionUnknown) {
					t.Errorf("a commit of what was committed: %v", err)
				}
				j.crash()
				err = j.tryStart(1, &snapshot{held: lost.held})
				if !errors.Is(err, connector.ErrTransactionUnknown) {
					t.Errorf("a commit of what was aborted: %v, want that it is unknown", err)
				}
				if got := len(j.committed(j.topic)); got != 2 {
					t.Errorf("%d records are visible, want 2", got)
				}
			})
		}
	})
}

// A job with witnesses is exact as one without, and its marks stand in the
// order of its transactions.
func TestRule09CrashesWithWitness(t *testing.T) {
	protocols(t, func(t *testing.T, c *cluster) {
		for _, point := range []string{"flushed", "acknowledged", "between two commits", "committed", "next interval"} {
			t.Run(point, func(t *testing.T) {
				j := newJob(connect(t, &cluster{T: t, fake: c.fake, servers: c.servers}), Witness())
				j.start(2, nil)
				j.write(3)
				restore := j.full()
				j.write(4)
				crashAt(j, point, &restore)
				j.crash()
				j.start(2, restore)
				for range 4 { // slots are used again
					j.write(2)
					j.full()
				}
				j.wantExact(j.counts)
			})
		}
	})
}

// A witness that cannot be written fails the task: the transaction may be gone.
func TestRule09RefusedWitnessFailsTheTask(t *testing.T) {
	for _, opts := range []func(*testing.T) *cluster{func(t *testing.T) *cluster { return newCluster(t) }, newV1} {
		j := newJob(opts(t), Witness())
		j.start(1, nil)
		j.write(1)
		restore := j.full()
		j.write(1)
		fault(j.fake, kmsg.TxnOffsetCommit, 1, func(req kmsg.Request) kmsg.Response {
			r := req.(*kmsg.TxnOffsetCommitRequest)
			resp := req.ResponseKind().(*kmsg.TxnOffsetCommitResponse)
			resp.Topics = []kmsg.TxnOffsetCommitResponseTopic{{Topic: r.Topics[0].Topic,
				Partitions: []kmsg.TxnOffsetCommitResponseTopicPartition{{ErrorCode: kerr.GroupAuthorizationFailed.Code}}}}
			return resp
		})
		if _, err := j.tryCheckpoint(); !errors.Is(err, kerr.GroupAuthorizationFailed) || !errors.Is(err, connector.ErrFatal) {
			t.Errorf("got %v, want the refusal, for good", err)
		}
		j.crash()
		j.start(1, restore)
		j.write(2)
		j.full()
		j.wantExact([]int{3})
	}
}

func TestWitnessProves(t *testing.T) {
	txn := Transaction{ProducerID: 7, Epoch: 3}
	for found, want := range map[identity]bool{
		noIdentity: false, {7, 3}: true, {7, 4}: true, {7, 2}: false, {8, 3}: false, {8, 9}: false,
	} {
		if got := found.proves(txn); got != want {
			t.Errorf("%v proves %v: %v, want %v", found, txn, got, want)
		}
	}
}

func FuzzReadMark(f *testing.F) {
	f.Add("7", int64(3))
	f.Add("-1", int64(-1))
	f.Add("", int64(1<<40))
	f.Fuzz(func(t *testing.T, producer string, epoch int64) {
		resp := &kmsg.OffsetFetchResponse{Groups: []kmsg.OffsetFetchResponseGroup{{Topics: []kmsg.OffsetFetchResponseGroupTopic{{
			Partitions: []kmsg.OffsetFetchResponseGroupTopicPartition{{Offset: epoch, Metadata: &producer}},
		}}}}}
		got, err := readMark(resp)
		if err != nil || got != noIdentity && int64(got.epoch) != epoch {
			t.Errorf("%q %d was read as %v, %v", producer, epoch, got, err)
		}
	})
}

// BenchmarkTransaction measures transactions of one record from begin to
// commit, and apart from that the pre-commit, for which the barrier waits. It
// needs a real broker.
func BenchmarkTransaction(b *testing.B) {
	server := os.Getenv("WEIR_KAFKA")
	if server == "" {
		b.Skip("WEIR_KAFKA=host:port names no real broker")
	}
	for name, opts := range map[string][]SinkOption{"plain": nil, "witness": {Witness()}} {
		b.Run(name, func(b *testing.B) {
			topic := "bench-" + strconv.FormatInt(time.Now().UnixNano(), 10)
			cl, err := kgo.NewClient(kgo.SeedBrokers(server))
			if err != nil {
				b.Fatal(err)
			}
			defer cl.Close()
			if _, err := kadm.NewClient(cl).CreateTopic(b.Context(), 1, 1, nil, topic); err != nil {
				b.Fatal(err)
			}
			s := Sink(topic, text{}, append(opts, ExactlyOnce("bench"), Brokers(server))...)
			ctx := &connectortest.Context{Ctx: b.Context(), LineageID: topic, AttemptNumber: 1, OperatorID: "out", Interval: time.Second, Timeout: time.Second}
			w, err := s.NewWriter(ctx)
			if err != nil {
				b.Fatal(err)
			}
			defer w.Close()
			com, err := s.NewCommitter(ctx)
			if err != nil {
				b.Fatal(err)
			}
			defer com.Close()
			var preCommit time.Duration
			id := int64(0)
			for b.Loop() {
				id++
				if err := errors.Join(w.Write([]string{"x"}, []int64{time.Now().UnixMilli()}), w.Flush(b.Context())); err != nil {
					b.Fatal(err)
				}
				began := time.Now()
				cs, err := w.PreCommit(id)
				preCommit += time.Since(began)
				if err == nil {
					err = errors.Join(com.Commit(b.Context(), cs), w.Committed(id-1))
				}
				if err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(preCommit.Microseconds())/float64(id), "µs/pre-commit")
		})
	}
}
