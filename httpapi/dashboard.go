package httpapi

import (
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/duehook/duehook/internal/kit/memory"
	"github.com/duehook/duehook/internal/services/access"
)

// Dashboard serves the pages for browsers. *dashboard.Dashboard implements it.
type Dashboard interface {
	http.Handler
	// Paths are its paths for GET and HEAD, apart from those of the API. A final *
	// matches anything.
	Paths() []string
}

// dashboardRoute stands for all pages in metrics and logs.
const dashboardRoute = "dashboard"

// addDashboard serves the pages without a key: they contain no data.
func (s *Server) addDashboard(e *echo.Echo) {
	if s.opts.Dashboard == nil {
		return
	}
	handler := func(c echo.Context) error {
		if err := s.charge(memory.Of(c.Request().Context()), access.Principal{}); err != nil {
			return err
		}
		s.opts.Dashboard.ServeHTTP(c.Response(), c.Request())
		return nil
	}
	pages := &served{Route: Route{Path: dashboardRoute}, dialect: s.own}
	for _, path := range s.opts.Dashboard.Paths() {
		s.paths[path] = pages
		e.GET(path, handler)
		e.HEAD(path, handler)
	}
}

// showMissing answers a browser that asks for a page which does not exist with the
// dashboard's page for that, as 404. It reports false for all other errors.
func (s *Server) showMissing(e *Error, c echo.Context) bool {
	r := c.Request()
	if s.opts.Dashboard == nil || e.Code != CodeNotFound || callOf(c).route != nil || s.ofAPI(r.URL.Path) {
		return false
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead || !strings.Contains(r.Header.Get("Accept"), "text/html") {
		return false
	}
	r.Header.Del("If-None-Match")
	r.Header.Del("Range")
	s.opts.Dashboard.ServeHTTP(missing{c.Response()}, r)
	return true
}

// ofAPI reports whether the path is under that of a dialect.
func (s *Server) ofAPI(path string) bool {
	for i := range s.opts.Dialects {
		if d := &s.opts.Dialects[i]; d.Prefix != "" && strings.HasPrefix(path, d.Prefix) {
			return true
		}
	}
	return false
}

// missing turns the answer 200 into 404.
type missing struct{ http.ResponseWriter }

func (m missing) WriteHeader(status int) {
	if status == http.StatusOK {
		status = http.StatusNotFound
	}
	m.ResponseWriter.WriteHeader(status)
}
