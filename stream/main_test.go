package stream_test

import (
	"testing"

	"go.uber.org/goleak"
)

// TestMain finds goroutines left by jobs that ended, failed or were cancelled.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
