package gcs

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	gcloud "cloud.google.com/go/storage"
	"github.com/fsouza/fake-gcs-server/fakestorage"
	"github.com/googleapis/gax-go/v2"

	"github.com/weirstream/weir/internal/jobtest"
	"github.com/weirstream/weir/internal/storage"
	"github.com/weirstream/weir/internal/storage/storagetest"
)

// server is Cloud Storage in this process.
type server struct {
	fake    *fakestorage.Server
	down    atomic.Bool
	buckets atomic.Int32
}

func newServer(t *testing.T) *server {
	t.Helper()
	s := &server{}
	front := httptest.NewUnstartedServer(nil)
	host := front.Listener.Addr().String()
	fake, err := fakestorage.NewServerWithOptions(fakestorage.Options{NoListener: true, Scheme: "http", PublicHost: host, ExternalURL: "http://" + host})
	if err != nil {
		t.Fatal(err)
	}
	s.fake = fake
	front.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.down.Load() {
			panic(http.ErrAbortHandler) // the connection breaks off
		}
		fake.HTTPHandler().ServeHTTP(w, r)
	})
	front.Start()
	t.Cleanup(front.Close)
	t.Setenv("STORAGE_EMULATOR_HOST", host)
	return s
}

// bucket makes a bucket and returns its URL.
func (s *server) bucket() string {
	name := fmt.Sprint("bucket-", s.buckets.Add(1))
	s.fake.CreateBucketWithOpts(fakestorage.CreateBucketOpts{Name: name})
	return "gs://" + name
}

func open(t *testing.T, where string) storage.Blobs {
	t.Helper()
	u, err := url.Parse(where)
	if err != nil {
		t.Fatal(err)
	}
	b, err := Storage().Open(t.Context(), u)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestSuite(t *testing.T) {
	s := newServer(t)
	storagetest.Run(t, func(t *testing.T) storage.Blobs { return open(t, s.bucket()+"/weir") })
}

func TestJob(t *testing.T) {
	s := newServer(t)
	jobtest.OnStorage(t, jobtest.Place{Scheme: Storage(), Dir: s.bucket() + "/weir", Other: s.bucket()})
}

func TestJobWhoseStorageFails(t *testing.T) {
	s := newServer(t)
	away, back := func() { s.down.Store(true) }, func() { s.down.Store(false) }
	jobtest.OnFailingStorage(t, jobtest.Place{Scheme: Storage(), Dir: s.bucket() + "/weir", Large: 1 << 20}, away, back)
}

// Nothing is tried without an end, and nothing given up at the first failure.
func TestAttemptsAreBounded(t *testing.T) {
	for name, fails := range map[string]http.HandlerFunc{
		"unavailable": func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "come again", http.StatusServiceUnavailable)
		},
		"broken off": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
	} {
		t.Run(name, func(t *testing.T) {
			var requests atomic.Int32
			front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				requests.Add(1)
				fails(w, r)
			}))
			defer front.Close()
			t.Setenv("STORAGE_EMULATOR_HOST", strings.TrimPrefix(front.URL, "http://"))
			b, err := scheme{}.open(t.Context(), &url.URL{Scheme: "gs", Host: "bucket"}, gcloud.WithBackoff(gax.Backoff{Initial: 1, Max: 1}))
			if err != nil {
				t.Fatal(err)
			}
			put := func(n int) error {
				return b.Put(t.Context(), "a", func(w io.Writer) error {
					_, err := w.Write(make([]byte, n))
					return err
				})
			}
			for op, do := range map[string]func() error{
				"put if absent": func() error { return b.PutIfAbsent(t.Context(), "a", nil) },
				"put":           func() error { return put(1) },
				"put in parts":  func() error { return put(20 << 20) },
				"delete":        func() error { return b.Delete(t.Context(), "a") },
				"list":          func() error { return b.List(t.Context(), "", func(string, int64) error { return nil }) },
			} {
				requests.Store(0)
				if err := do(); err == nil || requests.Load() != attempts {
					t.Errorf("%s: %d requests, want %d: %v", op, requests.Load(), attempts, err)
				}
			}
		})
	}
}

// What the server answers to those who may not, or ask for what is not there.
func TestBadUse(t *testing.T) {
	for _, c := range []struct {
		status     int
		text, want string
		fatal      bool
	}{
		{403, "does not have storage.objects.create access", "storage.objects.create", true},
		{401, "Invalid Credentials", "GOOGLE_APPLICATION_CREDENTIALS", true},
		{404, "The specified bucket does not exist.", "make it", true},
		{400, "bad request", "gs://bucket/weir", false},
	} {
		front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(c.status)
			fmt.Fprintf(w, `{"error":{"code":%d,"message":%q}}`, c.status, c.text)
		}))
		defer front.Close()
		t.Setenv("STORAGE_EMULATOR_HOST", strings.TrimPrefix(front.URL, "http://"))
		b := open(t, "gs://bucket/weir")
		if _, err := b.Get(t.Context(), "a"); c.status != 404 && (err == nil || errors.Is(err, storage.ErrNotFound)) {
			t.Errorf("%d: reading gives %v", c.status, err) // a missing bucket looks like a missing blob
		}
		for op, err := range map[string]error{
			"probe": storage.Probe(t.Context(), b, "job"), "delete": b.Delete(t.Context(), "a"),
			"list": b.List(t.Context(), "", func(string, int64) error { return nil }),
		} {
			if err == nil || errors.Is(err, storage.ErrFatal) != c.fatal || errors.Is(err, storage.ErrNotFound) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%d, %s: %v; want it to tell of %s", c.status, op, err, c.want)
			}
		}
	}
	if _, err := Storage().Open(t.Context(), &url.URL{Scheme: "gs", Host: "bucket", RawQuery: "project=x"}); err == nil || !strings.Contains(err.Error(), "project") {
		t.Errorf("an unknown parameter: %v", err)
	}
}
