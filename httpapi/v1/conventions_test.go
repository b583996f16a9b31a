package v1

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/duehook/duehook/httpapi"
)

// If-None-Match compares weakly, and a read of a version that the client has answers 304.
func TestNotModified(t *testing.T) {
	a := newAPI(t)
	a.want(201, "PUT", "/v1/groups/g", twoMembers)
	a.want(201, "PUT", "/v1/alerts/rules/r", `{"metric":"open_circuits"}`)
	a.want(201, "POST", "/v1/jobs", `{"topic":"t","id":"a","url":"https://shop.example/hook"}`)
	for _, path := range []string{"/v1/groups/g", "/v1/alerts/rules/r", "/v1/jobs/t/a/registration"} {
		tag := a.call("GET", path, "").Header().Get("ETag")
		for condition, status := range map[string]int{
			tag: 304, "W/" + tag: 304, `"1", W/` + tag: 304, "*": 304,
			`"1"`: 200, `W/"1"`: 200, "": 200, "no tag": 200,
		} {
			got := a.call("GET", path, "", "If-None-Match", condition)
			if got.Code != status || got.Header().Get("ETag") != tag || status == 304 && got.Body.Len() > 0 {
				t.Errorf("%s, If-None-Match %s: %d %s", path, condition, got.Code, got.Body)
			}
		}
	}
	// An answer that changes without its version is always sent.
	tag := a.call("GET", "/v1/topics/t", "").Header().Get("ETag")
	if got := a.call("GET", "/v1/topics/t", "", "If-None-Match", tag); got.Code != 200 {
		t.Errorf("a topic: %d", got.Code)
	}
	// A change compares weakly, too; If-Match does not (RFC 9110, 13.1).
	tag = a.call("GET", "/v1/groups/g", "").Header().Get("ETag")
	a.wantProblem(httpapi.CodeVersionChanged, "PUT", "/v1/groups/g", twoMembers, "If-None-Match", "W/"+tag)
	a.wantProblem(httpapi.CodeVersionChanged, "PUT", "/v1/groups/g", twoMembers, "If-Match", "W/"+tag)
	a.want(200, "PUT", "/v1/groups/g", twoMembers, "If-None-Match", `W/"1"`)
}

// Location leads to the resource, also if a proxy has taken a prefix off the path.
func TestLocations(t *testing.T) {
	a := newAPI(t)
	a.want(201, "PUT", "/v1/schedules/s", `{"every":"1h","job":{"url":"https://shop.example/hook"}}`)
	for _, call := range []struct{ path, body, want string }{
		{"/v1/jobs", `{"topic":"t","id":"a:1","url":"https://shop.example/hook"}`, "/v1/jobs/t/a:1"},
		{"/v1/operations", `{"action":"cancel","filter":{"topic":"t"}}`, "/v1/operations/"},
		{"/v1/schedules/s/run", "", "/v1/jobs/"},
	} {
		got := a.call("POST", call.path, call.body)
		for _, prefix := range []string{"", "/duehook", "/a/b"} {
			at, err := url.Parse("https://api.example" + prefix + call.path)
			if err != nil {
				t.Fatal(err)
			}
			to, err := at.Parse(got.Header().Get("Location"))
			if err != nil || to.Host != "api.example" || !strings.HasPrefix(to.Path, prefix+call.want) {
				t.Errorf("%s below %q: %d, Location %q leads to %v, %v", call.path, prefix, got.Code, got.Header().Get("Location"), to, err)
			}
		}
	}
}

// Calls that other queues have lead to those of duehook.
func TestMissingCalls(t *testing.T) {
	a := newAPI(t)
	for call, want := range map[string]string{
		"cancel": "DELETE /v1/jobs/t/a cancels", "retry": "POST /v1/jobs/t/a/run", "requeue": "POST /v1/jobs/t/a/replay",
		"reschedule": "PATCH /v1/jobs/t/a with", "update": "PATCH /v1/jobs/t/a with", "ack": "POST /v1/pull/ack",
		"explode": "/openapi.json lists every call",
	} {
		if p := a.wantProblem(httpapi.CodeNotFound, "POST", "/v1/jobs/t/a/"+call, ""); !strings.Contains(p.Detail, want) {
			t.Errorf("%s: %s", call, p.Detail)
		}
	}
}

// Some clients send {} with each DELETE.
func TestDeleteWithBody(t *testing.T) {
	a := newAPI(t)
	for body, status := range map[string]int{"": 200, "{}": 200, " {} \n": 200, `{"a":1}`: 422, "[]": 422, "{": 422, strings.Repeat(" ", 2000) + "{}": 422} {
		a.want(201, "PUT", "/v1/groups/g", twoMembers)
		r := httptest.NewRequest(http.MethodDelete, "/v1/groups/g", strings.NewReader(body))
		r.Header.Set("Authorization", "Bearer "+a.token)
		w := httptest.NewRecorder()
		a.server.Handler().ServeHTTP(w, r)
		if w.Code != status && (status != 200 || w.Code != 204) {
			t.Errorf("%q: %d %s", body, w.Code, w.Body)
		}
		a.call(http.MethodDelete, "/v1/groups/g", "")
	}
}

// A refused patch names the formats that are taken (RFC 5789, 2.2).
func TestAcceptPatch(t *testing.T) {
	a := newAPI(t)
	const merge = "application/merge-patch+json, application/json"
	for path, takes := range map[string]string{"/v1/jobs/t/a": "application/json", "/v1/topics/t": merge, "/v1/schedules/s": merge} {
		got := a.call("PATCH", path, "{}", "Content-Type", "application/json-patch+json")
		if got.Code != 415 || got.Header().Get("Accept-Patch") != takes {
			t.Errorf("%s: %d, Accept-Patch %q", path, got.Code, got.Header().Get("Accept-Patch"))
		}
	}
	if got := a.call("POST", "/v1/jobs", "{}", "Content-Type", "text/plain"); got.Header().Get("Accept-Patch") != "" {
		t.Error("a POST that is refused names formats of patches")
	}
}

// Metrics come in the format that the client asks for.
func TestMetricsFormats(t *testing.T) {
	a := newAPI(t)
	for accept, want := range map[string]string{
		"": "text/plain", "text/plain;version=0.0.4": "text/plain",
		"application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5": "application/openmetrics-text",
	} {
		got := a.call("GET", "/metrics", "", "Accept", accept)
		if media := got.Header().Get("Content-Type"); got.Code != 200 || !strings.HasPrefix(media, want) {
			t.Errorf("%q: %d %s", accept, got.Code, media)
		}
		if open := strings.HasSuffix(got.Body.String(), "# EOF\n"); open != (want != "text/plain") {
			t.Errorf("%q: it ends like OpenMetrics: %t", accept, open)
		}
	}
}
