package kafka

import (
	"strconv"
	"testing"

	"github.com/weirstream/weir/connector"
	"github.com/weirstream/weir/connector/connectortest"
)

func TestAcceptance(t *testing.T) {
	protocols(t, func(t *testing.T, c *cluster) {
		topic := c.topic(4)
		var want []string
		for p, n := range []int{5, 1, 0, 6} {
			vals := numbers(10*p, n)
			c.put(topic, int32(p), vals...)
			want = append(want, vals...)
		}
		connectortest.TestSource(t, connectortest.SourceSuite[string, Split, Enumeration]{
			New: func() connector.Source[string, Split, Enumeration] {
				return Source(topic, text{}, Until(Latest()), c.brokers())
			},
			Want:   want,
			Time:   func(v string) int64 { n, _ := strconv.ParseInt(v, 10, 64); return n },
			Points: 4,
		})
	})
}
