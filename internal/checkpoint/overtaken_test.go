package checkpoint

import (
	"context"
	"errors"
	"testing"

	"github.com/weirstream/weir/internal/snapshot"
	"github.com/weirstream/weir/internal/storage"
	"github.com/weirstream/weir/internal/storage/mem"
)

// interrupted calls back before a read of a blob, after letting some pass.
type interrupted struct {
	storage.Blobs
	name   string
	pass   int
	before func()
}

func (b *interrupted) Get(ctx context.Context, name string) ([]byte, error) {
	if before := b.before; name == b.name && before != nil {
		if b.pass--; b.pass < 0 {
			b.before = nil
			before()
		}
	}
	return b.Blobs.Get(ctx, name)
}

// A start that was paused while another one took the job over, and deleted
// what the first was about to load, ends fenced and not with advice.
func TestOvertakenStartEndsFenced(t *testing.T) {
	blobs := mem.New()
	first, err := Start(t.Context(), StartOptions{Job: "job", Blobs: blobs})
	if err != nil {
		t.Fatal(err)
	}
	meta := &snapshot.Metadata{
		FormatVersion: snapshot.Version, Job: "job", Lineage: first.Lineage, Attempt: first.Number, ID: 1,
		Kind: snapshot.Checkpoint, Operators: []snapshot.Operator{}, Files: []snapshot.File{{Name: "data", Size: 3}},
	}
	dir := snapshot.CheckpointDir("job", 1)
	if err := snapshot.Store(t.Context(), blobs, dir, meta); err != nil {
		t.Fatal(err)
	}
	var heir *Attempt
	// The first read is that of the check before the claim.
	paused := &interrupted{Blobs: blobs, pass: 1, name: dir + "/" + snapshot.MetadataName, before: func() {
		if err := deleteDirectory(t.Context(), blobs, dir); err != nil {
			t.Fatal(err)
		}
		if heir, err = Start(t.Context(), StartOptions{Job: "job", Blobs: blobs, Fresh: true}); err != nil {
			t.Fatal(err)
		}
	}}
	_, err = Start(t.Context(), StartOptions{Job: "job", Blobs: paused, ExactlyOnceSinks: true})
	if !errors.Is(err, ErrFenced) {
		t.Errorf("the paused start ended with %v, want %v", err, ErrFenced)
	}
	lost := errors.New("a file is gone")
	if got := first.Overtaken(t.Context(), lost); !errors.Is(got, ErrFenced) || !errors.Is(got, lost) {
		t.Errorf("an error of an overtaken attempt is reported as %v", got)
	}
	if got := heir.Overtaken(t.Context(), lost); got != lost { //nolint:errorlint // as it was
		t.Errorf("an error of the newest attempt is reported as %v", got)
	}
	if got := first.Overtaken(t.Context(), nil); got != nil {
		t.Errorf("no error is reported as %v", got)
	}
}
