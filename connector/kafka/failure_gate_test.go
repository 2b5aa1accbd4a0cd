package kafka

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weirstream/weir/internal/storage"
)

// gate stands between a process and the world: its brokers and its storage.
// While it is closed nothing goes out and nothing comes in, as of a process
// that is paused.
type gate struct {
	mu     sync.Mutex
	closed chan struct{} // nil while open
	at     string        // closes before a file of that name is created
	held   bool          // commits are held back
}

func (g *gate) hold() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.held = true
}

func (g *gate) holds() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.held
}

func (g *gate) pauseAt(file string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.at = file
}

// creates is told before a file is created.
func (g *gate) creates(name string) {
	g.mu.Lock()
	at := g.at
	g.mu.Unlock()
	if at != "" && strings.HasSuffix(name, at) {
		g.pauseAt("")
		g.pause()
	}
}

func (g *gate) isClosed() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.closed != nil
}

func (g *gate) pause() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed == nil {
		g.closed = make(chan struct{})
	}
}

func (g *gate) resume() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.held = false
	if g.closed != nil {
		close(g.closed)
		g.closed = nil
	}
}

func (g *gate) wait() {
	g.mu.Lock()
	closed := g.closed
	g.mu.Unlock()
	if closed != nil {
		<-closed
	}
}

func (g *gate) dial(ctx context.Context, network, host string) (net.Conn, error) {
	g.wait()
	conn, err := (&net.Dialer{}).DialContext(ctx, network, host)
	if err != nil {
		return nil, err
	}
	return gatedConn{conn, g}, nil
}

type gatedConn struct {
	net.Conn
	gate *gate
}

// Write loses commits that are held back: the connection breaks before they
// are sent.
func (c gatedConn) Write(b []byte) (int, error) {
	c.gate.wait()
	if len(b) > 6 && b[4] == 0 && b[5] == byte(kmsg.EndTxn) && c.gate.holds() {
		return 0, errors.New("held back")
	}
	return c.Conn.Write(b)
}

func (c gatedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.gate.wait()
	return n, err
}

type gatedBlobs struct {
	storage.Blobs
	gate *gate
}

func (b gatedBlobs) Put(ctx context.Context, name string, write func(io.Writer) error) error {
	b.gate.wait()
	return b.Blobs.Put(ctx, name, write)
}

func (b gatedBlobs) PutIfAbsent(ctx context.Context, name string, data []byte) error {
	b.gate.creates(name)
	b.gate.wait()
	return b.Blobs.PutIfAbsent(ctx, name, data)
}

func (b gatedBlobs) Get(ctx context.Context, name string) ([]byte, error) {
	b.gate.wait()
	return b.Blobs.Get(ctx, name)
}

func (b gatedBlobs) List(ctx context.Context, prefix string, fn func(string, int64) error) error {
	b.gate.wait()
	return b.Blobs.List(ctx, prefix, fn)
}

func (b gatedBlobs) Delete(ctx context.Context, name string) error {
	b.gate.wait()
	return b.Blobs.Delete(ctx, name)
}

// corrupt flips a bit of a file.
func (s *stage) corrupt(path string) {
	s.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		s.Fatal(err)
	}
	data[len(data)/2] ^= 1
	if err := os.WriteFile(path, data, 0o600); err != nil {
		s.Fatal(err)
	}
}
