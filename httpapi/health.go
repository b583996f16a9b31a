package httpapi

import (
	"context"
	"net/http"
	"time"
)

// readyTimeout bounds how long /readyz waits for the store: probes have short timeouts.
const readyTimeout = 2 * time.Second

// live answers GET /livez: this process answers requests. It does not ask the store, so
// that a failing store never restarts healthy processes.
func (s *Server) live(c *Call) error {
	return c.WriteJSON(http.StatusOK, statusView{Status: "ok"})
}

// ready answers GET /readyz: requests are likely to succeed.
func (s *Server) ready(c *Call) error {
	if err := c.Ready(); err != nil {
		return err
	}
	return c.WriteJSON(http.StatusOK, statusView{Status: "ready"})
}

// Ready returns the error with which the server's /readyz would answer, or nil.
func (c *Call) Ready() error {
	s := c.server
	if s.draining.Load() {
		return &Error{Code: CodeShuttingDown, Detail: "This server is about to stop. Send requests to another one."}
	}
	ctx, cancel := context.WithTimeout(c.Context(), readyTimeout)
	defer cancel()
	if err := s.opts.Ready(ctx); err != nil {
		return err
	}
	if s.opts.Stuck != nil {
		if stuck := s.opts.Stuck(); stuck != "" {
			return &Error{Code: CodeStoreUnavailable, Detail: "The store answers, but deliveries have stopped: " + stuck + " has failed for more than 10 s."}
		}
	}
	return nil
}

// metricsPage answers GET /metrics.
func (s *Server) metricsPage(c *Call) error {
	s.exporter.ServeHTTP(c.Writer, c.Request)
	return nil
}

type statusView struct {
	Status string `json:"status"`
}
