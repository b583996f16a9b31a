package httpapi

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strings"

	"github.com/labstack/echo/v4"
)

// observe gives each request an id, counts it and logs it. It is the outermost
// middleware: it sees every answer, and answers errors.
func (s *Server) observe(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		elapsed := stopwatch()
		header := c.Response().Header()
		header.Set(echo.HeaderXRequestID, requestID(c.Request().Header.Get(echo.HeaderXRequestID)))
		header.Set(echo.HeaderCacheControl, "no-store")
		header.Set(echo.HeaderXContentTypeOptions, "nosniff")
		c.Set(contextCall, &Call{context: c, Request: c.Request(), Writer: c.Response()})

		err := Refused(c.Request().Context())
		if err == nil {
			err = next(c)
		}
		if err != nil {
			c.Error(err)
		}
		took := elapsed()
		route, stream := unmatched, false
		if known := s.paths[c.Path()]; known != nil {
			route, stream = known.Path, known.Stream
		}
		s.metrics.observe(route, c.Request().Method, c.Response().Status, took, stream)
		if ctx := c.Request().Context(); s.opts.Logger.Enabled(ctx, slog.LevelDebug) {
			s.logAccess(ctx, c, route, err, slog.Duration("took", took))
		}
		return nil
	}
}

func (s *Server) logAccess(ctx context.Context, c echo.Context, route string, err error, took slog.Attr) {
	attrs := []slog.Attr{
		slog.String("method", c.Request().Method),
		slog.String("route", route),
		slog.Int("status", c.Response().Status),
		slog.Int64("bytes", c.Response().Size),
		took,
		slog.String("client", c.RealIP()),
		slog.String("request_id", c.Response().Header().Get(echo.HeaderXRequestID)),
	}
	if err != nil {
		attrs = append(attrs, slog.String("error", err.Error()))
	}
	s.opts.Logger.LogAttrs(ctx, slog.LevelDebug, "request", attrs...)
}

// requestID keeps the client's id if it is safe to return and to log.
func requestID(given string) string {
	const longest = 64
	if given == "" || len(given) > longest {
		return rand.Text()
	}
	for _, b := range []byte(given) {
		letter := b|0x20 >= 'a' && b|0x20 <= 'z'
		if !letter && !(b >= '0' && b <= '9') && b != '-' && b != '_' && b != '.' {
			return rand.Text()
		}
	}
	return given
}

var errUnnamedSite = errors.New("a browser names no site in a GET without HTTPS")

// checkOrigin prevents pages of other sites from changing anything through the browser
// of a user who can reach this server.
func (s *Server) checkOrigin(c *Call) error {
	r := c.Request
	if c.route.Changes {
		r = r.Clone(c.Context())
		r.Method = http.MethodPost
	}
	err := s.origins.Check(r)
	if err == nil && c.route.Changes && r.Header.Get("Origin") == "" && r.Header.Get("Sec-Fetch-Site") == "" && strings.HasPrefix(r.UserAgent(), "Mozilla/") {
		err = errUnnamedSite
	}
	if err != nil {
		return &Error{
			Code: CodeForbidden, Cause: err,
			Detail: "A browser sent this request on behalf of another site, or did not name the site. Send it from this server's own origin, or from outside a browser.",
		}
	}
	return nil
}

// recover turns a panic into an error with status 500. echo's middleware for it shares a package with a proxy and
// templates, which take a second to compile.
func (s *Server) recover(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) (err error) {
		defer func() {
			v := recover()
			if v == nil {
				return
			}
			cause, isError := v.(error)
			if errors.Is(cause, http.ErrAbortHandler) { // net/http closes the connection
				panic(v)
			}
			if !isError {
				cause = fmt.Errorf("panic: %v", v)
			}
			s.opts.Logger.LogAttrs(c.Request().Context(), slog.LevelError, "panic while answering a request",
				slog.String("request_id", c.Response().Header().Get(echo.HeaderXRequestID)),
				slog.String("error", cause.Error()),
				slog.String("stack", string(debug.Stack())))
			err = &Error{Code: CodeInternalError, Cause: cause, Detail: internalDetail}
		}()
		return next(c)
	}
}
