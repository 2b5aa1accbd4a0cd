package kafka

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/weirstream/weir/connector/connectortest"
)

// wantRefused starts sources and sinks of each kind, and operators' tools: each
// has to end at once, for good, with an error that has all of want.
func wantRefused(t *testing.T, with []ClientOption, want ...string) {
	t.Helper()
	for name, err := range tried(t, with...) {
		for _, w := range want {
			if err == nil || !strings.Contains(err.Error(), w) {
				t.Errorf("%s: got %v, want %q in it", name, err, w)
			}
		}
		wantFatal(t, err, true)
	}
}

// tried returns with what sources, sinks and tools end.
func tried(t *testing.T, with ...ClientOption) map[string]error {
	t.Helper()
	source, sink := make([]SourceOption, len(with)), make([]SinkOption, len(with))
	for i, o := range with {
		source[i], sink[i] = o, o
	}
	ctx := &connectortest.Context{Ctx: deadline(t), LineageID: "lineage", Interval: time.Second, Timeout: time.Second}
	errs := map[string]error{}
	errs["source"] = (&cluster{T: t}).failed(Source("t", text{}, source...), nil)
	_, errs["sink"] = Sink("t", text{}, sink...).NewWriter(ctx)
	exactly := Sink("t", text{}, append(sink, ExactlyOnce("p"))...)
	_, errs["exactly-once sink"] = exactly.NewWriter(ctx)
	committer, err := exactly.NewCommitter(ctx)
	if err != nil {
		t.Fatal(err)
	}
	errs["committer"] = committer.Sweep(ctx.Ctx, func() error { return nil })
	if err := committer.Close(); err != nil {
		t.Error(err)
	}
	tool := NewTransactions(with...)
	defer tool.Close()
	errs["commit"] = tool.Commit(ctx.Ctx, Transaction{ID: "p-1", ProducerID: 1, EndTxn: endTxnV2})
	errs["abort"] = tool.Abort(ctx.Ctx, Transaction{ID: "p-1", ProducerID: 1, EndTxn: endTxnV1})
	return errs
}

func secured(servers []string, opts ...kgo.Opt) []ClientOption {
	return []ClientOption{Brokers(servers...), Client(opts...)}
}

// refuseLogins answers as brokers do, for kfake only closes the connection: at
// the proof of SCRAM, at once otherwise.
func refuseLogins(c *kfake.Cluster) {
	c.ControlKey(int16(kmsg.SASLAuthenticate), func(req kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		if bytes.HasPrefix(req.(*kmsg.SASLAuthenticateRequest).SASLAuthBytes, []byte("n,")) {
			return nil, nil, false
		}
		resp := req.ResponseKind().(*kmsg.SASLAuthenticateResponse)
		resp.ErrorCode = kerr.SaslAuthenticationFailed.Code
		resp.ErrorMessage = kmsg.StringPtr("Authentication failed: invalid credentials")
		return resp, nil, true
	})
}

func TestWrongPassword(t *testing.T) {
	for name, wrong := range map[string]sasl.Mechanism{
		"PLAIN":         plain.Auth{User: "weir", Pass: "wrong"}.AsMechanism(),
		"SCRAM-SHA-256": scram.Auth{User: "weir", Pass: "wrong"}.AsSha256Mechanism(),
		"SCRAM-SHA-512": scram.Auth{User: "weir", Pass: "wrong"}.AsSha512Mechanism(),
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, kfake.EnableSASL(), kfake.Superuser(name, "weir", "right"))
			refuseLogins(c.fake)
			wantRefused(t, secured(c.servers, kgo.SASL(wrong)), "invalid credentials", "check user, password and mechanism", c.servers[0])
		})
	}
}

func TestUnusableLogin(t *testing.T) {
	c := newCluster(t, kfake.EnableSASL(), kfake.Superuser("PLAIN", "weir", "right"))
	t.Run("mechanism", func(t *testing.T) {
		token := oauth.Auth{Token: "token"}.AsMechanism()
		wantRefused(t, secured(c.servers, kgo.SASL(token)), "UNSUPPORTED_SASL_MECHANISM", "sasl.enabled.mechanisms")
	})
	t.Run("no password", func(t *testing.T) {
		wantRefused(t, secured(c.servers, kgo.SASL(plain.Auth{User: "weir"}.AsMechanism())), "must be non-empty", "kgo.SASL")
	})
	t.Run("no SCRAM password", func(t *testing.T) {
		wantRefused(t, secured(c.servers, kgo.SASL(scram.Auth{Pass: "right"}.AsSha256Mechanism())), "must be non-empty", "kgo.SASL")
	})
	t.Run("listener without SASL", func(t *testing.T) {
		c := newCluster(t)
		fault(c.fake, kmsg.SASLHandshake, -1, func(req kmsg.Request) kmsg.Response {
			resp := req.ResponseKind().(*kmsg.SASLHandshakeResponse)
			resp.ErrorCode = kerr.IllegalSaslState.Code
			return resp
		})
		wantRefused(t, secured(c.servers, kgo.SASL(plain.Auth{User: "weir", Pass: "right"}.AsMechanism())), "ILLEGAL_SASL_STATE", "expects no SASL")
	})
}

func TestUntrustedCertificates(t *testing.T) {
	ca := newAuthority(t)
	serving := func(change func(*x509.Certificate)) *tls.Config {
		return &tls.Config{Certificates: []tls.Certificate{ca.certificate(change)}}
	}
	asking := ca.broker()
	asking.ClientAuth, asking.ClientCAs = tls.RequireAndVerifyClientCert, ca.pool()
	modern := ca.broker()
	modern.MinVersion = tls.VersionTLS13
	for name, test := range map[string]struct {
		broker, client *tls.Config
		want           []string
	}{
		"authority": {ca.broker(), &tls.Config{RootCAs: newAuthority(t).pool()}, []string{"signed by unknown authority", "RootCAs"}},
		"name": {serving(func(c *x509.Certificate) { c.IPAddresses, c.DNSNames = nil, []string{"broker.example"} }), ca.client(),
			[]string{"127.0.0.1", "advertised.listeners", "ServerName"}},
		"expired": {serving(func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Hour) }), ca.client(),
			[]string{"expired", "renew the broker's certificate"}},
		"no client certificate": {asking, ca.client(), []string{"certificate required", "Certificates of the tls.Config"}},
		"untrusted client certificate": {asking, &tls.Config{RootCAs: ca.pool(), Certificates: []tls.Certificate{newAuthority(t).certificate(nil)}},
			[]string{"Certificates of the tls.Config"}},
		"version": {modern, &tls.Config{RootCAs: ca.pool(), MaxVersion: tls.VersionTLS12}, []string{"protocol version not supported", "versions of TLS"}},
	} {
		t.Run(name, func(t *testing.T) {
			fake, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.TLS(test.broker))
			if err != nil {
				t.Fatal(err)
			}
			defer fake.Close()
			wantRefused(t, secured(fake.ListenAddrs(), kgo.DialTLSConfig(test.client)), append(test.want, fake.ListenAddrs()[0])...)
		})
	}
	t.Run("not TLS", func(t *testing.T) {
		server := httptest.NewServer(http.NotFoundHandler())
		defer server.Close()
		wantRefused(t, secured([]string{server.Listener.Addr().String()}, kgo.DialTLSConfig(ca.client())), "does not speak TLS")
	})
}

// A listener that closes the connection may be one that is going down: that is
// not the end, but the error says what else it may be.
func TestWrongListener(t *testing.T) {
	ca := newAuthority(t)
	secret, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.TLS(ca.broker()))
	if err != nil {
		t.Fatal(err)
	}
	defer secret.Close()
	login := newCluster(t, kfake.EnableSASL(), kfake.Superuser("PLAIN", "weir", "right"))
	deaf, err := net.Listen("tcp", "127.0.0.1:0") // as brokers to what is no request
	if err != nil {
		t.Fatal(err)
	}
	defer deaf.Close()
	go func() {
		for {
			conn, err := deaf.Accept()
			if err != nil {
				return
			}
			conn.Read(make([]byte, 1024))
			conn.(*net.TCPConn).CloseWrite()
			defer conn.Close()
		}
	}()
	for _, test := range []struct {
		servers []string
		opts    []kgo.Opt
		want    string
	}{
		{secret.ListenAddrs(), nil, "is TLS missing?"},
		{[]string{deaf.Addr().String()}, []kgo.Opt{kgo.DialTLSConfig(ca.client())}, "is TLS misconfigured"},
		{login.servers, nil, "is SASL missing?"},
	} {
		with := append(secured(test.servers, test.opts...), StartTimeout(500*time.Millisecond))
		err := (&cluster{T: t}).failed(Source("t", text{}, with[0], with[1], with[2]), nil)
		wantError(t, err, test.want)
		wantFatal(t, err, false)
		_, err = Sink("t", text{}, with[0], with[1], with[2]).NewWriter(&connectortest.Context{Ctx: t.Context()})
		wantError(t, err, test.want)
		wantFatal(t, err, false)
	}
}

// Whom the brokers refuse while it runs must not wait for ever: the client
// library tries again without a word.
func TestRefusedWhileRunning(t *testing.T) {
	start := func(t *testing.T) (*cluster, *line) {
		ca := newAuthority(t)
		fake, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.TLS(ca.broker()), kfake.SeedTopics(1, "t"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(fake.Close)
		return &cluster{T: t, fake: fake, servers: fake.ListenAddrs()}, &line{trust: ca.pool()}
	}
	want := func(t *testing.T, c *cluster, err error) {
		t.Helper()
		wantError(t, err, "unknown authority")
		wantError(t, err, "RootCAs")
		wantError(t, err, c.servers[0])
		wantFatal(t, err, true)
	}
	t.Run("source", func(t *testing.T) {
		c, l := start(t)
		r, err := c.tryStart(Source("t", text{}, c.brokers(), l.dialer()), 1, nil)
		if err != nil {
			t.Fatal(err)
		}
		seen := fault(c.fake, kmsg.Fetch, -1, func(req kmsg.Request) kmsg.Response {
			l.distrust()
			return nil
		})
		want(t, c, r.Run(c.deadline()))
		if seen.Load() == 0 {
			t.Error("nothing was fetched before")
		}
	})
	for name, opts := range map[string][]SinkOption{"sink": nil, "exactly-once sink": {ExactlyOnce("p")}} {
		for _, acked := range []bool{true, false} {
			t.Run(fmt.Sprint(name, ", acknowledged ", acked), func(t *testing.T) {
				c, l := start(t)
				ctx := &connectortest.Context{Ctx: t.Context(), LineageID: "lineage", Interval: time.Second, Timeout: time.Second}
				w, err := Sink("t", text{}, append(opts, c.brokers(), l.dialer())...).NewWriter(ctx)
				if err != nil {
					t.Fatal(err)
				}
				defer w.Close()
				write := func() error {
					if err := w.Write([]string{"a"}, []int64{1}); err != nil {
						return err
					}
					return w.Flush(c.deadline())
				}
				if acked {
					if err := write(); err != nil {
						t.Fatal(err)
					}
					l.distrust()
				} else {
					fault(c.fake, kmsg.Produce, -1, func(kmsg.Request) kmsg.Response {
						l.distrust()
						return nil
					})
				}
				want(t, c, write())
			})
		}
	}
	t.Run("commit", func(t *testing.T) {
		c, l := start(t)
		tool := NewTransactions(c.brokers(), l.dialer())
		defer tool.Close()
		fault(c.fake, kmsg.EndTxn, -1, func(kmsg.Request) kmsg.Response {
			l.distrust()
			return nil
		})
		want(t, c, tool.Commit(c.deadline(), Transaction{ID: "p-1", ProducerID: 1, EndTxn: endTxnV2}))
	})
}

// One refusal may come from a broker that is starting.
func TestOneRefusalIsNotTheEnd(t *testing.T) {
	refuse := kerr.SaslAuthenticationFailed
	var told []error
	r := &refusals{tell: func(err error) { told = append(told, err) }}
	one, two := kgo.BrokerMetadata{Host: "one", Port: 9092}, kgo.BrokerMetadata{Host: "two", Port: 9092}
	for _, c := range []struct {
		broker kgo.BrokerMetadata
		err    error
	}{{one, refuse}, {one, refuse}, {two, refuse}, {one, nil}, {one, refuse}, {one, refuse}, {two, io.EOF}, {two, refuse}} {
		r.OnBrokerConnect(c.broker, 0, nil, c.err)
	}
	if len(told) > 0 {
		t.Errorf("told of %v", told)
	}
	r.OnBrokerConnect(one, 0, nil, refuse)
	if len(told) != 1 {
		t.Fatalf("told of %v", told)
	}
	wantError(t, told[0], "kafka broker one:9092 refuses connections")
	wantFatal(t, told[0], true)
}
