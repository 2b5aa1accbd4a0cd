package checkpoint

import (
	"fmt"

	"github.com/weirstream/weir/internal/snapshot"
	"github.com/weirstream/weir/internal/storage/location"
)

// Describer puts into words what only connectors can read. Its methods return
// "" for what they cannot read.
type Describer interface {
	// Split returns the id of a split and where in it reading goes on.
	Split(operator string, data []byte) (id, position string)
	// Committable names what is to be committed.
	Committable(operator string, data []byte) string
}

// inWords names a committable, "" if nobody can.
func (o *StartOptions) inWords(op string, c snapshot.Committable) string {
	if o.Describer == nil {
		return ""
	}
	return o.Describer.Committable(op, c.Data)
}

// userPath is the path of a snapshot as -s takes it.
func (o *StartOptions) userPath(r Ref) string {
	if r.External {
		return r.Path
	}
	return location.Join(o.Blobs.String(), r.Path)
}

// inputBetween tells, split by split, what sources read between two
// snapshots; from is nil for the beginning.
func inputBetween(d Describer, from, to *snapshot.Metadata) []string {
	if d == nil {
		return nil
	}
	begin := map[string]string{}
	if from != nil {
		eachSplit(d, from, func(name, position string) { begin[name] = position })
	}
	var out []string
	eachSplit(d, to, func(name, position string) {
		since, ok := begin[name]
		switch {
		case !ok:
			out = append(out, fmt.Sprintf("%s up to %s", name, position))
		case since != position:
			out = append(out, fmt.Sprintf("%s from %s to %s", name, since, position))
		}
	})
	return out
}

func eachSplit(d Describer, m *snapshot.Metadata, fn func(name, position string)) {
	for _, op := range m.Operators {
		for _, sub := range op.Subtasks {
			for _, data := range sub.Splits {
				if id, position := d.Split(op.ID, data); id != "" {
					fn(fmt.Sprintf("source %s, %s", op.ID, id), position)
				}
			}
		}
	}
}
