package runner

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weirstream/weir/internal/config"
	"github.com/weirstream/weir/runner/embedded"
)

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

func TestProbesFollowTheJob(t *testing.T) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "answer"}, func() float64 { return 42 }))
	var x *execution
	expect := func(path string, code int, text string) {
		t.Helper()
		if c, body := get(t, x.access.url()+path); c != code || !strings.Contains(body, text) {
			t.Errorf("%s: %d %q, want %d %q", path, c, body, code, text)
		}
	}
	maker, made := fake(func(ctx context.Context, e *fakeEngine) error {
		expect("/healthz", 200, "ok")
		expect("/readyz", 503, "starting")
		e.opts.OnEvent(embedded.Event{Kind: embedded.StandingBy})
		expect("/readyz", 503, "standing by")
		e.opts.OnEvent(embedded.Event{Kind: embedded.TakingOver})
		expect("/readyz", 503, "starting")
		e.opts.OnEvent(embedded.Event{Kind: embedded.Started})
		expect("/readyz", 200, "running")
		e.opts.OnEvent(embedded.Event{Kind: embedded.Failed})
		expect("/readyz", 503, "restarting")
		expect("/metrics", 200, "answer 42")
		expect("/other", 404, "")
		return nil
	})
	j, err := prepare("j", buildPipe, settings{calls: []config.Entry{{Key: config.HTTPAddress, Text: ":0"}}})
	if err != nil {
		t.Fatal(err)
	}
	x, err = j.start(surroundings{logger: slog.New(slog.DiscardHandler), registerer: registry, newEngine: maker})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(x.access.url(), "http://127.0.0.1:") {
		t.Errorf("a port alone listens at %s", x.access.url())
	}
	if _, err := x.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if made().opts.Registerer != registry {
		t.Error("the engine got another registerer")
	}
	if conn, err := net.Dial("tcp", x.access.listener.Addr().String()); err == nil {
		conn.Close()
		t.Error("the server still listens after the job's end")
	}
}

func TestAddressInUse(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	maker, _ := fake(finish)
	h := newHarness(buildPipe, maker)
	addr := taken.Addr().String()
	if code := h.run([]string{"run", "--http", addr}); code != exitFailed || !strings.Contains(h.err.String(), "http: address "+addr+" is in use") {
		t.Errorf("exit code %d: %s", code, h.err.String())
	}
}

func TestAddress(t *testing.T) {
	for in, want := range map[string]string{
		"8081": "127.0.0.1:8081", ":8081": "127.0.0.1:8081", "0.0.0.0:80": "0.0.0.0:80", "[::1]:80": "[::1]:80", "localhost:0": "localhost:0",
	} {
		if got, err := address(in); err != nil || got != want {
			t.Errorf("%s: %s, %v", in, got, err)
		}
	}
	for _, bad := range []string{"", ":", "host", "host:http", "1.2.3.4:99999", ":99999"} {
		if got, err := address(bad); err == nil {
			t.Errorf("%q: %s", bad, got)
		}
	}
}
