package backendtest

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestHeapIncremental(t *testing.T) {
	Run(t, HeapIncremental, Options{Seeds: 1, Steps: 150})
	RunIncrements(t, HeapIncremental, Options{Seeds: 4, Steps: 150})
}

func TestHeap(t *testing.T) { Run(t, Heap, Options{Seeds: 2, Steps: 150}) }
