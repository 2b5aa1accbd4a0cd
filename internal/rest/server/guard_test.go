package server

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/weirstream/weir/checkpoint"
	"github.com/weirstream/weir/internal/rest"
	"github.com/weirstream/weir/runner/embedded"
)

// TestGuard: what a page in somebody's browser could send is refused.
func TestGuard(t *testing.T) {
	h := newHarness(t)
	send := func(method, host string, header map[string]string) int {
		req := httptest.NewRequest(method, "http://"+host+"/jobs/"+h.server.ID(), nil)
		for _, k := range slices.Sorted(maps.Keys(header)) {
			req.Header.Set(k, header[k])
		}
		w := httptest.NewRecorder()
		mux := http.NewServeMux()
		h.server.Register(mux)
		Guard(mux, true).ServeHTTP(w, req)
		return w.Code
	}
	page := map[string]string{"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"}
	for _, c := range []struct {
		method, host string
		header       map[string]string
		want         int
	}{
		{"GET", "127.0.0.1:8081", nil, 200}, {"GET", "localhost:8081", nil, 200}, {"GET", "[::1]:8081", nil, 200},
		{"GET", "evil.example:8081", nil, 403}, {"GET", "192.0.2.1", nil, 403},
		{"PATCH", "127.0.0.1:8081", page, 403}, {"PATCH", "127.0.0.1:8081", nil, 202},
	} {
		if got := send(c.method, c.host, c.header); got != c.want {
			t.Errorf("%s %s with %v: %d, want %d", c.method, c.host, c.header, got, c.want)
		}
	}
	if h.canceled != 1 {
		t.Errorf("cancelled %d times", h.canceled)
	}
}

// FuzzTriggers: no body makes the server panic or answer without JSON.
func FuzzTriggers(f *testing.F) {
	for _, s := range []string{"", "{}", `{"target-directory":"/d","drain":true,"triggerId":"00112233445566778899aabbccddeeff"}`, `[1]`, `{"savepoint-path":"/x"}`, `{"checkpointType":"FULL"}`} {
		f.Add(s)
	}
	job := &fakeJob{status: embedded.Status{State: "running", Job: "pages"}, take: func(context.Context, string, string) (string, error) { return "/x", nil }}
	f.Fuzz(func(t *testing.T, body string) {
		s := New(Config{Job: job, Cancel: func() {}, Checkpoints: checkpoint.Options{Dir: "/d", SavepointDir: "/sp"}})
		defer s.Close()
		mux := http.NewServeMux()
		s.Register(mux)
		for _, path := range []string{"savepoints", "stop", "checkpoints"} {
			w := httptest.NewRecorder()
			mux.ServeHTTP(w, httptest.NewRequest("POST", "/jobs/"+s.ID()+"/"+path, strings.NewReader(body)))
			var doc rest.Accepted
			if err := json.Unmarshal(w.Body.Bytes(), &doc); err != nil || (w.Code == 202) != (len(doc.RequestID) == 32) || w.Code != 202 && w.Code != 400 {
				t.Errorf("%s: %d %s (%v)", path, w.Code, w.Body, err)
			}
		}
	})
}
