package backendtest

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestHeap(t *testing.T) { Run(t, Heap, Options{Seeds: 2, Steps: 150}) }
