package v1

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/duehook/duehook/httpapi"
	"github.com/duehook/duehook/httpapi/decode"
)

// The examples of RFC 7396, appendix A, that are objects, and the form of values.
func TestMerged(t *testing.T) {
	for _, c := range [][3]string{
		{`{"a":"b"}`, `{"a":"c"}`, `{"a":"c"}`},
		{`{"a":"b"}`, `{"b":"c"}`, `{"a":"b","b":"c"}`},
		{`{"a":"b"}`, `{"a":null}`, `{}`},
		{`{"a":"b","b":"c"}`, `{"a":null}`, `{"b":"c"}`},
		{`{"a":["b"]}`, `{"a":"c"}`, `{"a":"c"}`},
		{`{"a":"c"}`, `{"a":["b"]}`, `{"a":["b"]}`},
		{`{"a":{"b":"c"}}`, `{"a":{"b":"d","c":null}}`, `{"a":{"b":"d"}}`},
		{`{"a":[{"b":"c"}]}`, `{"a":[1]}`, `{"a":[1]}`},
		{`["a","b"]`, `["c","d"]`, `["c","d"]`},
		{`{"a":"foo"}`, `"bar"`, `"bar"`},
		{`{"e":null}`, `{"a":1}`, `{"e":null,"a":1}`},
		{`[1,2]`, `{"a":"b","c":null}`, `{"a":"b"}`},
		{`{}`, `{"a":{"bb":{"ccc":null}}}`, `{"a":{"bb":{}}}`},
		{`{"z":1e400,"a":{"x": [ 1.50 ]}}`, `{"\u007a2":2,"a":{"y":0}}`, `{"z":1e400,"a":{"x":[ 1.50 ],"y":0},"\u007a2":2}`},
	} {
		var errs decode.Errors
		if got := string(merged([]byte(c[0]), []byte(c[1]), "", &errs)); got != c[2] || errs.Err() != nil {
			t.Errorf("%s with %s: %s, want %s; error %v", c[0], c[1], got, c[2], errs.Err())
		}
	}
	var errs decode.Errors
	merged([]byte(`{}`), []byte(`{"a":{"b/c":1,"b\/c":2}}`), "", &errs)
	var wrong *httpapi.Error
	if !errors.As(errs.Err(), &wrong) || wrong.Fields[0].Pointer != "/a/b~1c" {
		t.Errorf("a member that is given twice: %v", errs.Err())
	}
}

// A PATCH changes what it names, and nothing else.
func TestPatchOfResources(t *testing.T) {
	a := newKeyedAPI(t)
	a.want(201, "PATCH", "/v1/topics/t", `{"rate":50,"capacity":1000,"headers":{"X-A":"1"}}`)
	a.want(404, "PATCH", "/v1/groups/none", `{"members":{}}`)
	a.want(404, "PATCH", "/v1/schedules/none", `{"every":"1h"}`)
	a.want(404, "PATCH", "/v1/alerts/rules/none", `{"above":2}`)
	settings := a.want(200, "PATCH", "/v1/topics/t", `{"spread":"10m","capacity":null,"headers":{"X-B":"2"}}`, "If-Match", a.tag("GET", "/v1/topics/t", ""))
	s := object(settings["settings"])
	if s["rate"] != 50.0 || s["capacity"] != nil || s["spread"] != "10m" || !cmp.Equal(s["headers"], any(map[string]any{"X-A": "1", "X-B": "2"})) {
		t.Errorf("the settings: %v", s)
	}

	a.want(201, "PUT", "/v1/groups/g", `{"members":[{"name":"a","url":"https://a.example/"},{"name":"b","url":"https://b.example/","headers":{"X-Key":"k"}},{"name":"c","url":"https://c.example/"}]}`)
	g := a.want(200, "PATCH", "/v1/groups/g", `{"members":{"b":{"url":"https://new.example/"},"c":null,"d":{"url":"https://d.example/","filter_label":"eu"}}}`)
	want := []any{
		map[string]any{"name": "a", "url": "https://a.example/", "headers": map[string]any{}, "filter_label": nil},
		map[string]any{"name": "b", "url": "https://new.example/", "headers": map[string]any{"X-Key": "k"}, "filter_label": nil},
		map[string]any{"name": "d", "url": "https://d.example/", "headers": map[string]any{}, "filter_label": "eu"},
	}
	if diff := cmp.Diff(want, g["members"]); diff != "" {
		t.Errorf("members (-want +got):\n%s", diff)
	}
	if again := a.want(200, "PATCH", "/v1/groups/g", `{"members":{"b":{"url":"https://new.example/"}}}`); again["version"] != g["version"] {
		t.Errorf("a patch that changes nothing made version %v of %v", again["version"], g["version"])
	}
	if all := a.want(200, "PATCH", "/v1/groups/g", `{"members":[]}`)["members"].([]any); len(all) != 0 {
		t.Errorf("members: %v", all)
	}

	a.want(201, "PUT", "/v1/schedules/s", `{"cron":"0 9 * * *","timezone":"Europe/Berlin","job":{"topic":"t","url":"https://shop.example/hook","headers":{"X-Token":"s3cret"},"body":{"n": 1.50}}}`)
	a.want(200, "PATCH", "/v1/schedules/s", `{"cron":"30 9 * * *","job":{"priority":7}}`)
	want2 := a.want(200, "GET", "/v1/schedules/s/registration", "")
	j := object(want2["job"])
	if want2["cron"] != "30 9 * * *" || want2["timezone"] != "Europe/Berlin" || j["priority"] != 7.0 || object(j["headers"])["X-Token"] != "s3cret" || object(j["body"])["n"] != 1.5 {
		t.Errorf("the schedule: %v", want2)
	}
	if p := a.wantProblem(httpapi.CodeInvalidRequest, "PATCH", "/v1/schedules/s", `{"job":null}`); p.Errors[0].Pointer != "/job" {
		t.Errorf("a schedule without a job: %+v", p.Errors)
	}

	a.want(201, "PUT", "/v1/alerts/rules/r", `{"metric":"failures","above":5,"window":"10m","url":"https://ops.example/a"}`)
	r := a.want(200, "PATCH", "/v1/alerts/rules/r", `{"above":2.5,"window":null}`)
	if r["above"] != 2.5 || r["window"] != "5m" || r["url"] != "https://ops.example/a" {
		t.Errorf("the rule: %v", r)
	}
	for _, wrong := range []string{`[]`, `{"abov":1}`, `{"above":1,"above":2}`, `{"metric":null}`} {
		a.wantProblem(httpapi.CodeInvalidRequest, "PATCH", "/v1/alerts/rules/r", wrong)
	}
	for _, path := range []string{"/v1/topics/t", "/v1/groups/g", "/v1/schedules/s", "/v1/alerts/rules/r"} {
		a.wantProblem(httpapi.CodeVersionChanged, "PATCH", path, `{}`, "If-Match", `"1"`)
		a.want(200, "PATCH", path, `{}`, "If-Match", a.tag("GET", path, ""))
	}
}

// A merge patch has its media type, or that of JSON. The PATCH of a job is none, and other calls take only JSON.
func TestMediaTypeOfPatches(t *testing.T) {
	a := newAPI(t)
	a.want(201, "POST", "/v1/jobs", `{"topic":"t","id":"a","url":"https://shop.example/hook","delay":"1h"}`)
	a.want(201, "PUT", "/v1/topics/t", `{"priority":2}`)
	for path, mediaTypes := range map[string][]string{
		"/v1/jobs/t/a": {httpapi.MIMEJSON}, "/v1/topics/t": {httpapi.MIMEMergePatch, httpapi.MIMEMergePatch + "; charset=utf-8", httpapi.MIMEJSON},
	} {
		for _, mediaType := range mediaTypes {
			a.want(200, "PATCH", path, `{"priority":3}`, "Content-Type", mediaType)
		}
		a.wantProblem(httpapi.CodeUnsupportedMediaType, "PATCH", path, `{"priority":3}`, "Content-Type", "application/json-patch+json")
	}
	a.wantProblem(httpapi.CodeUnsupportedMediaType, "PATCH", "/v1/jobs/t/a", `{"priority":3}`, "Content-Type", httpapi.MIMEMergePatch)
	a.wantProblem(httpapi.CodeUnsupportedMediaType, "PUT", "/v1/topics/t", `{"priority":3}`, "Content-Type", httpapi.MIMEMergePatch)
}
