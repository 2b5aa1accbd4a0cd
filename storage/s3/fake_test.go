package s3

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"github.com/weirstream/weir/internal/jobtest"
	"github.com/weirstream/weir/internal/storage"
	"github.com/weirstream/weir/internal/storage/storagetest"
)

// server is an S3 server in this process.
type server struct {
	*httptest.Server
	down    atomic.Bool
	buckets atomic.Int32
	backend *s3mem.Backend
}

func newServer(t *testing.T) *server {
	s := &server{backend: s3mem.New()}
	fake := gofakes3.New(s.backend).Server()
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.down.Load() {
			panic(http.ErrAbortHandler) // the connection breaks off
		}
		fake.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

// bucket makes a bucket and returns its URL.
func (s *server) bucket(t *testing.T) string {
	name := fmt.Sprint("bucket-", s.buckets.Add(1))
	if err := s.backend.CreateBucket(name); err != nil {
		t.Fatal(err)
	}
	return "s3://" + name + "?endpoint=" + s.URL
}

// withKey has the credentials of scripts/s3/s3.sh.
func withKey() storage.Scheme {
	return Storage(func(o *s3.Options) {
		o.Credentials = credentials.NewStaticCredentialsProvider("test", "testsecret", "")
	})
}

// once is withKey that sends no request again.
func once() storage.Scheme {
	return Storage(func(o *s3.Options) {
		o.Credentials, o.Retryer = credentials.NewStaticCredentialsProvider("test", "testsecret", ""), aws.NopRetryer{}
	})
}

func open(t *testing.T, where string) storage.Blobs {
	t.Helper()
	return openWith(t, withKey(), where)
}

func openWith(t *testing.T, s storage.Scheme, where string) storage.Blobs {
	t.Helper()
	u, err := url.Parse(where)
	if err != nil {
		t.Fatal(err)
	}
	b, err := s.Open(t.Context(), u)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// below adds a path to a URL.
func below(where, path string) string { return strings.Replace(where, "?", path+"?", 1) }

func TestSuite(t *testing.T) {
	s := newServer(t)
	storagetest.Run(t, func(t *testing.T) storage.Blobs { return open(t, s.bucket(t)) })
}

func TestSuiteBelowAPath(t *testing.T) {
	s := newServer(t)
	storagetest.Run(t, func(t *testing.T) storage.Blobs {
		b := s.bucket(t)
		other := open(t, below(b, "/weirdo"))
		if err := other.PutIfAbsent(t.Context(), "a", []byte("not to be seen")); err != nil {
			t.Fatal(err)
		}
		return open(t, below(b, "/weir/.hidden"))
	})
}

func TestJob(t *testing.T) {
	s := newServer(t)
	jobtest.OnStorage(t, jobtest.Place{Scheme: withKey(), Dir: below(s.bucket(t), "/weir"), Other: s.bucket(t)})
}

func TestJobWhoseStorageFails(t *testing.T) {
	s := newServer(t)
	away, back := func() { s.down.Store(true) }, func() { s.down.Store(false) }
	jobtest.OnFailingStorage(t, jobtest.Place{Scheme: withKey(), Dir: below(s.bucket(t), "/weir"), Large: 1 << 20}, away, back)
}

// A connection that breaks off is a failure that may pass: not an empty listing,
// and not a blob that is cut off.
func TestConnectionsThatBreakOff(t *testing.T) {
	s := newServer(t)
	b := openWith(t, once(), s.bucket(t))
	if err := b.PutIfAbsent(t.Context(), "a", []byte("content")); err != nil {
		t.Fatal(err)
	}
	front := s.Config.Handler
	for name, handler := range map[string]http.HandlerFunc{
		"at once": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"in the answer": func(w http.ResponseWriter, r *http.Request) {
			answer := httptest.NewRecorder()
			front.ServeHTTP(answer, r)
			maps.Copy(w.Header(), answer.Header())
			w.Header().Set("Content-Length", strconv.Itoa(answer.Body.Len()))
			w.WriteHeader(answer.Code)
			_, _ = w.Write(answer.Body.Bytes()[:answer.Body.Len()/2])
			panic(http.ErrAbortHandler)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s.Config.Handler = handler
			defer func() { s.Config.Handler = front }()
			_, get := b.Get(t.Context(), "a")
			_, part := b.GetRange(t.Context(), "a", 1, 5)
			for op, err := range map[string]error{
				"get": get, "get range": part, "list": b.List(t.Context(), "", func(string, int64) error { return nil }),
			} {
				if err == nil || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, storage.ErrFatal) {
					t.Errorf("%s: %v", op, err)
				}
			}
		})
	}
}

// An address that leads nowhere is told, with what to correct.
func TestNoServer(t *testing.T) {
	s, other := newServer(t), httptest.NewServer(http.NotFoundHandler())
	defer other.Close()
	for where, want := range map[string]string{
		"s3://bucket?endpoint=http://127.0.0.1:1":                              "AWS_ENDPOINT_URL",
		"s3://bucket?endpoint=" + strings.Replace(s.URL, "http:", "https:", 1): "AWS_ENDPOINT_URL",
		"s3://bucket?endpoint=" + other.URL:                                    "there is no such place",
	} {
		err := openWith(t, once(), where).PutIfAbsent(t.Context(), "a", nil)
		if err == nil || errors.Is(err, storage.ErrFatal) || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "endpoint") {
			t.Errorf("%s: %v; want it to tell of %s", where, err, want)
		}
	}
}

func TestParameters(t *testing.T) {
	t.Setenv("AWS_REGION", "")
	t.Setenv("AWS_CONFIG_FILE", "/dev/null")
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", "/dev/null")
	for query, want := range map[string]string{
		"endpoint=ftp://x":                      "https://minio.example:9000",
		"endpoint=https://key:secret@x":         "https://minio.example:9000",
		"endpoint=http://x&use_path_style=maye": "true or false",
		"regoin=eu-west-1":                      "regoin",
		"":                                      "AWS_REGION",
	} {
		_, err := withKey().Open(t.Context(), &url.URL{Scheme: "s3", Host: "bucket", RawQuery: query})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want an error that tells of %s", query, err, want)
		}
	}
	for query, want := range map[string]string{
		"region=eu-west-1":                                     "eu-west-1 false ",
		"endpoint=http://127.0.0.1:9000":                       "us-east-1 true 127.0.0.1:9000",
		"endpoint=http://h:1&use_path_style=false&region=eu-1": "eu-1 false h:1",
		"region=eu-west-1&use_path_style=true&anonymous=true":  "eu-west-1 true ",
	} {
		params, err := url.ParseQuery(query)
		if err != nil {
			t.Fatal(err)
		}
		c, err := scheme{}.client(t.Context(), params)
		if err != nil {
			t.Fatal(err)
		}
		o := c.Options()
		if got := fmt.Sprint(o.Region, " ", o.UsePathStyle, " ", place(o.BaseEndpoint)); got != want {
			t.Errorf("%q: %q, want %q", query, got, want)
		}
	}
	t.Setenv("AWS_ENDPOINT_URL", "http://env:9000")
	c, err := scheme{}.client(t.Context(), url.Values{})
	if err != nil {
		t.Fatal(err)
	}
	if o := c.Options(); !o.UsePathStyle || place(o.BaseEndpoint) != "env:9000" {
		t.Errorf("the endpoint of the environment is not used: %v, path style %t", o.BaseEndpoint, o.UsePathStyle)
	}
}
