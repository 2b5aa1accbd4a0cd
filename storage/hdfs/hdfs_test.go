package hdfs

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"errors"
	"github.com/weirstream/weir/internal/storage"
)

func TestWhereAURLLeads(t *testing.T) {
	t.Setenv("HADOOP_USER_NAME", "")
	t.Setenv("HADOOP_HOME", "")
	conf := t.TempDir()
	site := "<configuration>" +
		"<property><name>fs.defaultFS</name><value>hdfs://cluster</value></property>" +
		"<property><name>dfs.ha.namenodes.cluster</name><value>nn1,nn2</value></property>" +
		"<property><name>dfs.namenode.rpc-address.cluster.nn1</name><value>one:8020</value></property>" +
		"<property><name>dfs.namenode.rpc-address.cluster.nn2</name><value>two:8020</value></property>" +
		"</configuration>"
	if err := os.WriteFile(filepath.Join(conf, "hdfs-site.xml"), []byte(site), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ conf, where, want string }{
		{"", "hdfs://host/weir", "[host:8020]"},
		{"", "hdfs://host:9000/weir", "[host:9000]"},
		{conf, "hdfs:///weir", "[one:8020 two:8020]"},
		{conf, "hdfs://cluster/weir", "[one:8020 two:8020]"},
		{conf, "hdfs://other:9000/weir", "[other:9000]"},
	} {
		t.Setenv("HADOOP_CONF_DIR", c.conf)
		b := open(t, c.where)
		if got := fmt.Sprint(b.options.Addresses); got != c.want || b.String() != c.where || b.root != "/weir" {
			t.Errorf("%s: %s below %s, named %s; want %s", c.where, got, b.root, b, c.want)
		}
	}
}

func TestWhoActs(t *testing.T) {
	t.Setenv("HADOOP_CONF_DIR", "")
	t.Setenv("HADOOP_HOME", "")
	t.Setenv("HADOOP_USER_NAME", "weir")
	for where, want := range map[string]string{"hdfs://host/weir": "weir", "hdfs://jane@host/weir": "jane"} {
		if b := open(t, where); b.options.User != want {
			t.Errorf("%s acts as %s, want %s", where, b.options.User, want)
		}
	}
}

func TestBadURL(t *testing.T) {
	t.Setenv("HADOOP_CONF_DIR", "")
	t.Setenv("HADOOP_HOME", "")
	for where, want := range map[string]string{
		"hdfs:///weir":             "HADOOP_CONF_DIR",
		"hdfs://host/a:b":          "colon",
		"hdfs://host/a?replicas=3": "replicas",
	} {
		u, err := url.Parse(where)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Storage().Open(t.Context(), u); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want an error that tells of %s", where, err, want)
		}
	}
}

// A server that does not listen is a failure that may pass.
func TestNoServer(t *testing.T) {
	t.Setenv("HADOOP_CONF_DIR", "")
	t.Setenv("HADOOP_HOME", "")
	_, err := open(t, "hdfs://127.0.0.1:1/weir").Get(t.Context(), "a")
	if err == nil || errors.Is(err, storage.ErrFatal) || errors.Is(err, storage.ErrNotFound) || !strings.Contains(err.Error(), "hdfs://127.0.0.1:1/weir") ||
		!strings.Contains(err.Error(), "no NameNode answers at 127.0.0.1:1") || !strings.Contains(err.Error(), "fs.defaultFS") {
		t.Errorf("%v", err)
	}
}

func TestColonsAreEscaped(t *testing.T) {
	for _, name := range []string{"a:b", "a%3Ab", "50%", "%253A", "plain"} {
		there := escaper.Replace(name)
		if strings.Contains(there, ":") || unescaper.Replace(there) != name {
			t.Errorf("%q became %q and %q again", name, there, unescaper.Replace(there))
		}
	}
}
