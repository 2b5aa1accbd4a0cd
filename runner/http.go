package runner

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/weirstream/weir/internal/config"
	"github.com/weirstream/weir/internal/discovery"
	"github.com/weirstream/weir/internal/rest/server"
	"github.com/weirstream/weir/runner/embedded"
)

const (
	// defaultHTTP is where a program of a job listens; if that is taken, at any
	// free port.
	defaultHTTP = "127.0.0.1:8081"
	// grace is how long requests under way may take when the server closes.
	grace = 2 * time.Second
	// linger is how long the server stays after the job for who asked for a
	// savepoint and has not seen yet what came of it.
	linger = 5 * time.Second
)

// access is how a running job is reached.
type access struct {
	*listening
	rest *server.Server
	// withdraw is nil if the job is not announced.
	withdraw func() error
}

// open makes the job listen, if it is to. The caller must close what it
// returns, which is nil if not.
func (j *job) open(x *execution, s surroundings, metrics prometheus.Gatherer) (*access, error) {
	addr := j.values.Value(config.HTTPAddress)
	if addr.Text == "" || addr.Text == config.HTTPOff {
		return nil, nil
	}
	listener, err := listen(addr.Text)
	if byDefault := addr.Origin.Layer == config.Default; err != nil && byDefault {
		if listener, err = listen("0"); err != nil {
			s.logger.Warn("the job listens nowhere: the weir command cannot reach it", "error", err)
			return nil, nil
		}
	}
	if err != nil {
		return nil, err
	}
	a := &access{rest: server.New(server.Config{
		Job: x.engine, Cancel: x.cancel, Checkpoints: j.checkpoints(), StateBackend: j.text(config.StateBackend), Version: embedded.Version, Logger: s.logger,
	})}
	mux := handler(x.tracker.state, metrics)
	a.rest.Register(mux)
	ip, _ := listener.Addr().(*net.TCPAddr)
	a.listening = serve(listener, server.Guard(mux, ip != nil && ip.IP.IsLoopback()))
	s.logger.Info("listening", "url", a.url(), "id", a.rest.ID())
	if len(s.runtimeDirs) > 0 {
		a.withdraw, err = discovery.Announce(s.runtimeDirs, discovery.Entry{Job: j.graph.Job, ID: a.rest.ID(), URL: a.url(), PID: os.Getpid(), Started: time.Now()})
		if err != nil {
			s.logger.Warn("the job cannot be found by its name: the weir command needs --address", "url", a.url(), "error", err)
		}
	}
	return a, nil
}

// close stops to listen when who asked for something has had an answer.
func (a *access) close(log *slog.Logger) {
	if a.withdraw != nil {
		if err := a.withdraw(); err != nil {
			log.Warn("removing the entry by which the job is found", "error", err)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), linger)
	defer cancel()
	a.rest.Linger(ctx)
	if err := a.listening.close(); err != nil {
		log.Warn("closing the HTTP server", "error", err)
	}
	a.rest.Close()
}

// listening is a server at work.
type listening struct {
	listener net.Listener
	http     *http.Server
	done     chan error
}

func serve(listener net.Listener, h http.Handler) *listening {
	l := &listening{listener: listener, done: make(chan error, 1), http: &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}}
	go func() { l.done <- l.http.Serve(listener) }()
	return l
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

// url is where the server can be reached from this machine.
func (l *listening) url() string {
	addr := l.listener.Addr().String()
	if tcp, ok := l.listener.Addr().(*net.TCPAddr); ok && tcp.IP.IsUnspecified() {
		addr = net.JoinHostPort("127.0.0.1", strconv.Itoa(tcp.Port))
	}
	return "http://" + addr
}

// close stops the server after the requests under way.
func (l *listening) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	err := l.http.Shutdown(ctx)
	if err != nil {
		err = errors.Join(err, l.http.Close())
	}
	if served := <-l.done; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}

func handler(state func() jobState, metrics prometheus.Gatherer) *http.ServeMux {
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
