package streamtest_test

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// verdicts is a testing.TB that keeps what it is told.
type verdicts struct {
	testing.TB
	mu       sync.Mutex
	messages []string
	logged   strings.Builder
	cleanups []func()
}

// Write makes it its own output.
func (v *verdicts) Write(p []byte) (int, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.logged.Write(p)
}

func (v *verdicts) Output() io.Writer               { return v }
func (v *verdicts) Log(args ...any)                 { fmt.Fprintln(v, args...) }
func (v *verdicts) Logf(format string, args ...any) { fmt.Fprintf(v, format+"\n", args...) }

func (v *verdicts) Helper()                  {}
func (v *verdicts) Context() context.Context { return v.TB.Context() }
func (v *verdicts) Cleanup(f func())         { v.cleanups = append(v.cleanups, f) }

func (v *verdicts) say(s string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.messages = append(v.messages, s)
}

func (v *verdicts) Error(args ...any)                 { v.say(fmt.Sprint(args...)) }
func (v *verdicts) Errorf(format string, args ...any) { v.say(fmt.Sprintf(format, args...)) }

func (v *verdicts) Fatal(args ...any) {
	v.Error(args...)
	runtime.Goexit()
}

func (v *verdicts) Fatalf(format string, args ...any) {
	v.Errorf(format, args...)
	runtime.Goexit()
}

// failing runs a test and returns what it fails with.
func failing(t *testing.T, test func(t testing.TB)) string {
	t.Helper()
	messages := strings.Join(observe(t, test).messages, "\n")
	if strings.Contains(messages, "not given back") {
		t.Errorf("the test leaves something behind: %s", messages)
	}
	return messages
}

// logs runs a test that passes and returns what it logs.
func logs(t *testing.T, test func(t testing.TB)) string {
	t.Helper()
	v := observe(t, test)
	if len(v.messages) > 0 {
		t.Errorf("the test fails: %s", v.messages)
	}
	return v.logged.String()
}

func observe(t *testing.T, test func(t testing.TB)) *verdicts {
	t.Helper()
	v := &verdicts{TB: t}
	var done sync.WaitGroup
	done.Go(func() {
		defer func() {
			for i := len(v.cleanups) - 1; i >= 0; i-- {
				v.cleanups[i]()
			}
		}()
		test(v)
	})
	done.Wait()
	return v
}

// mustSay checks a message for all its parts.
func mustSay(t *testing.T, message string, parts ...string) {
	t.Helper()
	if message == "" {
		t.Errorf("nothing fails; a message with %q is wanted", parts)
	}
	for _, p := range parts {
		if !strings.Contains(message, p) {
			t.Errorf("the message lacks %q:\n%s", p, message)
		}
	}
}
