package kafka

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// authority is a CA of a test's own.
type authority struct {
	*testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	a := &authority{T: t, key: newKey(t)}
	a.cert = &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	a.cert = a.sign(a.cert, a.key)
	return a
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func (a *authority) sign(cert *x509.Certificate, key *ecdsa.PrivateKey) *x509.Certificate {
	a.Helper()
	der, err := x509.CreateCertificate(rand.Reader, cert, a.cert, &key.PublicKey, a.key)
	if err != nil {
		a.Fatal(err)
	}
	signed, err := x509.ParseCertificate(der)
	if err != nil {
		a.Fatal(err)
	}
	return signed
}

// certificate is one for brokers at 127.0.0.1 and for clients; change makes it
// another one.
func (a *authority) certificate(change func(*x509.Certificate)) tls.Certificate {
	a.Helper()
	key := newKey(a.T)
	cert := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "broker"},
		NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	if change != nil {
		change(cert)
	}
	return tls.Certificate{Certificate: [][]byte{a.sign(cert, key).Raw}, PrivateKey: key}
}

func (a *authority) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return pool
}

func (a *authority) broker() *tls.Config {
	return &tls.Config{Certificates: []tls.Certificate{a.certificate(nil)}}
}

func (a *authority) client() *tls.Config { return &tls.Config{RootCAs: a.pool()} }

// line is how clients reach the brokers; it can be cut, and what they trust be
// changed.
type line struct {
	mu    sync.Mutex
	trust *x509.CertPool
	conns []net.Conn
}

func (l *line) dialer() ClientOption {
	return Client(kgo.Dialer(func(ctx context.Context, network, host string) (net.Conn, error) {
		l.mu.Lock()
		defer l.mu.Unlock()
		dialer := tls.Dialer{Config: &tls.Config{RootCAs: l.trust}}
		conn, err := dialer.DialContext(ctx, network, host)
		if err == nil {
			l.conns = append(l.conns, conn)
		}
		return conn, err
	}))
}

// distrust breaks all connections, and lets nobody trust the brokers any more.
func (l *line) distrust() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.trust = x509.NewCertPool()
	for _, c := range l.conns {
		c.Close()
	}
}
