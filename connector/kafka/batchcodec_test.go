package kafka

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/weirstream/weir/connector/connectortest"
)

// batches decodes batches as a function says.
type batches struct {
	text
	fn func(dst []string, srcs [][]byte) []string
}

func (b batches) DecodeBatch(dst []string, srcs [][]byte) ([]string, error) {
	return b.fn(dst, srcs), nil
}

func TestBatchDecoderOfAnotherNumberOfValues(t *testing.T) {
	for count, fn := range map[string]func([]string, [][]byte) []string{
		"appended 2 values for 3 records": func(dst []string, _ [][]byte) []string { return append(dst, "a", "b") },
		"appended 4 values for 3 records": func(dst []string, _ [][]byte) []string { return append(dst, "a", "b", "c", "d") },
		"appended 0 values for 3 records": func(dst []string, _ [][]byte) []string { return dst },
	} {
		c := newCluster(t)
		topic := c.topic(1)
		c.put(topic, 0, "a", "b", "c")
		r := c.start(Source(topic, batches{fn: fn}, Until(Latest()), SkipUndecodable(), c.brokers()), 1, nil)
		err := r.Run(c.deadline())
		if err == nil || !strings.Contains(err.Error(), count) || !strings.Contains(err.Error(), "kafka.batches") {
			t.Errorf("got %v, want that kafka.batches %s", err, count)
		}
		if got := r.Values(); len(got) != 0 {
			t.Errorf("%q came in spite of it", got)
		}
	}
}

func TestPanicOfABatchDecoderIsLoggedOnce(t *testing.T) {
	c := newCluster(t)
	topic := c.topic(1)
	c.put(topic, 0, "a", "b")
	var log bytes.Buffer
	codec := batches{fn: func([]string, [][]byte) []string { panic("too many") }}
	r, err := connectortest.StartSource(Source(topic, codec, c.brokers()), 1, nil,
		&connectortest.Context{Ctx: t.Context(), Log: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	c.count(r, 2)
	c.put(topic, 0, "c", "d") // another batch
	c.count(r, 4)
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	wantValues(t, r.Values(), "a", "b", "c", "d")
	if got := log.String(); strings.Count(got, "DecodeBatch panicked") != 1 || !strings.Contains(got, `panic="too many"`) || !strings.Contains(got, "codec=kafka.batches") {
		t.Errorf("logged %s", got)
	}
}
