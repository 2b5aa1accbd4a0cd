package kafka

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// complaint is the logger of a client. It keeps the last thing that went wrong
// with a connection: where the library tries again until its time is up, its
// error tells of the time alone.
type complaint struct {
	mu   sync.Mutex
	text string
	at   time.Time
}

func (*complaint) Level() kgo.LogLevel { return kgo.LogLevelWarn }

// Log implements kgo.Logger.
func (c *complaint) Log(_ kgo.LogLevel, msg string, keyvals ...any) {
	for i := 0; i+1 < len(keyvals); i += 2 {
		if keyvals[i] == "err" && keyvals[i+1] != nil {
			msg = fmt.Sprintf("%s: %v", msg, keyvals[i+1])
		}
	}
	c.note(msg)
}

// OnBrokerRead implements kgo.HookBrokerRead: the logger is not told of a broker
// that hangs up while a client logs in.
func (c *complaint) OnBrokerRead(_ kgo.BrokerMetadata, key int16, _ int, _, _ time.Duration, err error) {
	if err != nil && (kmsg.Key(key) == kmsg.SASLHandshake || kmsg.Key(key) == kmsg.SASLAuthenticate) {
		c.note(fmt.Sprintf("the broker ended the connection during SASL authentication, as one does that does not know the user, the password or the mechanism: %v", err))
	}
}

func (c *complaint) note(text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.text, c.at = text, time.Now()
}

// since returns the last complaint unless it is older than d or err has it.
func (c *complaint) since(d time.Duration, err error) (text string, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.text, c.text != "" && time.Since(c.at) <= d && !strings.Contains(err.Error(), c.text)
}
