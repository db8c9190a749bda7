package run

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/weirq/weir/config"
)

// health answers what an orchestrator asks of a process. An empty reason means yes.
type health interface {
	// live tells why the process' loops do not turn. It asks neither Postgres nor Redis.
	live() (reason string)
	// ready tells why the process cannot do its work, and what else is worth knowing.
	ready() (reason, info string)
}

// routes is all that is served: three paths, no login, no job data.
func routes(h health, registry *prometheus.Registry, log *slog.Logger) http.Handler {
	metrics := promhttp.HandlerFor(registry, promhttp.HandlerOpts{
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn), MaxRequestsInFlight: 4, Timeout: 10 * time.Second,
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Cache-Control", "no-store")
		var answer http.HandlerFunc
		// Not a ServeMux: it would answer unclean paths with a redirect instead of 404.
		switch r.URL.Path {
		case "/livez":
			answer = func(w http.ResponseWriter, _ *http.Request) { say(w, h.live(), "") }
		case "/readyz":
			answer = func(w http.ResponseWriter, _ *http.Request) {
				reason, info := h.ready()
				say(w, reason, info)
			}
		case "/metrics":
			answer = metrics.ServeHTTP
		default:
			http.Error(w, "not found: /livez, /readyz and /metrics are served here", http.StatusNotFound)
			return
		}
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "only GET", http.StatusMethodNotAllowed)
			return
		}
		answer(w, r)
	})
}

// say writes the answer of a health check: a line, then what else is known.
func say(w http.ResponseWriter, reason, info string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	if reason != "" {
		w.WriteHeader(http.StatusServiceUnavailable)
	} else {
		reason = "ok"
	}
	_, _ = fmt.Fprintln(w, reason)
	if info != "" {
		_, _ = fmt.Fprintln(w, info)
	}
}

// serve listens on the address that the setting key names and returns a function that stops it. An empty address is off.
func (p *process) serve(key string, cfg config.HTTP, handler http.Handler) (stop func(), err error) {
	if cfg.Listen == "" {
		return func() {}, nil
	}
	listener, err := net.Listen("tcp", cfg.Listen)
	if err != nil {
		return nil, fmt.Errorf("%s: %w -> set %s to a free address, or to off%s", key, err, key, given(p.loaded, key))
	}
	server := &http.Server{
		Handler: handler, ErrorLog: slog.NewLogLogger(p.log.Handler(), slog.LevelDebug),
		ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 30 * time.Second,
		IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10,
	}
	p.log.Info("http listens", "address", listener.Addr().String(), "routes", "/livez /readyz /metrics")
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			p.log.Error("http ended", "error", err)
		}
	}()
	return func() {
		limit, cancel := context.WithTimeout(background, time.Second)
		defer cancel()
		if server.Shutdown(limit) != nil {
			_ = server.Close() // a client that does not read; nothing of ours is lost
		}
		<-done
	}, nil
}
