package kafka

import (
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/weirstream/weir/connector"
	"github.com/weirstream/weir/connector/connectortest"
)

type run = connectortest.SourceRun[string, Split, Enumeration]

func (c *cluster) start(src *TopicSource[string], parallelism int, from *connectortest.SourceSnapshot) *run {
	c.Helper()
	r, err := c.tryStart(src, parallelism, from)
	if err != nil {
		c.Fatal(err)
	}
	return r
}

func (c *cluster) tryStart(src *TopicSource[string], parallelism int, from *connectortest.SourceSnapshot) (*run, error) {
	c.Helper()
	r, err := connectortest.StartSource(src, parallelism, from, &connectortest.Context{Ctx: c.Context(), Log: slog.New(slog.NewTextHandler(c.Output(), nil))})
	if err == nil {
		c.Cleanup(func() {
			if err := r.Close(); err != nil {
				c.Error(err)
			}
		})
	}
	return r, err
}

// read runs a source to its end.
func (c *cluster) read(src *TopicSource[string], parallelism int) []string {
	c.Helper()
	r := c.start(src, parallelism, nil)
	if err := r.Run(c.deadline()); err != nil {
		c.Fatal(err)
	}
	return r.Values()
}

func (c *cluster) count(r *run, n int) {
	c.Helper()
	if err := r.Count(c.deadline(), n); err != nil {
		c.Fatalf("after %d of %d records: %v", len(r.Records()), n, err)
	}
}

func (c *cluster) snapshot(r *run, id int64) *connectortest.SourceSnapshot {
	c.Helper()
	s, err := r.Snapshot(id)
	if err != nil {
		c.Fatal(err)
	}
	return s
}

func (c *cluster) splits(s *connectortest.SourceSnapshot) []Split {
	c.Helper()
	var splits []Split
	for _, b := range s.Splits {
		v, err := splitCodec{}.Decode(b)
		if err != nil {
			c.Fatal(err)
		}
		splits = append(splits, v)
	}
	return splits
}

func TestBoundedReadOfAllPartitions(t *testing.T) {
	protocols(t, func(t *testing.T, c *cluster) {
		topic := c.topic(5)
		var want []string
		for p := range int32(5) {
			vals := numbers(int(p)*100, 10)
			c.put(topic, p, vals...)
			want = append(want, vals...)
		}
		for _, parallelism := range []int{1, 2, 3, 7} {
			got := c.read(Source(topic, text{}, Until(Latest()), c.brokers()), parallelism)
			slices.Sort(got)
			slices.Sort(want)
			wantValues(t, got, want...)
		}
	})
}

func TestK01BoundedReadOverTransactionMarkers(t *testing.T) {
	protocols(t, func(t *testing.T, c *cluster) {
		topic := c.topic(1)
		c.transaction(topic, "commit", "a", "b", "c")
		until := Until(Latest())
		wantValues(t, c.read(Source(topic, text{}, until, c.brokers()), 1), "a", "b", "c")
		c.transaction(topic, "abort", "x", "y")
		wantValues(t, c.read(Source(topic, text{}, until, c.brokers()), 1), "a", "b", "c")
		wantValues(t, c.read(Source(topic, text{}, until, ReadUncommitted(), c.brokers()), 1), "a", "b", "c", "x", "y")

		r := c.start(Source(topic, text{}, until, c.brokers()), 1, nil)
		r.Batch = 1 // a record per poll
		if err := r.Run(c.deadline()); err != nil {
			t.Fatal(err)
		}
		wantValues(t, r.Values(), "a", "b", "c")
	})
}

// Case 53: an open transaction at the tail ends a bounded read before it.
func TestBoundedReadStopsBeforeAnOpenTransaction(t *testing.T) {
	protocols(t, func(t *testing.T, c *cluster) {
		topic := c.topic(1)
		c.put(topic, 0, "a")
		c.transaction(topic, "open", "x")
		c.put(topic, 0, "behind")
		wantValues(t, c.read(Source(topic, text{}, Until(Latest()), c.brokers()), 1), "a")
	})
}

// Case 54: empty partitions, start equal to stop, stop zero.
func TestBoundedReadOfNothingEndsAtOnce(t *testing.T) {
	c := newCluster(t)
	empty, full := c.topic(3), c.topic(1)
	c.put(full, 0, "a", "b")
	wantValues(t, c.read(Source(empty, text{}, Until(Latest()), c.brokers()), 2))
	at := func(o int64) Position { return Specific(map[string]map[int32]int64{full: {0: o}}) }
	wantValues(t, c.read(Source(full, text{}, StartAt(Latest()), Until(Latest()), c.brokers()), 2))
	wantValues(t, c.read(Source(full, text{}, Until(at(0)), c.brokers()), 2))
	wantValues(t, c.read(Source(full, text{}, StartAt(at(1)), Until(at(1)), c.brokers()), 2))
	wantValues(t, c.read(Source(full, text{}, StartAt(at(1)), Until(at(2)), c.brokers()), 2), "b")
}

func TestK03DiscoveryIntervalOfABoundedSource(t *testing.T) {
	c := newCluster(t)
	topic := c.topic(2)
	c.put(topic, 0, "a")
	for _, d := range []time.Duration{0, -1, 10 * time.Second} {
		wantValues(t, c.read(Source(topic, text{}, Until(Latest()), DiscoverEvery(d), c.brokers()), 2), "a")
	}
}

func (c *cluster) addPartition(topic string) {
	c.Helper()
	answers, err := c.adm.CreatePartitions(c.Context(), 1, topic)
	if err == nil {
		err = answers.Error()
	}
	if err != nil {
		c.Fatal(err)
	}
	connect(c.T, c) // a client that knows it
}

// Also case 55.
func TestK05PartitionCreatedWhileRunning(t *testing.T) {
	c := newCluster(t)
	topic := c.topic(1)
	c.put(topic, 0, numbers(0, 10)...)
	src := Source(topic, text{}, StartAt(Latest()), DiscoverEvery(100*time.Millisecond), c.brokers())
	r := c.start(src, 2, nil)
	started := func() bool {
		s, err := r.Enumerator().Snapshot(1)
		return err == nil && s.Started && len(s.Unassigned) == 0
	}
	if err := r.Until(c.deadline(), started); err != nil {
		t.Fatal(err)
	}
	before := c.snapshot(r, 1)
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}

	c.addPartition(topic)
	c.put(topic, 1, numbers(100, 5)...)
	again := c.start(src, 2, before)
	c.count(again, 5)
	c.put(topic, 1, numbers(105, 2)...)
	c.count(again, 7)
	got := again.Values()
	slices.Sort(got)
	wantValues(t, got, numbers(100, 7)...)
}

func TestDiscoveryWhileRunning(t *testing.T) {
	c := newCluster(t)
	topic := c.topic(1)
	c.put(topic, 0, "a")
	r := c.start(Source("", text{}, Pattern(topic+".*"), DiscoverEvery(50*time.Millisecond), c.brokers()), 2, nil)
	c.count(r, 1)
	c.addPartition(topic)
	c.put(topic, 1, "b")
	c.create(topic+"-more", 1)
	c.put(topic+"-more", 0, "c")
	c.create("other-"+topic, 1)
	c.put("other-"+topic, 0, "foreign")
	c.count(r, 3)
	got := r.Values()
	slices.Sort(got)
	wantValues(t, got, "a", "b", "c")
}

func TestResumeAtAnotherParallelism(t *testing.T) {
	protocols(t, func(t *testing.T, c *cluster) {
		topic := c.topic(4)
		for p := range int32(4) {
			c.put(topic, p, numbers(int(p)*1000, 50)...)
		}
		src := Source(topic, text{}, Until(Latest()), c.brokers())
		for _, parallelism := range []int{1, 3} { // also case 60
			first := c.start(src, 2, nil)
			first.Batch = 7
			c.count(first, 60)
			snap := c.snapshot(first, 1)
			second := c.start(src, parallelism, snap)
			if err := second.Run(c.deadline()); err != nil {
				t.Fatal(err)
			}
			got := append(first.Values(), second.Values()...)
			slices.Sort(got)
			if n := len(slices.Compact(got)); len(got) != 200 || n != 200 {
				t.Errorf("parallelism %d: %d records, %d distinct; want 200", parallelism, len(got), n)
			}
		}
	})
}

// Case 56: what was discovered and not assigned keeps its offsets.
func TestUnassignedSplitsKeepTheirOffsets(t *testing.T) {
	c := newCluster(t)
	topic := c.topic(1)
	c.put(topic, 0, "old")
	src := Source(topic, text{}, StartAt(Latest()), c.brokers())
	r := c.start(src, 1, nil)
	e := r.Enumerator().(*enumerator)
	if err := r.Until(c.deadline(), func() bool { return e.ready }); err != nil {
		t.Fatal(err)
	}
	splits, err := r.Reader(0).Snapshot(1)
	if err != nil {
		t.Fatal(err)
	}
	if err := e.AddSplitsBack(splits, 0); err != nil { // as if the reader had not got them
		t.Fatal(err)
	}
	snap := c.snapshot(r, 1)
	snap.Splits = nil
	c.put(topic, 0, "between")
	again := c.start(src, 1, snap)
	c.count(again, 1)
	wantValues(t, again.Values(), "between")
}

func TestStartPositions(t *testing.T) {
	protocols(t, func(t *testing.T, c *cluster) {
		topic := c.topic(1)
		base := time.UnixMilli(1_700_000_000_000)
		for i, v := range numbers(0, 6) {
			c.record(&kgo.Record{Topic: topic, Value: []byte(v), Timestamp: base.Add(time.Duration(i) * time.Second)})
		}
		group := topic + "-group"
		offsets := kadm.Offsets{}
		offsets.Add(kadm.Offset{Topic: topic, Partition: 0, At: 4, LeaderEpoch: -1})
		if err := c.adm.CommitAllOffsets(t.Context(), group, offsets); err != nil {
			t.Fatal(err)
		}
		for name, test := range map[string]struct {
			start Position
			want  []string
		}{
			"earliest":           {Earliest(), numbers(0, 6)},
			"latest":             {Latest(), nil},
			"timestamp":          {Timestamp(base.Add(2500 * time.Millisecond)), numbers(3, 3)},
			"timestamp beyond":   {Timestamp(base.Add(time.Hour)), nil},
			"timestamp before":   {Timestamp(time.UnixMilli(-5)), numbers(0, 6)},
			"committed":          {Committed(group), numbers(4, 2)},
			"committed fallback": {Committed(topic+"-none", Earliest()), numbers(0, 6)},
			"specific":           {Specific(map[string]map[int32]int64{topic: {0: 5}}), numbers(5, 1)},
			"specific fallback":  {Specific(nil, Latest()), nil},
		} {
			t.Run(name, func(t *testing.T) {
				wantValues(t, c.read(Source(topic, text{}, StartAt(test.start), Until(Latest()), c.brokers()), 1), test.want...)
			})
		}
		for _, start := range []Position{Committed(topic + "-none"), Specific(nil)} {
			r := c.start(Source(topic, text{}, StartAt(start), c.brokers()), 1, nil)
			err := r.Run(c.deadline())
			if err == nil || !strings.Contains(err.Error(), topic+"[0]") || !strings.Contains(err.Error(), "fallback") {
				t.Errorf("%s without fallback: %v", start, err)
			}
		}
	})
}

func (c *cluster) deleteBefore(topic string, offset int64) {
	c.Helper()
	offsets := kadm.Offsets{}
	offsets.Add(kadm.Offset{Topic: topic, Partition: 0, At: offset})
	answers, err := c.adm.DeleteRecords(c.Context(), offsets)
	if err == nil {
		err = answers.Error()
	}
	if err != nil {
		c.Fatal(err)
	}
}

// Also case 57.
func TestK06RestoredOffsetNoLongerExists(t *testing.T) {
	protocols(t, func(t *testing.T, c *cluster) {
		topic := c.topic(1)
		c.put(topic, 0, numbers(0, 100)...)
		at50 := c.start(Source(topic, text{}, Until(Specific(map[string]map[int32]int64{topic: {0: 60}})), c.brokers()), 1, nil)
		at50.Batch = 50
		c.count(at50, 50)
		snap := c.snapshot(at50, 1)
		if got := c.splits(snap)[0].Next; got != 50 {
			t.Fatalf("snapshot at %d, want 50", got)
		}
		c.deleteBefore(topic, 75)
		snap.Splits[0], _ = splitCodec{}.Append(nil, func() Split { s := c.splits(snap)[0]; s.Stop = 100; return s }())

		until := Until(Latest())
		r := c.start(Source(topic, text{}, until, c.brokers()), 1, snap)
		err := r.Run(c.deadline())
		missing := (*MissingOffsetError)(nil)
		if !errors.As(err, &missing) || *missing != (MissingOffsetError{topic, 0, 50, 75, 100}) {
			t.Errorf("got %v, want the topic, partition, offset 50, and 75 to 100", err)
		}

		r = c.start(Source(topic, text{}, until, OnMissingOffset(GoToEarliest), c.brokers()), 1, snap)
		if err := r.Run(c.deadline()); err != nil {
			t.Fatal(err)
		}
		wantValues(t, r.Values(), numbers(75, 25)...)
		if got := r.Context.Counter("offsetsSkipped"); got != 25 {
			t.Errorf("%d offsets counted as skipped, want 25", got)
		}

		r = c.start(Source(topic, text{}, until, OnMissingOffset(GoToLatest), c.brokers()), 1, snap)
		if err := r.Run(c.deadline()); err != nil {
			t.Fatal(err)
		}
		wantValues(t, r.Values())
	})
}

func TestOffsetBehindTheEnd(t *testing.T) {
	c := newCluster(t)
	topic := c.topic(1)
	c.put(topic, 0, "a")
	r := c.start(Source(topic, text{}, StartAt(Specific(map[string]map[int32]int64{topic: {0: 50}})), c.brokers()), 1, nil)
	err := r.Run(c.deadline())
	missing := (*MissingOffsetError)(nil)
	if !errors.As(err, &missing) || missing.Offset != 50 || missing.End != 1 || !strings.Contains(err.Error(), "truncated") {
		t.Errorf("got %v", err)
	}
}

func TestK07OffsetCommittedToTheGroupIsTheNextOne(t *testing.T) {
	protocols(t, func(t *testing.T, c *cluster) {
		topic := c.topic(1)
		c.put(topic, 0, "a", "b", "c")
		group := topic + "-group"
		src := Source(topic, text{}, Group(group), c.brokers())
		r := c.start(src, 1, nil)
		c.count(r, 3)
		c.snapshot(r, 1)
		if err := r.Complete(1); err != nil {
			t.Fatal(err)
		}
		if err := r.Close(); err != nil { // waits for the commit
			t.Fatal(err)
		}
		fetched, err := c.adm.FetchOffsets(t.Context(), group)
		if err != nil {
			t.Fatal(err)
		}
		if o, _ := fetched.Lookup(topic, 0); o.At != 3 {
			t.Errorf("group offset %d, want 3", o.At)
		}
		wantValues(t, c.read(Source(topic, text{}, StartAt(Committed(group)), Until(Latest()), c.brokers()), 1))
	})
}

// K15: what completes late, or twice, or never, moves nothing back, and only
// offsets of completed checkpoints are committed.
func TestK15LateAcknowledgement(t *testing.T) {
	c := newCluster(t)
	topic := c.topic(1)
	c.put(topic, 0, numbers(0, 30)...)
	group := topic + "-group"
	r := c.start(Source(topic, text{}, Group(group), c.brokers()), 1, nil)
	r.Batch = 10
	c.count(r, 10)
	c.snapshot(r, 1)
	c.count(r, 20)
	c.snapshot(r, 2)
	c.count(r, 30)
	c.snapshot(r, 3) // never completes
	for _, id := range []int64{2, 1, 2} {
		if err := r.Complete(id); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if err := r.Reader(0).CheckpointComplete(3); err != nil { // after the split has gone
		t.Fatal(err)
	}
	fetched, err := c.adm.FetchOffsets(t.Context(), group)
	if err != nil {
		t.Fatal(err)
	}
	if o, _ := fetched.Lookup(topic, 0); o.At != 20 {
		t.Errorf("group offset %d, want 20", o.At)
	}
}

func TestPausedPartitionWaits(t *testing.T) {
	c := newCluster(t)
	topic := c.topic(2)
	r := c.start(Source(topic, text{}, c.brokers()), 1, nil)
	c.put(topic, 0, "a0")
	c.put(topic, 1, "b0")
	c.count(r, 2)
	if err := r.Reader(0).PauseSplits([]string{topic + "-0"}, nil); err != nil {
		t.Fatal(err)
	}
	c.put(topic, 0, "a1", "a2")
	c.put(topic, 1, "b1", "b2")
	c.count(r, 4)
	wantValues(t, r.Values()[2:], "b1", "b2")
	if err := r.Reader(0).PauseSplits(nil, []string{topic + "-0"}); err != nil {
		t.Fatal(err)
	}
	c.count(r, 6)
	wantValues(t, r.Values()[4:], "a1", "a2")
}

// M10: both splits are there before the first record of either.
func TestM10SplitsAreKnownBeforeTheirRecords(t *testing.T) {
	c := newCluster(t)
	topic := c.topic(2)
	for i := range 11 {
		c.record(&kgo.Record{Topic: topic, Partition: 0, Value: []byte("x"), Timestamp: time.UnixMilli(int64(100 + i))})
		c.record(&kgo.Record{Topic: topic, Partition: 1, Value: []byte("y"), Timestamp: time.UnixMilli(int64(10 + i))})
	}
	r := c.start(Source(topic, text{}, Until(Latest()), c.brokers()), 1, nil)
	if err := r.Until(c.deadline(), func() bool { return len(r.Records()) > 0 }); err != nil {
		t.Fatal(err)
	}
	splits, err := r.Reader(0).Snapshot(1)
	if err != nil {
		t.Fatal(err)
	}
	if len(splits) < 1 {
		t.Errorf("splits %v at the first record", splits)
	}
	if err := r.Run(c.deadline()); err != nil {
		t.Fatal(err)
	}
	for _, e := range r.Records() {
		if want := topic + map[string]string{"x": "-0", "y": "-1"}[e.Value]; e.Split != want {
			t.Fatalf("record %q came under split %s, want %s", e.Value, e.Split, want)
		}
	}
	if len(r.Records()) != 22 {
		t.Errorf("%d records, want 22", len(r.Records()))
	}
}

// assignments records what an enumerator assigns.
type assignments struct {
	connector.EnumeratorContext[Split]
	parallelism int
	splits      map[int]int // by subtask
}

func (a assignments) Parallelism() int { return a.parallelism }
func (a assignments) Assign(subtask int, splits ...Split) error {
	a.splits[subtask] += len(splits)
	return nil
}

func TestReaderWithoutPartitionIsTold(t *testing.T) {
	ctx := assignments{parallelism: 3, splits: map[int]int{}}
	e := newEnumerator(ctx, &sourceConfig{}, nil, nil)
	serveAll := func() {
		for subtask := range ctx.parallelism {
			if err := e.serve(subtask); err != nil {
				t.Fatal(err)
			}
		}
	}
	serveAll()
	if len(ctx.splits) > 0 {
		t.Errorf("assigned %v before the partitions are known", ctx.splits)
	}
	e.unassigned, e.ready = []Split{{Topic: "t", Partition: 0}, {Topic: "t", Partition: 1}}, true
	serveAll()
	none := 0
	for _, n := range ctx.splits {
		if n == 0 {
			none++
		}
	}
	if len(ctx.splits) != 3 || none != 1 {
		t.Errorf("assigned %v, want one partition to each of two readers, and none to the third", ctx.splits)
	}
}

func TestOwnersAreEven(t *testing.T) {
	for _, parallelism := range []int{1, 2, 3, 8} {
		load := make([]int, parallelism)
		for p := range int32(24) {
			load[owner(partition{"some-topic", p}, parallelism)]++
		}
		for _, n := range load {
			if n != 24/parallelism {
				t.Errorf("parallelism %d: %v partitions", parallelism, load)
			}
		}
	}
}
