package kafka

import (
	"context"
	"log/slog"
	"maps"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/weirstream/weir/connector"
	"github.com/weirstream/weir/connector/splitreader"
)

// reader adds to the kit's reader what is committed to the consumer group.
type reader[T any] struct {
	*splitreader.Reader[T, Split]
	ctx   connector.ReaderContext
	group *groupCommitter // nil without a group

	read    map[partition]Split    // ended splits included
	pending map[int64]kadm.Offsets // by checkpoint
}

// consumer is a client that fetches.
type consumer struct {
	*kgo.Client
	// refused ends, with the cause, when a broker refuses to talk to it.
	refused context.Context
}

// newReader makes a reader over cl; committer, nil without a group, is the
// client that commits: the other one ends with the fetcher.
func newReader[T any](ctx connector.ReaderContext, c *sourceConfig, cl consumer, committer *kgo.Client, d decoding[T]) *reader[T] {
	r := &reader[T]{
		Reader:  splitreader.New(ctx, newFetcher(c, cl, d, ctx, ctx.Logger())),
		ctx:     ctx,
		read:    map[partition]Split{},
		pending: map[int64]kadm.Offsets{},
	}
	if committer != nil {
		r.group = &groupCommitter{
			group: c.group, client: committer, adm: kadm.NewClient(committer), log: ctx.Logger(), count: ctx.Count,
			next: make(chan kadm.Offsets, 1), done: make(chan struct{}),
		}
	}
	return r
}

func (r *reader[T]) Start() error {
	if r.group != nil {
		r.group.start(r.ctx.Context())
	}
	return r.Reader.Start()
}

func (r *reader[T]) AddSplits(splits []Split) error {
	r.follow(splits)
	return r.Reader.AddSplits(splits)
}

// follow notes what is read. A split that begins behind its end is not, and
// must not move the group.
func (r *reader[T]) follow(splits []Split) {
	for _, s := range splits {
		if !s.beyond() {
			r.read[s.partition()] = s
		}
	}
}

func (r *reader[T]) Snapshot(checkpoint int64) ([]Split, error) {
	splits, err := r.Reader.Snapshot(checkpoint)
	if err != nil || r.group == nil {
		return splits, err
	}
	for p, s := range r.read { // a split that is no longer there has ended
		r.read[p] = s.At(s.Stop, int64(s.LeaderEpoch))
	}
	r.follow(splits)
	offsets := kadm.Offsets{}
	for _, s := range r.read {
		offsets.Add(kadm.Offset{Topic: s.Topic, Partition: s.Partition, At: s.Next, LeaderEpoch: s.LeaderEpoch})
	}
	r.pending[checkpoint] = offsets
	return splits, nil
}

// CheckpointComplete commits the offsets of the checkpoint, and forgets those
// of earlier ones.
func (r *reader[T]) CheckpointComplete(checkpoint int64) error {
	offsets := r.pending[checkpoint]
	maps.DeleteFunc(r.pending, func(n int64, _ kadm.Offsets) bool { return n <= checkpoint })
	if len(offsets) == 0 {
		return nil
	}
	r.group.commit(offsets)
	return nil
}

func (r *reader[T]) Close() error {
	if r.group != nil {
		r.group.close()
	}
	return r.Reader.Close()
}

const (
	groupCommitTimeout = 10 * time.Second
	groupCloseTimeout  = 2 * time.Second
)

// groupCommitter commits offsets to a group, the newest only: it is for
// people who watch the group's lag.
type groupCommitter struct {
	group  string
	client *kgo.Client
	adm    *kadm.Client
	log    *slog.Logger
	count  func(string, int64)

	next   chan kadm.Offsets
	done   chan struct{}
	cancel context.CancelFunc
}

func (g *groupCommitter) start(ctx context.Context) {
	// What completed at the very end of the attempt is still sent.
	ctx, g.cancel = context.WithCancel(context.WithoutCancel(ctx))
	go func() {
		defer close(g.done)
		for offsets := range g.next {
			g.send(ctx, offsets)
		}
	}()
}

// commit hands offsets over without waiting. It runs on the goroutine that
// closes.
func (g *groupCommitter) commit(offsets kadm.Offsets) {
	if g.cancel == nil {
		return // closed: the splits may belong to another reader by now
	}
	select {
	case <-g.next: // older ones that were not sent
	default:
	}
	g.next <- offsets
}

func (g *groupCommitter) send(ctx context.Context, offsets kadm.Offsets) {
	bounded, cancel := context.WithTimeout(ctx, groupCommitTimeout)
	defer cancel()
	var err error
	for {
		var answer kadm.OffsetResponses
		if answer, err = g.adm.CommitOffsets(bounded, g.group, offsets); err == nil {
			err = answer.Error()
		}
		if err == nil || !kerr.IsRetriable(err) || !pause(bounded, retryPause) {
			break
		}
	}
	if err != nil && ctx.Err() == nil {
		g.count("groupCommitsFailed", 1)
		g.log.Warn("kafka source could not commit offsets to its group; only its monitoring suffers", "group", g.group, "error", err)
	}
}

// close sends what is waiting, but not for long.
func (g *groupCommitter) close() {
	defer g.client.Close()
	if g.cancel == nil {
		return
	}
	close(g.next)
	timer := time.AfterFunc(groupCloseTimeout, g.cancel)
	<-g.done
	timer.Stop()
	g.cancel()
	g.cancel = nil
}
