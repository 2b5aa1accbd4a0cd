package kafka

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/weirstream/weir/connector"
)

// MissingOffsetError is the failure of a source whose next offset does not
// exist: older records were deleted, or the log is shorter than it was.
type MissingOffsetError struct {
	Topic     string
	Partition int32
	// Offset was to be read next; Start to End, End excluded, is there.
	Offset, Start, End int64
}

// Is makes it fatal: the records will not come back.
func (e *MissingOffsetError) Is(target error) bool { return target == connector.ErrFatal }

// Error says where, what is there, and why most likely.
func (e *MissingOffsetError) Error() string {
	why := "retention deleted records that were not read"
	if e.Offset > e.End {
		why = "the log was truncated or the topic created anew"
	}
	return fmt.Sprintf("kafka offset out of range: %s[%d] is to be read from offset %d, the broker has %d to %d: %s; kafka.OnMissingOffset chooses to go on",
		e.Topic, e.Partition, e.Offset, e.Start, e.End, why)
}

// admission checks splits against the cluster before they are read: a fetch
// would jump or spin.
type admission struct {
	config *sourceConfig
	adm    *kadm.Client
	count  func(string, int64)
}

// admit returns the splits as they are to be read.
func (a admission) admit(ctx context.Context, splits []Split) (admitted []Split, err error) {
	err = retry(ctx, &a.config.client, func(ctx context.Context) (err error) {
		admitted, err = a.try(ctx, splits)
		return err
	})
	return admitted, err
}

func (a admission) try(ctx context.Context, splits []Split) ([]Split, error) {
	if err := a.checkTopics(ctx, splits); err != nil {
		return nil, err
	}
	parts := make([]partition, len(splits))
	for i, s := range splits {
		parts[i] = s.partition()
	}
	r := resolver{a.adm, !a.config.readUncommitted}
	starts, err := r.resolve(ctx, Earliest(), parts)
	if err != nil {
		return nil, err
	}
	ends, err := r.list(ctx, parts, a.adm.ListEndOffsets)
	if err != nil {
		return nil, err
	}
	stable, err := r.resolve(ctx, Latest(), parts)
	if err != nil {
		return nil, err
	}
	admitted := make([]Split, len(splits))
	for i, s := range splits {
		p := parts[i]
		if admitted[i], err = a.place(s, starts[p], ends[p], stable[p]); err != nil {
			return nil, err
		}
	}
	return admitted, nil
}

// place moves a split whose offset is not there, if that is wanted. One that
// was read to its end needs none.
func (a admission) place(s Split, start, end, stable int64) (Split, error) {
	if s.ended() && !s.beyond() || s.Next >= start && s.Next <= end {
		return s, nil
	}
	to := start
	switch a.config.missing {
	case FailOnMissing:
		return s, &MissingOffsetError{s.Topic, s.Partition, s.Next, start, end}
	case GoToLatest:
		to = stable
	}
	if to > s.Next {
		a.count("offsetsSkipped", to-s.Next)
	}
	return s.At(to, -1), nil
}

// checkTopics finds topics that were deleted or created anew.
func (a admission) checkTopics(ctx context.Context, splits []Split) error {
	parts := make([]partition, len(splits))
	for i, s := range splits {
		parts[i] = s.partition()
	}
	listed, err := a.adm.ListTopics(ctx, topicsOf(parts)...)
	if err != nil {
		return err
	}
	var missing []string
	for _, name := range topicsOf(parts) {
		t, ok := listed[name]
		if !ok || errors.Is(t.Err, kerr.UnknownTopicOrPartition) {
			missing = append(missing, name)
		} else if t.Err != nil {
			return fmt.Errorf("topic %s: %w", name, t.Err)
		}
	}
	if len(missing) > 0 {
		return &missingTopicError{a.config.names(), missing}
	}
	for _, s := range splits {
		id := [16]byte(listed[s.Topic].ID)
		if s.TopicID != id && s.TopicID != [16]byte{} && id != [16]byte{} {
			return &recreatedError{s.Topic}
		}
	}
	return nil
}
