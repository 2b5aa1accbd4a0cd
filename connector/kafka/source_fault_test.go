package kafka

import (
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/weirstream/weir/connector/connectortest"
)

// Case 58.
func TestTopicDeletedOrRecreated(t *testing.T) {
	protocols(t, func(t *testing.T, c *cluster) {
		topic := c.topic(1)
		c.put(topic, 0, "a", "b")
		src := Source(topic, text{}, c.brokers(), StartTimeout(500*time.Millisecond), DiscoverEvery(100*time.Millisecond))
		r := c.start(src, 1, nil)
		c.count(r, 2)
		snap := c.snapshot(r, 1)
		if _, err := c.adm.DeleteTopic(t.Context(), topic); err != nil {
			t.Fatal(err)
		}
		if err := r.Run(c.deadline()); err == nil || !strings.Contains(err.Error(), topic) {
			t.Errorf("a deleted topic gave %v", err)
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}

		r, err := c.tryStart(src, 1, snap)
		if err == nil {
			err = r.Run(c.deadline())
		}
		if err == nil || !strings.Contains(err.Error(), "no topic "+topic) {
			t.Errorf("restoring with a deleted topic gave %v", err)
		}

		c.create(topic, 1)
		connect(t, c) // a client that does not know the old one
		c.put(topic, 0, "x", "y", "z")
		r = c.start(src, 1, snap)
		if err := r.Run(c.deadline()); err == nil || !strings.Contains(err.Error(), "anew") {
			t.Errorf("restoring with a recreated topic gave %v", err)
		}
	})
}

// Case 59.
func TestFailingGroupCommitIsAWarning(t *testing.T) {
	c := newCluster(t)
	topic := c.topic(1)
	c.put(topic, 0, "a")
	fault(c.fake, kmsg.OffsetCommit, -1, refuseCommits)
	r := c.start(Source(topic, text{}, Group("g"), c.brokers()), 1, nil)
	c.count(r, 1)
	c.snapshot(r, 1)
	if err := r.Complete(1); err != nil {
		t.Fatal(err)
	}
	c.put(topic, 0, "b")
	c.count(r, 2)
	if err := r.Close(); err != nil { // waits for the commit
		t.Fatal(err)
	}
	if got := r.Context.Counter("groupCommitsFailed"); got != 1 {
		t.Errorf("%d failed commits counted, want 1", got)
	}
}

func TestUnreachableBrokerAndMissingTopic(t *testing.T) {
	r, err := connectortest.StartSource(Source("t", text{}, Brokers("127.0.0.1:1"), StartTimeout(300*time.Millisecond)), 1, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if err := r.Run(deadline(t)); err == nil || !strings.Contains(err.Error(), "127.0.0.1:1") || !strings.Contains(err.Error(), "300ms") {
		t.Errorf("unreachable broker: %v", err)
	} else {
		t.Log(err)
	}
	c := newCluster(t)
	m := c.start(Source("nowhere", text{}, c.brokers(), StartTimeout(300*time.Millisecond)), 1, nil)
	if err := m.Run(c.deadline()); err == nil || !strings.Contains(err.Error(), "no topic nowhere") || !strings.Contains(err.Error(), c.servers[0]) {
		t.Errorf("missing topic: %v", err)
	}
}

func TestRetentionPassesARunningReader(t *testing.T) {
	c := newCluster(t)
	topic := c.topic(1)
	c.put(topic, 0, "a")
	r := c.start(Source(topic, text{}, c.brokers()), 1, nil)
	c.count(r, 1)
	// The next fetch is answered as if the log had moved on.
	outOfRange(c.fake)
	c.put(topic, 0, "b")
	c.count(r, 2) // the offset is there after all: read on
	wantValues(t, r.Values(), "a", "b")
}
