package file

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/weirstream/weir/codec"
	"github.com/weirstream/weir/connector"
	"github.com/weirstream/weir/connector/connectortest"
)

// numbered makes lines of the numbers from..to-1.
func numbered(from, to int) string {
	var b strings.Builder
	for i := from; i < to; i++ {
		fmt.Fprintln(&b, i)
	}
	return b.String()
}

func accept[T any](t *testing.T, src *Files[T], want []T, time func(T) int64) {
	t.Helper()
	connectortest.TestSource(t, connectortest.SourceSuite[T, Split, Enumeration]{
		New:  func() connector.Source[T, Split, Enumeration] { return src },
		Want: want,
		Time: time,
	})
}

func TestAcceptance(t *testing.T) {
	var numbers []string
	for i := range 26 {
		numbers = append(numbers, strconv.Itoa(i+10))
	}
	number := func(s string) int64 {
		n, _ := strconv.Atoi(s)
		return int64(n)
	}
	plain := In(FS(files("a", numbered(10, 18), "b", numbered(18, 19), "c", "", "d/e", numbered(19, 36))))
	packed := In(FS(files("a.gz", gzipped(numbered(10, 14), numbered(14, 18)), "b.zst", zstded(numbered(18, 25)), "c", numbered(25, 36))))
	t.Run("lines", func(t *testing.T) { accept(t, Source(".", Lines(), plain), numbers, number) })
	t.Run("ranges", func(t *testing.T) { accept(t, Source("**", Lines(blockOf(5)), plain, SplitSize(16)), numbers, number) })
	t.Run("compressed", func(t *testing.T) { accept(t, Source(".", Lines(), packed), numbers, number) })
	t.Run("decoded", func(t *testing.T) {
		accept(t, Source(".", LinesOf(codec.String()), plain, SplitSize(20)), numbers, number)
	})
	t.Run("CSV", func(t *testing.T) {
		type row struct{ N int64 }
		var rows []row
		for i := range int64(26) {
			rows = append(rows, row{i})
		}
		storage := In(FS(files("a", "N\n"+numbered(0, 3), "b.gz", gzipped("N\n"+numbered(3, 10)), "c", "N\n"+numbered(10, 26))))
		accept(t, Source("*", CSV[row](OneLinePerRecord()), storage, SplitSize(15)), rows, func(r row) int64 { return r.N })
	})
}
