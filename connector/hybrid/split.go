package hybrid

import (
	"fmt"

	"github.com/weirstream/weir/codec"
	"github.com/weirstream/weir/connector"
)

// Split is a split of one of the sources.
type Split struct {
	// Member is the source's number, from 0, and ID the split's in it.
	Member int
	ID     string
	// Format is the id of the format of Data, which is the split.
	Format string
	Data   []byte

	where string
}

// Position says where reading goes on, for messages.
func (s Split) Position() string { return s.where }

// SplitID tells splits of different sources apart.
func (s Split) SplitID() string { return full(s.Member, s.ID) }

func full(member int, id string) string { return fmt.Sprintf("%d/%s", member+1, id) }

// Enumeration is the enumerator's state.
type Enumeration struct {
	// Member is the source that is read, and Positions are where it and those
	// before it began.
	Member    int
	Positions [][]byte
	// Parallelism is how many readers there were.
	Parallelism int
	// State is that of its enumerator.
	State *State
	// Late are splits that wait for their reader to register.
	Late []Split
}

// State is the encoded state of a source's own enumerator.
type State struct {
	// Format is the id of the format of Data.
	Format string
	Data   []byte
}

// named is a codec under another name.
type named[T any] struct {
	codec.Codec[T]
	id string
}

func (n named[T]) Format() codec.Format { return codec.Format{ID: n.id, Version: 1} }

// describing is the codec of splits, which puts what it decodes into words.
type describing[T any] struct {
	named[Split]
	source *Source[T]
}

func (d describing[T]) Decode(src []byte) (Split, error) {
	s, err := d.named.Decode(src)
	if err == nil && s.Member >= 0 && s.Member < len(d.source.members) {
		s.where = d.source.members[s.Member].describe(s)
	}
	return s, err
}

// position puts a split of a source's own into words.
func position[S connector.Split](c codec.Codec[S], s Split) string {
	own, err := decode(c, []Split{s})
	if err != nil {
		return err.Error()
	}
	if p, ok := any(own[0]).(interface{ Position() string }); ok {
		return p.Position()
	}
	return fmt.Sprintf("%+v", own[0])
}

// encode makes splits of a source's own splits.
func encode[S interface{ SplitID() string }](member int, c codec.Codec[S], splits []S) ([]Split, error) {
	all := make([]Split, len(splits))
	for i, s := range splits {
		data, err := c.Append(nil, s)
		if err != nil {
			return nil, fmt.Errorf("split %q: %w", s.SplitID(), err)
		}
		all[i] = Split{Member: member, ID: s.SplitID(), Format: c.Format().ID, Data: data}
	}
	return all, nil
}

func decode[S any](c codec.Codec[S], splits []Split) ([]S, error) {
	all := make([]S, len(splits))
	for i, s := range splits {
		if now := c.Format().ID; now != s.Format {
			return nil, fmt.Errorf("split %s is stored as %s, and the source has %s: the sources of a chain may not change their places", s.SplitID(), s.Format, now)
		}
		var err error
		if all[i], err = c.Decode(s.Data); err != nil {
			return nil, fmt.Errorf("split %s: %w", s.SplitID(), err)
		}
	}
	return all, nil
}
