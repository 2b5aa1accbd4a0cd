package kafka

import (
	"fmt"
	"testing"

	"github.com/weirstream/weir/codec"
	"github.com/weirstream/weir/connector"
	"github.com/weirstream/weir/internal/jobtest"
)

// Readers fail alone while the others read other partitions.
func TestRegionsFail(t *testing.T) {
	protocols(t, func(t *testing.T, c *cluster) {
		const partitions, records = 5, 120
		topic := c.topic(partitions)
		var want []string
		for p := range int32(partitions) {
			for i := range records {
				v := fmt.Sprintf("%d-%03d", p, i)
				want = append(want, v)
				c.put(topic, p, v)
			}
		}
		jobtest.RegionsFail(t, func() connector.Source[string, Split, Enumeration] {
			return Source(topic, codec.String(), c.brokers(), Until(Latest()))
		}, want)
	})
}
