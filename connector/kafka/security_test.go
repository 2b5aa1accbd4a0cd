package kafka_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math/big"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/weirstream/weir/checkpoint"
	"github.com/weirstream/weir/codec"
	"github.com/weirstream/weir/connector/kafka"
	"github.com/weirstream/weir/internal/jobtest"
	"github.com/weirstream/weir/runner/embedded"
	"github.com/weirstream/weir/stream"
)

// authority makes certificates for the loopback address.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pool *x509.CertPool
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t, pool: x509.NewCertPool()}
	a.cert, a.key = a.make(&x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign})
	a.pool.AddCert(a.cert)
	return a
}

// make makes a certificate, which signs itself if there is no other yet.
func (a *authority) make(c *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	c.SerialNumber, c.Subject = big.NewInt(time.Now().UnixNano()), pkix.Name{CommonName: "weir test"}
	c.NotBefore, c.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	parent, signer := c, key
	if a.cert != nil {
		parent, signer = a.cert, a.key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, signer)
	if err != nil {
		a.t.Fatal(err)
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	return parsed, key
}

func (a *authority) leaf() tls.Certificate {
	c, key := a.make(&x509.Certificate{
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	})
	return tls.Certificate{Certificate: [][]byte{c.Raw}, PrivateKey: key}
}

func (a *authority) server() *tls.Config {
	return &tls.Config{Certificates: []tls.Certificate{a.leaf()}, MinVersion: tls.VersionTLS12}
}

// mutual is a server that wants a certificate of its clients, too.
func (a *authority) mutual() *tls.Config {
	c := a.server()
	c.ClientAuth, c.ClientCAs = tls.RequireAndVerifyClientCert, a.pool
	return c
}

func (a *authority) client(certs ...tls.Certificate) kgo.Opt {
	return kgo.DialTLSConfig(&tls.Config{RootCAs: a.pool, Certificates: certs, MinVersion: tls.VersionTLS12})
}

func scramOf(user, pass string) scram.Auth { return scram.Auth{User: user, Pass: pass} }

func saslOpt(m sasl.Mechanism) kgo.Opt { return kgo.SASL(m) }

// secured is a cluster with a topic of five records.
func secured(t *testing.T, server []kfake.Opt, client ...kgo.Opt) []string {
	t.Helper()
	fake, err := kfake.NewCluster(append(server, kfake.NumBrokers(1), kfake.SeedTopics(2, "in", "out"))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(fake.Close)
	cl, err := kgo.NewClient(append(client, kgo.SeedBrokers(fake.ListenAddrs()...))...)
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	for i := range 5 {
		if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: "in", Value: fmt.Append(nil, i)}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	return fake.ListenAddrs()
}

// copied runs a job that copies the topic exactly once, and returns what then
// is in the other one.
func copied(t *testing.T, servers []string, patience time.Duration, opts ...kgo.Opt) ([]string, error) {
	t.Helper()
	client, brokers, soon := kafka.Client(opts...), kafka.Brokers(servers...), kafka.StartTimeout(patience)
	o := embedded.Options{Parallelism: 2, Restart: checkpoint.None{}}
	o.Checkpoint = checkpoint.Options{Dir: checkpoint.Memory, Interval: 10 * time.Millisecond}
	job := jobtest.Job(t, o, func(j *stream.Job) {
		in := stream.From(j, "in", kafka.Source("in", codec.String(), kafka.Until(kafka.Latest()), client, brokers, soon))
		stream.To(in, "out", kafka.Sink("out", codec.String(), kafka.ExactlyOnce("weir.secured"), client, brokers, soon))
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := job.Run(ctx); err != nil {
		return nil, err
	}
	cl, err := kgo.NewClient(append(opts, kgo.SeedBrokers(servers...), kgo.ConsumeTopics("out"), kgo.FetchIsolationLevel(kgo.ReadCommitted()))...)
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	var got []string
	for len(got) < 5 && ctx.Err() == nil {
		fetches := cl.PollFetches(ctx)
		fetches.EachRecord(func(r *kgo.Record) { got = append(got, string(r.Value)) })
	}
	slices.Sort(got)
	return got, nil
}

func TestJobOverTLSAndSASL(t *testing.T) {
	ca := newAuthority(t)
	user := func(mechanism string) []kfake.Opt {
		return []kfake.Opt{kfake.EnableSASL(), kfake.Superuser(mechanism, "weir", "secret")}
	}
	auth := scramOf("weir", "secret")
	for name, tc := range map[string]struct {
		server []kfake.Opt
		client []kgo.Opt
	}{
		"TLS":              {[]kfake.Opt{kfake.TLS(ca.server())}, []kgo.Opt{ca.client()}},
		"mutual TLS":       {[]kfake.Opt{kfake.TLS(ca.mutual())}, []kgo.Opt{ca.client(ca.leaf())}},
		"PLAIN":            {user("PLAIN"), []kgo.Opt{saslOpt(plain.Auth{User: "weir", Pass: "secret"}.AsMechanism())}},
		"SCRAM-SHA-256":    {user("SCRAM-SHA-256"), []kgo.Opt{saslOpt(auth.AsSha256Mechanism())}},
		"SCRAM-SHA-512":    {user("SCRAM-SHA-512"), []kgo.Opt{saslOpt(auth.AsSha512Mechanism())}},
		"SCRAM within TLS": {append(user("SCRAM-SHA-512"), kfake.TLS(ca.server())), []kgo.Opt{saslOpt(auth.AsSha512Mechanism()), ca.client()}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := copied(t, secured(t, tc.server, tc.client...), time.Minute, tc.client...)
			if err != nil {
				t.Fatal(err)
			}
			if want := []string{"0", "1", "2", "3", "4"}; !slices.Equal(got, want) {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}

// A connection that does not come about may come about later, so that the job may
// try again; but each try says what is wrong. (A broker that answers that it
// refuses the login is another thing: TestRefusedLoginIsFatal.)
func TestRefusedByTLSAndSASL(t *testing.T) {
	ca, other := newAuthority(t), newAuthority(t)
	user := []kfake.Opt{kfake.EnableSASL(), kfake.Superuser("SCRAM-SHA-512", "weir", "secret")}
	right := saslOpt(scramOf("weir", "secret").AsSha512Mechanism())
	withTLS := func(c *tls.Config) []kfake.Opt { return []kfake.Opt{kfake.TLS(c)} }
	for name, tc := range map[string]struct {
		server []kfake.Opt
		right  []kgo.Opt
		wrong  []kgo.Opt
		want   string
	}{
		"wrong password":           {user, []kgo.Opt{right}, []kgo.Opt{saslOpt(scramOf("weir", "guess").AsSha512Mechanism())}, "during SASL authentication"},
		"another mechanism":        {user, []kgo.Opt{right}, []kgo.Opt{saslOpt(plain.Auth{User: "weir", Pass: "secret"}.AsMechanism())}, "during SASL authentication"},
		"no credentials":           {user, []kgo.Opt{right}, nil, "SASL"},
		"unknown authority":        {withTLS(ca.server()), []kgo.Opt{ca.client()}, []kgo.Opt{other.client()}, "unknown authority"},
		"no TLS":                   {withTLS(ca.server()), []kgo.Opt{ca.client()}, nil, "TLS"},
		"TLS where there is none":  {nil, nil, []kgo.Opt{ca.client()}, "TLS"},
		"no certificate of client": {withTLS(ca.mutual()), []kgo.Opt{ca.client(ca.leaf())}, []kgo.Opt{ca.client()}, "certificate"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := copied(t, secured(t, tc.server, tc.right...), 700*time.Millisecond, tc.wrong...)
			if err == nil {
				t.Fatal("no error")
			}
			if !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), "kafka at 127.0.0.1:") {
				t.Errorf("%v does not say %q, or where", err, tc.want)
			}
		})
	}
}
