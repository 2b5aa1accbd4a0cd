package snapshot

import (
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/weirstream/weir/internal/storage/file"
)

var writeGolden = flag.Bool("write-golden", false, "write testdata of the current version where there is none")

// TestGoldenSnapshots opens what every version so far has written. The files are
// written once per format version and never again.
func TestGoldenSnapshots(t *testing.T) {
	for name, c := range map[string]Compression{"none": None, "s2": S2, "zstd": Zstd} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join("testdata", "v1", name)
			blobs := file.New(dir)
			if _, err := os.Stat(dir); os.IsNotExist(err) && *writeGolden {
				storeSnapshot(t, blobs, c)
			}
			m, groups, err := restore(t, blobs)
			check(t, err)
			want := sampleMetadata(maxInline + 4)
			want.Files = m.Files // sizes and checksums, checked here:
			check(t, Verify(t.Context(), blobs, "job/chk-7", m))
			if len(m.Files) != 1 || !reflect.DeepEqual(m, want) {
				t.Errorf("metadata %+v, want %+v", m, want)
			}
			equalGroups(t, groups, sample(40))
		})
	}
}
