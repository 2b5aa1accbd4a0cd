package kafka

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/weirstream/weir/connector"
	"github.com/weirstream/weir/connector/connectortest"
	"github.com/weirstream/weir/connector/twophase"
)

type committable = twophase.Committable[Transaction]

// job is an engine with nothing but a sink: it counts up per subtask, and its
// snapshots hold the counts and the committables.
type job struct {
	*cluster
	topic   string
	lineage string
	opts    []SinkOption
	encoder Encoder[string]

	attempt int64
	last    int64 // checkpoint

	sink      connector.Sink[string, committable]
	parts     []*participant[string]
	writers   []connector.Writer[string, committable]
	committer connector.Committer[committable]
	counts    []int
	pending   []committable // not known to be committed
}

// snapshot is what a checkpoint holds.
type snapshot struct {
	id     int64
	counts []int
	held   [][]byte
}

func newJob(c *cluster, opts ...SinkOption) *job {
	j := &job{
		cluster: c, topic: c.topic(1),
		lineage: fmt.Sprintf("lin%d-%d", time.Now().UnixNano(), topics.Add(1)),
		opts:    append([]SinkOption{ExactlyOnce("weir.test"), c.brokers(), quick}, opts...),
	}
	c.Cleanup(j.crash)
	return j
}

// recording notes the participants, so that a test can crash them.
type recording struct {
	protocol[string]
	job *job
}

func (r recording) NewParticipant(ctx connector.SinkContext) (twophase.Participant[string, Transaction], error) {
	p, err := newParticipant(ctx, &r.sink.config, r.sink.encode())
	if err == nil {
		r.job.parts = append(r.job.parts, p)
	}
	return p, err
}

func (j *job) context(subtask, parallelism int) *connectortest.Context {
	return &connectortest.Context{
		Ctx: j.Context(), LineageID: j.lineage, AttemptNumber: j.attempt, OperatorID: "out", SubtaskIndex: subtask,
		SubtaskCount: parallelism, Interval: time.Second, Timeout: time.Second,
	}
}

// start starts an attempt from a snapshot, nil for none.
func (j *job) start(parallelism int, from *snapshot) {
	j.Helper()
	if err := j.tryStart(parallelism, from); err != nil {
		j.Fatal(err)
	}
}

func (j *job) tryStart(parallelism int, from *snapshot) error {
	j.attempt++
	s := Sink(j.topic, text{}, j.opts...)
	if j.encoder != nil {
		s = SinkFunc(j.topic, j.encoder, j.opts...)
	}
	j.sink = twophase.Sink(recording{protocol[string]{s}, j}, twophase.Pooled())
	j.counts, j.pending = make([]int, parallelism), nil
	var err error
	if j.committer, err = j.sink.NewCommitter(j.context(0, 1)); err != nil {
		return err
	}
	if from != nil {
		copy(j.counts, from.counts)
		if err := j.committer.Commit(j.deadline(), j.decode(from)); err != nil {
			return err
		}
	}
	if err := j.committer.Sweep(j.deadline(), func() error { return nil }); err != nil {
		return err
	}
	for i := range parallelism {
		w, err := j.sink.NewWriter(j.context(i, parallelism))
		if err != nil {
			return err
		}
		j.writers = append(j.writers, w)
	}
	return nil
}

func (j *job) decode(s *snapshot) []committable {
	j.Helper()
	var cs []committable
	for _, b := range s.held {
		c, err := j.sink.CommittableCodec().Decode(b)
		if err != nil {
			j.Fatal(err)
		}
		cs = append(cs, c)
	}
	return cs
}

// crash ends an attempt as a dying process does: connections close, nothing is
// sent.
func (j *job) crash() {
	for _, p := range j.parts {
		if p.live != nil {
			p.release()
		}
		p.ender.close()
	}
	if j.committer != nil {
		j.committer.Close()
	}
	j.parts, j.writers, j.committer = nil, nil, nil
}

// write writes n records per subtask.
func (j *job) write(n int) {
	j.Helper()
	for range n {
		for i := range j.writers {
			if err := j.writeOne(i); err != nil {
				j.Fatal(err)
			}
		}
	}
}

func (j *job) writeOne(subtask int) error {
	v := fmt.Sprintf("%d:%d", subtask, j.counts[subtask])
	j.counts[subtask]++
	// Of today: retention deletes records by their timestamps.
	return j.writers[subtask].Write([]string{v}, []int64{time.Now().UnixMilli()})
}

func (j *job) flush() {
	j.Helper()
	for _, w := range j.writers {
		if err := w.Flush(j.deadline()); err != nil {
			j.Fatal(err)
		}
	}
}

// checkpoint takes a checkpoint up to the acknowledgements.
func (j *job) checkpoint() *snapshot {
	j.Helper()
	s, err := j.tryCheckpoint()
	if err != nil {
		j.Fatal(err)
	}
	return s
}

func (j *job) tryCheckpoint() (*snapshot, error) {
	j.last++
	for _, w := range j.writers {
		if err := w.Flush(j.deadline()); err != nil {
			return nil, err
		}
		cs, err := w.PreCommit(j.last)
		if err != nil {
			return nil, err
		}
		j.pending = append(j.pending, cs...)
	}
	s := &snapshot{id: j.last, counts: slices.Clone(j.counts)}
	for _, c := range j.pending {
		b, err := j.sink.CommittableCodec().Append(nil, c)
		if err != nil {
			return nil, err
		}
		s.held = append(s.held, b)
	}
	return s, nil
}

// complete makes a snapshot the one to restore: slots that it does not list
// are free.
func (j *job) complete(s *snapshot) {
	j.Helper()
	free := s.id
	for _, c := range j.decode(s) {
		free = min(free, c.Checkpoint-1)
	}
	for _, w := range j.writers {
		if err := w.Committed(free); err != nil {
			j.Fatal(err)
		}
	}
}

// commit commits what checkpoints up to id hold.
func (j *job) commit(id int64) {
	j.Helper()
	var due, rest []committable
	for _, c := range j.pending {
		if c.Checkpoint <= id {
			due = append(due, c)
		} else {
			rest = append(rest, c)
		}
	}
	if err := j.committer.Commit(j.deadline(), due); err != nil {
		j.Fatal(err)
	}
	j.pending = rest
}

// full is a whole checkpoint.
func (j *job) full() *snapshot {
	j.Helper()
	s := j.checkpoint()
	j.complete(s)
	j.commit(s.id)
	return s
}

// wantExact checks that a reader of committed records sees each record up to
// the counts once, in order per subtask, and is not held up.
func (j *job) wantExact(counts []int) {
	j.Helper()
	j.settle()
	next := make([]int, len(counts))
	for _, v := range j.committed(j.topic) {
		var subtask, n int
		if _, err := fmt.Sscanf(v, "%d:%d", &subtask, &n); err != nil {
			j.Fatal(err)
		}
		if n != next[subtask] {
			j.Fatalf("subtask %d: record %d came where %d was due", subtask, n, next[subtask])
		}
		next[subtask]++
	}
	if !slices.Equal(next, counts) {
		j.Errorf("%v records per subtask are visible, want %v", next, counts)
	}
}

// settle waits until no transaction is open: real brokers answer before they
// have written the markers.
func (j *job) settle() {
	j.Helper()
	ctx := within(j.T, 10*time.Second)
	for j.blocked(j.topic) {
		if !pause(ctx, 10*time.Millisecond) {
			j.Fatal("an open transaction holds up readers")
		}
	}
}

// wire watches requests.
type wire struct {
	mu       sync.Mutex
	inits    []string // transactional ids of InitProducerID
	ends     []kmsg.EndTxnRequest
	versions map[int16]int16 // newest of a key
}

func watch(c *cluster) *wire {
	w := &wire{versions: map[int16]int16{}}
	if c.fake == nil {
		return w
	}
	c.fake.Control(func(req kmsg.Request) (kmsg.Response, error, bool) {
		c.fake.KeepControl()
		w.mu.Lock()
		defer w.mu.Unlock()
		w.versions[req.Key()] = req.GetVersion()
		switch r := req.(type) {
		case *kmsg.InitProducerIDRequest:
			if r.TransactionalID != nil {
				w.inits = append(w.inits, *r.TransactionalID)
			}
		case *kmsg.EndTxnRequest:
			w.ends = append(w.ends, *r)
		}
		return nil, nil, false
	})
	return w
}

func (w *wire) initialised() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.inits)
}

func (w *wire) ended() []kmsg.EndTxnRequest {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.ends)
}

// within is a context that ends after a time.
func within(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// twophaseName is the name of a slot of subtask 0 in the attempt under way.
func twophaseName(j *job, slot int) twophase.Name {
	return twophase.Name{Lineage: j.lineage, Attempt: j.attempt, Operator: "out", Slot: slot}
}

// quick does not wait long between tries.
var quick = ClientOption{func(c *client) { c.maxPause = minPause }}
