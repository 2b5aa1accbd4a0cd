package datagen_test

import (
	"fmt"
	"testing"

	"github.com/weirstream/weir/connector"
	"github.com/weirstream/weir/connector/datagen"
	"github.com/weirstream/weir/internal/jobtest"
)

// Readers fail alone while the others go on.
func TestRegionsFail(t *testing.T) {
	var want []string
	for i := range 900 {
		want = append(want, fmt.Sprint(i))
	}
	jobtest.RegionsFail(t, func() connector.Source[string, datagen.Split, datagen.Enumeration] {
		return datagen.FromSlice(want)
	}, want)
}
