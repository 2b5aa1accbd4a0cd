package command

import (
	"time"

	"github.com/weirstream/weir/codec"
	"github.com/weirstream/weir/connector/datagen"
	"github.com/weirstream/weir/connector/file"
	"github.com/weirstream/weir/connector/kafka"
	"github.com/weirstream/weir/connector/twophase"
	"github.com/weirstream/weir/savepoint"
)

// decoders decode what the connectors of Weir put into snapshots.
func decoders() []savepoint.Option {
	return []savepoint.Option{
		decoder(new(kafka.TopicSource[[]byte]).SplitCodec(), kafkaSplit),
		decoder(new(kafka.TopicSource[[]byte]).EnumeratorCodec(), func(e kafka.Enumeration) codec.Record {
			return codec.Record{{Name: "discovered", Value: len(e.Known)}, {Name: "unassigned", Value: records(e.Unassigned, kafkaSplit)}}
		}),
		decoder(new(file.Files[[]byte]).SplitCodec(), fileSplit),
		decoder(new(file.Files[[]byte]).EnumeratorCodec(), func(e file.Enumeration) codec.Record {
			return codec.Record{{Name: "seen", Value: len(e.Seen)}, {Name: "unassigned", Value: records(e.Unassigned, fileSplit)}}
		}),
		decoder(new(datagen.Sequence[int]).SplitCodec(), datagenSplit),
		decoder(new(datagen.Sequence[int]).EnumeratorCodec(), func(e datagen.Enumeration) codec.Record {
			return codec.Record{{Name: "splits", Value: e.Splits}, {Name: "unassigned", Value: records(e.Pending, datagenSplit)}}
		}),
		decoder(new(kafka.TopicSink[[]byte]).CommittableCodec(), func(c twophase.Committable[kafka.Transaction]) codec.Record {
			return codec.Record{{Name: "transaction", Value: c.Txn.ID}, {Name: "producer", Value: c.Txn.ProducerID}, {Name: "epoch", Value: c.Txn.Epoch}}
		}),
	}
}

func decoder[T any](c codec.Codec[T], show func(T) codec.Record) savepoint.Option {
	return savepoint.WithDecoder(c.Format().ID, func(src []byte) (any, error) {
		v, err := c.Decode(src)
		if err != nil {
			return nil, err
		}
		return show(v), nil
	})
}

func records[T any](all []T, show func(T) codec.Record) []any {
	out := make([]any, len(all))
	for i, v := range all {
		out[i] = show(v)
	}
	return out
}

func kafkaSplit(s kafka.Split) codec.Record {
	r := codec.Record{{Name: "topic", Value: s.Topic}, {Name: "partition", Value: s.Partition}, {Name: "next", Value: s.Next}}
	if s.Stop != kafka.NoStop {
		r = append(r, codec.Field{Name: "stop", Value: s.Stop})
	}
	return r
}

func fileSplit(s file.Split) codec.Record {
	r := codec.Record{
		{Name: "path", Value: s.Path}, {Name: "modified", Value: s.ModTime.UTC().Format(time.RFC3339Nano)},
		{Name: "from", Value: s.From}, {Name: "to", Value: s.To}, {Name: "next", Value: s.Next},
	}
	if s.Next == file.Begin {
		r[len(r)-1].Value = "beginning"
	}
	if s.Block != 0 {
		r = append(r, codec.Field{Name: "block", Value: s.Block})
	}
	return r
}

func datagenSplit(s datagen.Split) codec.Record {
	return codec.Record{{Name: "number", Value: s.Number}, {Name: "from", Value: s.From}, {Name: "to", Value: s.To}, {Name: "step", Value: s.Step}, {Name: "next", Value: s.Next}}
}
