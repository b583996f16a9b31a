package httpapi

import (
	"net/http"

	"github.com/labstack/echo/v4"
)

// Dashboard is what the API needs of the pages for browsers. A
// *dashboard.Dashboard is one.
type Dashboard interface {
	http.Handler
	// Paths are all that it serves to GET and HEAD; none is a call of the API.
	// A final * stands for anything.
	Paths() []string
}

// dashboardRoute stands for all pages in metrics and logs.
const dashboardRoute = "dashboard"

// addDashboard serves the pages, to whoever asks: they hold nothing that a key
// would have to guard.
func (s *Server) addDashboard(e *echo.Echo) {
	if s.opts.Dashboard == nil {
		return
	}
	handler := echo.WrapHandler(s.opts.Dashboard)
	for _, path := range s.opts.Dashboard.Paths() {
		s.templates[path] = dashboardRoute
		e.GET(path, handler)
		e.HEAD(path, handler)
	}
}
