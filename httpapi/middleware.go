package httpapi

import (
	"context"
	"crypto/rand"
	"log/slog"

	"github.com/labstack/echo/v4"
)

// observe gives each request an id, counts it and writes its access line. It
// stands outermost, so it sees every answer, and it writes those to errors.
func (s *Server) observe(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		elapsed := stopwatch()
		header := c.Response().Header()
		header.Set(echo.HeaderXRequestID, requestID(c.Request().Header.Get(echo.HeaderXRequestID)))
		header.Set(echo.HeaderCacheControl, "no-store")
		header.Set(echo.HeaderXContentTypeOptions, "nosniff")

		err := next(c)
		if err != nil {
			c.Error(err)
		}
		took := elapsed()
		route, ok := s.templates[c.Path()]
		if !ok {
			route = unmatched
		}
		s.metrics.observe(route, c.Request().Method, c.Response().Status, took, streams(c))
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

// requestID keeps the client's id if it is harmless to repeat and to log.
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

// refuseCrossOrigin keeps pages of other sites, open in the browser of someone
// who can reach this server, from changing anything through it.
func (s *Server) refuseCrossOrigin(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		if err := s.origins.Check(c.Request()); err != nil {
			return &apiError{
				code: codeForbidden, cause: err,
				detail: "A browser sent this request on behalf of another site. Send it from this server's own origin, or from outside a browser.",
			}
		}
		return next(c)
	}
}

func (s *Server) logPanic(c echo.Context, err error, stack []byte) error {
	s.opts.Logger.LogAttrs(c.Request().Context(), slog.LevelError, "panic while answering a request",
		slog.String("request_id", c.Response().Header().Get(echo.HeaderXRequestID)),
		slog.String("error", err.Error()),
		slog.String("stack", string(stack)))
	return &apiError{code: codeInternalError, cause: err, detail: internalDetail}
}
