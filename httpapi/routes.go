package httpapi

import (
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/duehook/duehook/internal/services/access"
)

const eventsPath = "/v1/events"

// route is one call of the API.
type route struct {
	method string
	path   string // as the OpenAPI document writes it
	// scope is what a caller's key must have. Only calls for machines that
	// probe, which have no key, are public.
	scope access.Scope
	body  bodyKind
	// query are the query parameters of the call. Calls whose body is ignored
	// do not look at their query either.
	query  []string
	handle func(*Server, echo.Context) error
}

// routes is every call. The router is built from it; a test holds the OpenAPI
// document against it. A HEAD goes with each GET.
var routes = []route{
	{http.MethodPost, "/v1/jobs", access.Write, bodyJSON, nil, (*Server).register},
	{http.MethodPost, "/v1/jobs/batch", access.Write, bodyJSON, nil, (*Server).registerBatch},
	{http.MethodPost, planPath, access.Read, bodyJSON, nil, (*Server).planJob},
	{http.MethodGet, "/v1/jobs", access.Read, bodyRefused, jobQuery, (*Server).listJobs},
	{http.MethodGet, "/v1/jobs/{topic}/{id}", access.Read, bodyRefused, nil, (*Server).getJob},
	{http.MethodPatch, "/v1/jobs/{topic}/{id}", access.Write, bodyJSON, nil, (*Server).patchJob},
	{http.MethodDelete, "/v1/jobs/{topic}/{id}", access.Write, bodyRefused, nil, (*Server).cancelJob},
	{http.MethodGet, "/v1/jobs/{topic}/{id}/attempts", access.Read, bodyRefused, nil, (*Server).listAttempts},
	{http.MethodGet, "/v1/jobs/{topic}/{id}/explain", access.Read, bodyRefused, nil, (*Server).explainJob},
	{http.MethodGet, "/v1/jobs/{topic}/{id}/registration", access.Write, bodyRefused, nil, (*Server).getRegistration}, // shows headers and body
	{http.MethodPost, "/v1/jobs/{topic}/{id}/run", access.Write, bodyEmptyJSON, nil, (*Server).runJob},
	{http.MethodPost, "/v1/jobs/{topic}/{id}/replay", access.Write, bodyOptionalJSON, nil, (*Server).replayJob},
	{http.MethodPost, "/v1/operations", access.Read, bodyJSON, nil, (*Server).createOperation}, // a dry run; the rest needs Write
	{http.MethodGet, "/v1/operations", access.Read, bodyRefused, []string{"limit", "cursor"}, (*Server).listOperations},
	{http.MethodGet, "/v1/operations/{id}", access.Read, bodyRefused, nil, (*Server).getOperation},
	{http.MethodPost, "/v1/operations/{id}/stop", access.Write, bodyEmptyJSON, nil, (*Server).stopOperation},
	{http.MethodPost, "/v1/operations/{id}/resume", access.Write, bodyEmptyJSON, nil, (*Server).resumeOperation},
	{http.MethodGet, "/v1/dead", access.Read, bodyRefused, []string{"topic", "limit", "cursor"}, (*Server).listDead},
	{http.MethodPost, "/v1/jobs/{topic}/{id}/restore", access.Write, bodyEmptyJSON, nil, (*Server).restoreJob},
	{http.MethodPost, "/v1/restore", access.Admin, bodyOptionalJSON, nil, (*Server).startRestore},
	{http.MethodGet, "/v1/restore", access.Read, bodyRefused, nil, (*Server).restoreStatus},
	{http.MethodGet, "/v1/overview", access.Read, bodyRefused, nil, (*Server).overview},
	{http.MethodGet, "/v1/endpoints", access.Read, bodyRefused, endpointQuery, (*Server).listEndpoints},
	{http.MethodPost, "/v1/endpoints/try", access.Write, bodyJSON, nil, (*Server).tryEndpoint},
	{http.MethodPost, "/v1/endpoints/test", access.Write, bodyJSON, nil, (*Server).testEndpoint},
	{http.MethodGet, "/v1/topics", access.Read, bodyRefused, topicQuery, (*Server).listTopics},
	{http.MethodGet, "/v1/topics/{topic}", access.Read, bodyRefused, nil, (*Server).getTopic},
	{http.MethodPut, "/v1/topics/{topic}", access.Admin, bodyJSON, nil, (*Server).putTopic},
	{http.MethodDelete, "/v1/topics/{topic}", access.Admin, bodyRefused, nil, (*Server).deleteTopic},
	{http.MethodPost, "/v1/topics/{topic}/pause", access.Write, bodyEmptyJSON, nil, (*Server).pauseTopic},
	{http.MethodPost, "/v1/topics/{topic}/drain", access.Write, bodyEmptyJSON, nil, (*Server).drainTopic},
	{http.MethodPost, "/v1/topics/{topic}/resume", access.Write, bodyEmptyJSON, nil, (*Server).resumeTopic},
	{http.MethodGet, "/v1/topics/{topic}/signing", access.Admin, bodyRefused, nil, (*Server).getTopicSecret},
	{http.MethodPut, "/v1/topics/{topic}/signing", access.Admin, bodyJSON, nil, (*Server).putTopicSecret},
	{http.MethodDelete, "/v1/topics/{topic}/signing", access.Admin, bodyRefused, nil, (*Server).deleteTopicSecret},
	{http.MethodPost, "/v1/topics/{topic}/signing/rotate", access.Admin, bodyOptionalJSON, nil, (*Server).rotateTopicSecret},
	{http.MethodGet, "/v1/signing", access.Admin, bodyRefused, nil, (*Server).getDefaultSecret},
	{http.MethodPut, "/v1/signing", access.Admin, bodyJSON, nil, (*Server).putDefaultSecret},
	{http.MethodPost, "/v1/signing/rotate", access.Admin, bodyOptionalJSON, nil, (*Server).rotateDefaultSecret},
	{http.MethodGet, "/v1/alerts", access.Read, bodyRefused, nil, (*Server).listAlerts},
	{http.MethodGet, "/v1/alerts/rules", access.Read, bodyRefused, nil, (*Server).listRules},
	{http.MethodGet, "/v1/alerts/rules/{rule}", access.Read, bodyRefused, nil, (*Server).getRule},
	{http.MethodPut, "/v1/alerts/rules/{rule}", access.Admin, bodyJSON, nil, (*Server).putRule},
	{http.MethodDelete, "/v1/alerts/rules/{rule}", access.Admin, bodyRefused, nil, (*Server).deleteRule},
	{http.MethodGet, "/v1/whoami", access.Read, bodyRefused, nil, (*Server).whoAmI},
	{http.MethodGet, "/v1/keys", access.Admin, bodyRefused, nil, (*Server).listKeys},
	{http.MethodPost, "/v1/keys", access.Admin, bodyJSON, nil, (*Server).createKey},
	{http.MethodDelete, "/v1/keys/{id}", access.Admin, bodyRefused, nil, (*Server).revokeKey},
	{http.MethodGet, eventsPath, access.Read, bodyRefused, eventQuery, (*Server).watchEvents},
	{http.MethodGet, "/livez", access.Public, bodyIgnored, nil, (*Server).live},
	{http.MethodGet, "/readyz", access.Public, bodyIgnored, nil, (*Server).ready},
	{http.MethodGet, "/metrics", access.Read, bodyIgnored, nil, (*Server).metricsPage},
	{http.MethodGet, "/openapi.json", access.Read, bodyIgnored, nil, (*Server).document},
}

// planPath is that of the POST that changes nothing.
const planPath = "/v1/jobs/plan"

// echoPath writes {name} as the router does.
var echoPath = strings.NewReplacer("{", ":", "}", "")

// addRoutes builds the router. Whatever every call needs is put around its
// handler here, in one place.
func (s *Server) addRoutes(e *echo.Echo) {
	for _, rt := range routes {
		path := echoPath.Replace(rt.path)
		s.templates[path] = rt.path
		if rt.method != http.MethodGet && rt.path != planPath {
			s.changes[rt.method+" "+path] = rt.method + " " + rt.path
		}
		handler := s.guard(rt)
		e.Add(rt.method, path, handler)
		if rt.method == http.MethodGet {
			e.Add(http.MethodHead, path, handler)
		}
	}
}

// guard refuses what no handler should have to look at.
func (s *Server) guard(rt route) echo.HandlerFunc {
	handle := s.traced(rt)
	return func(c echo.Context) error {
		if err := s.admit(c, rt.scope); err != nil {
			return err
		}
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
		return handle(s, c)
	}
}
