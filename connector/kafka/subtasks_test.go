package kafka

import (
	"errors"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/weirstream/weir/connector/connectortest"
)

// TestSubtasksShareTheClientsOptions is for the race detector: the library
// changes what options hold while it makes a client.
func TestSubtasksShareTheClientsOptions(t *testing.T) {
	c := newCluster(t)
	topic := c.topic(2)
	options := func() ClientOption {
		return Client(kgo.ProducerBatchCompression(kgo.SnappyCompression(), kgo.SnappyCompression(), kgo.NoCompression()))
	}
	sink := Sink(topic, text{}, c.brokers(), options())
	source := Source(topic, text{}, c.brokers(), options())
	const parallelism = 2
	start := make(chan struct{})
	failed := make([]error, 2*parallelism)
	var wg sync.WaitGroup
	for i := range parallelism {
		ctx := &connectortest.Context{Ctx: t.Context(), SubtaskIndex: i, SubtaskCount: parallelism}
		wg.Go(func() {
			<-start
			w, err := sink.NewWriter(ctx)
			if err == nil {
				err = errors.Join(w.Write([]string{"a"}, []int64{1}), w.Flush(t.Context()), w.Close())
			}
			failed[i] = err
		})
		wg.Go(func() {
			<-start
			cl, err := source.config.openWith(consumerDefaults(), source.config.consumerOptions())
			if err == nil {
				cl.Close()
			}
			failed[parallelism+i] = err
		})
	}
	close(start)
	wg.Wait()
	if err := errors.Join(failed...); err != nil {
		t.Fatal(err)
	}
	wantValues(t, c.read(Source(topic, text{}, Until(Latest()), c.brokers()), 1), "a", "a")
}
