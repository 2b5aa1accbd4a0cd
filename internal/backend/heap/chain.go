package heap

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"sync"

	"github.com/weirstream/weir/codec"
	"github.com/weirstream/weir/internal/keygroup"
	"github.com/weirstream/weir/internal/snapshot"
)

// Checkpoints of a store with changes form a chain: a file with all state, the
// base, and files with what has changed since the one before. When the changes
// have grown to a part of the base, or are many, it is written anew: each of the next
// checkpoints holds, besides the changes, all state of some key groups, and after
// the last of these the files before the first are needed no more. So no
// checkpoint takes much longer than the others.

const (
	// chainShare is which part of the base, as a divisor, the changes may take.
	chainShare = 2
	// chainFiles is how many files there may be.
	chainFiles = 64
	// chainParts is in how many parts the base is written anew.
	chainParts = 8
	// chainLeast is the size below which it is written at once.
	chainLeast = 1 << 20
)

// Chain makes files of the snapshots of a store. It may be used from any goroutine.
type Chain struct {
	mu sync.Mutex
	// links are snapshots that later ones may go on from, oldest first.
	links []*link
}

// link is a snapshot as a chain of files.
type link struct {
	// number is that of the snapshot in its store.
	number uint32
	files  []string
	// states, if not nil, are those of a restored snapshot that has yet to be
	// looked at.
	states []snapshot.State
	// base and changes are the bytes of all state and of what followed it.
	base, changes int64
	// from is the file with which the writing of a new base began, next the key group
	// that it goes on with, counted from the first; 0 when it is not under way.
	from, next int
}

// ChainPart is a Frozen, or one with sections of its own.
type ChainPart interface {
	Operator() string
	States() []snapshot.State
	KeyFormat() codec.Format
	Groups() keygroup.Range
	Number() uint32
	KnowsChanges(since uint32) bool
	Unchanged(since uint32) bool
	EncodeGroup(g int, w GroupWriter) error
	EncodeChanges(since uint32, g int, w GroupWriter) error
	Completed(number uint32)
	Bytes() int64
	Release()
}

// GoOnFrom says that the store was restored from a subtask that had the same
// key groups and keys, and these states, and has not changed since.
func (c *Chain) GoOnFrom(sub *snapshot.Subtask, states []snapshot.State) {
	if sub.File != "" {
		c.links = append(c.links, &link{number: firstSnapshot, files: sub.DataFiles(), states: states})
	}
}

// Store writes the state of an operator, or what has changed of it, by up, and
// says in sub where it lies.
func (c *Chain) Store(ctx context.Context, p ChainPart, up *snapshot.Upload, sub *snapshot.Subtask) error {
	prev := c.last(p, up)
	next, err := prev.write(ctx, p, up)
	if err != nil {
		return err
	}
	for _, name := range next.files {
		if f, ok := up.Usable(name); ok {
			up.Refer(f)
		}
	}
	sub.File, sub.Increments = next.files[0], next.files[1:]
	c.mu.Lock()
	c.links = append(c.links, next)
	c.mu.Unlock()
	return nil
}

// last is the newest snapshot that this one may go on from, nil if there is
// none. What is older is forgotten.
func (c *Chain) last(p ChainPart, up *snapshot.Upload) *link {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, l := range slices.Backward(c.links) {
		if !l.usable(p, up) {
			continue
		}
		c.links = slices.Clone(c.links[i:])
		p.Completed(l.number)
		return l
	}
	return nil
}

// usable tells whether a snapshot may refer to all files of the link. Those of a
// snapshot that is not known to be completed may not be referred to.
func (l *link) usable(p ChainPart, up *snapshot.Upload) bool {
	var all int64
	for _, name := range l.files {
		f, ok := up.Usable(name)
		if !ok {
			return false
		}
		all += f.Size
	}
	if l.states != nil {
		if !slices.Equal(l.states, p.States()) {
			return false // what a state of another form or name has left would be taken for this one's
		}
		l.states = nil
		l.base = min(all, p.Bytes())
		l.changes = all - l.base
	}
	return l.number < p.Number() && p.KnowsChanges(l.number)
}

// write writes the file that follows the link, or one with all state.
func (l *link) write(ctx context.Context, p ChainPart, up *snapshot.Upload) (*link, error) {
	w := &chainWriter{part: p, operator: p.Operator(), all: p.Groups()}
	next := &link{number: p.Number()}
	if l != nil && !l.writesAnew() {
		w.since, w.all = l.number, l.part(p.Groups())
		if w.all.Len() == 0 && p.Unchanged(l.number) {
			*next = *l
			next.number = p.Number()
			return next, nil
		}
	}
	f, err := up.Put(ctx, func(to io.Writer) error { return w.write(ctx, to) })
	if err != nil {
		return nil, err
	}
	if w.since == 0 {
		next.files, next.base = []string{f.Name}, f.Size
		return next, nil
	}
	next.files = append(slices.Clone(l.files), f.Name)
	next.base, next.changes = l.base, l.changes+f.Size
	if w.all.Len() == 0 {
		return next, nil
	}
	next.from, next.next = l.from, w.all.Last+1-p.Groups().First
	if l.next == 0 {
		next.from = len(l.files)
	}
	if w.all.Last == p.Groups().Last {
		next.cut(up, f)
	}
	return next, nil
}

// writesAnew tells whether all state is written at once.
func (l *link) writesAnew() bool { return l.isDue() && l.base+l.changes <= chainLeast }

func (l *link) isDue() bool {
	return l.changes > l.base/chainShare || len(l.files) >= chainFiles
}

// part are the key groups of which the next file is to hold all state.
func (l *link) part(groups keygroup.Range) keygroup.Range {
	if l.next == 0 && !l.isDue() {
		return keygroup.Range{First: 0, Last: -1}
	}
	n := (groups.Len() + chainParts - 1) / chainParts
	first := groups.First + l.next
	return keygroup.Range{First: first, Last: min(first+n-1, groups.Last)}
}

// cut leaves out the files that are needed no more: all key groups lie in those
// from the base's begin on.
func (l *link) cut(up *snapshot.Upload, last snapshot.File) {
	l.files = l.files[l.from:]
	l.from, l.next = 0, 0
	l.base, l.changes = last.Size, 0
	for _, name := range l.files {
		f, _ := up.Usable(name)
		l.base += f.Size
	}
}

// chainWriter writes a file of a chain.
type chainWriter struct {
	part     ChainPart
	operator string
	// since is the snapshot to which the changes are written, 0 for none; all are the
	// key groups of which all state is.
	since uint32
	all   keygroup.Range
}

func (c *chainWriter) write(ctx context.Context, to io.Writer) (err error) {
	w := snapshot.NewFileWriter(to, snapshot.S2)
	if c.since != 0 {
		w = snapshot.NewChangesWriter(to, snapshot.S2)
	}
	groups := c.part.Groups()
	for g := groups.First; g <= groups.Last && err == nil; g++ {
		if err = context.Cause(ctx); err == nil {
			err = c.group(w, g)
		}
		runtime.Gosched() // the stages come first
	}
	if err == nil {
		c.part.Release() // before the file is synced: a stage writes more slowly until then
	}
	_, _, closed := w.Close()
	return errors.Join(err, closed)
}

func (c *chainWriter) group(w *snapshot.FileWriter, g int) error {
	to := &lateGroup{file: w, group: g, sections: w.Operator(c.operator, c.part.KeyFormat())}
	var err error
	switch {
	case c.since == 0:
		err = c.part.EncodeGroup(g, to)
	case c.all.Contains(g):
		if err = to.Section(snapshot.State{Kind: snapshot.AllKeys}, 0, nil); err == nil {
			err = c.part.EncodeGroup(g, to)
		}
	default:
		err = c.part.EncodeChanges(c.since, g, to)
	}
	if err != nil {
		return fmt.Errorf("key group %d: %w", g, err)
	}
	if to.begun {
		return w.EndGroup()
	}
	return nil
}

// lateGroup begins a key group with its first section.
type lateGroup struct {
	file     *snapshot.FileWriter
	group    int
	sections *snapshot.OperatorWriter
	begun    bool
}

func (l *lateGroup) Section(st snapshot.State, count int, data []byte) error {
	if !l.begun {
		if err := l.file.BeginGroup(l.group); err != nil {
			return err
		}
		l.begun = true
	}
	return l.sections.Section(st, count, data)
}
