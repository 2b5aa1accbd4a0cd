package kafka

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// remedy says what to do about a connection that cannot be made because of how
// the client, or the brokers' listener, is set up for TLS and SASL. It is empty
// for other errors, also for those that only may have that cause: a broker that
// closes a connection without a word may as well be going down.
func remedy(err error) string {
	switch {
	case errors.Is(err, kerr.SaslAuthenticationFailed):
		return "check user, password and mechanism (kgo.SASL in kafka.Client)"
	case errors.Is(err, kerr.UnsupportedSaslMechanism):
		return "give kgo.SASL in kafka.Client a mechanism that the brokers have enabled (sasl.enabled.mechanisms)"
	case errors.Is(err, kerr.IllegalSaslState):
		return "the listener expects no SASL: leave out kgo.SASL, or name the port of a listener with SASL in kafka.Brokers"
	case err != nil && strings.HasSuffix(err.Error(), "user and pass must be non-empty"): // the library has no type for it
		return "set both for kgo.SASL in kafka.Client; is a variable of the environment missing?"
	}
	return remedyTLS(err)
}

func remedyTLS(err error) string {
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return "trust the authority that signed the broker's certificate: add it to RootCAs of the tls.Config (kgo.DialTLSConfig in kafka.Client)"
	}
	if _, ok := errors.AsType[x509.HostnameError](err); ok {
		return "use a name of the certificate in kafka.Brokers and in the brokers' advertised.listeners, or set ServerName of the tls.Config"
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return "renew the broker's certificate, or set the clock right"
	}
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		return "what answers does not speak TLS: name the port of a listener with TLS in kafka.Brokers, or leave out kgo.DialTLSConfig"
	}
	if remote, ok := errors.AsType[*net.OpError](err); ok && remote.Op == "remote error" && isLastingAlert(remote.Err) {
		return "the broker refused the handshake: check Certificates of the tls.Config (kgo.DialTLSConfig in kafka.Client), which it must trust, and the versions of TLS"
	}
	return ""
}

// lastingAlerts are the answers of a peer that does not want the client's
// certificate, or what it speaks (RFC 8446, section 6).
var lastingAlerts = []tls.AlertError{40, 42, 43, 44, 45, 46, 48, 49, 70, 71, 112, 116, 120}

func isLastingAlert(err error) bool {
	for _, a := range lastingAlerts {
		if err.Error() == a.Error() {
			return true
		}
	}
	return false
}

// refusedInARow is how many connections a broker has to refuse, one after
// another, to a client that runs: one may come from a broker that is starting
// and does not know its users yet.
const refusedInARow = 3

// refusals tells of brokers that refuse connections for good. Of what fetches
// and produces, the client library lets nobody know: it tries for ever.
type refusals struct {
	tell func(error) // may be called more than once

	mu     sync.Mutex
	inARow map[string]int
}

// OnBrokerConnect implements kgo.HookBrokerConnect.
func (r *refusals) OnBrokerConnect(broker kgo.BrokerMetadata, _ time.Duration, _ net.Conn, err error) {
	address := fmt.Sprintf("%s:%d", broker.Host, broker.Port)
	r.mu.Lock()
	n := r.inARow[address] + 1
	if remedy(err) == "" {
		n = 0
	}
	if r.inARow == nil {
		r.inARow = map[string]int{}
	}
	r.inARow[address] = n
	r.mu.Unlock()
	if n >= refusedInARow {
		r.tell(fmt.Errorf("kafka broker %s refuses connections: %w", address, final(err)))
	}
}

// until is ctx, but ends with refused, too.
func until(ctx, refused context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(refused, cancel)
	return ctx, func() {
		stop()
		cancel()
	}
}
