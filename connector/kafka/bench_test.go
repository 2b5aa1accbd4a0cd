package kafka

import (
	"bytes"
	"context"
	"errors"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/weirstream/weir/codec"
	"github.com/weirstream/weir/connector/connectortest"
)

// raw is a codec of bytes.
type raw struct{}

func (raw) Append(dst []byte, v []byte) ([]byte, error) { return append(dst, v...), nil }
func (raw) Decode(src []byte) ([]byte, error)           { return bytes.Clone(src), nil }
func (raw) Format() codec.Format                        { return codec.Format{ID: "bytes", Version: 1} }

// BenchmarkWriteAndRead moves records of 85 bytes through a broker: with
// WEIR_KAFKA a real one.
func BenchmarkWriteAndRead(b *testing.B) {
	server := os.Getenv("WEIR_KAFKA")
	if server == "" {
		b.Skip("WEIR_KAFKA=host:port names no real broker")
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(server))
	if err != nil {
		b.Fatal(err)
	}
	defer cl.Close()
	topic := "bench-" + strconv.FormatInt(time.Now().UnixNano(), 10)
	if _, err := kadm.NewClient(cl).CreateTopic(b.Context(), 4, 1, nil, topic); err != nil {
		b.Fatal(err)
	}
	const batch = 1000
	vals, times := make([][]byte, batch), make([]int64, batch)
	for i := range vals {
		vals[i], times[i] = bytes.Repeat([]byte("x"), 85), time.Now().UnixMilli()
	}
	b.Run("write", func(b *testing.B) {
		b.ReportAllocs()
		w, err := Sink(topic, raw{}, Brokers(server)).NewWriter(&connectortest.Context{})
		if err != nil {
			b.Fatal(err)
		}
		for n := 0; n < b.N; n += batch {
			if err := w.Write(vals, times); err != nil {
				b.Fatal(err)
			}
		}
		if err := errors.Join(w.Flush(context.Background()), w.Close()); err != nil {
			b.Fatal(err)
		}
	})
	b.Run("read", func(b *testing.B) {
		b.ReportAllocs()
		run, err := connectortest.StartSource(Source(topic, raw{}, Brokers(server), Until(Latest())), 1, nil, nil)
		if err != nil {
			b.Fatal(err)
		}
		defer run.Close()
		if err := run.Until(context.Background(), func() bool { return len(run.Records()) >= b.N || run.Ended() }); err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(len(run.Records())), "ns/record")
	})
}
