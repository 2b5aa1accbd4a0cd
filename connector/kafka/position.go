package kafka

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/weirstream/weir/connector"
)

// Position says where to start or to stop reading. It is turned into offsets
// once, at the first start.
type Position struct {
	kind     positionKind
	group    string
	millis   int64
	offsets  map[string]map[int32]int64
	fallback *Position
}

type positionKind int

const (
	earliest positionKind = iota
	latest
	committed
	timestamp
	specific
)

// Earliest is the first record there is.
func Earliest() Position { return Position{kind: earliest} }

// Latest is the end: behind the last record. Where only committed records are
// read that is the last stable offset.
func Latest() Position { return Position{kind: latest} }

// Timestamp is the first record with that timestamp or a later one; the end if
// there is none.
func Timestamp(t time.Time) Position { return Position{kind: timestamp, millis: t.UnixMilli()} }

// Committed is what a consumer group has committed. For partitions without a
// committed offset the fallback applies; without a fallback they are an error.
func Committed(group string, fallback ...Position) Position {
	return Position{kind: committed, group: group, fallback: first(fallback)}
}

// Specific gives the offsets by topic and partition. For other partitions the
// fallback applies; without a fallback they are an error.
func Specific(offsets map[string]map[int32]int64, fallback ...Position) Position {
	return Position{kind: specific, offsets: offsets, fallback: first(fallback)}
}

func first(ps []Position) *Position {
	if len(ps) == 0 {
		return nil
	}
	return &ps[0]
}

// String says in words what the position is.
func (p Position) String() string {
	switch p.kind {
	case earliest:
		return "earliest"
	case latest:
		return "latest"
	case timestamp:
		return "the first record from " + time.UnixMilli(p.millis).UTC().Format(time.RFC3339Nano)
	case committed:
		return "the offsets committed by group " + p.group
	default:
		return "specific offsets"
	}
}

// resolver turns positions into offsets.
type resolver struct {
	adm           *kadm.Client
	readCommitted bool
}

// resolve returns the offset of each partition.
func (r resolver) resolve(ctx context.Context, pos Position, parts []partition) (map[partition]int64, error) {
	if len(parts) == 0 {
		return nil, nil
	}
	switch pos.kind {
	case earliest:
		return r.list(ctx, parts, r.adm.ListStartOffsets)
	case latest:
		return r.end(ctx, parts)
	case timestamp:
		return r.after(ctx, pos.millis, parts)
	case committed:
		return r.committed(ctx, pos, parts)
	default:
		return r.specific(ctx, pos, parts)
	}
}

type listing func(ctx context.Context, topics ...string) (kadm.ListedOffsets, error)

func (r resolver) list(ctx context.Context, parts []partition, list listing) (map[partition]int64, error) {
	listed, err := list(ctx, topicsOf(parts)...)
	if err != nil {
		return nil, err
	}
	offsets := make(map[partition]int64, len(parts))
	for _, p := range parts {
		o, ok := listed.Lookup(p.topic, p.number)
		if !ok {
			return nil, fmt.Errorf("no offset was listed for %s", p)
		}
		if o.Err != nil {
			return nil, fmt.Errorf("offset of %s: %w", p, o.Err)
		}
		offsets[p] = o.Offset
	}
	return offsets, nil
}

func (r resolver) end(ctx context.Context, parts []partition) (map[partition]int64, error) {
	if r.readCommitted {
		return r.list(ctx, parts, r.adm.ListCommittedOffsets)
	}
	return r.list(ctx, parts, r.adm.ListEndOffsets)
}

// after asks for the ends first: a record that comes in between must not be
// jumped over.
func (r resolver) after(ctx context.Context, millis int64, parts []partition) (map[partition]int64, error) {
	ends, err := r.end(ctx, parts)
	if err != nil {
		return nil, err
	}
	found := map[partition]bool{}
	offsets, err := r.list(ctx, parts, func(ctx context.Context, topics ...string) (kadm.ListedOffsets, error) {
		listed, err := r.adm.ListOffsetsAfterMilli(ctx, max(0, millis), topics...)
		listed.Each(func(o kadm.ListedOffset) {
			if o.Timestamp >= 0 {
				found[partition{o.Topic, o.Partition}] = true
			}
		})
		return listed, err
	})
	if err != nil {
		return nil, err
	}
	for p := range offsets {
		if !found[p] {
			offsets[p] = ends[p]
		}
	}
	return offsets, nil
}

func (r resolver) committed(ctx context.Context, pos Position, parts []partition) (map[partition]int64, error) {
	fetched, err := r.adm.FetchOffsets(ctx, pos.group)
	if err != nil && !errors.Is(err, kerr.GroupIDNotFound) {
		return nil, fmt.Errorf("offsets of group %s: %w", pos.group, err)
	}
	offsets := make(map[partition]int64, len(parts))
	for _, p := range parts {
		o, ok := fetched.Lookup(p.topic, p.number)
		if ok && o.Err != nil {
			return nil, fmt.Errorf("offset of group %s for %s: %w", pos.group, p, o.Err)
		}
		if ok && o.At >= 0 {
			offsets[p] = o.At
		}
	}
	return r.orFallback(ctx, pos, parts, offsets)
}

func (r resolver) specific(ctx context.Context, pos Position, parts []partition) (map[partition]int64, error) {
	offsets := make(map[partition]int64, len(parts))
	for _, p := range parts {
		if o, ok := pos.offsets[p.topic][p.number]; ok {
			offsets[p] = o
		}
	}
	return r.orFallback(ctx, pos, parts, offsets)
}

// orFallback adds what offsets lacks.
func (r resolver) orFallback(ctx context.Context, pos Position, parts []partition, offsets map[partition]int64) (map[partition]int64, error) {
	var lacking []partition
	for _, p := range parts {
		if _, ok := offsets[p]; !ok {
			lacking = append(lacking, p)
		}
	}
	if len(lacking) == 0 {
		return offsets, nil
	}
	if pos.fallback == nil {
		return nil, &noOffsetError{pos, lacking}
	}
	more, err := r.resolve(ctx, *pos.fallback, lacking)
	if err != nil {
		return nil, err
	}
	maps.Copy(offsets, more)
	return offsets, nil
}

// noOffsetError says that a position gives no offset for some partitions.
type noOffsetError struct {
	pos   Position
	parts []partition
}

// Is makes it fatal: the position has to change.
func (e *noOffsetError) Is(target error) bool { return target == connector.ErrFatal }

func (e *noOffsetError) Error() string {
	names := make([]string, len(e.parts))
	for i, p := range e.parts {
		names[i] = p.String()
	}
	return fmt.Sprintf("%s: there is none for %s; give a fallback such as kafka.Earliest()", e.pos, strings.Join(names, ", "))
}

// partition names a partition.
type partition struct {
	topic  string
	number int32
}

func (p partition) String() string { return fmt.Sprintf("%s[%d]", p.topic, p.number) }

func topicsOf(parts []partition) []string {
	topics := make([]string, 0, 1)
	for _, p := range parts {
		if !slices.Contains(topics, p.topic) {
			topics = append(topics, p.topic)
		}
	}
	return topics
}
