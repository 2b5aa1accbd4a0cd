package kafka

import (
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/weirstream/weir/codec"
	"github.com/weirstream/weir/connector/splitreader"
)

// visit is a value that is decoded by a plan.
type visit struct {
	Key string `json:"key"`
	N   int64  `json:"n"`
}

// brittle is a BatchDecoder that panics at one value.
type brittle struct{ codec.BatchDecoder[visit] }

func (b brittle) Decode(src []byte) (visit, error) {
	if strings.Contains(string(src), "panic") {
		panic("brittle")
	}
	return b.BatchDecoder.Decode(src)
}

func (b brittle) DecodeBatch(dst []visit, srcs [][]byte) ([]visit, error) {
	for _, s := range srcs {
		if strings.Contains(string(s), "panic") {
			panic("brittle")
		}
	}
	return b.BatchDecoder.DecodeBatch(dst, srcs)
}

// decoded is what came of a run of records.
type decoded struct {
	Vals   []visit
	Times  []int64
	Ends   []int64
	Next   []int64
	Epochs []int32
	Err    string
	Counts map[string]int64
	Bad    []string
}

// decodeAll decodes records as Fetch does, batch by batch.
func decodeAll(c sourceConfig, tombstones tombstonePolicy, together bool, s Split, records []*kgo.Record) decoded {
	got := decoded{Counts: map[string]int64{}}
	count := func(name string, n int64) { got.Counts[name] += n }
	if c.undecodable != nil {
		c.undecodable = func(r Record, err error) error {
			got.Bad = append(got.Bad, fmt.Sprintf("%d %s", r.Offset, r.Value))
			return nil
		}
	}
	d := decodeValues[visit](brittle{codec.JSON[visit]().(codec.BatchDecoder[visit])}, tombstones, count)
	if !together {
		d.many = nil
	}
	f := &fetcher[visit]{config: &c, decode: d, count: count, warning: splitreader.PanicWarning{Log: slog.New(slog.DiscardHandler)}}
	r := &reading{Split: s}
	for len(records) > 0 {
		var into splitreader.Batch[visit]
		n, err := f.decodeRecords(r, records, &into)
		if err != nil {
			got.Err, _, _ = strings.Cut(err.Error(), "\n") // without the stack
			break
		}
		got.Vals, got.Times, got.Ends = append(got.Vals, into.Vals...), append(got.Times, into.Times...), append(got.Ends, into.Ends...)
		got.Next, got.Epochs = append(got.Next, r.Next), append(got.Epochs, r.LeaderEpoch)
		records = records[n:]
	}
	return got
}

// someRecords makes records of which a few are peculiar in every way there is.
func someRecords(r *rand.Rand, panics bool) []*kgo.Record {
	offset, epoch := int64(r.IntN(5)), int32(0)
	records := make([]*kgo.Record, r.IntN(3000))
	for i := range records {
		offset++
		rec := &kgo.Record{Topic: "t", LeaderEpoch: epoch, Timestamp: time.UnixMilli(offset), Value: fmt.Appendf(nil, `{"key":"k%d","n":%d,"x":[]}`, i, i)}
		switch r.IntN(200) {
		case 0:
			rec.Value = []byte(`{"key":`)
		case 1:
			rec.Value = nil
		case 2:
			offset += 3
		case 3:
			epoch++
			rec.LeaderEpoch = epoch
		case 4:
			rec.Value = []byte(`{"KEY":"folded"}`)
		case 5:
			rec.Timestamp = time.UnixMilli(-1)
		case 6:
			if panics {
				rec.Value = []byte(`{"key":"panic"}`)
			}
		}
		rec.Offset = offset
		records[i] = rec
	}
	return records
}

// Decoding together is decoding one by one, but for what it costs.
func TestDecodingTogetherIsDecodingOneByOne(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		s := Split{Topic: "t", Next: int64(r.IntN(20)), Stop: NoStop, LeaderEpoch: -1}
		if r.IntN(2) == 0 {
			s.Stop = int64(r.IntN(3000))
		}
		var c sourceConfig
		switch r.IntN(3) {
		case 0:
			c.skip = true
		case 1:
			c.undecodable = func(Record, error) error { return nil }
		}
		policy := tombstonePolicy(r.IntN(3))
		state, panics := r.Uint64(), r.IntN(4) == 0
		records := func() []*kgo.Record { return someRecords(rand.New(rand.NewPCG(state, 2)), panics) }
		want := decodeAll(c, policy, false, s, records())
		got := decodeAll(c, policy, true, s, records())
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("seed %d: decoded together\n%.500v\none by one\n%.500v", seed, got, want)
		}
	}
}

func TestUndecodableRecordsOutliveTheirBatch(t *testing.T) {
	var kept []Record
	c := sourceConfig{undecodable: func(r Record, _ error) error { kept = append(kept, r); return nil }}
	d := decodeValues(codec.JSON[visit](), failTombstones, func(string, int64) {})
	f := &fetcher[visit]{config: &c, decode: d, count: func(string, int64) {}}
	rec := &kgo.Record{Value: []byte("bad"), Key: []byte("key"), Headers: []kgo.RecordHeader{{Key: "h", Value: []byte("v")}}}
	memory := rec.Value
	n, err := f.decodeRecords(&reading{Split: Split{Stop: NoStop}}, []*kgo.Record{rec}, &splitreader.Batch[visit]{})
	if n != 1 || err != nil {
		t.Fatal(n, err)
	}
	copy(memory, "xxx") // used again
	if len(kept) != 1 || string(kept[0].Value) != "bad" || string(kept[0].Key) != "key" || string(kept[0].Headers[0].Value) != "v" {
		t.Errorf("kept %v", kept)
	}
}

func TestOneRecordAtFaultIsNamed(t *testing.T) {
	records := []*kgo.Record{{Offset: 4, Value: []byte(`{"n":1}`)}, {Offset: 5, Value: []byte(`{"n":"x"}`)}, {Offset: 6, Value: []byte(`{}`)}}
	var c sourceConfig
	f := &fetcher[visit]{config: &c, decode: decodeValues(codec.JSON[visit](), failTombstones, nil)}
	_, err := f.decodeRecords(&reading{Split: Split{Topic: "t", Stop: NoStop}}, records, &splitreader.Batch[visit]{})
	bad := (*UndecodableError)(nil)
	if !errors.As(err, &bad) || bad.Offset != 5 {
		t.Errorf("got %v, want the record at offset 5", err)
	}
}
