package httpapi

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/duehook/duehook/store"
)

// readyTimeout bounds how long /readyz waits for the store. Those who probe
// give up soon.
const readyTimeout = 2 * time.Second

// live answers GET /livez: this process answers requests. It asks nobody else,
// so that trouble with the store never gets a healthy process restarted.
func (s *Server) live(c echo.Context) error {
	return writeJSON(c, http.StatusOK, statusView{Status: "ok"})
}

// ready answers GET /readyz: requests sent here are likely to succeed, if with
// something missing.
func (s *Server) ready(c echo.Context) error {
	if s.draining.Load() {
		return &apiError{code: codeShuttingDown, detail: "This server is about to stop. Send requests to another one."}
	}
	ctx, cancel := context.WithTimeout(c.Request().Context(), readyTimeout)
	defer cancel()
	stuck := ""
	if s.opts.Stuck != nil {
		stuck = s.opts.Stuck()
	}
	switch err := s.opts.Ready(ctx); {
	case err != nil && !errors.Is(err, store.ErrDegraded):
		return err
	case stuck != "":
		return &apiError{code: codeStoreUnavailable, detail: "The store answers, but nothing is delivered: " + stuck + " has failed for more than 10 s."}
	case err != nil:
		return writeJSON(c, http.StatusOK, statusView{Status: "ready", Ledger: "down"})
	}
	return writeJSON(c, http.StatusOK, statusView{Status: "ready"})
}

// metricsPage answers GET /metrics.
func (s *Server) metricsPage(c echo.Context) error {
	s.exporter.ServeHTTP(c.Response(), c.Request())
	return nil
}

// document answers GET /openapi.json.
func (s *Server) document(c echo.Context) error {
	return c.Blob(http.StatusOK, echo.MIMEApplicationJSON, s.spec)
}
