package v1

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/duehook/duehook/httpapi"
	"github.com/duehook/duehook/internal/app/schedules"
	"github.com/duehook/duehook/internal/documents"
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/schedule"
)

// schedulesWith are schedules of which no more can be made.
type schedulesWith struct {
	Schedules
	err error
}

func (s schedulesWith) Set(context.Context, string, *schedules.Draft, ...documents.Allow) (schedules.Schedule, bool, error) {
	return schedules.Schedule{}, false, s.err
}

func coverSchedules(a *keyedAPI) {
	const path, full = "/v1/schedules/nightly", `{"cron":"30 2 * * *","timezone":"America/New_York","job":{"topic":"reports","url":"https://shop.example/hook"}}`
	a.want(201, "PUT", path, full)
	a.want(200, "PUT", path, full)
	a.wantProblem(httpapi.CodeVersionChanged, "PUT", path+"2", full, "If-Match", `*`)
	a.want(200, "PUT", path, full, "If-Match", a.tag("GET", path, ""))
	a.want(200, "GET", "/v1/schedules?state=active&topic=reports&endpoint=https://shop.example/&limit=1", "")
	a.want(200, "GET", path+"/occurrences?from=2026-03-08T00:00:00Z&limit=2", "")
	a.wantProblem(httpapi.CodeInvalidRequest, "POST", path+"/pause", `{"note":"holi\u0000days"}`)
	a.want(200, "POST", path+"/pause", `{"note":"holidays"}`)
	a.want(200, "POST", path+"/pause", "")
	a.want(201, "POST", path+"/run", "", "Idempotency-Key", "once")
	a.want(200, "POST", path+"/run", "{}", "Idempotency-Key", "once")
	a.want(201, "PUT", "/v1/topics/reports", `{"capacity":1}`)
	a.wantProblem(httpapi.CodeTopicFull, "POST", path+"/run", "")
	a.want(200, "POST", "/v1/topics/reports/drain", "")
	a.wantProblem(httpapi.CodeTopicDraining, "POST", path+"/run", "")
	a.want(200, "POST", "/v1/topics/reports/resume", "")
	a.want(200, "DELETE", "/v1/topics/reports", "")
	a.want(200, "POST", path+"/resume", "{}")
	a.wantProblem(httpapi.CodeDestinationBlocked, "PATCH", path, `{"job":{"url":"http://169.254.169.254/"}}`)
	mine := a.v1.Schedules
	a.v1.Schedules = schedulesWith{a.schedules, schedules.ErrTooMany}
	a.wantProblem(httpapi.CodeTooManySchedules, "PATCH", path, `{}`)
	a.v1.Schedules = mine
	a.want(200, "DELETE", path, "")
	a.v1.Schedules = schedulesWith{a.schedules, schedules.ErrTooMany}
	a.wantProblem(httpapi.CodeTooManySchedules, "PUT", path, full)
	a.v1.Schedules = mine
}

// The job of a schedule for consumers looks as its jobs do.
func TestScheduleOfAPullQueue(t *testing.T) {
	a := newAPI(t)
	made := a.want(201, "PUT", "/v1/schedules/nightly", `{"every":"1h","job":{"topic":"t","pull":true}}`)
	listed := a.want(200, "GET", "/v1/schedules", "")["data"].([]any)[0].(map[string]any)
	for _, s := range []map[string]any{made, a.want(200, "GET", "/v1/schedules/nightly", ""), listed} {
		if diff := cmp.Diff(map[string]any{"topic": "t", "url": nil, "method": nil, "pull": true}, s["job"]); diff != "" {
			t.Errorf("job (-want +got):\n%s", diff)
		}
	}
}

func TestSetSchedule(t *testing.T) {
	a := newAPI(t)
	const body = `{ "order": 8812,   "note": "<&>" }`
	request := `{"cron":"30 2 * * *","timezone":"America/New_York","max_occurrences":3,"job":{"url":"https://shop.example/hook","headers":{"X-Token":"s3cret"},"labels":{"a":"b"},"retry":{},"expect":{"body":"ok"},"callbacks":{"dead":{"url":"https://shop.example/dead"},"retry":{"limit":2}},"body":` + body + `}}`
	made := a.want(201, "PUT", "/v1/schedules/nightly", request)
	next := made["next"].([]any)
	if made["state"] != "active" || made["version"] != 1767258000000.0 || made["remaining"] != 3.0 || len(next) != 3 {
		t.Errorf("%v", made)
	}
	if diff := cmp.Diff(map[string]any{
		"time": "2026-01-01T07:30:00.000Z", "local": "2026-01-01T02:30:00-05:00", "due_at": "2026-01-01T07:30:00.000Z", "effect": nil, "wanted": nil,
	}, a.want(200, "GET", "/v1/schedules/nightly/occurrences?from=2026-01-01T00:00:00Z&limit=1", "")["data"].([]any)[0]); diff != "" {
		t.Errorf("occurrence (-want +got):\n%s", diff)
	}
	if text := a.call("GET", "/v1/schedules/nightly", "").Body.String(); strings.Contains(text, "s3cret") || strings.Contains(text, "8812") {
		t.Errorf("a secret is shown: %s", text)
	}
	registration := a.call("GET", "/v1/schedules/nightly/registration", "").Body.String()
	if !strings.Contains(registration, body) || !strings.Contains(registration, "s3cret") {
		t.Errorf("registration %s", registration)
	}
	if again := a.want(200, "PUT", "/v1/schedules/nightly", registration); again["version"] != 1767258000000.0 {
		t.Errorf("its registration made version %v", again["version"])
	}
}

// A schedule gives every field of its job back, so that setting it again with its registration
// changes nothing.
func TestRegistrationOfAScheduleIsWhole(t *testing.T) {
	a := newAPI(t)
	given := map[string]string{
		"topic": `"reports"`, "biz_key": `"order"`, "order_key": `"customer"`, "url": `"https://shop.example/hook"`, "method": `"PUT"`,
		"spread": `"5m"`, "body": `{ "a":  1 }`, "content_type": `"application/json"`, "headers": `{"X-Token":"s3cret"}`, "timeout": `"5s"`,
		"ttl": `"1h"`, "labels": `{"shop":"berlin"}`, "priority": `3`, "retry": `{"steps":["1s","2s"],"limit":2}`, "expect": `{"body":"ok"}`,
		"callbacks": `{"dead":{"url":"https://shop.example/dead","method":"PUT","headers":{"X-Of":"7"}},"retry":{"limit":3}}`,
	}
	bySchedule := []string{"id", "uid", "delay", "at", "on_conflict", "count", "group", "pull", "filter_label", "body_text", "body_base64"}
	var job []string
	for name := range draftFields.Names() {
		if value, ok := given[name]; ok {
			job = append(job, `"`+name+`":`+value)
		} else if !slices.Contains(bySchedule, name) {
			t.Errorf("no example of %q", name)
		}
	}
	a.want(201, "PUT", "/v1/schedules/whole", `{"every":"1h","job":{`+strings.Join(job, ",")+`}}`)
	registration := a.call("GET", "/v1/schedules/whole/registration", "").Body.String()
	var got struct{ Job map[string]json.RawMessage }
	if err := json.Unmarshal([]byte(registration), &got); err != nil {
		t.Fatal(err)
	}
	for name, value := range given {
		if string(got.Job[name]) != value {
			t.Errorf("%s is %s, not %s", name, got.Job[name], value)
		}
	}
	if again := a.want(200, "PUT", "/v1/schedules/whole", registration); again["version"] != 1767258000000.0 {
		t.Errorf("its registration made version %v", again["version"])
	}
}

// What is wrong is named where it is in the request.
func TestRefusedSchedules(t *testing.T) {
	a := newAPI(t)
	a.refuses("PUT", "/v1/schedules/s", map[string]string{
		`{"every":"1h"}`: "/job",
		`{"job":{"url":"https://shop.example/"}}`:                                                                                        "/cron",
		`{"cron":"* * * * *","every":"1h","job":{"url":"https://shop.example/"}}`:                                                        "/every",
		`{"every":"1h","job":{}}`:                                                                                                        "/job/url",
		`{"every":"1h","job":5}`:                                                                                                         "/job",
		`{"every":"1h","job":{"url":5,"callbacks":{"dead":5}}}`:                                                                          "/job/url /job/callbacks/dead",
		`{"every":"1h","job":{"group":"paid","url":"https://shop.example/","delay":5}}`:                                                  "/job/delay /job/url",
		`{"every":"1h","job":{"url":"https://shop.example/","id":"x","delay":5}}`:                                                        "/job/id /job/delay",
		`{"every":"90x","jitter":"25h","overlap":"both","job":{"url":"https://shop.example/"}}`:                                          "/every /jitter /overlap",
		`{"every":"1h","misfire":{"policy":"maybe","grace":"2h","limit":0,"window":"1d"},"job":{"url":"https://shop.example/"}}`:         "/misfire/limit /misfire/window /misfire/policy /misfire/grace",
		`{"every":"1h","note":"x","job":{"url":"https://shop.example/"}}`:                                                                "/note",
		`{"every":"1h","paused":true,"note":"one\ntwo","job":{"url":"https://shop.example/"}}`:                                           "/note",
		`{"every":"1h","colour":"blue","max_occurrences":0,"job":{"url":"https://shop.example/"}}`:                                       "/colour /max_occurrences",
		`{"every":"1h","start_at":"2026-01-01T00:00:00.5Z","end_at":"2026-01-01","job":{"url":"https://shop.example/"}}`:                 "/end_at /start_at",
		`{"every":"1h","anchor":"0000-01-01T00:00:00+01:00","end_at":"9999-12-31T23:59:59-01:00","job":{"url":"https://shop.example/"}}`: "/end_at /anchor", // other years of UTC
	})
	a.wantProblem(httpapi.CodeInvalidRequest, "PUT", "/v1/schedules/"+strings.Repeat("x", 97), `{"every":"1h","job":{"url":"https://shop.example/"}}`)
}

// Jobs of a schedule are found by its name.
func TestOperationOfASchedule(t *testing.T) {
	a := newAPI(t)
	a.want(201, "PUT", "/v1/schedules/s", `{"every":"1h","job":{"topic":"t","url":"https://shop.example/hook"}}`)
	for range 3 {
		a.want(201, "POST", "/v1/schedules/s/run", "")
	}
	cancel := a.want(200, "POST", "/v1/operations?dry_run=true", `{"action":"cancel","filter":{"schedule":"s"}}`)
	if other := a.want(200, "POST", "/v1/operations?dry_run=true", `{"action":"cancel","filter":{"schedule":"o"}}`); cancel["matched"] != 3.0 || other["matched"] != 0.0 {
		t.Errorf("by schedule: %v, %v", cancel, other)
	}
}

// previewOf is the answer that a vector asks for.
func previewOf(v map[string]any) map[string]any {
	occurrences := []any{}
	expect, _ := v["expect"].([]any)
	for i, at := range expect {
		exact := strings.Replace(at.(string), "Z", ".000Z", 1)
		o := map[string]any{"time": exact, "due_at": exact, "local": v["local"].([]any)[i], "effect": nil, "wanted": nil}
		for member, list := range map[string]any{"effect": v["effects"], "wanted": v["wanted"]} {
			if list, ok := list.([]any); ok {
				o[member] = list[i]
			}
		}
		occurrences = append(occurrences, o)
	}
	omitted, ok := v["omitted"]
	if !ok {
		omitted = []any{}
	}
	return map[string]any{
		"timezone": v["timezone"], "dst": v["dst_in_force"], "tzdata": schedule.TZData(), "data": occurrences, "omitted": omitted,
	}
}

// The vectors of timetables hold through the API, too, in each member of the answer.
func TestPreviewVectors(t *testing.T) {
	data, err := os.ReadFile("../../testdata/schedules/vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Vectors []map[string]any
		Errors  []struct {
			Name    string
			Request map[string]any
			Error   string
		}
	}
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	a := newAPI(t)
	for _, v := range file.Vectors {
		request := map[string]any{}
		for _, name := range []string{"cron", "every", "anchor", "timezone", "dst", "start_at", "end_at", "from"} {
			if value, ok := v[name]; ok {
				request[name] = value
			}
		}
		request["limit"] = v["count"]
		text, _ := json.Marshal(request)
		got := a.want(200, "POST", "/v1/schedules/preview", string(text))
		delete(got, "next_cursor")
		if diff := cmp.Diff(previewOf(v), got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", v["name"], diff)
		}
	}
	for _, v := range file.Errors {
		text, _ := json.Marshal(v.Request)
		p := a.wantProblem(httpapi.CodeInvalidRequest, "POST", "/v1/schedules/preview", string(text))
		if len(p.Errors) != 1 || p.Errors[0].Pointer != v.Error {
			t.Errorf("%s: %+v, want %s", v.Name, p.Errors, v.Error)
		}
	}
}

// A timetable begins exactly at from: with the beginning of 1970, and after a fraction of
// a millisecond.
func TestPreviewBeginsExactlyAtFrom(t *testing.T) {
	a := newAPI(t)
	a.want(201, "PUT", "/v1/schedules/m", `{"cron":"* * * * *","job":{"url":"https://shop.example/hook"}}`)
	for from, want := range map[string]string{
		"1970-01-01T00:00:00Z":        "1970-01-01T00:00:00.000Z",
		"1970-01-01T01:00:00%2B01:00": "1970-01-01T00:00:00.000Z",
		"2026-05-05T00:00:00Z":        "2026-05-05T00:00:00.000Z",
		"2026-05-05T00:00:00.0001Z":   "2026-05-05T00:01:00.000Z",
	} {
		got := a.want(200, "GET", "/v1/schedules/m/occurrences?limit=1&from="+from, "")
		from, _ = url.QueryUnescape(from)
		for _, got := range []map[string]any{got, a.want(200, "POST", "/v1/schedules/preview", `{"cron":"* * * * *","limit":1,"from":"`+from+`"}`)} {
			if first := got["data"].([]any)[0].(map[string]any)["time"]; first != want {
				t.Errorf("from %s: %s, want %s", from, first, want)
			}
		}
	}
}

// ranBefore is schedules with past runs.
type ranBefore struct {
	Schedules
	runs []schedules.Run
}

func (s ranBefore) Runs(context.Context, string) ([]schedules.Run, error) { return s.runs, nil }

func TestRunsOfASchedule(t *testing.T) {
	a := newAPI(t)
	run := schedules.Run{
		Time: 1000, Kind: job.ByMisfire, Key: job.Key{Topic: "t", ID: "a"}, UID: "u1", State: job.Dead, Reason: job.ReasonRetryLimit, Attempts: 4,
		Started: 3000, Duration: 1500 * time.Millisecond, Status: 503, Error: "http_503", Ended: 4500,
	}
	a.v1.Schedules = ranBefore{a.v1.Schedules, []schedules.Run{
		run, {Time: 1000, Kind: job.ByMisfire, Key: run.Key, UID: "u2", State: job.Cancelled, Reason: job.ReasonCancelled, Ended: 5000},
	}}
	page := a.want(200, "GET", "/v1/schedules/s/runs?limit=1", "")
	if first := page["data"].([]any)[0].(map[string]any); first["uid"] != "u2" || first["outcome"] != "cancelled" || first["status"] != nil || first["duration_ms"] != nil || first["started_at"] != nil {
		t.Errorf("%v, want the last run, without an attempt", first)
	}
	page = a.want(200, "GET", "/v1/schedules/s/runs?limit=1&cursor="+page["next_cursor"].(string), "")
	if diff := cmp.Diff(map[string]any{
		"time": "1970-01-01T00:00:01.000Z", "kind": "misfire", "topic": "t", "id": "a", "uid": "u1", "outcome": "dead", "reason": "retry_limit",
		"attempts": 4.0, "status": 503.0, "error": "http_503", "started_at": "1970-01-01T00:00:03.000Z", "duration_ms": 1500.0, "ended_at": "1970-01-01T00:00:04.500Z",
	}, page["data"].([]any)[0]); diff != "" || page["next_cursor"] != nil {
		t.Errorf("%s; next %v", diff, page["next_cursor"])
	}
}

// A repeated pause takes the place of the one before, but for its begin.
func TestNotesOfAPause(t *testing.T) {
	a := newAPI(t)
	a.want(201, "PUT", "/v1/schedules/s", `{"every":"1h","job":{"url":"https://shop.example/hook"}}`)
	for _, c := range []struct {
		call, body string
		note       any
		version    float64
	}{
		{"resume", "{}", nil, 1},
		{"pause", "", nil, 2},
		{"pause", `{"note":"holidays"}`, "holidays", 3},
		{"pause", `{"note":"holidays"}`, "holidays", 3},
		{"pause", "", nil, 4},
		{"resume", "", nil, 5},
		{"resume", "", nil, 5},
		{"pause", `{"note":"again"}`, "again", 6},
		{"resume", "", nil, 7},
	} {
		if got := a.want(200, "POST", "/v1/schedules/s/"+c.call, c.body); object(got["paused"])["note"] != c.note || got["version"] != 1767258000000+c.version-1 {
			t.Errorf("%s %s: note %v, version %v, want %v, %v", c.call, c.body, got["paused"], got["version"], c.note, c.version)
		}
	}
	a.wantProblem(httpapi.CodeInvalidRequest, "POST", "/v1/schedules/s/pause", `{"note":"`+strings.Repeat("x", 513)+`"}`)
}

func TestListSchedules(t *testing.T) {
	a := newAPI(t)
	for _, name := range []string{"c", "a", "b"} {
		a.want(201, "PUT", "/v1/schedules/"+name, `{"every":"1h","job":{"topic":"t-`+name+`","url":"https://shop.example/hook"}}`)
	}
	a.want(200, "POST", "/v1/schedules/b/pause", "")
	names := func(query string) string {
		page := a.want(200, "GET", "/v1/schedules?"+query, "")
		text := ""
		for _, s := range page["data"].([]any) {
			text += s.(map[string]any)["name"].(string)
		}
		return fmt.Sprint(text, page["next_cursor"])
	}
	for query, want := range map[string]string{
		"": "abc<nil>", "limit=2": "abb", "limit=2&cursor=b": "c<nil>", "state=paused": "b<nil>", "topic=t-c": "c<nil>",
		"endpoint=https://other.example": "<nil>", "state=active&limit=1": "aa",
	} {
		if got := names(query); got != want {
			t.Errorf("%s: %s, want %s", query, got, want)
		}
	}
}

// The cursor of a timetable is its last occurrence, and there is none behind the last of all.
func TestPagesOfATimetable(t *testing.T) {
	a := newAPI(t)
	a.want(201, "PUT", "/v1/schedules/m", `{"every":"1h","end_at":"2026-01-01T12:00:00Z","job":{"url":"https://shop.example/hook"}}`)
	const list = "/v1/schedules/m/occurrences?limit=2"
	first := a.want(200, "GET", list, "")
	if first["next_cursor"] != "2026-01-01T10:00:00.000Z" || len(first["data"].([]any)) != 2 {
		t.Fatalf("the first page: %v", first)
	}
	last := a.want(200, "GET", list+"&cursor="+first["next_cursor"].(string), "")
	if all := last["data"].([]any); last["next_cursor"] != nil || len(all) != 1 || object(all[0])["time"] != "2026-01-01T11:00:00.000Z" {
		t.Errorf("the last page: %v", last)
	}
	preview := a.want(200, "POST", "/v1/schedules/preview", `{"every":"1h","limit":1,"cursor":"2026-01-01T10:00:00Z"}`)
	if first := object(preview["data"].([]any)[0]); first["time"] != "2026-01-01T11:00:00.000Z" {
		t.Errorf("the preview: %v", preview)
	}
}

// A schedule for a group shows it, and needs a key of all topics. It is not run by hand.
func TestScheduleForAGroup(t *testing.T) {
	a := newAPI(t)
	s := a.want(201, "PUT", "/v1/schedules/s", `{"every":"1h","job":{"topic":"t","group":"g","filter_label":"eu"}}`)
	if got := fmt.Sprint(s["job"]); got != "map[filter_label:eu group:g method:POST topic:t url:<nil>]" {
		t.Errorf("job: %s", got)
	}
	if s := a.want(200, "PATCH", "/v1/schedules/s", `{"jitter":"1m"}`); fmt.Sprint(object(s["job"])["filter_label"]) != "eu" {
		t.Errorf("patched: %v", s)
	}
	if p := a.wantProblem(httpapi.CodeInvalidRequest, "POST", "/v1/schedules/s/run", ""); len(p.Errors) != 1 || !strings.Contains(p.Errors[0].Message, "group") {
		t.Errorf("%+v", p)
	}
}
