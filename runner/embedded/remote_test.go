package embedded_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/weirstream/weir/checkpoint"
	"github.com/weirstream/weir/connector/collect"
	"github.com/weirstream/weir/internal/jobtest"
	"github.com/weirstream/weir/internal/storage"
	"github.com/weirstream/weir/internal/storage/storagetest"
	"github.com/weirstream/weir/runner/embedded"
	"github.com/weirstream/weir/stream"
)

func TestJobOnAURL(t *testing.T) {
	s := &storagetest.Scheme{}
	jobtest.OnStorage(t, jobtest.Place{Scheme: s, Dir: "test://bucket/weir?region=here", Other: "test://other"})
	if n, _ := s.Opened(); n != 0 {
		t.Errorf("%d storages are left open", n)
	}
}

func TestJobOnAURLThatFails(t *testing.T) {
	var faulty *storagetest.Faulty
	s := &storagetest.Scheme{Wrap: func(b storage.Blobs) storage.Blobs {
		faulty = storagetest.NewFaulty(b)
		return faulty
	}}
	s.Bucket("bucket")
	away := func() { faulty.FullAfter(100) }
	back := func() { faulty.FullAfter(-1) }
	jobtest.OnFailingStorage(t, jobtest.Place{Scheme: s, Dir: "test://bucket/weir", Large: 1 << 16}, away, back)
}

// unconditional ignores what PutIfAbsent is asked for.
type unconditional struct{ storage.Blobs }

func (b unconditional) PutIfAbsent(ctx context.Context, name string, data []byte) error {
	return b.Put(ctx, name, func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	})
}

func TestBadURLWithoutAtomicWrites(t *testing.T) {
	s := &storagetest.Scheme{Wrap: func(b storage.Blobs) storage.Blobs { return unconditional{b} }}
	err := failsAtOnce(t, "test://bucket/weir", embedded.Options{Schemes: []storage.Scheme{s}}, countJob(collect.New[string](), records("a")))
	t.Log(err)
	wantError(t, err, "test://bucket/weir", `"test"`, "atomic conditional writes", "exactly-once")
}

// What somebody has to mend ends the job; what may pass is tried again.
func TestBadURLThatIsNotUsable(t *testing.T) {
	for _, c := range []struct {
		err      error
		restarts int
	}{{fmt.Errorf("the bucket does not exist: make it: %w", storage.ErrFatal), 0}, {errors.New("reset by peer"), 1}} {
		s := &storagetest.Scheme{Wrap: func(b storage.Blobs) storage.Blobs {
			f := storagetest.NewFaulty(b)
			f.Script(storagetest.Fault{Op: storagetest.PutIfAbsent, Times: 2, Err: c.err})
			return f
		}}
		r := launch(t, "test://bucket/weir", embedded.Options{Schemes: []storage.Scheme{s}, Restart: thrice}, countJob(collect.New[string](), records("a")))
		err := r.result()
		if c.restarts == 0 {
			wantError(t, err, "make it")
		} else if err != nil {
			t.Error(err)
		}
		if n := r.job.Status().Restarts; n != c.restarts {
			t.Errorf("%v: %d restarts", c.err, n)
		}
	}
}

func TestBadStandbyOnAURL(t *testing.T) {
	s := &storagetest.Scheme{}
	j := stream.NewJob("test")
	countJob(collect.New[string](), records("a"))(j)
	g, err := j.Build()
	if err != nil {
		t.Fatal(err)
	}
	o := embedded.Options{Standby: true, Schemes: []storage.Scheme{s}, Checkpoint: checkpoint.Options{Dir: "test://bucket/weir", Interval: never}}
	_, err = embedded.New(g, o)
	wantError(t, err, "standby", "locks")
}
