//go:build unix

package killmatrix

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"github.com/weirstream/weir/internal/snapshot"
	"github.com/weirstream/weir/internal/storage/file"
)

// wantNothingLeft holds the files that checkpoints share to be exactly those
// that one of them refers to, and the newest checkpoint to be whole. Of others
// that an overtaken process has published late there may be _metadata only.
func (c *campaign) wantNothingLeft() {
	c.Helper()
	blobs, referred := file.New(c.checkpoints()), map[string]bool{}
	root := os.DirFS(c.checkpoints())
	found, err := fs.Glob(root, "*/chk-*/"+snapshot.MetadataName)
	if err != nil || len(found) == 0 {
		c.Fatalf("no checkpoint is left: %v", err)
	}
	var newest *snapshot.Metadata
	var at string
	for _, name := range found {
		dir := path.Dir(name)
		m, err := snapshot.Load(c.Context(), blobs, dir)
		if err != nil {
			c.Fatal(err)
		}
		if newest == nil || m.ID > newest.ID {
			newest, at = m, dir
		}
		for _, f := range m.SharedFiles(dir) {
			referred[f] = true
		}
	}
	if err := snapshot.Verify(c.Context(), blobs, at, newest); err != nil {
		c.Error(err)
	}
	left, err := filepath.Glob(filepath.Join(c.checkpoints(), "*", "shared", "*"))
	if err != nil {
		c.Fatal(err)
	}
	for _, full := range left {
		name, err := filepath.Rel(c.checkpoints(), full)
		if err != nil {
			c.Fatal(err)
		}
		if !referred[filepath.ToSlash(name)] {
			c.Errorf("no checkpoint refers to %s", name)
		}
	}
	if *onDisk && len(referred) == 0 {
		c.Error("the state lies on disk, and the last checkpoint shares no file")
	}
}
