package kafka

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/weirstream/weir/connector"
	"github.com/weirstream/weir/connector/connectortest"
)

func TestK09Tombstones(t *testing.T) {
	c := newCluster(t)
	topic := c.topic(1)
	for _, v := range [][]byte{[]byte("m1"), nil, []byte("m2"), []byte("m3"), []byte("m4")} {
		c.record(&kgo.Record{Topic: topic, Key: []byte("k"), Value: v})
	}
	r := c.start(Source(topic, text{}, SkipTombstones(), c.brokers()), 1, nil)
	c.count(r, 4)
	wantValues(t, r.Values(), "m1", "m2", "m3", "m4")
	if got := r.Context.Counter("tombstonesSkipped"); got != 1 {
		t.Errorf("%d tombstones counted, want 1", got)
	}
	if got := c.splits(c.snapshot(r, 1))[0].Next; got != 5 {
		t.Errorf("position %d, want 5", got)
	}

	wantValues(t, c.read(Source(topic, text{}, DecodeTombstones(), Until(Latest()), c.brokers()), 1), "m1", "<nil>", "m2", "m3", "m4")

	r = c.start(Source(topic, text{}, c.brokers()), 1, nil)
	bad := (*UndecodableError)(nil)
	if err := r.Run(c.deadline()); !errors.As(err, &bad) || bad.Offset != 1 {
		t.Errorf("by default: %v, want the record at offset 1 undecodable", err)
	}

	whole := SourceFunc(topic, func(r *Record, emit func(string, int64)) error {
		emit(fmt.Sprintf("%s=%s,%v@%d", r.Key, r.Value, r.Value == nil, r.Offset), r.Millis())
		return nil
	}, Until(Latest()), c.brokers())
	wantValues(t, c.read(whole, 1), "k=m1,false@0", "k=,true@1", "k=m2,false@2", "k=m3,false@3", "k=m4,false@4")
}

func TestK17NegativeTimestamps(t *testing.T) {
	c := newCluster(t)
	topic := c.topic(1)
	for _, ms := range []int64{-1, -6795364578871, 0, 1234} {
		c.record(&kgo.Record{Topic: topic, Value: []byte("x"), Timestamp: time.UnixMilli(ms)})
	}
	r := c.start(Source(topic, text{}, Until(Latest()), c.brokers()), 1, nil)
	if err := r.Run(c.deadline()); err != nil {
		t.Fatal(err)
	}
	var got []int64
	for _, e := range r.Records() {
		got = append(got, e.Time)
	}
	if want := []int64{connector.NoTimestamp, connector.NoTimestamp, 0, 1234}; !slices.Equal(got, want) {
		t.Errorf("times %v, want %v", got, want)
	}
}

func TestF14Undecodable(t *testing.T) {
	c := newCluster(t)
	topic := c.topic(1)
	c.put(topic, 0, "a", "b", "bad", "c")
	until := Until(Latest())

	r := c.start(Source(topic, text{}, until, c.brokers()), 1, nil)
	bad := (*UndecodableError)(nil)
	if err := r.Run(c.deadline()); !errors.As(err, &bad) || bad.Topic != topic || bad.Partition != 0 || bad.Offset != 2 {
		t.Errorf("by default: %v, want topic, partition 0, offset 2", err)
	}

	r = c.start(Source(topic, text{}, until, SkipUndecodable(), c.brokers()), 1, nil)
	if err := r.Run(c.deadline()); err != nil {
		t.Fatal(err)
	}
	wantValues(t, r.Values(), "a", "b", "c")
	if got := r.Context.Counter("recordsUndecodable"); got != 1 {
		t.Errorf("%d records counted as undecodable, want 1", got)
	}

	var seen []string
	handler := OnUndecodable(func(r Record, err error) error {
		seen = append(seen, fmt.Sprintf("%s@%d: %v", r.Value, r.Offset, err))
		return nil
	})
	wantValues(t, c.read(Source(topic, text{}, until, handler, c.brokers()), 1), "a", "b", "c")
	wantValues(t, seen, "bad@2: a bad value")

	full := errors.New("dead letters are full")
	r = c.start(Source(topic, text{}, until, OnUndecodable(func(Record, error) error { return full }), c.brokers()), 1, nil)
	if err := r.Run(c.deadline()); !errors.Is(err, full) {
		t.Errorf("got %v, want the handler's error", err)
	}

	in := SourceFunc(topic, WithUndecodable(text{}), until, c.brokers())
	decoded, err := connectortest.StartSource(in, 1, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer decoded.Close()
	if err := decoded.Run(c.deadline()); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, d := range decoded.Values() {
		got = append(got, d.Value+"/"+d.Err+"/"+string(d.Record.Value))
	}
	wantValues(t, got, "a//", "b//", "/a bad value/bad", "c//")
}

func TestPanicOfADecoderNamesTheRecord(t *testing.T) {
	c := newCluster(t)
	topic := c.topic(1)
	c.put(topic, 0, "a", "panic")
	r := c.start(Source(topic, text{}, Until(Latest()), c.brokers()), 1, nil)
	bad := (*UndecodableError)(nil)
	if err := r.Run(c.deadline()); !errors.As(err, &bad) || bad.Offset != 1 || !strings.Contains(err.Error(), "boom") {
		t.Errorf("got %v, want the panic at offset 1", err)
	}
}

func TestDecoderMakesManyOrNoneOfARecord(t *testing.T) {
	c := newCluster(t)
	topic := c.topic(1)
	c.put(topic, 0, "a b c", "", "d", "e bad", "f")
	src := SourceFunc(topic, func(r *Record, emit func(string, int64)) error {
		for _, w := range strings.Fields(string(r.Value)) {
			if w == "bad" {
				return errors.New("a bad word")
			}
			emit(w, r.Millis())
		}
		return nil
	}, Until(Latest()), SkipUndecodable(), c.brokers())
	r := c.start(src, 1, nil)
	r.Batch = 1
	if _, err := r.Step(); err != nil {
		t.Fatal(err)
	}
	c.count(r, 1)
	if got := len(r.Records()); got != 3 {
		t.Errorf("%d elements emitted of a record of 3: it was cut", got)
	}
	if got := c.splits(c.snapshot(r, 1))[0].Next; got != 1 {
		t.Errorf("position %d, want 1", got)
	}
	if err := r.Run(c.deadline()); err != nil {
		t.Fatal(err)
	}
	wantValues(t, r.Values(), "a", "b", "c", "d", "f") // "e" went with its record
}
