package httpapi

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/duehook/duehook/internal/services/access"
)

// served is a route of a dialect in the router.
type served struct {
	Route
	dialect *Dialect
}

// contextCall is the key of the *Call in the router's context.
const contextCall = "duehook.call"

// operating are the server's own calls, for operators.
func (s *Server) operating() *Dialect {
	return &Dialect{Routes: []Route{
		{Method: http.MethodGet, Path: "/livez", Scope: access.Public, Handle: s.live},
		{Method: http.MethodGet, Path: "/readyz", Scope: access.Public, Handle: s.ready},
		{Method: http.MethodGet, Path: "/metrics", Scope: access.Read, Handle: s.metricsPage},
		{Method: http.MethodGet, Path: "/openapi.json", Scope: access.Public, Handle: s.document},
	}}
}

// routerPath writes {name} in the router's form.
var routerPath = strings.NewReplacer("{", ":", "}", "")

func (s *Server) addDialect(e *echo.Echo, d *Dialect) {
	for _, rt := range d.Routes {
		path := routerPath.Replace(rt.Path)
		known := &served{Route: rt, dialect: d}
		s.paths[path] = known
		e.Add(rt.Method, path, s.handler(known))
		if rt.Method == http.MethodGet {
			e.Add(http.MethodHead, path, s.handler(known))
		}
	}
}

// handler checks the origin, admits the caller and passes the call to the dialect.
func (s *Server) handler(rt *served) echo.HandlerFunc {
	handle := rt.Handle
	if rt.Registers && s.opts.Tracer != nil {
		handle = s.traced(rt)
	}
	rest := strings.HasSuffix(rt.Path, "*")
	return func(c echo.Context) error {
		// The router allows slashes in the last part of a path.
		if !rest && slices.ContainsFunc(c.ParamValues(), func(v string) bool { return strings.Contains(v, "/") }) {
			return echo.ErrNotFound
		}
		call := callOf(c)
		ctx, cancel := s.bound(c.Request().Context(), rt)
		defer cancel()
		call.server, call.route, call.Request, call.Writer = s, rt, c.Request().WithContext(ctx), c.Response()
		if err := s.checkOrigin(call); err != nil {
			return err
		}
		if err := s.admit(call); err != nil {
			return err
		}
		err := handle(call)
		call.undoUnless(err == nil)
		return err
	}
}

// Deferring is a writer that keeps an answer, to write it later. It then calls undo if it cannot.
type Deferring interface{ Defer(undo func()) }

// undoUnless undoes a call unless its answer was written.
func (c *Call) undoUnless(done bool) {
	if c.undo == nil {
		return
	}
	w := c.context.Response().Writer // the router's own would hide the error of a flush
	if later, ok := w.(Deferring); ok && done {
		later.Defer(c.undo)
	} else if !done || !Sent(w, c.context.Request()) {
		c.undo()
	}
}

// Sent reports whether the client of a request still takes what was written.
func Sent(w http.ResponseWriter, r *http.Request) bool {
	err := http.NewResponseController(w).Flush()
	return (err == nil || errors.Is(err, http.ErrNotSupported)) && r.Context().Err() == nil
}

// bound limits how long a call may take.
func (s *Server) bound(ctx context.Context, rt *served) (context.Context, context.CancelFunc) {
	if !rt.Stream {
		return context.WithTimeout(ctx, s.opts.RequestTimeout)
	}
	ctx, cancel := context.WithCancel(ctx)
	unlink := context.AfterFunc(s.stopping, cancel)
	return ctx, func() { unlink(); cancel() }
}

// callOf is the call that observe began. Its route is nil for an unknown path or
// method, and for a page of the dashboard.
func callOf(c echo.Context) *Call { return c.Get(contextCall).(*Call) }

// dialectOf is the dialect that answers an error: that of the path, or else the
// server's own.
func (s *Server) dialectOf(c echo.Context) *Dialect {
	if known := s.paths[c.Path()]; known != nil {
		return known.dialect
	}
	for i := range s.opts.Dialects {
		d := &s.opts.Dialects[i]
		if d.Prefix != "" && strings.HasPrefix(c.Request().URL.Path, d.Prefix) {
			return d
		}
	}
	return &Dialect{}
}

// rewrite gives a request the path that its dialect means by it.
func (s *Server) rewrite(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		u := c.Request().URL
		for i := range s.opts.Dialects {
			d := &s.opts.Dialects[i]
			if d.Path == nil || !strings.HasPrefix(u.Path, d.Prefix) {
				continue
			}
			escaped := d.Path(u.EscapedPath())
			if decoded, err := url.PathUnescape(escaped); err == nil {
				u.Path, u.RawPath = decoded, escaped
			}
		}
		return next(c)
	}
}

// Routes are all calls that the server has: those of its dialects and its own.
func (s *Server) Routes() []Route {
	all := slices.Clone(s.own.Routes)
	for _, d := range s.opts.Dialects {
		all = append(all, d.Routes...)
	}
	return all
}
