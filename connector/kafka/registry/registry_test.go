package registry

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/avro"
	"github.com/twmb/franz-go/pkg/sr"
	"github.com/twmb/franz-go/pkg/sr/srfake"
	"go.uber.org/goleak"

	"github.com/weirstream/weir/codec"
	"github.com/weirstream/weir/connector"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// order is what the tests read and write.
type order struct {
	ID     string `avro:"id"`
	Amount int64  `avro:"amount"`
}

const orderSchema = `{"type":"record","name":"Order","namespace":"com.example","fields":[
	{"name":"id","type":"string"},{"name":"amount","type":"int"}]}`

// server is a registry that counts what it is asked.
type server struct {
	*testing.T
	*srfake.Registry
	mu    sync.Mutex
	asked map[string]int
	down  int // the status it answers everything with, 0 if it works
}

func newServer(t *testing.T, opts ...srfake.Option) *server {
	s := &server{T: t, Registry: srfake.New(opts...), asked: map[string]int{}}
	t.Cleanup(s.Registry.Close)
	s.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.asked[r.Method+" "+r.URL.Path]++
		if s.down != 0 {
			w.WriteHeader(s.down)
		}
		return s.down != 0
	})
	return s
}

func (s *server) answer(status int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = status
}

func (s *server) count(request string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked[request]
}

func (s *server) client(opts ...sr.ClientOpt) *Registry { return client(s.T, s.URL(), opts...) }

func client(t *testing.T, url string, opts ...sr.ClientOpt) *Registry {
	t.Helper()
	r, err := New(append([]sr.ClientOpt{sr.URLs(url)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(http.DefaultTransport.(*http.Transport).CloseIdleConnections)
	return r
}

func newAvro[T any](t testing.TB, r *Registry, opts ...Option) codec.Codec[T] {
	t.Helper()
	c, err := Avro[T](r, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// record is a value in the wire format, written by a schema.
func record(t testing.TB, id byte, schema string, value any) []byte {
	t.Helper()
	b, err := avro.MustParse(schema).AppendEncode([]byte{0, 0, 0, 0, id}, value)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func wantError(t *testing.T, err error, want ...string) {
	t.Helper()
	for _, w := range want {
		if err == nil || !strings.Contains(err.Error(), w) {
			t.Errorf("got %v, want %q in it", err, w)
		}
	}
}

// wantKind checks whom an error is to be blamed on.
func wantKind(t *testing.T, err error, unavailable, fatal bool) {
	t.Helper()
	if errors.Is(err, codec.ErrUnavailable) != unavailable || errors.Is(err, connector.ErrFatal) != fatal {
		t.Errorf("unavailable is %v, want %v; fatal is %v, want %v: %v",
			!unavailable, unavailable, errors.Is(err, connector.ErrFatal), fatal, err)
	}
	if _, bad := errors.AsType[*codec.DecodeError](err); bad == unavailable {
		t.Errorf("the record is to blame: %v, want %v: %v", bad, !unavailable, err)
	}
}

func TestWireFormat(t *testing.T) {
	s := newServer(t)
	s.SeedSchema("orders-value", 1, 0x01020304, sr.Schema{Schema: orderSchema})
	c := newAvro[order](t, s.client())
	got, err := c.Decode([]byte("\x00\x01\x02\x03\x04\x04ab\x0a"))
	if err != nil || got != (order{"ab", 5}) {
		t.Errorf("read %+v, %v", got, err)
	}
	c = newAvro[order](t, s.client(), Subject("orders-value"), Schema(orderSchema))
	b, err := c.Append([]byte("before"), order{"ab", 5})
	if err != nil || string(b) != "before\x00\x01\x02\x03\x04\x04ab\x0a" {
		t.Errorf("wrote %q, %v", b, err)
	}
}

func TestWrongBytes(t *testing.T) {
	s := newServer(t)
	s.SeedSchema("orders-value", 1, 7, sr.Schema{Schema: orderSchema})
	s.SeedSchema("proto-value", 1, 8, sr.Schema{Schema: "message A {}", Type: sr.TypeProtobuf})
	s.SeedSchema("other-value", 1, 9, sr.Schema{Schema: `{"type":"record","name":"O","fields":[{"name":"x","type":"int"}]}`})
	s.SeedSchema("number-value", 1, 10, sr.Schema{Schema: `"long"`})
	s.SeedSchema("wrong-value", 1, 11, sr.Schema{Schema: `{"type":"record","name":"O","fields":[{"name":"amount","type":"string"}]}`})
	c := newAvro[order](t, s.client())
	for name, test := range map[string]struct {
		src  string
		want string
	}{
		"nothing":    {"", "no record of a schema registry"},
		"JSON":       {`{"id":"a"}`, "begins with 7b226964"},
		"no id":      {"\x00\x00\x00\x00", "begins with 00000000, not with 0 and the four bytes"},
		"no body":    {"\x00\x00\x00\x00\x07", "decode avro: at byte 5"},
		"cut":        {"\x00\x00\x00\x00\x07\x04a", "decode avro"},
		"more":       {"\x00\x00\x00\x00\x07\x02a\x02b", "1 bytes too many"},
		"no Avro":    {"\x00\x00\x00\x00\x08a", "schema 8 of the registry: it is of type PROTOBUF, not Avro"},
		"other":      {"\x00\x00\x00\x00\x09\x02", "schema 9 of the registry as registry.order: they have no field in common"},
		"no record":  {"\x00\x00\x00\x00\x0a\x02", "it is of type long, not a record"},
		"other type": {"\x00\x00\x00\x00\x0b\x02a", "amount"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := c.Decode([]byte(test.src))
			wantError(t, err, test.want)
			wantKind(t, err, false, false)
			if got != (order{}) {
				t.Errorf("got %+v with the error", got)
			}
		})
	}
}

func TestUnknownID(t *testing.T) {
	s := newServer(t)
	r := s.client()
	now := time.Unix(0, 0)
	r.now = func() time.Time { return now }
	c := newAvro[order](t, r)
	src := record(t, 7, orderSchema, order{"a", 1})
	for range 3 {
		_, err := c.Decode(src)
		wantError(t, err, "get schema 7", s.URL(), "404", "is this the registry that the record was written with?")
		wantKind(t, err, false, false)
	}
	s.SeedSchema("orders-value", 1, 7, sr.Schema{Schema: orderSchema})
	now = now.Add(unknownFor - 1)
	if _, err := c.Decode(src); err == nil {
		t.Error("it was asked for again too soon")
	}
	if n := s.count("GET /schemas/ids/7"); n != 1 {
		t.Errorf("asked for %d times", n)
	}
	now = now.Add(1)
	if got, err := c.Decode(src); err != nil || got != (order{"a", 1}) {
		t.Errorf("got %+v, %v", got, err)
	}
}

// Ids that nobody knows must not fill the memory.
func TestUnknownIDsAreForgotten(t *testing.T) {
	r := client(t, "http://127.0.0.1:1")
	done := make(chan struct{})
	close(done)
	for id := range uint32(maxUnknown) {
		r.fetches[id] = &fetch{done: done, err: errors.New("unknown")}
	}
	r.fetches[1].err = nil
	if _, err := r.schema(maxUnknown); err == nil {
		t.Error("no error")
	}
	if r.fetches[1] == nil || len(r.fetches) != 2 {
		t.Errorf("%d schemas are kept", len(r.fetches))
	}
}

// answering is a registry without a network.
type answering func(*http.Request) (status int, body string)

func (a answering) RoundTrip(r *http.Request) (*http.Response, error) {
	status, body := a(r)
	return &http.Response{StatusCode: status, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
}

// Who needs a schema while it is fetched waits for it; nobody fetches it again.
func TestEachSchemaIsFetchedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		open := make(chan struct{})
		var asked [3]atomic.Int64
		r, err := New(sr.HTTPClient(&http.Client{Transport: answering(func(r *http.Request) (int, string) {
			asked[r.URL.Path[len(r.URL.Path)-1]-'1'].Add(1)
			<-open
			return 200, fmt.Sprintf(`{"schema":%q}`, strings.ReplaceAll(orderSchema, "\n\t", ""))
		})}))
		if err != nil {
			t.Fatal(err)
		}
		one, two := newAvro[order](t, r), newAvro[*order](t, r)
		read := func(i int64) {
			src := record(t, byte(1+i%3), orderSchema, order{"a", i})
			if got, err := one.Decode(src); err != nil || got != (order{"a", i}) {
				t.Errorf("got %+v, %v", got, err)
			}
			if got, err := two.Decode(src); err != nil || *got != (order{"a", i}) {
				t.Errorf("got %+v, %v", got, err)
			}
		}
		var g sync.WaitGroup
		for i := range 30 {
			g.Go(func() { read(int64(i)) })
		}
		synctest.Wait()
		close(open)
		g.Wait()
		read(30)
		for id := range asked {
			if n := asked[id].Load(); n != 1 {
				t.Errorf("schema %d was fetched %d times", id+1, n)
			}
		}
	})
}

func TestSchemaIsRegisteredOnce(t *testing.T) {
	s := newServer(t)
	c := newAvro[order](t, s.client(), Subject("orders/value"))
	var g sync.WaitGroup
	for i := range 30 {
		g.Go(func() {
			b, err := c.Append(nil, order{"a", int64(i)})
			if err != nil {
				t.Error(err)
				return
			}
			if got, err := c.Decode(b); err != nil || got != (order{"a", int64(i)}) {
				t.Errorf("got %+v, %v", got, err)
			}
		})
	}
	g.Wait()
	if n := s.count("POST /subjects/orders/value/versions"); n != 1 {
		t.Errorf("registered %d times: %v", n, s.asked)
	}
	kept, _ := s.GetSchema("orders/value", 1)
	if want := `"name":"order"`; !strings.Contains(kept.Schema.Schema, want) {
		t.Errorf("registered %s", kept.Schema.Schema)
	}
}

func TestOutage(t *testing.T) {
	for name, status := range map[string]int{"error": 500, "overload": 429, "restart": 503} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t)
			s.SeedSchema("orders-value", 1, 7, sr.Schema{Schema: orderSchema})
			c := newAvro[order](t, s.client(), Subject("orders-value"), Schema(orderSchema))
			src := record(t, 7, orderSchema, order{"a", 1})
			s.answer(status)
			_, err := c.Decode(src)
			wantError(t, err, "get schema 7", s.URL(), fmt.Sprint(status))
			wantKind(t, err, true, false)
			dst, err := c.Append([]byte("x"), order{"a", 1})
			wantError(t, err, "register the schema for subject orders-value", fmt.Sprint(status))
			wantKind(t, err, true, false)
			if string(dst) != "x" {
				t.Errorf("wrote %q with the error", dst)
			}
			s.answer(0)
			if got, err := c.Decode(src); err != nil || got != (order{"a", 1}) {
				t.Errorf("got %+v, %v", got, err)
			}
			if got, err := c.Append(nil, order{"a", 1}); err != nil || string(got) != string(src) {
				t.Errorf("got %x, %v", got, err)
			}
		})
	}
	_, err := newAvro[order](t, client(t, "http://127.0.0.1:1")).Decode(record(t, 7, orderSchema, order{"a", 1}))
	wantError(t, err, "http://127.0.0.1:1", "refused")
	wantKind(t, err, true, false)
}

func TestLogin(t *testing.T) {
	s := newServer(t, srfake.WithAuth("Basic dXNlcjpwYXNz"))
	s.SeedSchema("orders-value", 1, 7, sr.Schema{Schema: orderSchema})
	src := record(t, 7, orderSchema, order{"a", 1})
	if _, err := newAvro[order](t, s.client(sr.BasicAuth("user", "pass"))).Decode(src); err != nil {
		t.Error(err)
	}
	c := newAvro[order](t, s.client(sr.BasicAuth("user", "wrong")), Subject("orders-value"))
	_, err := c.Decode(src)
	wantError(t, err, "403 Forbidden", s.URL(), "check sr.BasicAuth")
	wantKind(t, err, true, true)
	_, err = c.Append(nil, order{})
	wantError(t, err, "403", "check sr.BasicAuth")
	wantKind(t, err, true, true)
}

func TestTLS(t *testing.T) {
	s := newServer(t)
	s.SeedSchema("orders-value", 1, 7, sr.Schema{Schema: orderSchema})
	secret := httptest.NewUnstartedServer(s.Handler())
	secret.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	secret.StartTLS()
	defer secret.Close()
	roots := x509.NewCertPool()
	roots.AddCert(secret.Certificate())
	src := record(t, 7, orderSchema, order{"a", 1})
	one := &http.Transport{DisableKeepAlives: true}
	trusting := client(t, secret.URL, sr.HTTPClient(&http.Client{Transport: one}), sr.DialTLSConfig(&tls.Config{RootCAs: roots}))
	if got, err := newAvro[order](t, trusting).Decode(src); err != nil || got != (order{"a", 1}) {
		t.Errorf("got %+v, %v", got, err)
	}
	_, err := newAvro[order](t, client(t, secret.URL)).Decode(src)
	wantError(t, err, "unknown authority", "sr.DialTLSConfig")
	wantKind(t, err, true, true)
}

func TestNoRegistry(t *testing.T) {
	web := httptest.NewServer(http.NotFoundHandler())
	defer web.Close()
	_, err := newAvro[order](t, client(t, web.URL)).Decode(record(t, 7, orderSchema, order{"a", 1}))
	wantError(t, err, "404", web.URL, "check sr.URLs")
	wantKind(t, err, true, true)
}

func TestRefusedSchema(t *testing.T) {
	s := newServer(t)
	s.answer(http.StatusConflict)
	_, err := newAvro[order](t, s.client(), Subject("orders-value")).Append(nil, order{})
	wantError(t, err, "409", "subject orders-value", "compatible")
	wantKind(t, err, true, true)
}

func TestLookUp(t *testing.T) {
	s := newServer(t)
	c := newAvro[order](t, s.client(), Subject("orders-value"), Schema(orderSchema), LookUp())
	_, err := c.Append(nil, order{"a", 1})
	wantError(t, err, "subject orders-value", "register the schema, or leave out registry.LookUp", "com.example")
	wantKind(t, err, true, true)
	s.SeedSchema("orders-value", 1, 7, sr.Schema{Schema: orderSchema})
	got, err := c.Append(nil, order{"a", 1})
	if want := record(t, 7, orderSchema, order{"a", 1}); err != nil || string(got) != string(want) {
		t.Errorf("got %x, %v, want %x", got, err, want)
	}
	if n := s.count("POST /subjects/orders-value/versions"); n != 0 {
		t.Errorf("registered %d times", n)
	}
}

func TestUnusableTypes(t *testing.T) {
	r := newServer(t).client()
	_, err := Avro[order](nil)
	wantError(t, err, "no registry")
	_, err = Avro[struct{ C chan int }](r)
	wantError(t, err, "no Avro schema for struct")
	_, err = Avro[order](r, Schema("{"))
	wantError(t, err, "schema to write registry.order by")
	_, err = Avro[any](r, Subject("s"))
	wantError(t, err, "give one by registry.Schema")
	_, err = newAvro[order](t, r).Append(nil, order{})
	wantError(t, err, "registry.Subject")
	if !errors.Is(err, connector.ErrFatal) {
		t.Errorf("not fatal: %v", err)
	}
}
