package httpapi

import (
	"context"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"
)

// readyTimeout bounds how long /readyz waits for the store: probes have short timeouts.
const readyTimeout = 2 * time.Second

// live answers GET /livez: this process answers requests. It does not ask the store, so
// that a failing store never restarts healthy processes.
func (s *Server) live(c *Call) error {
	return c.WriteJSON(http.StatusOK, statusView{Status: "ok"})
}

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

// What a page of metrics counts while it is made.
const (
	gathered  = 8         // times its text: the metrics that it is made of
	leastPage = 128 << 10 // until a page was made
)

// metricsPage answers GET /metrics. A client that does not read must hold the page only, not the metrics that it is made of.
func (s *Server) metricsPage(c *Call) error {
	hold := c.hold()
	cost := min(gathered*max(s.lastPage.Load(), leastPage), hold.Share()-hold.Bytes())
	if err := c.Take(cost); err != nil {
		return err
	}
	b := Buffer()
	defer Release(b)
	page := NewKept(b)
	s.exporter.ServeHTTP(page, c.Request)
	s.lastPage.Store(int64(b.Len()))
	c.Give(cost)
	return c.Write(page.Status, page.Header().Get(echo.HeaderContentType), b.Bytes())
}

type statusView struct {
	Status string `json:"status"`
}
