package checkpoint

import (
	"slices"

	"github.com/weirstream/weir/codec"
	"github.com/weirstream/weir/internal/snapshot"
)

// pool holds the committables of this attempt that are not known to be
// committed. They are part of every snapshot until they are, also those made
// for a checkpoint that failed: the job does not rewind for it.
type pool struct {
	sinks map[string]*unconfirmed
}

// unconfirmed are those of one sink, in order of checkpoint and subtask.
type unconfirmed struct {
	format *codec.Format
	list   []entry
}

type entry struct {
	snapshot.Committable
	// sent: the committer has it.
	sent bool
}

func newPool() *pool { return &pool{sinks: map[string]*unconfirmed{}} }

func (p *pool) sink(op string) *unconfirmed {
	u := p.sinks[op]
	if u == nil {
		u = &unconfirmed{}
		p.sinks[op] = u
	}
	return u
}

// add takes what one subtask of a sink pre-committed at a barrier.
func (p *pool) add(op string, format *codec.Format, checkpoint int64, subtask int, data [][]byte) {
	if len(data) == 0 {
		return
	}
	u := p.sink(op)
	if format != nil {
		u.format = format
	}
	for _, d := range data {
		u.list = append(u.list, entry{Committable: snapshot.Committable{Checkpoint: checkpoint, Subtask: subtask, Data: d}})
	}
	slices.SortStableFunc(u.list, func(a, b entry) int { return compareCommittables(a.Committable, b.Committable) })
}

// upTo returns the committables of a sink made at barriers up to id.
func (p *pool) upTo(op string, id int64) []snapshot.Committable {
	var cs []snapshot.Committable
	for _, e := range p.sink(op).list {
		if e.Checkpoint <= id {
			cs = append(cs, e.Committable)
		}
	}
	return cs
}

// send returns the data of the same, and notes that the committer has it.
func (p *pool) send(op string, id int64) [][]byte {
	var data [][]byte
	u := p.sink(op)
	for i := range u.list {
		if e := &u.list[i]; e.Checkpoint <= id {
			e.sent = true
			data = append(data, e.Data)
		}
	}
	return data
}

// confirm drops what was sent: it is committed.
func (p *pool) confirm(op string) {
	u := p.sink(op)
	u.list = slices.DeleteFunc(u.list, func(e entry) bool { return e.sent })
}
