package httpapi

import (
	"net/http"

	"github.com/labstack/echo/v4"
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
	handler := echo.WrapHandler(s.opts.Dashboard)
	pages := &served{Route: Route{Path: dashboardRoute}, dialect: s.own}
	for _, path := range s.opts.Dashboard.Paths() {
		s.paths[path] = pages
		e.GET(path, handler)
		e.HEAD(path, handler)
	}
}
