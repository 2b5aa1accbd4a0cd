// Package hdfs keeps checkpoints and savepoints in the Hadoop file system:
//
//	runner.Main("page-latency", build, runner.WithStorage(hdfs.Storage()))
//
// A URL is hdfs://[USER@]NAMENODE[:PORT]/PATH, or hdfs:///PATH for the file
// system of the configuration in HADOOP_CONF_DIR. The name of a cluster with
// several NameNodes, as that configuration has it, stands for all of them.
package hdfs

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/user"

	"github.com/colinmarc/hdfs/v2"
	"github.com/colinmarc/hdfs/v2/hadoopconf"

	"github.com/weirstream/weir/internal/idleconn"
	"github.com/weirstream/weir/storage"
)

// defaultPort is that of a NameNode whose URL names none.
const defaultPort = "8020"

// Storage serves hdfs:// URLs. The options come last and may change everything
// about the client: one that sets KerberosClient logs in to a cluster with
// Kerberos.
func Storage(options ...func(*hdfs.ClientOptions)) storage.Scheme { return scheme{options} }

type scheme struct {
	options []func(*hdfs.ClientOptions)
}

// Schemes implements storage.Scheme.
func (scheme) Schemes() []string { return []string{"hdfs"} }

// Open implements storage.Scheme. It sends nothing.
func (s scheme) Open(_ context.Context, u *url.URL) (storage.Blobs, error) {
	for name := range u.Query() {
		return nil, fmt.Errorf("unknown parameter %q: hdfs:// takes none, settings come from HADOOP_CONF_DIR", name)
	}
	conf, err := hadoopconf.LoadFromEnvironment()
	if err != nil {
		return nil, fmt.Errorf("read the configuration of Hadoop (HADOOP_CONF_DIR): %w", err)
	}
	o, err := clientOptions(u, conf)
	if err != nil {
		return nil, err
	}
	for _, set := range s.options {
		set(&o)
	}
	return newBlobs(u, o)
}

func clientOptions(u *url.URL, conf hadoopconf.HadoopConf) (hdfs.ClientOptions, error) {
	o := hdfs.ClientOptionsFromConf(conf)
	o.NamenodeDialFunc, o.DatanodeDialFunc = idleconn.Dial(idleconn.Timeout), idleconn.Dial(idleconn.Timeout)
	logical := conf["dfs.ha.namenodes."+u.Host] != ""
	switch {
	case u.Host != "" && !logical && u.Port() == "":
		o.Addresses = []string{net.JoinHostPort(u.Hostname(), defaultPort)}
	case u.Host != "" && !logical:
		o.Addresses = []string{u.Host}
	case len(o.Addresses) == 0:
		return o, fmt.Errorf("%s names no NameNode, and there is no configuration that does: write hdfs://NAMENODE:PORT/PATH, or set HADOOP_CONF_DIR: %w", u, storage.ErrFatal)
	}
	var err error
	o.User, err = userOf(u)
	return o, err
}

// userOf is the user as whom to act, as Hadoop's own client chooses it.
func userOf(u *url.URL) (string, error) {
	if name := u.User.Username(); name != "" {
		return name, nil
	}
	if name := os.Getenv("HADOOP_USER_NAME"); name != "" {
		return name, nil
	}
	me, err := user.Current()
	if err != nil {
		return "", fmt.Errorf("who runs this is not known: set HADOOP_USER_NAME: %w", err)
	}
	return me.Username, nil
}
