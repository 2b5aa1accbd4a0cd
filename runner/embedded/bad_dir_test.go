package embedded

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirstream/weir/checkpoint"
)

func TestBadCheckpointDirScheme(t *testing.T) {
	for dir, want := range map[string]string{
		"s3://bucket/weir":         "runner.WithStorage(s3.Storage())",
		"gs://bucket/weir":         "github.com/weirstream/weir/storage/gcs",
		"ftp://host/weir":          "no storage for ftp://",
		"s3:///weir":               "s3://bucket/weir",
		"s3://key:secret@bucket/x": "password",
	} {
		_, err := settlePlaces(&Options{Checkpoint: checkpoint.Options{Dir: dir}})
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(strings.ReplaceAll(err.Error(), dir, ""), "secret") {
			t.Errorf("%s: %v; want a refusal that tells of %s", dir, err, want)
		}
	}
}

func TestCheckpointDirIsMadeAbsolute(t *testing.T) {
	abs, err := filepath.Abs("a/b")
	if err != nil {
		t.Fatal(err)
	}
	for in, want := range map[string]string{
		"a/b": abs, "file://" + abs: abs, "": "", checkpoint.Memory: checkpoint.Memory,
	} {
		o := Options{Checkpoint: checkpoint.Options{Dir: in}}
		if _, err := settlePlaces(&o); err != nil || o.Checkpoint.Dir != want {
			t.Errorf("%q became %q, %v; want %q", in, o.Checkpoint.Dir, err, want)
		}
	}
}
