package s3

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/weirstream/weir/internal/jobtest"
	"github.com/weirstream/weir/internal/storage"
	"github.com/weirstream/weir/internal/storage/storagetest"
)

// real is a server that scripts/s3/s3.sh started: WEIR_S3 names its directory.
type real struct{ *storagetest.Server }

func newReal(t *testing.T) *real {
	t.Helper()
	return &real{storagetest.NewServer(t, "s3", "WEIR_S3")}
}

func (r *real) url() string { return "http://" + r.Address }

func (r *real) client() *s3.Client {
	return s3.New(s3.Options{
		Region: "us-east-1", BaseEndpoint: aws.String(r.url()), UsePathStyle: true,
		Credentials: credentials.NewStaticCredentialsProvider("test", "testsecret", ""),
	})
}

// bucket makes a bucket and returns its URL.
func (r *real) bucket(t *testing.T) string {
	t.Helper()
	name := r.Unused()
	if _, err := r.client().CreateBucket(t.Context(), &s3.CreateBucketInput{Bucket: &name}); err != nil {
		t.Fatal(err)
	}
	return "s3://" + name + "?endpoint=" + r.url()
}

// uploads are those in parts that have not ended.
func (r *real) uploads(t *testing.T, where string) int {
	t.Helper()
	u, err := url.Parse(where)
	if err != nil {
		t.Fatal(err)
	}
	out, err := r.client().ListMultipartUploads(context.WithoutCancel(t.Context()), &s3.ListMultipartUploadsInput{Bucket: &u.Host})
	if err != nil {
		t.Fatal(err)
	}
	return len(out.Uploads)
}

func TestRealSuite(t *testing.T) {
	r := newReal(t)
	storagetest.Run(t, func(t *testing.T) storage.Blobs {
		where := below(r.bucket(t), "/weir")
		t.Cleanup(func() {
			if n := r.uploads(t, where); n != 0 {
				t.Errorf("%d uploads have not ended", n)
			}
		})
		return open(t, where)
	})
}

func TestRealJob(t *testing.T) {
	r := newReal(t)
	jobtest.OnStorage(t, jobtest.Place{Scheme: withKey(), Dir: below(r.bucket(t), "/weir"), Other: r.bucket(t)})
}

// The server is stopped while a job takes checkpoints, and started again.
func TestRealOutage(t *testing.T) {
	r := newReal(t)
	away := func() { r.Run(t, "stop") }
	back := func() { r.Run(t, "restart") }
	jobtest.OnFailingStorage(t, jobtest.Place{Scheme: withKey(), Dir: below(r.bucket(t), "/weir"), Large: 24 << 20}, away, back)
}

// The server is stopped when parts of a blob are stored.
func TestRealOutageInMidUpload(t *testing.T) {
	r := newReal(t)
	where := below(r.bucket(t), "/weir")
	b := open(t, where)
	part := make([]byte, 20<<20)
	err := b.Put(t.Context(), "test/chk-1/large", func(w io.Writer) error {
		_, err := w.Write(part)
		if r.uploads(t, where) != 1 {
			t.Error("no upload in parts has begun")
		}
		r.Run(t, "stop")
		_, failed := w.Write(append(part, part...))
		return errors.Join(err, failed)
	})
	if err == nil || errors.Is(err, storage.ErrFatal) {
		t.Errorf("a write in mid-outage: %v", err)
	}
	r.Run(t, "restart")
	if _, err := b.Get(t.Context(), "test/chk-1/large"); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("what was cut off shows: %v", err)
	}
	// What the outage cut off has not ended, and is removed when it is old.
	stale := b.(interface {
		RemoveStale(ctx context.Context, prefix string, before time.Time) (int, error)
	})
	if n, err := stale.RemoveStale(t.Context(), "test", time.Now().Add(-time.Hour)); n != 0 || err != nil {
		t.Errorf("removed %d uploads that are young: %v", n, err)
	}
	if n, err := stale.RemoveStale(t.Context(), "other", time.Now().Add(time.Hour)); n != 0 || err != nil {
		t.Errorf("removed %d uploads of another job: %v", n, err)
	}
	if n, err := stale.RemoveStale(t.Context(), "test", time.Now().Add(time.Hour)); n != 1 || err != nil {
		t.Errorf("removed %d uploads, want 1: %v", n, err)
	}
	if n := r.uploads(t, where); n != 0 {
		t.Errorf("%d uploads are left", n)
	}
}

func TestRealBadUse(t *testing.T) {
	r := newReal(t)
	where := r.bucket(t)
	key := func(id, secret string) storage.Scheme {
		return Storage(func(o *s3.Options) { o.Credentials = credentials.NewStaticCredentialsProvider(id, secret, "") })
	}
	for what, c := range map[string]struct {
		scheme storage.Scheme
		where  string
		want   string
	}{
		"secret": {key("test", "wrong"), where, "AWS_SECRET_ACCESS_KEY"},
		"key":    {key("nobody", "testsecret"), where, "AWS_ACCESS_KEY_ID"},
		"bucket": {key("test", "testsecret"), "s3://no-such-bucket?endpoint=" + r.url(), "make it"},
	} {
		t.Run(what, func(t *testing.T) {
			b := openWith(t, c.scheme, c.where)
			_, get := b.Get(t.Context(), "a")
			for op, err := range map[string]error{
				"probe":         storage.Probe(t.Context(), b, "job"),
				"get":           get,
				"put":           b.Put(t.Context(), "a", func(w io.Writer) error { _, err := io.WriteString(w, "x"); return err }),
				"put if absent": b.PutIfAbsent(t.Context(), "a", nil),
				"list":          b.List(t.Context(), "", func(string, int64) error { return nil }),
			} {
				if !errors.Is(err, storage.ErrFatal) || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "s3://") {
					t.Errorf("%s: %v; want it to tell of %s", op, err, c.want)
				}
				if strings.Contains(fmt.Sprint(err), "testsecret") {
					t.Errorf("%s tells the secret: %v", op, err)
				}
			}
		})
	}
}

func TestVictim(t *testing.T) { jobtest.Victim(t, withKey()) }

func TestRealKilled(t *testing.T) {
	r := newReal(t)
	jobtest.Killed(t, below(r.bucket(t), "/weir"), 8)
}
