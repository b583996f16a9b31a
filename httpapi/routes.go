package httpapi

import (
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"
)

// route is one call of the API.
type route struct {
	method string
	path   string // as the OpenAPI document writes it
	body   bodyKind
	// query are the query parameters of the call. Calls whose body is ignored
	// do not look at their query either.
	query  []string
	handle func(*Server, echo.Context) error
}

// routes is every call. The router is built from it; a test holds the OpenAPI
// document against it. A HEAD goes with each GET.
var routes = []route{
	{http.MethodPost, "/v1/jobs", bodyJSON, nil, (*Server).register},
	{http.MethodPost, "/v1/jobs/batch", bodyJSON, nil, (*Server).registerBatch},
	{http.MethodGet, "/v1/jobs", bodyRefused, []string{"topic", "state", "biz_key", "limit", "cursor"}, (*Server).listJobs},
	{http.MethodGet, "/v1/jobs/{topic}/{id}", bodyRefused, nil, (*Server).getJob},
	{http.MethodPatch, "/v1/jobs/{topic}/{id}", bodyJSON, nil, (*Server).patchJob},
	{http.MethodDelete, "/v1/jobs/{topic}/{id}", bodyRefused, nil, (*Server).cancelJob},
	{http.MethodGet, "/v1/jobs/{topic}/{id}/attempts", bodyRefused, nil, (*Server).listAttempts},
	{http.MethodPost, "/v1/jobs/{topic}/{id}/run", bodyEmptyJSON, nil, (*Server).runJob},
	{http.MethodPost, "/v1/jobs/{topic}/{id}/replay", bodyEmptyJSON, nil, (*Server).replayJob},
	{http.MethodGet, "/v1/topics", bodyRefused, nil, (*Server).listTopics},
	{http.MethodGet, "/v1/topics/{topic}", bodyRefused, nil, (*Server).getTopic},
	{http.MethodGet, "/livez", bodyIgnored, nil, (*Server).live},
	{http.MethodGet, "/readyz", bodyIgnored, nil, (*Server).ready},
	{http.MethodGet, "/metrics", bodyIgnored, nil, (*Server).metricsPage},
	{http.MethodGet, "/openapi.json", bodyIgnored, nil, (*Server).document},
}

// echoPath writes {name} as the router does.
var echoPath = strings.NewReplacer("{", ":", "}", "")

// addRoutes builds the router. Whatever every call needs is put around its
// handler here, in one place.
func (s *Server) addRoutes(e *echo.Echo) {
	for _, rt := range routes {
		path := echoPath.Replace(rt.path)
		s.templates[path] = rt.path
		handler := s.guard(rt)
		e.Add(rt.method, path, handler)
		if rt.method == http.MethodGet {
			e.Add(http.MethodHead, path, handler)
		}
	}
}

// guard refuses what no handler should have to look at.
func (s *Server) guard(rt route) echo.HandlerFunc {
	return func(c echo.Context) error {
		if rt.body != bodyIgnored {
			if err := checkQuery(c.Request().URL, rt.query); err != nil {
				return err
			}
		}
		switch rt.body {
		case bodyRefused:
			if err := checkNoBody(c); err != nil {
				return err
			}
		case bodyEmptyJSON:
			if err := checkEmptyJSON(c); err != nil {
				return err
			}
		}
		return rt.handle(s, c)
	}
}
