package v1

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/duehook/duehook/httpapi"
	"github.com/duehook/duehook/internal/job"
)

// tag is the ETag of the answer to a call.
func (a *api) tag(method, target, body string) string {
	a.t.Helper()
	got := a.call(method, target, body)
	if got.Code >= 300 || len(got.Header().Values("ETag")) != 1 {
		a.t.Fatalf("%s %s: %d with the ETags %v: %s", method, target, got.Code, got.Header().Values("ETag"), got.Body)
	}
	return got.Header().Get("ETag")
}

// Each answer about a job has its version, and each change another one.
func TestTagsOfJobs(t *testing.T) {
	a := newAPI(t)
	const path = "/v1/jobs/t/a"
	seen := map[string]bool{}
	same := func(tag string) {
		t.Helper()
		j := a.want(200, "GET", path, "")
		if want := fmt.Sprintf(`"%.0f"`, j["version"]); tag != want || a.tag("GET", path, "") != want || a.tag("HEAD", path, "") != want ||
			a.tag("GET", path+"/registration", "") != want {
			t.Errorf("the ETag is %s, want %s", tag, want)
		}
		if seen[tag] {
			t.Errorf("%s was another version before", tag)
		}
		seen[tag] = true
	}
	same(a.tag("POST", "/v1/jobs", fmt.Sprintf(`{"url":"https://shop.example/hook","delay":"1h","topic":"t","id":"a","body":%d}`, 1)))
	same(a.tag("PATCH", path, `{"priority":9}`))
	same(a.tag("POST", path+"/run", ""))
	a.end(job.OutcomeRefused)
	same(a.tag("GET", path, ""))
	same(a.tag("POST", path+"/replay", ""))
	same(a.tag("DELETE", path, ""))
	// Its versions begin anew, behind the others.
	same(a.tag("POST", "/v1/jobs", `{"url":"https://shop.example/hook","topic":"t","id":"a","body":2}`))
	a.claim()
	same(a.tag("DELETE", path, ""))
}

// If-Match keeps every change from a job of another version.
func TestIfMatchOfJobs(t *testing.T) {
	a := newAPI(t)
	const path = "/v1/jobs/t/a"
	calls := func(kind string) [][3]string {
		if kind == "dead" {
			return [][3]string{{"POST", path + "/replay", ""}, {"POST", path + "/replay", `{"priority":9}`}, {"DELETE", path, ""}}
		}
		return [][3]string{{"PATCH", path, `{"priority":9}`}, {"POST", path + "/run", ""}, {"DELETE", path, ""}}
	}
	for _, kind := range []string{"waiting", "dead"} {
		registration := `{"url":"https://shop.example/hook","delay":"1h","topic":"t","id":"a","on_conflict":"replace","body":"` + kind + `"}`
		a.want(201, "POST", "/v1/jobs", registration)
		if kind == "dead" {
			a.want(200, "POST", path+"/run", "")
			a.end(job.OutcomeRefused)
		}
		before := a.want(200, "GET", path, "")
		for _, c := range calls(kind) {
			tag := a.tag("GET", path, "")
			for _, other := range []string{`"x"`, "W/" + tag, `"01KDWCJ2M00000000000000001-99", "b"`, tag[:len(tag)-2] + `9"`, `""`, `"W/x", W/` + tag} {
				if p := a.wantProblem(httpapi.CodeVersionChanged, c[0], c[1], c[2], "If-Match", other); p.Status != 412 {
					t.Errorf("%v: %+v", c, p)
				}
				if diff := cmp.Diff(before, a.want(200, "GET", path, "")); diff != "" {
					t.Fatalf("%v If-Match %s changed the job:\n%s", c, other, diff)
				}
			}
		}
		for i, match := range []string{"*", `"x" ,` + "\t%s,", `W/"y", %s`} {
			if match != "*" {
				match = fmt.Sprintf(match, a.tag("GET", path, ""))
			}
			c := calls("waiting")[i]
			if i == 0 && kind == "dead" {
				c = calls("dead")[1]
			}
			a.want(200, c[0], c[1], c[2], "If-Match", match)
		}
	}
	a.wantProblem(httpapi.CodeJobNotFound, "DELETE", "/v1/jobs/t/nobody", "", "If-Match", "*")
	a.want(201, "POST", "/v1/jobs", `{"url":"https://shop.example/hook","delay":"1h","topic":"t","id":"two"}`)
	a.want(200, "DELETE", "/v1/jobs/t/two", "", "If-Match", `"x"`, "If-Match", a.tag("GET", "/v1/jobs/t/two", ""))
	a.wantProblem(httpapi.CodeVersionChanged, "DELETE", "/v1/jobs/t/two", "", "If-Match", `"1"`) // it is cancelled
	a.want(200, "DELETE", "/v1/jobs/t/two", "", "If-Match", a.tag("GET", "/v1/jobs/t/two", ""))
}

// The conditions of a request guard the version of a topic or of a rule.
func TestVersionsOfContents(t *testing.T) {
	a := newAPI(t)
	a.want(201, "POST", "/v1/jobs", `{"url":"https://shop.example/hook","delay":"1h","topic":"t"}`)
	for _, c := range []struct{ path, one, two string }{
		{"/v1/topics/t", `{"rate":7,"headers":{"x-a":"1"},"retry":{"steps":["1s"]}}`, `{"rate":8}`},
		{"/v1/alerts/rules/r", `{"metric":"backlog","above":10}`, `{"metric":"backlog","above":11}`},
	} {
		first := a.tag("PUT", c.path, c.one)
		if got := a.tag("GET", c.path, ""); got != first {
			t.Errorf("%s: %s when it was put, then %s", c.path, first, got)
		}
		a.clock.Advance(time.Second)
		second := a.tag("PUT", c.path, c.two)
		if first == second {
			t.Errorf("%s: both contents have the version %s", c.path, first)
		}
		before := a.want(200, "GET", c.path, "")
		for _, old := range []string{first, "W/" + second, `"x"`} {
			a.wantProblem(httpapi.CodeVersionChanged, "PUT", c.path, c.one, "If-Match", old)
			a.wantProblem(httpapi.CodeVersionChanged, "DELETE", c.path, "", "If-Match", old)
		}
		a.wantProblem(httpapi.CodeInvalidRequest, "PUT", c.path, c.one, "If-Match", "x")
		if diff := cmp.Diff(before, a.want(200, "GET", c.path, "")); diff != "" {
			t.Errorf("%s: changed in spite of If-Match:\n%s", c.path, diff)
		}
		a.wantProblem(httpapi.CodeVersionChanged, "PUT", c.path, c.one, "If-None-Match", "*")
		a.wantProblem(httpapi.CodeVersionChanged, "PUT", c.path, c.one, "If-None-Match", second)
		a.want(200, "PUT", c.path, c.one, "If-Match", first+", "+second)
		a.want(200, "PUT", c.path, c.two, "If-Match", "*", "If-None-Match", second)
		a.want(200, "DELETE", c.path, "", "If-Match", a.tag("GET", c.path, ""))
	}
	for _, nothing := range []string{"*", `"x"`} {
		a.wantProblem(httpapi.CodeVersionChanged, "PUT", "/v1/alerts/rules/r", `{"metric":"backlog","above":10}`, "If-Match", nothing)
		a.wantProblem(httpapi.CodeVersionChanged, "PUT", "/v1/topics/nothing", `{"rate":1}`, "If-Match", nothing)
	}
	a.wantProblem(httpapi.CodeAlertRuleNotFound, "DELETE", "/v1/alerts/rules/r", "", "If-Match", "*")
	// A topic that holds jobs is there, although nothing of it is set.
	a.want(200, "POST", "/v1/topics/t/pause", "", "If-Match", a.tag("GET", "/v1/topics/t", ""))
	a.wantProblem(httpapi.CodeVersionChanged, "POST", "/v1/topics/t/resume", "", "If-Match", `"x"`)
	a.want(200, "POST", "/v1/topics/t/resume", "", "If-Match", "*")
	a.wantProblem(httpapi.CodeVersionChanged, "PUT", "/v1/topics/t", `{"rate":1}`, "If-None-Match", "*")
	a.want(201, "PUT", "/v1/topics/t", `{"rate":1}`, "If-Match", "*")
	a.want(201, "PUT", "/v1/topics/new", `{"rate":1}`, "If-None-Match", "*")
	a.want(201, "PUT", "/v1/alerts/rules/r", `{"metric":"backlog","above":10}`, "If-None-Match", "*")
}
