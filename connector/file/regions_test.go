package file_test

import (
	"bytes"
	"fmt"
	"testing"
	"testing/fstest"
	"time"

	"github.com/weirstream/weir/connector"
	"github.com/weirstream/weir/connector/file"
	"github.com/weirstream/weir/internal/jobtest"
)

// Readers fail alone while the enumerator hands out parts of files.
func TestRegionsFail(t *testing.T) {
	fsys, want := fstest.MapFS{}, []string(nil)
	for i := range 9 {
		var text bytes.Buffer
		for n := range 200 {
			line := fmt.Sprintf("%d-%03d", i, n)
			want = append(want, line)
			fmt.Fprintln(&text, line)
		}
		fsys[fmt.Sprint("in/", i)] = &fstest.MapFile{Data: text.Bytes(), ModTime: time.Unix(1, 0)}
	}
	jobtest.RegionsFail(t, func() connector.Source[string, file.Split, file.Enumeration] {
		return file.Source("in", file.Lines(), file.In(file.FS(fsys)), file.SplitSize(400))
	}, want)
}
