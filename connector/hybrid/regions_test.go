package hybrid_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/weirstream/weir/connector"
	"github.com/weirstream/weir/connector/datagen"
	"github.com/weirstream/weir/connector/file"
	"github.com/weirstream/weir/connector/hybrid"
	"github.com/weirstream/weir/internal/jobtest"
)

// Readers fail alone, before the switch, while others have switched, and after
// it.
func TestRegionsFail(t *testing.T) {
	const archived, sent = 500, 1000
	fsys, want := fstest.MapFS{}, []string(nil)
	for i := range sent {
		want = append(want, fmt.Sprintf("%05d", i))
	}
	for i := range 5 {
		part := want[i*archived/5 : (i+1)*archived/5]
		fsys[fmt.Sprint("archive/", i)] = &fstest.MapFile{Data: []byte(strings.Join(part, "\n")), ModTime: time.Unix(1, 0)}
	}
	jobtest.RegionsFail(t, func() connector.Source[string, hybrid.Split, hybrid.Enumeration] {
		return hybrid.Then(hybrid.New(file.Source("archive", file.Lines(), file.In(file.FS(fsys)))),
			datagen.FromSlice(want[archived:]))
	}, want)
}
