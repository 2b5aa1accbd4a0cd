package backendtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weirstream/weir/codec"
	"github.com/weirstream/weir/internal/backend/heap"
	"github.com/weirstream/weir/internal/entry"
	"github.com/weirstream/weir/internal/keygroup"
	"github.com/weirstream/weir/internal/snapshot"
	"github.com/weirstream/weir/internal/storage"
	"github.com/weirstream/weir/internal/storage/mem"
)

// HeapIncremental is Heap with snapshots of changes.
var HeapIncremental = Backend{Name: "heap, incremental", Prepare: func(_ testing.TB, o *heap.Options) { o.Incremental = true }}

// RunIncrements runs the part of the suite about snapshots of changes: any that
// may follow one another, each restored at other parallelism.
func RunIncrements(t *testing.T, b Backend, o Options) {
	t.Run("int64", func(t *testing.T) {
		increments(t, b, o, func(r *rand.Rand) int64 { return r.Int64N(600) - 300 })
	})
	t.Run("string", func(t *testing.T) {
		increments(t, b, o, func(r *rand.Rand) string { return fmt.Sprintf("%0*d", r.IntN(60), r.IntN(10)) })
	})
	t.Run("struct", func(t *testing.T) {
		increments(t, b, o, func(r *rand.Rand) pair { return pair{fmt.Sprintf("%0*d", r.IntN(40), 1), r.Int32N(9)} })
	})
}

func increments[K comparable](t *testing.T, b Backend, o Options, key func(*rand.Rand) K) {
	for seed := range uint64(o.Seeds) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			r := &chained[K]{run: newRun[K](t, b, whole(), seed, key), blobs: mem.New()}
			r.drive(o.Steps)
			// A restored store goes on with the chain it came from.
			last := r.chains[len(r.chains)-1]
			o := newRun[K](t, b, whole(), seed+100, key)
			r.close()
			*o.now, o.wm, o.model = last.now, last.wm, clone(last.model)
			o.restore(last.read(t, r.blobs, whole()), whole())
			last.number, last.frozen = 1, nil
			again := &chained[K]{run: o, blobs: r.blobs, chains: []*chain[K]{last}, files: r.files}
			again.drive(o.rng.IntN(60) + 30)
			again.end()
		})
	}
}

// chained is a run that writes snapshots as files and files of changes.
type chained[K comparable] struct {
	*run[K]
	blobs  *mem.Blobs
	chains []*chain[K]
	// writing are those that are not complete.
	writing []*chain[K]
	files   int
}

// chain is a snapshot as files.
type chain[K comparable] struct {
	*moment[K]
	number uint32
	frozen *heap.Frozen
	files  []snapshot.File
}

func (r *chained[K]) drive(steps int) {
	r.t.Helper()
	for range steps {
		switch r.rng.IntN(10) {
		case 0, 1:
			r.write()
		case 2:
			if n := len(r.writing); n > 0 {
				r.complete(r.rng.IntN(n))
			}
		default:
			for r.step(); len(r.moments) > 0; r.moments = r.moments[1:] {
				<-r.moments[0].done
				r.check(r.moments[0].err)
			}
		}
	}
	r.write()
	for len(r.writing) > 0 {
		r.complete(0)
	}
	for _, c := range r.chains {
		r.restored(c)
	}
}

// write begins a snapshot: of what has changed since one that is complete, or
// of all state.
func (r *chained[K]) write() {
	f := r.store.Freeze()
	c := &chain[K]{number: f.Number(), frozen: f,
		moment: &moment[K]{model: clone(r.model), wm: r.wm, now: *r.now, done: make(chan struct{})}}
	since := uint32(0)
	for _, old := range slices.Backward(r.chains) {
		if f.KnowsChanges(old.number) && r.rng.IntN(8) > 0 {
			c.files, since = slices.Clone(old.files), old.number
			break
		}
	}
	r.files++
	name, whole, key := fmt.Sprint("file-", r.files), r.rng.IntN(2*groups), r.store.KeyFormat()
	go func() {
		defer close(c.done)
		defer f.Release()
		var file snapshot.File
		c.err = r.blobs.Put(context.Background(), name, func(w io.Writer) (err error) {
			file, err = encodeFile(w, f, key, since, whole)
			return err
		})
		file.Name = name
		c.files = append(c.files, file)
	}()
	r.t.Cleanup(func() { <-c.done })
	r.writing = append(r.writing, c)
}

// encodeFile writes the groups of a snapshot; one of them as a whole.
func encodeFile(w io.Writer, f *heap.Frozen, key codec.Format, since uint32, whole int) (file snapshot.File, err error) {
	out := snapshot.NewFileWriter(w, snapshot.S2)
	if since != 0 {
		out = snapshot.NewChangesWriter(w, snapshot.S2)
	}
	for g := f.Groups().First; g <= f.Groups().Last && err == nil; g++ {
		op := out.Operator("op", key)
		err = out.BeginGroup(g)
		switch {
		case since == 0:
			err = errors.Join(err, f.EncodeGroup(g, op))
		case g == whole:
			err = errors.Join(err, op.Section(snapshot.State{Kind: snapshot.AllKeys}, 0, nil), f.EncodeGroup(g, op))
		default:
			err = errors.Join(err, f.EncodeChanges(since, g, op))
		}
		err = errors.Join(err, out.EndGroup())
	}
	size, crc, closed := out.Close()
	return snapshot.File{Size: size, CRC: crc}, errors.Join(err, closed)
}

// complete ends a snapshot under way: it may have failed, and its files are
// then nobody's.
func (r *chained[K]) complete(i int) {
	r.t.Helper()
	c := r.writing[i]
	r.writing = slices.Delete(r.writing, i, i+1)
	<-c.done
	r.check(c.err)
	if r.rng.IntN(4) == 0 && len(r.writing) > 0 {
		return
	}
	for _, old := range r.chains {
		if old.number > c.number {
			r.restored(c) // it comes too late to go on from
			return
		}
	}
	r.chains = append(r.chains, c)
	if r.rng.IntN(3) > 0 {
		c.frozen.Completed(c.number)
	}
	for len(r.chains) > 4 {
		r.restored(r.chains[0])
		r.chains = r.chains[1:]
	}
}

// read returns the sections of the groups.
func (c *chain[K]) read(t testing.TB, blobs *mem.Blobs, mine keygroup.Range) []section {
	t.Helper()
	sections, err := readChain(blobs, "", c.files, mine)
	if err != nil {
		t.Fatal(err)
	}
	return sections
}

// readChain returns the sections of the groups in the files of a chain.
func readChain(blobs storage.Blobs, dir string, chain []snapshot.File, mine keygroup.Range) (sections []section, err error) {
	ctx := context.Background()
	files, err := snapshot.OpenChain(ctx, blobs, dir, chain, mine)
	if err != nil {
		return nil, err
	}
	for _, g := range files.Groups() {
		if !mine.Contains(g) {
			continue
		}
		p, err := files.ReadOperator(ctx, g, "op")
		for err == nil {
			var h snapshot.SectionHeader
			var data []byte
			if h, data, err = p.Next(); err == nil {
				sections = append(sections, section{g, h.State, h.Count, data})
			}
		}
		if !errors.Is(err, io.EOF) {
			return nil, err
		}
	}
	return sections, nil
}

// restored restores a snapshot at another parallelism, and compares all there is.
func (r *chained[K]) restored(c *chain[K]) {
	r.t.Helper()
	parallelism := 1 + r.rng.IntN(3)
	for sub := range parallelism {
		mine := keygroup.RangeOf(sub, parallelism, groups)
		o := newRun[K](r.t.(*testing.T), Heap, mine, 1, r.key)
		*o.now, o.wm = c.now, c.wm
		for k, content := range c.model {
			if mine.Contains(keygroup.Group(r.hash(k), groups)) {
				o.model[k] = content.clone()
			}
		}
		o.restore(c.read(r.t, r.blobs, mine), mine)
		o.all()
		o.fireAll(entry.EventTime)
		o.fireAll(entry.ProcessingTime)
		o.close()
	}
}
