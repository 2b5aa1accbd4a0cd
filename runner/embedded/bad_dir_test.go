package embedded

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirstream/weir/checkpoint"
)

func TestBadCheckpointDirScheme(t *testing.T) {
	dir := "s3://bucket/weir"
	if err := settleDir(&dir); err == nil || !strings.Contains(err.Error(), "s3://") {
		t.Errorf("%v; want a refusal of s3://", err)
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
		dir := in
		if err := settleDir(&dir); err != nil || dir != want {
			t.Errorf("%q became %q, %v; want %q", in, dir, err, want)
		}
	}
}
