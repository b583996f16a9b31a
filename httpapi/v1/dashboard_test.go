package v1

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/duehook/duehook/httpapi"
)

// fakePages says what it was asked for.
type fakePages struct{}

func (fakePages) Paths() []string { return []string{"/", "/jobs", "/jobs/*"} }

func (fakePages) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-cache")
	w.WriteHeader(http.StatusOK)
	_, _ = io.WriteString(w, "page "+r.URL.Path)
}

func TestPagesBesideTheAPI(t *testing.T) {
	a := newKeyedAPI(t, func(o *testOptions) { o.Dashboard = fakePages{} })
	for _, path := range []string{"/", "/jobs", "/jobs/order-timeout/order-1"} {
		for _, method := range []string{"GET", "HEAD"} {
			got := httptest.NewRecorder()
			a.server.Handler().ServeHTTP(got, httptest.NewRequest(method, path, http.NoBody)) // without a key
			if got.Code != http.StatusOK || got.Body.String() != "page "+path || got.Header().Get("Cache-Control") != "no-cache" {
				t.Errorf("%s %s: %d %q %v", method, path, got.Code, got.Body, got.Header())
			}
		}
	}
	a.wantProblem(httpapi.CodeMethodNotAllowed, "POST", "/jobs", "")
	for _, path := range []string{"/v1", "/v1/", "/v1/nothing", "/nothing"} {
		a.wantProblem(httpapi.CodeNotFound, "GET", path, "")
	}
	for path, status := range map[string]string{"/nothing": "404 page /nothing", "/v1/nothing": "404 {", "/livez": "200 "} {
		r, got := httptest.NewRequest("GET", path, http.NoBody), httptest.NewRecorder()
		r.Header.Set("Accept", "text/html,application/xhtml+xml")
		a.server.Handler().ServeHTTP(got, r)
		if answer := fmt.Sprint(got.Code, " ", got.Body); !strings.HasPrefix(answer, status) {
			t.Errorf("a browser gets %q for %s, want %s", answer, path, status)
		}
	}
	a.want(http.StatusOK, "GET", "/v1/jobs", "")
	metrics := a.call("GET", "/metrics", "").Body.String()
	if want := `duehook_http_requests_total{code="200",method="GET",route="dashboard"} 3`; !strings.Contains(metrics, want) {
		t.Errorf("the metrics lack %s", want)
	}
}
