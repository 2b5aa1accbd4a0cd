package azure

import (
	"errors"
	"io"
	"net/url"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"gocloud.dev/blob/azureblob"

	"github.com/weirstream/weir/internal/jobtest"
	"github.com/weirstream/weir/internal/storage"
	"github.com/weirstream/weir/internal/storage/storagetest"
)

// emulator is one that scripts/azurite/azurite.sh started: WEIR_AZURITE names
// its directory.
type emulator struct{ *storagetest.Server }

func newEmulator(t *testing.T) *emulator {
	t.Helper()
	e := &emulator{storagetest.NewServer(t, "azurite", "WEIR_AZURITE")}
	clean(t)
	t.Setenv("AZURE_STORAGE_ACCOUNT", "weirtest")
	t.Setenv("AZURE_STORAGE_KEY", "dGVzdGtleQ==")
	t.Setenv("AZURE_STORAGE_DOMAIN", e.Address)
	t.Setenv("AZURE_STORAGE_PROTOCOL", "http")
	t.Setenv("AZURE_STORAGE_IS_LOCAL_EMULATOR", "true")
	return e
}

// clean takes away what a developer may have set.
func clean(t *testing.T) {
	for _, name := range []string{"ACCOUNT", "KEY", "DOMAIN", "PROTOCOL", "IS_LOCAL_EMULATOR", "SAS_TOKEN", "CONNECTION_STRING"} {
		t.Setenv("AZURE_STORAGE_"+name, "")
	}
	t.Setenv("AZURE_STORAGEBLOB_CONNECTIONSTRING", "")
}

// container makes a container and returns its URL.
func (e *emulator) container(t *testing.T) string {
	t.Helper()
	name := e.Unused()
	c, err := scheme{}.client(azureblob.NewDefaultServiceURLOptions(), name)
	if err == nil {
		_, err = c.Create(t.Context(), nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	return "azblob://" + name
}

func open(t *testing.T, where string) storage.Blobs {
	t.Helper()
	u, err := url.Parse(where)
	if err != nil {
		t.Fatal(err)
	}
	b, err := Storage().Open(t.Context(), u)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestRealSuite(t *testing.T) {
	e := newEmulator(t)
	storagetest.Run(t, func(t *testing.T) storage.Blobs { return open(t, e.container(t)+"/weir") })
}

func TestRealJob(t *testing.T) {
	e := newEmulator(t)
	jobtest.OnStorage(t, jobtest.Place{Scheme: Storage(), Dir: e.container(t) + "/weir", Other: e.container(t)})
}

func TestRealOutage(t *testing.T) {
	e := newEmulator(t)
	fewRetries := Storage(func(o *container.ClientOptions) { o.Retry = policy.RetryOptions{MaxRetries: 1} })
	away, back := func() { e.Run(t, "stop") }, func() { e.Run(t, "restart") }
	jobtest.OnFailingStorage(t, jobtest.Place{Scheme: fewRetries, Dir: e.container(t) + "/weir", Large: 24 << 20}, away, back)
}

func TestRealBadUse(t *testing.T) {
	e := newEmulator(t)
	where := e.container(t)
	for what, c := range map[string]struct{ where, key, want string }{
		"key":       {where, "d3Jvbmc=", "AZURE_STORAGE_KEY"},
		"container": {"azblob://no-such-container", "dGVzdGtleQ==", "make it"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Setenv("AZURE_STORAGE_KEY", c.key)
			b := open(t, c.where)
			_, get := b.Get(t.Context(), "a")
			for op, err := range map[string]error{
				"probe": storage.Probe(t.Context(), b, "job"), "get": get,
				"put":  b.Put(t.Context(), "a", func(w io.Writer) error { _, err := io.WriteString(w, "x"); return err }),
				"list": b.List(t.Context(), "", func(string, int64) error { return nil }),
			} {
				if !errors.Is(err, storage.ErrFatal) || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), c.key) {
					t.Errorf("%s: %v; want it to tell of %s", op, err, c.want)
				}
			}
		})
	}
}

func TestBadURL(t *testing.T) {
	clean(t)
	for query, want := range map[string]string{
		"":                                   "AZURE_STORAGE_ACCOUNT",
		"sas=hush":                           "unknown parameter \"sas\"",
		"localemu=maybe":                     "true or false",
		"storage_account=a&domain=other.org": "other.org",
	} {
		_, err := Storage().Open(t.Context(), &url.URL{Scheme: "azblob", Host: "c", RawQuery: query})
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hush") {
			t.Errorf("%q: %v, want an error that tells of %s", query, err, want)
		}
	}
}

// What no server is needed for to know it: it is told with what to set.
func TestNoServer(t *testing.T) {
	const away = "?protocol=http&domain=127.0.0.1:1&localemu=true&storage_account=acc"
	for what, c := range map[string]struct {
		variable, value, want string
		fatal                 bool
	}{
		"nobody answers": {"AZURE_STORAGE_KEY", "dGVzdGtleQ==", "AZURE_STORAGE_DOMAIN", false},
		"no key":         {"AZURE_CLIENT_ID", "", "AZURE_STORAGE_KEY", true},
	} {
		t.Run(what, func(t *testing.T) {
			clean(t)
			t.Setenv(c.variable, c.value)
			once := Storage(func(o *container.ClientOptions) { o.Retry = policy.RetryOptions{MaxRetries: -1} })
			u, err := url.Parse("azblob://c/weir" + away)
			if err != nil {
				t.Fatal(err)
			}
			b, err := once.Open(t.Context(), u)
			if err == nil {
				err = b.PutIfAbsent(t.Context(), "a", nil)
			}
			if err == nil || errors.Is(err, storage.ErrFatal) != c.fatal || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v; want it to tell of %s", err, c.want)
			}
		})
	}
	clean(t)
	t.Setenv("AZURE_STORAGE_CONNECTION_STRING", "hush")
	u := &url.URL{Scheme: "azblob", Host: "c", RawQuery: "storage_account=acc"}
	if _, err := Storage().Open(t.Context(), u); err == nil || !strings.Contains(err.Error(), "AZURE_STORAGE_CONNECTION_STRING") || strings.Contains(err.Error(), "hush") {
		t.Errorf("a bad connection string: %v", err)
	}
}

func TestPlace(t *testing.T) {
	clean(t)
	t.Setenv("AZURE_STORAGE_KEY", "dGVzdGtleQ==")
	for query, want := range map[string]string{
		"storage_account=acc": "azblob://c/weir at acc.blob.core.windows.net",
		"storage_account=acc&domain=127.0.0.1:10000&protocol=http&localemu=true": "azblob://c/weir at 127.0.0.1:10000/acc",
	} {
		b, err := Storage().Open(t.Context(), &url.URL{Scheme: "azblob", Host: "c", Path: "/weir", RawQuery: query})
		if err != nil {
			t.Fatal(err)
		}
		if got := storage.Identity(b); got != want {
			t.Errorf("%q: %q, want %q", query, got, want)
		}
	}
}
