package runner

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// grace is how long requests under way may take when the server closes.
const grace = 2 * time.Second

// server answers probes and serves metrics while a job runs.
type server struct {
	listener net.Listener
	http     *http.Server
	done     chan error
}

// serve starts to listen at addr. The caller must close the server.
func serve(addr string, state func() jobState, metrics prometheus.Gatherer) (*server, error) {
	listener, err := listen(addr)
	if err != nil {
		return nil, err
	}
	s := &server{listener: listener, done: make(chan error, 1), http: &http.Server{
		Handler:           handler(state, metrics),
		ReadHeaderTimeout: 10 * time.Second,
	}}
	go func() { s.done <- s.http.Serve(listener) }()
	return s, nil
}

func listen(addr string) (net.Listener, error) {
	full, err := address(addr)
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", full)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("http: address %s is in use: stop the process that listens there, or choose another port with --http", full)
	case err != nil:
		return nil, fmt.Errorf("http: cannot listen at %s: %w", full, err)
	}
	return listener, nil
}

// address completes addr: a port alone is one of the loopback interface.
func address(addr string) (string, error) {
	if port := strings.TrimPrefix(addr, ":"); port != "" && strings.Trim(port, "0123456789") == "" {
		addr = "127.0.0.1:" + port
	}
	_, port, err := net.SplitHostPort(addr)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		return "", fmt.Errorf("http: %q is no address: allowed is HOST:PORT, or a port alone for the loopback interface", addr)
	}
	return addr, nil
}

// url is where the server listens.
func (s *server) url() string { return "http://" + s.listener.Addr().String() }

// close stops the server after the requests under way.
func (s *server) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	err := s.http.Shutdown(ctx)
	if err != nil {
		err = errors.Join(err, s.http.Close())
	}
	if served := <-s.done; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}

func handler(state func() jobState, metrics prometheus.Gatherer) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		s := state()
		if s != running {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		fmt.Fprintln(w, s)
	})
	if metrics != nil {
		mux.Handle("GET /metrics", promhttp.HandlerFor(metrics, promhttp.HandlerOpts{}))
	}
	return mux
}
