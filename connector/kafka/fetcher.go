package kafka

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/weirstream/weir/codec"
	"github.com/weirstream/weir/connector/splitreader"
)

// batchRecords is how many elements a batch has at most, but for a record
// that makes more by itself.
const batchRecords = 1024

// fetcher is the SplitReader: it polls the client and decodes what came into
// batches of one split.
type fetcher[T any] struct {
	config *sourceConfig
	client *kgo.Client
	decode decoding[T]
	values [][]byte // of records that are decoded together
	single int      // how many of the next records are decoded one by one
	count  func(string, int64)
	gauge  func(name, split string, value int64)
	admit  admission
	// refused ends, with the cause, when a broker refuses to talk.
	refused context.Context

	warning splitreader.PanicWarning

	splits  map[partition]*reading
	byID    map[string]partition
	added   []Split             // to be admitted
	again   []*reading          // ... once more
	moved   []*reading          // to be reported: ended, or placed elsewhere
	left    []fetched           // polled and not decoded
	suspect map[string]struct{} // topics that may have gone
	failed  error               // to be reported when left is decoded

	bounded bool      // some split has an end
	looked  time.Time // when endSilent last did
}

// reading is a split and how far it was decoded.
type reading struct {
	Split
	id   string
	seen int64 // Next when endSilent last looked
	void int64 // from Next up to here nothing is to be delivered
	high int64 // the end of what may be read, by the last fetch
}

// fetched is what a poll brought of one partition.
type fetched struct {
	part    partition
	records []*kgo.Record
}

// meter is the part of a reader's context that measures.
type meter interface {
	Count(name string, n int64)
	SetGauge(name, split string, value int64)
}

func newFetcher[T any](c *sourceConfig, cl consumer, d decoding[T], m meter, log *slog.Logger) *fetcher[T] {
	return &fetcher[T]{
		config: c, client: cl.Client, refused: cl.refused, decode: d, count: m.Count, gauge: m.SetGauge,
		admit:   admission{c, kadm.NewClient(cl.Client), m.Count},
		warning: splitreader.PanicWarning{Log: log},
		splits:  map[partition]*reading{},
		byID:    map[string]partition{},
		suspect: map[string]struct{}{},
	}
}

func (f *fetcher[T]) HandleSplits(added []Split) error {
	f.added = append(f.added, added...)
	for _, s := range added {
		f.byID[s.SplitID()] = s.partition()
	}
	return nil
}

func (f *fetcher[T]) PauseSplits(pause, resume []string) {
	f.client.PauseFetchPartitions(f.byTopic(pause))
	f.client.ResumeFetchPartitions(f.byTopic(resume))
}

func (f *fetcher[T]) byTopic(ids []string) map[string][]int32 {
	parts := map[string][]int32{}
	for _, id := range ids {
		if p, ok := f.byID[id]; ok {
			parts[p.topic] = append(parts[p.topic], p.number)
		}
	}
	return parts
}

func (f *fetcher[T]) Fetch(ctx context.Context, into *splitreader.Batch[T]) error {
	for {
		if f.decodeNext(into); into.Split != "" {
			return nil
		}
		if f.failed != nil {
			return f.failed
		}
		if len(f.added)+len(f.again) > 0 {
			if err := f.start(ctx); err != nil {
				return err
			}
		}
		if len(f.moved) > 0 {
			f.report(into)
			return nil
		}
		if len(f.suspect) > 0 {
			if err := f.verify(ctx); err != nil {
				return err
			}
		}
		if f.bounded && time.Since(f.looked) >= silence {
			if f.endSilent(ctx); len(f.moved) > 0 {
				continue
			}
		}
		if f.poll(ctx); len(f.left) > 0 {
			continue
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if f.refused.Err() != nil {
			return fmt.Errorf("kafka source: %w", context.Cause(f.refused))
		}
	}
}

// start begins to read the added splits, and those that were taken out.
func (f *fetcher[T]) start(ctx context.Context) error {
	wanted := slices.Clone(f.added)
	for _, r := range f.again {
		wanted = append(wanted, r.Split)
	}
	admitted, err := f.admit.admit(ctx, wanted)
	if err != nil {
		return fmt.Errorf("kafka source: %w", err)
	}
	offsets := map[string]map[int32]kgo.Offset{}
	for i, s := range admitted {
		r := &reading{Split: s, id: s.SplitID(), seen: s.Next}
		f.splits[s.partition()] = r
		f.bounded = f.bounded || s.Stop != NoStop
		if s.ended() || s.Next != wanted[i].Next {
			f.moved = append(f.moved, r)
		}
		if s.ended() {
			continue
		}
		if offsets[s.Topic] == nil {
			offsets[s.Topic] = map[int32]kgo.Offset{}
		}
		offsets[s.Topic][s.Partition] = kgo.NewOffset().At(s.Next).WithEpoch(s.LeaderEpoch)
	}
	f.added, f.again, f.looked = nil, nil, time.Now()
	f.client.AddConsumePartitions(offsets)
	return nil
}

// report tells of a split that moved without a record.
func (f *fetcher[T]) report(into *splitreader.Batch[T]) {
	r := f.moved[0]
	f.moved = f.moved[1:]
	f.close(r, into)
}

// close fills in what does not depend on records.
func (f *fetcher[T]) close(r *reading, into *splitreader.Batch[T]) {
	into.Split, into.End, into.Epoch = r.id, r.Next, int64(r.LeaderEpoch)
	if r.ended() {
		into.Finished = true
		f.stop(r.partition())
		delete(f.splits, r.partition())
		delete(f.byID, r.id)
		return
	}
	f.gauge("pendingRecords", r.id, r.pending())
}

// pending is how many records of the split, markers and the like included, were
// there at the last fetch and are not decoded.
func (r *reading) pending() int64 {
	end := r.high
	if r.Stop != NoStop {
		end = min(end, r.Stop)
	}
	return max(0, end-r.Next)
}

// stop stops fetching a partition.
func (f *fetcher[T]) stop(p partition) {
	f.client.RemoveConsumePartitions(map[string][]int32{p.topic: {p.number}})
}

// poll waits for records, not for ever if splits may end without any or a
// broker refuses to talk, and sorts out errors.
func (f *fetcher[T]) poll(ctx context.Context) {
	ctx, cancel := until(ctx, f.refused)
	defer cancel()
	if f.bounded {
		ctx, cancel = context.WithTimeout(ctx, silence)
		defer cancel()
	}
	fetches := f.client.PollFetches(ctx)
	fetches.EachPartition(func(p kgo.FetchTopicPartition) {
		part := partition{p.Topic, p.Partition}
		if r := f.splits[part]; r != nil && p.Err == nil {
			r.high = f.config.readable(p.FetchPartition)
			f.gauge("pendingRecords", r.id, r.pending())
		}
		if len(p.Records) > 0 {
			f.left = append(f.left, fetched{part, p.Records})
		}
		if p.Err != nil && (p.Topic != "" || ctx.Err() == nil) {
			f.judge(part, p.Err)
		}
	})
}

// judge decides about an error of a partition.
func (f *fetcher[T]) judge(p partition, err error) {
	r := f.splits[p]
	switch {
	case r == nil && p.topic != "":
		return // it is not read any more
	case errors.Is(err, kerr.OffsetOutOfRange) && r != nil:
		// Left to itself the client would repeat this as fast as it can. What
		// is right is decided as at the start, behind the records that are left.
		if !slices.Contains(f.again, r) {
			f.stop(p)
			f.again = append(f.again, r)
		}
	case errors.Is(err, kerr.UnknownTopicOrPartition), errors.Is(err, kerr.UnknownTopicID), errors.Is(err, kerr.InconsistentTopicID):
		f.suspect[p.topic] = struct{}{}
	case isTransient(err):
	default:
		f.fail(p, err)
	}
}

func (f *fetcher[T]) fail(p partition, err error) {
	if f.failed != nil {
		return
	}
	if lost := (*kgo.ErrDataLoss)(nil); errors.As(err, &lost) {
		err = fmt.Errorf("the log was truncated behind what was read (unclean leader election?): %w", err)
	}
	f.failed = fmt.Errorf("kafka source: %s: %w", p, final(err))
}

func isTransient(err error) bool {
	lost := (*kgo.ErrDataLoss)(nil)
	return !isAnswer(err) && !errors.As(err, &lost) && !errors.Is(err, kgo.ErrClientClosed) // the network
}

// verify asks whether suspected topics are still there and the same.
func (f *fetcher[T]) verify(ctx context.Context) error {
	var splits []Split
	for _, r := range f.splits {
		if _, ok := f.suspect[r.Topic]; ok {
			splits = append(splits, r.Split)
		}
	}
	clear(f.suspect)
	if len(splits) == 0 {
		return nil
	}
	err := retry(ctx, &f.config.client, func(ctx context.Context) error { return f.admit.checkTopics(ctx, splits) })
	if err != nil {
		return fmt.Errorf("kafka source: while reading: %w", err)
	}
	pause(ctx, retryPause) // the broker at hand does not know yet
	return nil
}

// decodeNext decodes up to a batch of what is left.
func (f *fetcher[T]) decodeNext(into *splitreader.Batch[T]) {
	for len(f.left) > 0 && f.failed == nil {
		l := &f.left[0]
		r := f.splits[l.part]
		if r == nil { // ended meanwhile
			f.left = f.left[1:]
			continue
		}
		n, err := f.decodeRecords(r, l.records, into)
		if err != nil {
			// What came before the record at fault goes with the failure: it
			// is read again.
			f.failed = err
			return
		}
		if l.records = l.records[n:]; len(l.records) == 0 {
			f.left = f.left[1:]
		}
		if n > 0 {
			f.close(r, into)
			return
		}
		if r.ended() {
			f.close(r, into)
			return
		}
	}
	if len(f.left) == 0 {
		f.left = nil
	}
}

// decodeRecords decodes records of one split and returns how many it took.
func (f *fetcher[T]) decodeRecords(r *reading, records []*kgo.Record, into *splitreader.Batch[T]) (taken int, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &UndecodableError{r.Topic, r.Partition, records[taken].Offset, fmt.Errorf("decoder panicked: %v\n%s", p, debug.Stack())}
		}
	}()
	for taken < len(records) && len(into.Vals) < batchRecords {
		n, err := f.decodeTogether(r, records[taken:], taken == 0, into)
		if err != nil {
			return taken, err
		}
		if n > 0 {
			taken += n
			continue
		}
		rec := records[taken]
		switch {
		case r.ended() || r.Stop != NoStop && rec.Offset >= r.Stop:
			r.Next = max(r.Next, r.Stop)
			return len(records), nil
		case rec.Offset < r.Next:
			taken++
			continue
		case taken > 0 && rec.LeaderEpoch != r.LeaderEpoch:
			return taken, nil // a batch has one epoch
		}
		if !rec.Attrs.IsControl() {
			if err := f.decodeRecord(rec, into); err != nil {
				return taken, err
			}
		}
		f.single = max(0, f.single-1)
		r.Next, r.LeaderEpoch = rec.Offset+1, rec.LeaderEpoch
		rec.Recycle()
		taken++
	}
	return taken, nil
}

// decodeTogether decodes the run of records at the beginning that have nothing
// peculiar about them, and returns how many those were. If one of them cannot
// be decoded, it decodes none and leaves all of them to be decoded one by one.
func (f *fetcher[T]) decodeTogether(r *reading, records []*kgo.Record, first bool, into *splitreader.Batch[T]) (int, error) {
	if f.decode.many == nil || f.single > 0 {
		return 0, nil
	}
	epoch, next := r.LeaderEpoch, r.Next
	if first {
		epoch = records[0].LeaderEpoch
	}
	f.values = f.values[:0]
	for _, rec := range records[:min(len(records), batchRecords-len(into.Vals))] {
		if rec.Offset < next || r.Stop != NoStop && rec.Offset >= r.Stop || rec.LeaderEpoch != epoch ||
			rec.Attrs.IsControl() || rec.Value == nil && !f.decode.tombstones {
			break
		}
		next = rec.Offset + 1
		f.values = append(f.values, rec.Value)
	}
	n := len(f.values)
	if n == 0 {
		return 0, nil
	}
	if ok, err := splitreader.DecodeTogether(f.decode.many, into, f.values, &f.warning); err != nil {
		return 0, fmt.Errorf("kafka source: %s from offset %d: %w", r.partition(), records[0].Offset, err)
	} else if !ok {
		f.single = n
		return 0, nil
	}
	for _, rec := range records[:n] {
		into.Times = append(into.Times, millis(rec))
		into.Ends = append(into.Ends, rec.Offset+1)
		rec.Recycle()
	}
	r.Next, r.LeaderEpoch = next, epoch
	return n, nil
}

// decodeRecord decodes a record, or deals with it if it cannot be decoded.
func (f *fetcher[T]) decodeRecord(rec *kgo.Record, into *splitreader.Batch[T]) error {
	before := len(into.Vals)
	err := f.decode.one(rec, into, rec.Offset+1)
	if err == nil {
		return nil
	}
	into.Vals, into.Times, into.Ends = into.Vals[:before], into.Times[:before], into.Ends[:before]
	switch {
	case errors.Is(err, codec.ErrUnavailable):
		return fmt.Errorf("kafka source: decode %s[%d] at offset %d: %w", rec.Topic, rec.Partition, rec.Offset, err)
	case f.config.undecodable != nil:
		var r Record
		r.fill(rec)
		if f.decode.copies {
			r.detach()
		}
		if err := f.config.undecodable(r, err); err != nil {
			return fmt.Errorf("kafka source: handler of undecodable records, at %s[%d] offset %d: %w", rec.Topic, rec.Partition, rec.Offset, err)
		}
	case !f.config.skip:
		return &UndecodableError{rec.Topic, rec.Partition, rec.Offset, err}
	}
	f.count("recordsUndecodable", 1)
	return nil
}

func (f *fetcher[T]) Close() error {
	f.client.Close()
	return nil
}
