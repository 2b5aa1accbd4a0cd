package runner

import (
	"io"
	"os"
	"sync"

	"golang.org/x/term"
)

const clearLine = "\r\x1b[K"

// console is a stream of lines that may keep a status line below them.
type console struct {
	w io.Writer
	// width is the width of the terminal; nil for no status line.
	width func() int

	mu     sync.Mutex
	status string
}

// Write writes whole lines above the status line.
func (c *console) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.status == "" {
		return c.w.Write(p)
	}
	if _, err := io.WriteString(c.w, clearLine); err != nil {
		return 0, err
	}
	n, err := c.w.Write(p)
	if err == nil {
		_, err = io.WriteString(c.w, c.status)
	}
	return n, err
}

// setStatus shows s in place of the last status; "" removes it.
func (c *console) setStatus(s string) {
	if c.width == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if r := []rune(s); len(r) >= c.width() {
		s = string(r[:max(0, c.width()-1)])
	}
	if s != "" || c.status != "" {
		// A terminal that is gone is no reason to stop the job.
		_, _ = io.WriteString(c.w, clearLine+s)
	}
	c.status = s
}

// stderrWidth is the width of the terminal that standard error is, or 0.
func stderrWidth() int {
	w, _, err := term.GetSize(int(os.Stderr.Fd()))
	if err != nil {
		return 0
	}
	return w
}
