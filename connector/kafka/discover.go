package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/weirstream/weir/connector"
)

const (
	retryPause = 250 * time.Millisecond
	// topicGrace is how long a topic that was just created may take to be
	// known everywhere.
	topicGrace = 5 * time.Second
)

// discovery is what one look at the cluster found.
type discovery struct {
	topics map[string]kadm.TopicDetail
	// found are the partitions not known before, with their offsets.
	found []Split
}

// discoverer looks for partitions. It holds no state of its own.
type discoverer struct {
	config *sourceConfig
	adm    *kadm.Client
}

// lookUntilFound looks again and again until all topics are there, for the
// time a start may take.
func (d discoverer) lookUntilFound(ctx context.Context, known map[partition]Identity, started bool) (*discovery, error) {
	var found *discovery
	err := retry(ctx, &d.config.client, func(ctx context.Context) (err error) {
		found, err = d.look(ctx, known, started)
		return err
	})
	return found, err
}

// look finds the partitions of the source's topics and the offsets of those
// that are new.
func (d discoverer) look(ctx context.Context, known map[partition]Identity, started bool) (*discovery, error) {
	topics, err := d.list(ctx)
	if err != nil {
		return nil, err
	}
	found := &discovery{topics: topics}
	var parts []partition
	for _, t := range topics {
		for _, p := range t.Partitions {
			if id := (partition{t.Topic, p.Partition}); known[id].Topic == "" {
				parts = append(parts, id)
			}
		}
	}
	slices.SortFunc(parts, func(a, b partition) int {
		if c := strings.Compare(a.topic, b.topic); c != 0 {
			return c
		}
		return int(a.number) - int(b.number)
	})
	found.found, err = d.splits(ctx, topics, parts, started)
	return found, err
}

// splits makes the splits of new partitions.
func (d discoverer) splits(ctx context.Context, topics map[string]kadm.TopicDetail, parts []partition, started bool) ([]Split, error) {
	r := resolver{d.adm, !d.config.readUncommitted}
	from := d.config.start
	if started {
		from = Earliest() // or what came before the discovery would be lost
	}
	starts, err := r.resolve(ctx, from, parts)
	if err != nil {
		return nil, fmt.Errorf("where to start (%s): %w", from, err)
	}
	var stops map[partition]int64
	if d.config.stop != nil {
		if stops, err = r.resolve(ctx, *d.config.stop, parts); err != nil {
			return nil, fmt.Errorf("where to stop (%s): %w", d.config.stop, err)
		}
	}
	splits := make([]Split, 0, len(parts))
	for _, p := range parts {
		s := Split{Topic: p.topic, TopicID: topics[p.topic].ID, Partition: p.number, Next: starts[p], Stop: NoStop, LeaderEpoch: -1}
		if stops != nil {
			s.Stop = stops[p]
		}
		splits = append(splits, s)
	}
	return splits, nil
}

// list returns the topics that the source is to read.
func (d discoverer) list(ctx context.Context) (map[string]kadm.TopicDetail, error) {
	topics := map[string]kadm.TopicDetail{}
	if len(d.config.topics) > 0 {
		listed, err := d.adm.ListTopics(ctx, d.config.topics...)
		if err != nil {
			return nil, err
		}
		var missing []string
		for _, name := range d.config.topics {
			t, ok := listed[name]
			switch {
			case !ok || errors.Is(t.Err, kerr.UnknownTopicOrPartition):
				missing = append(missing, name)
			case t.Err != nil:
				return nil, fmt.Errorf("topic %s: %w", name, t.Err)
			default:
				topics[name] = t
			}
		}
		if len(missing) > 0 {
			return nil, &missingTopicError{d.config.names(), missing}
		}
	}
	if d.config.pattern != nil {
		listed, err := d.adm.ListTopics(ctx)
		if err != nil {
			return nil, err
		}
		for name, t := range listed {
			if d.config.pattern.MatchString(name) && t.Err == nil {
				topics[name] = t
			}
		}
	}
	return topics, nil
}

// missingTopicError names topics that do not exist.
type missingTopicError struct {
	servers string
	topics  []string
}

// Is makes it fatal: the topic was waited for.
func (e *missingTopicError) Is(target error) bool { return target == connector.ErrFatal }

func (e *missingTopicError) Error() string {
	return fmt.Sprintf("kafka at %s has no topic %s; create it or correct its name", e.servers, strings.Join(e.topics, ", "))
}

// retry runs try until it succeeds, fails for good, or the time for a start is
// over.
func retry(ctx context.Context, c *client, try func(context.Context) error) error {
	began := time.Now()
	bounded, cancel := c.bound(ctx)
	defer cancel()
	var last error
	for {
		err := try(bounded)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if missing := (*missingTopicError)(nil); errors.As(err, &missing) {
			if time.Since(began) >= min(topicGrace, c.startTimeout) {
				return err
			}
		} else if errors.Is(err, connector.ErrFatal) {
			return err
		} else if isAnswer(err) {
			return c.refused(err)
		}
		if bounded.Err() == nil || last == nil {
			last = err
		}
		if !pause(bounded, retryPause) {
			return c.unreachable(c.startTimeout, last)
		}
	}
}
