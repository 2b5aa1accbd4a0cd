package location

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weirstream/weir/internal/storage"
	"github.com/weirstream/weir/internal/storage/file"
	"github.com/weirstream/weir/internal/storage/storagetest"
)

func TestSettle(t *testing.T) {
	here, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	for in, want := range map[string]string{
		"a":                           filepath.Join(here, "a"),
		"file:///var/weir/":           "/var/weir",
		"/var/a://b":                  "/var/a:/b",
		"s3://bucket":                 "s3://bucket",
		"s3://bucket/":                "s3://bucket",
		"s3://bucket//a/./b/?x=1":     "s3://bucket/a/b?x=1",
		"hdfs://user@host:8020/weir/": "hdfs://user@host:8020/weir",
		"hdfs://":                     "hdfs:///",
		"hdfs:///":                    "hdfs:///",
		"hdfs:///weir/":               "hdfs:///weir",
	} {
		if got, err := Settle(in); err != nil || got != want {
			t.Errorf("%q: %q, %v; want %q", in, got, err, want)
		}
	}
	for _, in := range []string{"s3:///weir", "s3://bucket/a#b", "s3://u:p@bucket", "s3://bucket/%zz"} {
		if got, err := Settle(in); err == nil {
			t.Errorf("%q became %q and no error", in, got)
		}
	}
}

func TestSecretsStayOutOfErrors(t *testing.T) {
	for _, where := range []string{"s3://key:hush@bucket/a", "s3://bucket/%zz?secret=hush", "s3:///x?secret=hush", "nope://bucket/a?secret=hush"} {
		_, err := NewOpener().Check(where)
		if err == nil || strings.Contains(err.Error(), "hush") {
			t.Errorf("%q: %v", where, err)
		}
	}
}

func TestJoinAndSplit(t *testing.T) {
	for _, c := range []struct{ base, name, joined, parent string }{
		{"/var/weir", "chk-1", "/var/weir/chk-1", "/var/weir"},
		{"s3://bucket", "chk-1", "s3://bucket/chk-1", "s3://bucket"},
		{"s3://bucket/a?region=x", "job", "s3://bucket/a/job", "s3://bucket/a"},
		{"hdfs:///a", "b", "hdfs:///a/b", "hdfs:///a"},
		{"hdfs:///", "b", "hdfs:///b", "hdfs:///"},
		{"hdfs://u@host:8020/a", "b", "hdfs://u@host:8020/a/b", "hdfs://u@host:8020/a"},
	} {
		joined := Join(c.base, c.name)
		if joined != c.joined {
			t.Errorf("join %q %q: %q, want %q", c.base, c.name, joined, c.joined)
		}
		if parent, name, err := Split(joined); parent != c.parent || name != c.name || err != nil {
			t.Errorf("split %q: %q %q %v, want %q %q", joined, parent, name, err, c.parent, c.name)
		}
	}
	if parent, name, err := Split("s3://bucket/a/b?region=x"); parent != "s3://bucket/a?region=x" || name != "b" || err != nil {
		t.Errorf("the parameters are lost: %q %q %v", parent, name, err)
	}
	for _, where := range []string{"s3://bucket", "hdfs:///"} {
		if _, _, err := Split(where); err == nil {
			t.Errorf("%s was split", where)
		}
	}
}

func TestOpener(t *testing.T) {
	s := &storagetest.Scheme{}
	o := NewOpener(s)
	if b, err := o.Open(t.Context(), "/var/weir"); err != nil || b.String() != "/var/weir" {
		t.Errorf("a directory: %v, %v", b, err)
	} else if _, ok := b.(*file.Blobs); !ok {
		t.Errorf("a directory is a %T", b)
	}
	a, err := o.Open(t.Context(), "test://bucket/a/?x=1")
	if err != nil || a.String() != "test://bucket/a" {
		t.Fatalf("%v, %v", a, err)
	}
	// Without parameters those of the bucket hold.
	for _, where := range []string{"test://bucket/a", "test://bucket/b", "test://other/b", "test://bucket/a?x=1", "test://bucket/b?x=2"} {
		if _, err := o.Open(t.Context(), where); err != nil {
			t.Fatal(err)
		}
	}
	if n, queries := s.Opened(); n != 4 || !slices.Equal(queries, []string{"x=1", "x=1", "", "x=2"}) {
		t.Errorf("%d are open, with %q", n, queries)
	}
	if err := o.Close(); err != nil {
		t.Fatal(err)
	}
	if n, _ := s.Opened(); n != 0 {
		t.Errorf("%d are open at the end", n)
	}
	if _, err := o.Open(t.Context(), "s3://bucket/a"); err == nil || !strings.Contains(err.Error(), "storage/s3") {
		t.Errorf("%v", err)
	}
	s.Err = errors.New("broken")
	if _, err := o.Open(t.Context(), "test://bucket/z?secret=hush"); !errors.Is(err, s.Err) || strings.Contains(err.Error(), "hush") {
		t.Errorf("%v", err)
	}
}

func TestSuiteBelowAPath(t *testing.T) {
	storagetest.Run(t, func(t *testing.T) storage.Blobs {
		b, err := NewOpener(&storagetest.Scheme{}).Open(t.Context(), "test://bucket/some/path")
		if err != nil {
			t.Fatal(err)
		}
		return b
	})
}

func FuzzSettle(f *testing.F) {
	for _, s := range []string{"a", "s3://b/c?d=e", "file:///x", "hdfs://u@h:1/x", "://", "s3://b/%2e%2e/c"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, where string) {
		settled, err := Settle(where)
		if err != nil {
			return
		}
		if again, err := Settle(settled); err != nil || again != settled {
			t.Errorf("%q became %q and then %q, %v", where, settled, again, err)
		}
	})
}
