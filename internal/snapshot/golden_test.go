package snapshot

import (
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/weirstream/weir/internal/storage"
	"github.com/weirstream/weir/internal/storage/file"
)

var writeGolden = flag.Bool("write-golden", false, "write testdata of the current version where there is none")

// TestGoldenSnapshots opens what every version so far has written. The files are
// written once per format version and never again.
func TestGoldenSnapshots(t *testing.T) {
	for version, sample := range map[string]func(int) *Metadata{"v1": sampleMetadata, "v2": sampleMetadata2, "v3": sampleMetadata3} {
		for name, c := range map[string]Compression{"none": None, "s2": S2, "zstd": Zstd} {
			t.Run(version+" "+name, func(t *testing.T) {
				dir := filepath.Join("testdata", version, name)
				if _, err := os.Stat(dir); os.IsNotExist(err) && *writeGolden {
					storeMetadata(t, file.New(dir), c, sample(maxInline+4))
				}
				golden(t, file.New(dir), sample(maxInline+4))
			})
		}
	}
}

func golden(t *testing.T, blobs storage.Blobs, want *Metadata) {
	t.Helper()
	m, groups, err := restore(t, blobs)
	check(t, err)
	want.Files = m.Files // sizes and checksums, checked here:
	check(t, Verify(t.Context(), blobs, "job/chk-7", m))
	if !reflect.DeepEqual(m, want) {
		t.Errorf("metadata %+v, want %+v", m, want)
	}
	equalGroups(t, groups, sample(40))
}
