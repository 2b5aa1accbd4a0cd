package checkpoint

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/weirstream/weir/internal/snapshot"
	"github.com/weirstream/weir/internal/storage"
)

// lasting is what outlives all processes: the blobs of all directories, the
// brokers, and what the checks derive from them.
type lasting struct {
	blobs    map[string][]byte // by path, "/weir/job/chk-1/_metadata"; never written to
	blobsSum uint64
	brokers  brokers
	lineages int

	// metas and records are the blobs decoded, by path and by root.
	metas   map[string]*snapshot.Metadata
	records map[string][]Record
	// outputs are those of the jobs, by root.
	outputs map[string]output
	// copied counts the records that came with a copy, by root.
	copied map[string]int
	// decoded remembers what metas were decoded from; all clones share it.
	decoded map[string]*snapshot.Metadata
}

func newLasting() *lasting {
	return &lasting{
		blobs: map[string][]byte{}, brokers: newBrokers(), metas: map[string]*snapshot.Metadata{},
		records: map[string][]Record{}, outputs: map[string]output{}, copied: map[string]int{}, decoded: map[string]*snapshot.Metadata{},
	}
}

func (l *lasting) clone() *lasting {
	c := *l
	c.blobs, c.metas, c.brokers = maps.Clone(l.blobs), maps.Clone(l.metas), l.brokers.clone()
	c.records, c.outputs = maps.Clone(l.records), maps.Clone(l.outputs)
	c.copied = maps.Clone(l.copied)
	for root, records := range c.records {
		c.records[root] = slices.Clip(records)
	}
	return &c
}

// sum tells lasting states apart.
func (l *lasting) sum() uint64 {
	sum := mix(l.blobsSum) + mix(uint64(l.lineages)) + l.brokers.sum()
	for root, o := range l.outputs {
		sum += mix(hashOf(root) ^ o.sum)
	}
	return sum
}

var explorerSeed = maphash.MakeSeed()

func hashOf(s string) uint64 { return maphash.String(explorerSeed, s) }

func (l *lasting) put(path string, data []byte) {
	l.drop(path)
	l.blobs[path] = data
	l.blobsSum += mix(hashOf(path) ^ mix(maphash.Bytes(explorerSeed, data)))
}

func (l *lasting) drop(path string) {
	if data, ok := l.blobs[path]; ok {
		l.blobsSum -= mix(hashOf(path) ^ mix(maphash.Bytes(explorerSeed, data)))
		delete(l.blobs, path)
		delete(l.metas, path)
	}
}

// copyDirectory copies all of a job's directory, in an instant, unless that was
// done before.
func (l *lasting) copyDirectory(from, to string, base []int) {
	if _, ok := l.copied[to]; ok {
		return
	}
	for at, data := range maps.Clone(l.blobs) {
		rest, ok := strings.CutPrefix(at, from+"/")
		if !ok {
			continue
		}
		l.put(to+"/"+rest, data)
		if m := l.metas[at]; m != nil {
			l.metas[to+"/"+rest] = m
		}
	}
	l.records[to] = slices.Clone(l.records[from])
	l.copied[to] = len(l.records[to])
	l.outputs[to] = output{base: base}
}

// blobsOf are the blobs of one directory, as the fiber that runs sees them.
// Operations whose result or effect another process can change, or see, are
// steps of their own; the others belong to the step before.
type blobsOf struct {
	u    *universe
	root string // "/weir"
}

var _ storage.Blobs = blobsOf{}

var (
	errKilled  = errors.New("the process was killed")
	errStorage = errors.New("the storage did not answer")
)

func (b blobsOf) String() string { return b.root }

func (b blobsOf) path(name string) string { return b.root + "/" + name }

// isLedger tells records, which never change once they are there.
func isLedger(name string) bool { return strings.Contains(name, "/ledger/") }

func (b blobsOf) PutIfAbsent(_ context.Context, name string, data []byte) error {
	path := b.path(name)
	return b.u.change("put", path, func() error {
		if _, taken := b.u.blobs[path]; taken {
			return fmt.Errorf("%s: %w", path, storage.ErrExists)
		}
		b.u.put(path, data)
		return b.u.written(b.root, path, data)
	})
}

func (b blobsOf) Put(_ context.Context, name string, write func(io.Writer) error) error {
	var buf bytes.Buffer
	if err := write(&buf); err != nil {
		return err
	}
	path := b.path(name)
	return b.u.change("file", path, func() error {
		b.u.put(path, buf.Bytes())
		return nil
	})
}

func (b blobsOf) Delete(_ context.Context, name string) error {
	path := b.path(name)
	return b.u.change("delete", path, func() error {
		b.u.deleting(b.root, path)
		b.u.drop(path)
		return nil
	})
}

func (b blobsOf) Get(_ context.Context, name string) ([]byte, error) {
	path := b.path(name)
	if _, there := b.u.blobs[path]; !there || !isLedger(name) {
		if err := b.u.step("get", path); err != nil {
			return nil, err
		}
	}
	return b.get(path)
}

func (b blobsOf) get(path string) ([]byte, error) {
	if b.u.current.dead {
		return nil, errKilled
	}
	data, ok := b.u.blobs[path]
	if !ok {
		b.u.learned("absent")
		return nil, fmt.Errorf("%s: %w", path, storage.ErrNotFound)
	}
	b.u.learnedBytes(data)
	return data, nil
}

func (b blobsOf) GetRange(_ context.Context, name string, off, n int64) ([]byte, error) {
	path := b.path(name)
	if off == 0 {
		if err := b.u.step("read", path); err != nil {
			return nil, err
		}
	}
	data, err := b.get(path)
	switch {
	case err != nil:
		return nil, err
	case off < 0 || n < 0 || off+n > int64(len(data)):
		return nil, io.ErrUnexpectedEOF
	}
	return data[off : off+n], nil
}

func (b blobsOf) List(_ context.Context, prefix string, fn func(name string, size int64) error) error {
	if !isLedger(prefix) { // what is not listed yet is looked for by number
		if err := b.u.step("list", b.path(prefix)); err != nil {
			return err
		}
	}
	if b.u.current.dead {
		return errKilled
	}
	var names []string
	for path := range b.u.blobs {
		if strings.HasPrefix(path, b.path(prefix)) {
			names = append(names, path)
		}
	}
	slices.Sort(names)
	for _, path := range names {
		b.u.learned(path)
		if err := fn(strings.TrimPrefix(path, b.root+"/"), int64(len(b.u.blobs[path]))); err != nil {
			return err
		}
	}
	b.u.learned("end")
	return nil
}
