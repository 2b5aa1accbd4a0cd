package idleconn

import (
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"
)

// listen returns the address of a server that says hello and then nothing.
func listen(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { c.Close() })
			if _, err := io.WriteString(c, "hello"); err != nil {
				return
			}
		}
	}()
	return l.Addr().String()
}

func TestSilenceIsAnError(t *testing.T) {
	c, err := Dial(50*time.Millisecond)(t.Context(), "tcp", listen(t))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	hello := make([]byte, 5)
	if _, err := io.ReadFull(c, hello); err != nil || string(hello) != "hello" {
		t.Fatalf("%q, %v", hello, err)
	}
	if _, err := c.Read(hello); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("reading in silence: %v", err)
	}
	if _, err := c.Write(hello); !errors.Is(err, net.ErrClosed) || !strings.Contains(err.Error(), os.ErrDeadlineExceeded.Error()) {
		t.Errorf("writing afterwards: %v", err)
	}
}
