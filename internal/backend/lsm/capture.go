package lsm

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/weirstream/weir/internal/backend/heap"
)

const (
	tableSuffix    = ".sst"
	manifestPrefix = "MANIFEST-"
)

// Files implements heap.Tier.
func (t *Tier) Files() (heap.TierFiles, error) {
	err := t.flush()
	if err == nil {
		err = t.flushed()
	}
	if err != nil {
		return nil, err
	}
	t.captures++
	c := &capture{tier: t, dir: fmt.Sprintf("%s-captured-%d", t.dir, t.captures)}
	if err := t.db.Checkpoint(c.dir); err != nil {
		return nil, err
	}
	names, err := t.disk.fs.List(c.dir)
	if err == nil {
		err = t.health.err() // the manifest may not be whole
	}
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	for _, name := range names {
		switch {
		case strings.HasSuffix(name, tableSuffix):
			c.files = append(c.files, heap.TierFile{Name: name, Lasting: true})
		case strings.HasPrefix(name, manifestPrefix):
			c.files = append(c.files, heap.TierFile{Name: name})
		}
	}
	return c, nil
}

// capture is a database as of a moment: a directory with links to its files.
// What has no contents of its own is left out: see makeMarkers.
type capture struct {
	tier  *Tier
	dir   string
	files []heap.TierFile
}

func (c *capture) Format() string { return Format }

func (c *capture) List() []heap.TierFile { return c.files }

func (c *capture) Open(name string) (io.ReadCloser, error) {
	fs := c.tier.disk.fs
	return fs.Open(fs.PathJoin(c.dir, name))
}

func (c *capture) Close() error { return c.tier.disk.fs.RemoveAll(c.dir) }

// Size implements heap.Tier.
func (t *Tier) Size(prefix []byte) (int64, error) {
	end := behind(prefix)
	if len(prefix) == 0 {
		end = lastKey
	}
	n, err := t.db.EstimateDiskUsage(prefix, end)
	return int64(n), err
}

// lastKey is behind all rows.
var lastKey = []byte{0xff, 0xff}
