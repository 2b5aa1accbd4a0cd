package datagen

import (
	"testing"

	"github.com/weirstream/weir/connector"
	"github.com/weirstream/weir/connector/connectortest"
)

func TestAcceptance(t *testing.T) {
	vals := upTo(23)
	for name, src := range map[string]*Sequence[int64]{
		"contiguous":  Source(23, identity),
		"interleaved": Source(23, identity, Interleaved()),
		"limited":     Source(23, identity, Rate(1e6)),
		"slice":       FromSlice(vals),
	} {
		t.Run(name, func(t *testing.T) {
			connectortest.TestSource(t, connectortest.SourceSuite[int64, Split, Enumeration]{
				New:  func() connector.Source[int64, Split, Enumeration] { return src },
				Want: vals,
				Time: identity,
			})
		})
	}
}
