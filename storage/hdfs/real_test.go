package hdfs

import (
	"errors"
	"io"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/colinmarc/hdfs/v2"

	"github.com/weirstream/weir/internal/jobtest"
	"github.com/weirstream/weir/internal/storage"
	"github.com/weirstream/weir/internal/storage/storagetest"
)

// real is a file system that scripts/hdfs/hdfs.sh started: WEIR_HDFS names its
// directory.
type real struct{ *storagetest.Server }

func newReal(t *testing.T) *real {
	t.Helper()
	return &real{storagetest.NewServer(t, "hdfs", "WEIR_HDFS")}
}

// below returns the URL of a new directory.
func (r *real) below() string {
	return "hdfs://" + r.Address + "/" + r.Unused()
}

func open(t *testing.T, where string, options ...func(*hdfs.ClientOptions)) *blobs {
	t.Helper()
	u, err := url.Parse(where)
	if err != nil {
		t.Fatal(err)
	}
	b, err := Storage(options...).Open(t.Context(), u)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.(io.Closer).Close(); err != nil {
			t.Error(err)
		}
	})
	return b.(*blobs)
}

func TestRealSuite(t *testing.T) {
	r := newReal(t)
	storagetest.Run(t, func(t *testing.T) storage.Blobs { return open(t, r.below()) })
}

func TestRealJob(t *testing.T) {
	r := newReal(t)
	jobtest.OnStorage(t, jobtest.Place{Scheme: Storage(), Dir: r.below(), Other: r.below()})
}

// The DataNode, and then the NameNode, is stopped while a checkpoint is
// written, and started again.
func TestRealOutage(t *testing.T) {
	r := newReal(t)
	for _, part := range []string{"datanode", "namenode"} {
		t.Run(part, func(t *testing.T) {
			away := func() { r.Run(t, "stop", part) }
			back := func() { r.Run(t, "restart", part) }
			where := r.below()
			jobtest.OnFailingStorage(t, jobtest.Place{Scheme: Storage(), Dir: where, Large: 8 << 20}, away, back)
			b := open(t, where)
			if _, err := b.RemoveStale(t.Context(), "test", time.Now().Add(time.Hour)); err != nil {
				t.Error(err)
			}
			c, err := b.connect(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			err = walk(t.Context(), c, b.root, func(e entry) {
				if e.temp {
					t.Errorf("%s is left", e.path)
				}
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
}

func TestRealBadUse(t *testing.T) {
	r := newReal(t)
	owner := open(t, r.below())
	put := func(b *blobs, name string) error {
		return b.Put(t.Context(), name, func(w io.Writer) error {
			_, err := io.WriteString(w, "x")
			return err
		})
	}
	if err := put(owner, "a"); err != nil {
		t.Fatal(err)
	}
	stranger := open(t, strings.Replace(owner.name, "hdfs://", "hdfs://stranger@", 1))
	for op, err := range map[string]error{
		"probe": storage.Probe(t.Context(), stranger, "job"), "put": put(stranger, "b"), "delete": stranger.Delete(t.Context(), "a"),
	} {
		if !errors.Is(err, storage.ErrFatal) || !strings.Contains(err.Error(), "user stranger") || !strings.Contains(err.Error(), "hdfs dfs -chown") {
			t.Errorf("%s: %v", op, err)
		}
	}
	// A blob in the place of a directory stays what it is.
	if err := put(owner, "a/b"); err == nil {
		t.Error("a blob was put below another one")
	}
	if err := owner.PutIfAbsent(t.Context(), "a/b", nil); err == nil {
		t.Error("a blob was put below another one")
	}
	if got, err := owner.Get(t.Context(), "a"); string(got) != "x" {
		t.Errorf("the blob is %q, %v", got, err)
	}
}

func TestVictim(t *testing.T) { jobtest.Victim(t, Storage()) }

func TestRealKilled(t *testing.T) {
	r := newReal(t)
	jobtest.Killed(t, r.below(), 8)
}
