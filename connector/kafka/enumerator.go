package kafka

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/weirstream/weir/connector"
)

// enumerator discovers partitions and deals them out. Each partition has one
// owner, which follows from its name and the parallelism.
type enumerator struct {
	ctx    connector.EnumeratorContext[Split]
	config *sourceConfig
	client *kgo.Client
	look   discoverer

	started    bool // the first discovery of the job is done
	ready      bool // ... of this attempt
	known      map[partition]Identity
	order      []partition // of known
	unassigned []Split
	gone       map[string]bool // topics that the last discovery missed
}

func newEnumerator(ctx connector.EnumeratorContext[Split], c *sourceConfig, cl *kgo.Client, restored *Enumeration) *enumerator {
	e := &enumerator{
		ctx: ctx, config: c, client: cl,
		look:  discoverer{c, kadm.NewClient(cl)},
		known: map[partition]Identity{},
		gone:  map[string]bool{},
	}
	if restored != nil {
		e.started = restored.Started
		e.unassigned = slices.Clone(restored.Unassigned)
		for _, k := range restored.Known {
			e.learn(k)
		}
	}
	return e
}

func (e *enumerator) learn(k Identity) {
	p := partition{k.Topic, k.Partition}
	e.known[p] = k
	e.order = append(e.order, p)
}

func (e *enumerator) bounded() bool { return e.config.stop != nil }

func (e *enumerator) Start() error {
	if e.bounded() && e.started {
		e.ready = true // a bounded source looks once
		return nil
	}
	period := max(0, e.config.discovery)
	if e.bounded() {
		period = 0
	}
	e.ctx.CallAsync(e.discover, e.discovered, 0, period)
	return nil
}

// discover runs apart from the enumerator's goroutine, but never at the same
// time as discovered, which alone changes what it reads.
func (e *enumerator) discover(ctx context.Context) (any, error) {
	if !e.ready {
		return e.look.lookUntilFound(ctx, e.known, e.started)
	}
	bounded, cancel := e.config.bound(ctx)
	defer cancel()
	return e.look.look(bounded, e.known, e.started)
}

func (e *enumerator) discovered(result any, err error) error {
	if err != nil {
		return e.failed(err)
	}
	d := result.(*discovery)
	if err := e.checkTopics(d); err != nil {
		return err
	}
	for _, s := range d.found {
		e.learn(Identity{s.Topic, s.TopicID, s.Partition})
		if e.ready {
			e.ctx.Logger().Info("kafka source found a new partition", "topic", s.Topic, "partition", s.Partition)
		}
		if !s.ended() || s.beyond() { // the reader checks an offset that was given
			e.unassigned = append(e.unassigned, s)
		}
	}
	e.started, e.ready = true, true
	for _, subtask := range e.ctx.Readers() {
		if err := e.serve(subtask); err != nil {
			return err
		}
	}
	return nil
}

// failed decides about a discovery that failed. Once the source runs, one that
// cannot be done is not the end; topics that are missing twice are.
func (e *enumerator) failed(err error) error {
	missing := (*missingTopicError)(nil)
	if !e.ready || errors.As(err, &missing) && e.missedAgain(missing.topics) {
		return fmt.Errorf("kafka source: %w", err)
	}
	if e.ctx.Context().Err() == nil {
		e.ctx.Logger().Warn("kafka source could not look for new partitions; it will try again", "error", err)
	}
	return nil
}

// missedAgain notes the topics that are missing and says whether one of them
// was missing the last time already.
func (e *enumerator) missedAgain(topics []string) bool {
	again := slices.ContainsFunc(topics, func(t string) bool { return e.gone[t] })
	clear(e.gone)
	for _, t := range topics {
		e.gone[t] = true
	}
	return again
}

// checkTopics finds topics that went, or that are others now.
func (e *enumerator) checkTopics(d *discovery) error {
	var missing []string
	for _, p := range e.order {
		k := e.known[p]
		t, ok := d.topics[k.Topic]
		switch {
		case ok && k.TopicID != t.ID && k.TopicID != [16]byte{} && t.ID != [16]byte{}:
			return &recreatedError{k.Topic}
		case !ok && e.config.reads(k.Topic) && !slices.Contains(missing, k.Topic):
			missing = append(missing, k.Topic)
		}
	}
	if e.missedAgain(missing) {
		return fmt.Errorf("kafka source: while reading: %w", &missingTopicError{e.config.names(), missing})
	}
	return nil
}

// recreatedError is a topic that was deleted and made anew.
type recreatedError struct{ topic string }

// Is makes it fatal: the topic that was is gone.
func (e *recreatedError) Is(target error) bool { return target == connector.ErrFatal }

func (e *recreatedError) Error() string {
	return fmt.Sprintf("kafka topic %s was deleted and created anew since the source first saw it: the stored offsets mean nothing in the new one; begin anew with --fresh, or give the source another id", e.topic)
}

// AddReader serves a reader that registered, with what is known by now.
func (e *enumerator) AddReader(subtask int) error { return e.serve(subtask) }

// serve gives a reader its splits, and the end of a bounded source.
func (e *enumerator) serve(subtask int) error {
	var own []Split
	e.unassigned = slices.DeleteFunc(e.unassigned, func(s Split) bool {
		mine := owner(s.partition(), e.ctx.Parallelism()) == subtask
		if mine {
			own = append(own, s)
		}
		return mine
	})
	// Once the partitions are known, none is an answer, too: a reader that has
	// no partition must not hold back event time.
	if len(own) > 0 || e.ready {
		if err := e.ctx.Assign(subtask, own...); err != nil {
			return err
		}
	}
	// Without end a reader that has no split stays, so that checkpoints go on.
	if e.ready && e.bounded() {
		return e.ctx.NoMoreSplits(subtask)
	}
	return nil
}

// owner spreads the partitions of a topic evenly, from a start that depends
// on the topic.
func owner(p partition, parallelism int) int {
	h := fnv.New32a()
	h.Write([]byte(p.topic))
	return int((uint64(h.Sum32())*31 + uint64(p.number)) % uint64(parallelism))
}

// AddSplitsBack keeps the splits for the next registration of the subtask.
func (e *enumerator) AddSplitsBack(splits []Split, _ int) error {
	e.unassigned = append(e.unassigned, splits...)
	return nil
}

func (e *enumerator) Snapshot(int64) (Enumeration, error) {
	s := Enumeration{Started: e.started, Unassigned: slices.Clone(e.unassigned)}
	for _, p := range e.order {
		s.Known = append(s.Known, e.known[p])
	}
	return s, nil
}

func (e *enumerator) HandleSplitRequest(int, string) error { return nil }
func (e *enumerator) HandleSourceEvent(int, any) error     { return nil }
func (e *enumerator) CheckpointComplete(int64) error       { return nil }

func (e *enumerator) Close() error {
	e.client.Close()
	return nil
}
