package v1

import (
	"fmt"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/duehook/duehook/httpapi"
	"github.com/duehook/duehook/internal/job"
)

func TestPatch(t *testing.T) {
	a := newAPI(t)
	a.want(201, "POST", "/v1/jobs", `{"url":"https://shop.example/hook","topic":"t","id":"a","delay":"1h","ttl":"3h","body":{"a":1},"headers":{"x-a":"1"},"retry":{"limit":2}}`)
	a.clock.Advance(10 * time.Minute)
	got := a.want(200, "PATCH", "/v1/jobs/t/a", `{"delay":"30m","body":{ "b" : 2 },"ttl":"4h","retry":{"steps":["5s"]},"url":"https://other.example/hook"}`)
	if got["due_at"] != "2026-01-01T09:40:00.000Z" || got["version"] != 1767258000001.0 || got["max_attempts"] != 2.0 || got["url"] != "https://other.example/hook" {
		t.Errorf("got %v", got)
	}
	j := a.stored("t", "a")
	if string(j.Spec.Body) != `{ "b" : 2 }` || j.ExpiresAt != j.CreatedAt.Add(4*time.Hour) || len(j.Spec.Headers) != 1 {
		t.Errorf("stored %+v", j)
	}
	a.want(200, "PATCH", "/v1/jobs/t/a", `{"body_text":"hello","headers":{}}`)
	if j := a.stored("t", "a"); string(j.Spec.Body) != "hello" || j.Spec.ContentType != "text/plain; charset=utf-8" || j.Spec.Headers != nil || j.DueAt != j.NextAt {
		t.Errorf("stored %+v", j.Spec)
	}
}

// A change that loses against another tries again on what that left.
func TestPatchMeetsAnotherChange(t *testing.T) {
	a := newAPI(t)
	a.want(201, "POST", "/v1/jobs", `{"url":"https://shop.example/hook","topic":"t","id":"a","delay":"1h"}`)
	done := make(chan *httptest.ResponseRecorder)
	for _, change := range []string{`{"url":"https://other.example/hook"}`, `{"body":{"b":1}}`, `{"ttl":"5h"}`} {
		go func() { done <- a.call("PATCH", "/v1/jobs/t/a", change) }()
	}
	for range 3 {
		if r := <-done; r.Code != 200 {
			t.Errorf("got %d %s", r.Code, r.Body)
		}
	}
	j := a.stored("t", "a")
	if j.Version != 4 || j.Spec.Destination != "https://other.example/hook" || string(j.Spec.Body) != `{"b":1}` || j.Spec.TTL != 5*time.Hour {
		t.Errorf("stored %+v", j)
	}
}

// What a registration says of attempts and searches can be changed, too.
func TestPatchOfTheRest(t *testing.T) {
	a := newAPI(t)
	a.want(201, "POST", "/v1/jobs", `{"url":"https://shop.example/hook","topic":"t","id":"a","delay":"1h","biz_key":"one","expect":{"body":"ok"}}`)
	got := a.want(200, "PATCH", "/v1/jobs/t/a", `{"method":"PUT","timeout":"7s","expect":{"body":"done"},"biz_key":"two"}`)
	if got["method"] != "PUT" || got["biz_key"] != "two" {
		t.Errorf("got %v", got)
	}
	if j := a.stored("t", "a"); j.Spec.Timeout != 7*time.Second || j.Spec.ExpectBody != "done" {
		t.Errorf("stored %+v", j.Spec)
	}
	if one, _ := a.pages("biz_key=one"); one != nil {
		t.Errorf("by the biz_key of before: %v", one)
	}
	if two, _ := a.pages("biz_key=two"); !slices.Equal(two, []string{"a"}) {
		t.Errorf("by biz_key: %v", two)
	}
	got = a.want(200, "PATCH", "/v1/jobs/t/a", `{"expect":null,"biz_key":null,"method":null}`)
	if j := a.stored("t", "a"); got["biz_key"] != nil || got["method"] != "PUT" || j.Spec.ExpectBody != "" {
		t.Errorf("got %v, stored %+v", got, j.Spec)
	}
	if two, _ := a.pages("biz_key=two"); two != nil {
		t.Errorf("by the biz_key that is gone: %v", two)
	}
	a.refuses("PATCH", "/v1/jobs/t/a", map[string]string{
		`{"method":"HEAD"}`: "/method", `{"timeout":"1h"}`: "/timeout", `{"expect":{"body":""}}`: "/expect/body",
		`{"expect":{"status":200}}`: "/expect/status", `{"biz_key":""}`: "/biz_key", `{"method":null}`: "", `{"on_conflict":"reject"}`: "/on_conflict",
	})
}

// A dead letter cannot be replaced under another order key, and the answer names the way out.
func TestReplaceUnderAnotherOrderKey(t *testing.T) {
	a := newAPI(t)
	a.dead(`{"url":"https://a.example/","topic":"t","id":"o","order_key":"k"}`)
	const other = `{"url":"https://a.example/","topic":"t","id":"o","order_key":"other","on_conflict":"replace","delay":60}`
	if p := a.wantProblem(httpapi.CodeJobDead, "POST", "/v1/jobs", other); !strings.Contains(p.Detail, "Discard it first") || strings.Contains(p.Detail, "on_conflict") {
		t.Error(p.Detail)
	}
	a.want(200, "DELETE", "/v1/jobs/t/o", "")
	a.want(201, "POST", "/v1/jobs", other)
	if p := a.wantProblem(httpapi.CodeJobExists, "POST", "/v1/jobs", strings.Replace(other, `"order_key":"other",`, "", 1)); !strings.Contains(p.Detail, "Cancel it first") {
		t.Error(p.Detail)
	}
}

// dead registers a job, and has its receiver refuse it.
func (a *api) dead(registration string) map[string]any {
	a.t.Helper()
	j := a.want(201, "POST", "/v1/jobs", registration)
	a.end(job.OutcomeRefused)
	return a.want(200, "GET", fmt.Sprintf("/v1/jobs/%s/%s", j["topic"], j["id"]), "")
}

func TestDiscard(t *testing.T) {
	a := newAPI(t)
	dead := a.dead(`{"url":"https://shop.example/hook","topic":"t","id":"a"}`)
	if diff := cmp.Diff(map[string]any{"result": "discarded"}, a.want(200, "DELETE", "/v1/jobs/t/a", "")); diff != "" {
		t.Error(diff)
	}
	j := a.want(200, "GET", "/v1/jobs/t/a", "")
	if j["state"] != "cancelled" || j["reason"] != "discarded" || j["attempts"] != dead["attempts"] || j["uid"] != dead["uid"] {
		t.Errorf("discarded: %v", j)
	}
	if again := a.want(200, "DELETE", "/v1/jobs/t/a", ""); again["result"] != "discarded" {
		t.Errorf("discarded again: %v", again)
	}
	if p := a.wantProblem(httpapi.CodeJobFinished, "POST", "/v1/jobs/t/a/run", ""); !strings.Contains(p.Detail, "was discarded") {
		t.Errorf("a second time: %s", p.Detail)
	}
	if groups := a.want(200, "GET", "/v1/dead", "")["data"].([]any); len(groups) != 0 {
		t.Errorf("dead letters: %v", groups)
	}
	if found, _ := a.pages("reason=discarded"); !slices.Equal(found, []string{"a"}) {
		t.Errorf("by reason: %v", found)
	}
	if got := a.want(200, "GET", "/v1/jobs/t/a/explain", ""); !strings.Contains(fmt.Sprint(got["reasons"]), "A client discarded this dead letter.") {
		t.Errorf("explained: %v", got["reasons"])
	}
	if j := a.want(200, "POST", "/v1/jobs/t/a/replay", ""); j["state"] != "waiting" {
		t.Errorf("replayed: %v", j)
	}
}

func TestReplayWithChanges(t *testing.T) {
	a := newAPI(t)
	dead := a.dead(`{"url":"https://shop.example/hook","topic":"t","id":"a","body":{"a":1},"headers":{"x-a":"1"},"ttl":"1h","biz_key":"one"}`)
	a.clock.Advance(time.Minute)
	a.refuses("POST", "/v1/jobs/t/a/replay", map[string]string{
		`{"url":"nowhere"}`: "/url", `{"topic":"u"}`: "/topic", `{"colour":1}`: "/colour", `{"retry":{"steps":[]}}`: "/retry/steps",
		`{"delay":1,"at":"2026-01-01T10:00:00Z"}`: "/at", `[]`: "",
	})
	if diff := cmp.Diff(dead, a.want(200, "GET", "/v1/jobs/t/a", "")); diff != "" {
		t.Errorf("refusals changed the job:\n%s", diff)
	}
	j := a.want(200, "POST", "/v1/jobs/t/a/replay", `{"url":"https://other.example/hook","body":{"a":2},"headers":{},"retry":{"limit":1},"ttl":"2h","delay":"10m","biz_key":null}`)
	if j["uid"] != dead["uid"] || j["state"] != "waiting" || j["url"] != "https://other.example/hook" || j["max_attempts"] != 2.0 ||
		j["due_at"] != "2026-01-01T09:11:00.087Z" || j["next_at"] != j["due_at"] || j["biz_key"] != nil || j["attempts"] != 0.0 {
		t.Errorf("replayed: %v", j)
	}
	stored := a.stored("t", "a")
	if string(stored.Spec.Body) != `{"a":2}` || stored.Spec.Headers != nil || stored.ExpiresAt != stored.DueAt.Add(-10*time.Minute+2*time.Hour) {
		t.Errorf("stored: %+v", stored)
	}
	a.wantProblem(httpapi.CodeJobInFlight, "POST", "/v1/jobs/t/a/replay", `{"url":"https://third.example/hook"}`)
	a.clock.Advance(10 * time.Minute)
	a.end(job.OutcomeRefused)
	// Null means absent, for these.
	if j := a.want(200, "POST", "/v1/jobs/t/a/replay", `{"url":null,"delay":null}`); j["url"] != "https://other.example/hook" || j["attempts"] != 0.0 {
		t.Errorf("replayed as it was: %v", j)
	}
}

func TestCancel(t *testing.T) {
	a := newAPI(t)
	a.want(201, "POST", "/v1/jobs", `{"url":"https://shop.example/hook","topic":"t","id":"waits","delay":"1h"}`)
	earlier := a.tag("GET", "/v1/jobs/t/waits", "")
	a.want(200, "PATCH", "/v1/jobs/t/waits", `{"delay":"2h"}`)
	first := a.tag("GET", "/v1/jobs/t/waits", "")
	if diff := cmp.Diff(map[string]any{"result": "cancelled"}, a.want(200, "DELETE", "/v1/jobs/t/waits", "")); diff != "" {
		t.Error(diff)
	}
	ended := a.stored("t", "waits")
	for _, header := range []string{"*", first, a.tag("GET", "/v1/jobs/t/waits", "")} { // the first answer was lost
		again := a.call("DELETE", "/v1/jobs/t/waits", "", "If-Match", header)
		if again.Code != 200 || strings.TrimSpace(again.Body.String()) != `{"result":"cancelled"}` {
			t.Errorf("cancelled again: %d %s", again.Code, again.Body)
		}
	}
	a.wantProblem(httpapi.CodeVersionChanged, "DELETE", "/v1/jobs/t/waits", "", "If-Match", earlier)
	if diff := cmp.Diff(ended, a.stored("t", "waits")); diff != "" {
		t.Errorf("cancelled again, the job changes:\n%s", diff)
	}
	a.want(201, "POST", "/v1/jobs", `{"url":"https://shop.example/hook","topic":"t","id":"arrives"}`)
	a.end(job.OutcomeDelivered)
	p := a.wantProblem(httpapi.CodeJobFinished, "DELETE", "/v1/jobs/t/arrives", "")
	if p.State != "delivered" || p.UID != a.stored("t", "arrives").UID {
		t.Errorf("the answer does not name the job: %+v", p)
	}
	a.want(201, "POST", "/v1/jobs", `{"url":"https://shop.example/hook","topic":"t","id":"flies"}`)
	a.end(job.OutcomeFailed)
	a.clock.Advance(time.Minute)
	claimed := a.claim()
	for range 2 { // it may be said again
		if diff := cmp.Diff(map[string]any{"result": "in_flight", "attempt": 2.0}, a.want(202, "DELETE", "/v1/jobs/t/flies", "")); diff != "" {
			t.Error(diff)
		}
	}
	a.settle(claimed[0], job.OutcomeFailed, job.Attempt{Status: 500})
	if j := a.want(200, "GET", "/v1/jobs/t/flies", ""); j["state"] != "cancelled" || j["attempts"] != 2.0 || j["ended_at"] == nil || j["next_at"] != nil {
		t.Errorf("after the attempt: %v", j)
	}
}

func TestFinish(t *testing.T) {
	a := newAPI(t)
	a.want(201, "POST", "/v1/jobs", `{"url":"https://shop.example/hook","topic":"t","id":"a","delay":"1h","on_conflict":"renew"}`)
	a.wantProblem(httpapi.CodeJobExists, "POST", "/v1/jobs", `{"url":"https://shop.example/hook","topic":"t","id":"a","delay":"2h","on_conflict":"renew"}`)
	if j := a.want(200, "POST", "/v1/jobs/t/a/finish", "{}"); j["state"] != "delivered" || j["reason"] != "finished" || j["attempts"] != 0.0 || j["next_at"] != nil {
		t.Errorf("finished as %v", j)
	}
	a.wantProblem(httpapi.CodeJobFinished, "POST", "/v1/jobs/t/a/finish", "")
	a.want(201, "POST", "/v1/jobs", `{"url":"https://shop.example/hook","topic":"t","id":"a","on_conflict":"renew"}`)
	a.claim()
	a.wantProblem(httpapi.CodeJobInFlight, "POST", "/v1/jobs/t/a/finish", "")
}

func TestRunAndReplay(t *testing.T) {
	a := newAPI(t)
	a.want(201, "POST", "/v1/jobs", `{"url":"https://shop.example/hook","topic":"t","id":"a","delay":"1h"}`)
	a.clock.Advance(time.Minute)
	if j := a.want(200, "POST", "/v1/jobs/t/a/run", ""); j["next_at"] != "2026-01-01T09:01:00.000Z" || j["due_at"] != j["next_at"] || j["state"] != "waiting" {
		t.Errorf("run: %v", j)
	}
	if p := a.wantProblem(httpapi.CodeJobInFlight, "POST", "/v1/jobs/t/a/replay", ""); !strings.Contains(p.Detail, "waiting") || !strings.Contains(p.Detail, "not ended") {
		t.Errorf("replay of a job that has not ended: %s", p.Detail)
	}
	a.end(job.OutcomeRefused)
	dead := a.want(200, "GET", "/v1/jobs/t/a", "")
	if dead["state"] != "dead" || dead["reason"] != "receiver_gone" {
		t.Errorf("dead: %v", dead)
	}
	if p := a.wantProblem(httpapi.CodeJobFinished, "POST", "/v1/jobs/t/a/run", "{ }"); !strings.Contains(p.Detail, "dead") {
		t.Errorf("run of a dead job: %s", p.Detail)
	}
	if j := a.want(200, "POST", "/v1/jobs/t/a/replay", "{}"); j["state"] != "waiting" || j["attempts"] != 0.0 || j["uid"] != dead["uid"] || j["reason"] != nil {
		t.Errorf("replay: %v", j)
	}
}

func TestAttempts(t *testing.T) {
	a := newAPI(t)
	a.want(201, "POST", "/v1/jobs", `{"url":"https://shop.example/hook","topic":"t","id":"a"}`)
	if got := a.call("GET", "/v1/jobs/t/a/attempts", "").Body.String(); got != "{\"data\":[],\"next_cursor\":null}\n" {
		t.Errorf("before the first: %s", got)
	}
	a.settle(a.claim()[0], job.OutcomeFailed, job.Attempt{
		Status: 500, Error: "http_500", ResponseBody: "try <later>",
		ResponseHeaders: []job.Header{{Name: "Retry-After", Value: "1"}, {Name: "Server", Value: "<nginx>"}},
		Timings:         job.Timings{DNS: 3_999 * time.Microsecond, Connect: time.Nanosecond, TLS: 20 * time.Millisecond, FirstByte: 50 * time.Millisecond},
	})
	a.clock.Advance(time.Minute)
	a.settle(a.claim()[0], job.OutcomeFailed, job.Attempt{Error: "response_timeout", Timings: job.Timings{Reused: true}, ConnectRetries: 2})
	want := `{"data":[` +
		`{"number":1,"started_at":"2026-01-01T09:00:00.000Z","duration_ms":87,"dns_ms":3,"connect_ms":0,"tls_ms":20,"first_byte_ms":50,"connection_reused":false,"status":500,"error":"http_500","response_body":"try <later>","response_headers":{"Retry-After":"1","Server":"<nginx>"},"next_at":"2026-01-01T09:00:15.087Z","reason":"ladder","version":1767258000001},` +
		`{"number":2,"started_at":"2026-01-01T09:01:00.087Z","duration_ms":87,"dns_ms":null,"connect_ms":null,"tls_ms":null,"first_byte_ms":null,"connection_reused":true,"status":null,"error":"response_timeout","response_body":null,"response_headers":{},"next_at":"2026-01-01T09:04:00.174Z","reason":"ladder","version":1767258000003,"connect_retries":2}],"next_cursor":null}` + "\n"
	if diff := cmp.Diff(want, a.call("GET", "/v1/jobs/t/a/attempts", "").Body.String()); diff != "" {
		t.Error(diff)
	}
	if last := object(a.want(200, "GET", "/v1/jobs/t/a", "")["last_attempt"]); last["number"] != 2.0 {
		t.Errorf("last_attempt: %v", last)
	}
}

// entries reads a list page by page.
func (a *api) entries(target string) (all []any, pages int) {
	a.t.Helper()
	join := "?cursor="
	if strings.Contains(target, "?") {
		join = "&cursor="
	}
	for cursor, more := "", true; more; pages++ {
		page := a.want(200, "GET", target+cursor, "")
		all = append(all, page["data"].([]any)...)
		cursor, more = page["next_cursor"].(string)
		cursor = join + url.QueryEscape(cursor)
	}
	return all, pages
}

// pages lists everything that a query finds, page by page.
func (a *api) pages(query string) (ids []string, pages int) {
	a.t.Helper()
	jobs, pages := a.entries("/v1/jobs?" + query)
	for _, j := range jobs {
		ids = append(ids, object(j)["id"].(string))
	}
	return ids, pages
}

func TestList(t *testing.T) {
	a := newAPI(t)
	if got := a.call("GET", "/v1/jobs", "").Body.String(); got != "{\"data\":[],\"next_cursor\":null}\n" {
		t.Errorf("of nothing: %s", got)
	}
	var all []string
	for i := range 25 {
		id := fmt.Sprintf("j%02d", i)
		all = append(all, id)
		a.want(201, "POST", "/v1/jobs", fmt.Sprintf(`{"url":"https://shop.example/hook","topic":"t%d","id":%q,"delay":%d,"biz_key":"b%d"}`, i%2, id, 60+i, i%5))
	}
	a.want(200, "DELETE", "/v1/jobs/t0/j00", "")
	for query, want := range map[string]int{
		"limit=1000": 25, "limit=4": 25, "topic=t0": 13, "topic=t0&limit=1": 13, "biz_key=b3&limit=2": 5, "state=cancelled": 1,
		"state=waiting&topic=t0&limit=5": 12, "topic=t1&biz_key=b3": 3, "topic=none": 0, "state=dead": 0, "biz_key=b0&state=cancelled&topic=t0": 1,
	} {
		ids, pages := a.pages(query)
		slices.Sort(ids)
		if len(ids) != want || len(slices.Compact(ids)) != want {
			t.Errorf("%s: got %v, want %d jobs", query, ids, want)
		}
		if query == "limit=4" {
			if pages < 7 || !slices.Equal(ids, all) {
				t.Errorf("%s: %d pages, %v", query, pages, ids)
			}
		}
	}
}

// A cursor is for the listing that handed it out.
func TestCursorOfAnotherListing(t *testing.T) {
	a := newAPI(t)
	for i := range 3 {
		a.want(201, "POST", "/v1/jobs", fmt.Sprintf(`{"url":"https://shop.example/hook","topic":"t","id":"%d","delay":60}`, i))
	}
	cursor := a.want(200, "GET", "/v1/jobs?topic=t&limit=1", "")["next_cursor"].(string)
	for _, query := range []string{"topic=u", "state=dead", "biz_key=b"} {
		if p := a.wantProblem(httpapi.CodeInvalidRequest, "GET", "/v1/jobs?"+query+"&cursor="+cursor, ""); p.Errors[0].Pointer != "?cursor" {
			t.Errorf("%s: %+v", query, p)
		}
	}
}

func TestTopics(t *testing.T) {
	a := newAPI(t)
	if got := a.call("GET", "/v1/topics", "").Body.String(); got != "{\"data\":[],\"next_cursor\":null}\n" {
		t.Errorf("of nothing: %s", got)
	}
	for i, delay := range []string{"0s", "30s", "5m", "20m", "45m", "3h", "12h", "3d", "10d", "100d"} {
		a.want(201, "POST", "/v1/jobs", fmt.Sprintf(`{"url":"https://shop.example/hook","topic":"t","id":"%d","delay":%q}`, i, delay))
	}
	a.want(201, "POST", "/v1/jobs", `{"url":"https://shop.example/hook","topic":"s","delay":60}`)
	a.want(200, "DELETE", "/v1/jobs/t/9", "")
	states := map[string]any{"waiting": 9.0, "ready": 0.0, "running": 0.0, "retrying": 0.0, "delivered": 0.0, "dead": 0.0, "cancelled": 1.0, "expired": 0.0}
	want := map[string]any{"name": "t", "state": "active", "paused": nil, "draining": nil, "created_at": nil, "updated_at": nil, "version": 0.0, "settings": nil, "limits": nil, "states": states, "due_in": map[string]any{
		"0_1min": 2.0, "1_10min": 1.0, "10_30min": 1.0, "30min_1h": 1.0, "1_6h": 1.0, "6h_1day": 1.0, "1_7day": 1.0, "7_30day": 1.0, "30day_more": 0.0,
	}, "overdue": 1.0, "due_in_partial": false}
	if diff := cmp.Diff(want, a.want(200, "GET", "/v1/topics/t", "")); diff != "" {
		t.Error(diff)
	}
	page := a.want(200, "GET", "/v1/topics?limit=1", "")
	if list := page["data"].([]any); len(list) != 1 || object(list[0])["name"] != "s" {
		t.Errorf("first page: %v", page)
	}
	page = a.want(200, "GET", "/v1/topics?limit=1&cursor="+page["next_cursor"].(string), "")
	if list := page["data"].([]any); len(list) != 1 || object(list[0])["name"] != "t" || page["next_cursor"] != nil {
		t.Errorf("second page: %v", page)
	}
	if list := a.want(200, "GET", "/v1/topics?q=T", "")["data"].([]any); len(list) != 1 || object(list[0])["name"] != "t" {
		t.Errorf("found: %v", list)
	}
	list := a.want(200, "GET", "/v1/topics", "")["data"].([]any)
	if len(list) != 2 || object(list[0])["name"] != "s" || !cmp.Equal(object(list[1])["states"], any(states)) {
		t.Errorf("list: %v", list)
	}
}
