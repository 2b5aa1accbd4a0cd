// Package idleconn makes network connections that fail when the other side
// stays silent, instead of waiting for ever.
package idleconn

import (
	"context"
	"fmt"
	"net"
	"sync/atomic"
	"time"
)

// Timeout is how long a storage may stay silent.
const Timeout = time.Minute

// Dial returns a dial function for connections of which each read and write
// takes timeout at most.
func Dial(timeout time.Duration) func(ctx context.Context, network, addr string) (net.Conn, error) {
	dialer := &net.Dialer{Timeout: min(timeout, 30*time.Second), KeepAlive: 30 * time.Second}
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := dialer.DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return &conn{Conn: c, timeout: timeout}, nil
	}
}

type conn struct {
	net.Conn
	timeout time.Duration
	// failure is the first error.
	failure atomic.Pointer[error]
}

func (c *conn) Read(p []byte) (int, error) {
	if err := c.SetReadDeadline(time.Now().Add(c.timeout)); err != nil {
		return 0, c.failed(err)
	}
	n, err := c.Conn.Read(p)
	return n, c.failed(err)
}

func (c *conn) Write(p []byte) (int, error) {
	if err := c.SetWriteDeadline(time.Now().Add(c.timeout)); err != nil {
		return 0, c.failed(err)
	}
	n, err := c.Conn.Write(p)
	return n, c.failed(err)
}

// failed closes a connection that has failed once: what comes over it later
// may be the answer to something else.
func (c *conn) failed(err error) error {
	if err == nil || c.failure.CompareAndSwap(nil, &err) {
		if err != nil {
			_ = c.Close() // the error is told already
		}
		return err
	}
	return fmt.Errorf("%w (before that: %w)", err, *c.failure.Load())
}
