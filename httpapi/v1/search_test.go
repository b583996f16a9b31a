package v1

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/duehook/duehook/httpapi"
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/listing"
)

// search is the ids that a search finds, over all its pages.
func (a *api) search(query string) []string {
	a.t.Helper()
	ids, _ := a.pages("limit=2&" + query)
	slices.Sort(ids)
	return ids
}

func TestSearch(t *testing.T) {
	a := newAPI(t)
	register := func(id, rest string) {
		t.Helper()
		a.want(201, "POST", "/v1/jobs", fmt.Sprintf(`{"topic":"t","id":%q,%s}`, id, rest))
	}
	register("dead", `"url":"https://a.example/1","labels":{"shop":"7","env":"x:y"}`)
	a.end(job.OutcomeRefused)
	register("delivered", `"priority":9,"url":"https://a.example:443/2","labels":{"shop":"7"}`)
	a.end(job.OutcomeDelivered)
	register("soon", `"url":"https://A.example/3","delay":"1h","labels":{"shop":"8"}`)
	register("late", `"url":"http://a.example/4","delay":"2h","priority":9`)
	register("later", `"url":"https://b.example/5","delay":"3h","labels":{"note":"a,b\\"}`)
	uid := a.stored("t", "late").UID
	in := func(d time.Duration) string {
		return url.QueryEscape(a.clock.Now().Add(d).Format("2006-01-02T15:04:05.000-07:00"))
	}
	unix := func(d time.Duration) string { return fmt.Sprint(a.clock.Now().Add(d).Unix()) }
	for query, want := range map[string]string{
		"":                     "dead delivered late later soon",
		"state=dead,delivered": "dead delivered", "state=dead,waiting&state=delivered": "dead delivered late later soon",
		"labels=shop:7,env:x:y": "dead", `labels=note:a%5C,b%5C%5C`: "later", "labels=note:a,env:x:y": "",
		"id=la":                            "late later",
		"created_from=" + unix(-time.Hour): "dead delivered late later soon", "created_from=" + unix(time.Hour): "", "due_from=" + unix(90*time.Minute) + "000": "late later",
		"due_to=" + strings.ToLower(in(90*time.Minute)):    "dead delivered soon",
		"state=dead&state=delivered":                       "dead delivered",
		"state=waiting":                                    "late later soon",
		"endpoint=https://a.example":                       "dead delivered soon",
		"endpoint=https://A.example:443":                   "dead delivered soon",
		"endpoint=https://a.example/any%3Fx&state=waiting": "soon",
		"endpoint=http://a.example:80":                     "late",
		"labels=shop:7":                                    "dead delivered",
		"labels=shop:7&labels=env:x:y":                     "dead",
		"priority=9":                                       "delivered late",
		"priority=5":                                       "dead later soon",
		"priority=9&state=waiting":                         "late",
		"priority=1":                                       "",
		"labels=shop:7&labels=shop:8":                      "",
		"labels=shop:":                                     "",
		"reason=" + job.ReasonGone:                         "dead",
		"reason=" + job.ReasonDelivered + "&topic=t":       "delivered",
		"topic=t&id=la":                                    "late later",
		"topic=t&id=late&state=waiting":                    "late later",
		"topic=t&id=none":                                  "",
		"uid=" + uid:                                       "late",
		"uid=" + strings.ToLower(uid):                      "late",
		"uid=" + uid + "&topic=u":                          "",
		"uid=01KDWCJ2M00000000000000001":                   "",
		"created_from=" + in(-time.Hour):                   "dead delivered late later soon",
		"created_from=" + in(time.Minute):                  "",
		"created_to=" + in(time.Minute):                    "dead delivered late later soon",
		"created_to=" + in(-time.Hour):                     "",
		"due_from=" + in(90*time.Minute):                   "late later",
		"due_to=" + in(90*time.Minute):                     "dead delivered soon",
		"due_from=" + in(time.Hour) + "&due_to=" + in(2*time.Hour) + "&topic=t": "soon",
		"due_from=" + in(-time.Minute) + "&due_to=" + in(time.Minute):           "dead delivered",
	} {
		if diff := cmp.Diff(strings.Fields(want), a.search(query), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", query, diff)
		}
	}
}

func TestOrder(t *testing.T) {
	a := newAPI(t)
	for i, delay := range []string{"2h", "1h", "3h", "1h"} {
		a.clock.Advance(time.Second)
		a.want(201, "POST", "/v1/jobs", fmt.Sprintf(`{"topic":"t","id":"%d","url":"https://a.example/","delay":%q}`, i, delay))
	}
	for order, want := range map[string]string{"due": "1302", "-due": "2031"} {
		path, got, cursor := "/v1/jobs?topic=t&state=waiting&limit=3&order="+order, "", ""
		for range 2 {
			page := a.want(200, "GET", path+cursor, "")
			for _, j := range page["data"].([]any) {
				got += j.(map[string]any)["id"].(string)
			}
			if next, more := page["next_cursor"].(string); more {
				cursor = "&cursor=" + url.QueryEscape(next)
			}
		}
		if got != want {
			t.Errorf("by %s: %s, want %s", order, got, want)
		}
		a.wantProblem(httpapi.CodeInvalidRequest, "GET", "/v1/jobs?topic=t&state=waiting&limit=3"+cursor, "")
	}
}

// Ended jobs, dead letters among them, come with the last one first.
func TestNewestFirst(t *testing.T) {
	a := newAPI(t)
	ended := func(id, method, path string) {
		a.clock.Advance(time.Second)
		a.want(201, "POST", "/v1/jobs", fmt.Sprintf(`{"topic":"t%s","id":%q,"url":"https://a.example/","delay":"1h"}`, id, id))
		a.want(200, method, "/v1/jobs/t"+id+"/"+id+path, "")
	}
	for _, id := range []string{"0", "1", "2"} {
		ended(id, "DELETE", "")
	}
	ended("3", "POST", "/finish")
	for query, want := range map[string]string{"state=cancelled": "210", "state=cancelled,delivered": "3210", "state=cancelled&topic=t1": "1", "state=dead": ""} {
		path, got, cursor := "/v1/jobs?order=-ended&limit=2&"+query, "", ""
		for range 3 {
			page := a.want(200, "GET", path+cursor, "")
			for _, j := range page["data"].([]any) {
				got += j.(map[string]any)["id"].(string)
			}
			next, more := page["next_cursor"].(string)
			if !more {
				break
			}
			cursor = "&cursor=" + url.QueryEscape(next)
		}
		if got != want {
			t.Errorf("%s: %s, want %s", query, got, want)
		}
	}
}

// A reason is that of an end, so no unfinished job has one.
func TestNoUnfinishedJobHasAReason(t *testing.T) {
	a := newAPI(t)
	a.want(201, "POST", "/v1/jobs", `{"topic":"t","url":"https://a.example/","delay":"1h"}`)
	if page := a.want(200, "GET", "/v1/jobs?state=waiting&order=due&reason=retry_limit", ""); len(page["data"].([]any)) != 0 {
		t.Errorf("got %v", page)
	}
}

func TestTooManyToSort(t *testing.T) {
	a := newAPI(t)
	regs := make([]store.Registration, listing.MaxSortedGroups+1)
	for i := range regs {
		regs[i] = store.Registration{
			Key: job.Key{Topic: fmt.Sprint("t", i), ID: "a"}, UID: fmt.Sprintf("%026d", i),
			Spec: job.Spec{Destination: "https://a.example/", When: job.When{Delay: time.Hour}},
		}
	}
	if _, err := a.mem.Register(t.Context(), regs); err != nil {
		t.Fatal(err)
	}
	p := a.wantProblem(httpapi.CodeInvalidRequest, "GET", "/v1/jobs?state=waiting&order=-due", "")
	if p.Errors[0].Pointer != "?order" || !strings.Contains(p.Errors[0].Message, "2000 lanes") {
		t.Errorf("got %v", p.Errors)
	}
	a.want(200, "GET", "/v1/jobs?topic=t1&state=waiting&order=-due", "")
}

func TestLabelsAreShownAndChanged(t *testing.T) {
	a := newAPI(t)
	show := func(v map[string]any) string {
		t.Helper()
		text, err := json.Marshal(v["labels"])
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	const registration = `{"topic":"t","id":"a","url":"https://a.example/","delay":60,"labels":{"shop":"7","env":"größe"}}`
	for _, status := range []int{201, 200} {
		if got := show(a.want(status, "POST", "/v1/jobs", registration)); got != `{"env":"größe","shop":"7"}` {
			t.Errorf("%d: registered with %s", status, got)
		}
	}
	a.wantProblem(httpapi.CodeJobExists, "POST", "/v1/jobs", strings.Replace(registration, `"7"`, `"8"`, 1))
	for _, change := range []struct{ body, want string }{
		{`{"delay":90}`, `{"env":"größe","shop":"7"}`},
		{`{"labels":{"shop":"8"}}`, `{"shop":"8"}`},
		{`{"labels":{}}`, `{}`},
	} {
		if got := show(a.want(200, "PATCH", "/v1/jobs/t/a", change.body)); got != change.want {
			t.Errorf("after %s: %s, want %s", change.body, got, change.want)
		}
	}
	p := a.wantProblem(httpapi.CodeInvalidRequest, "PATCH", "/v1/jobs/t/a", `{"labels":{"Shop":"8"}}`)
	if p.Errors[0].Pointer != "/labels/Shop" {
		t.Errorf("got %v", p.Errors)
	}
}

func TestPrioritiesAreShownAndChanged(t *testing.T) {
	a := newAPI(t)
	const registration = `{"topic":"t","id":"a","url":"https://a.example/","delay":60,"priority":9}`
	for _, status := range []int{201, 200} {
		if got := a.want(status, "POST", "/v1/jobs", registration)["priority"]; got != 9.0 {
			t.Errorf("%d: registered with %v", status, got)
		}
	}
	a.wantProblem(httpapi.CodeJobExists, "POST", "/v1/jobs", strings.Replace(registration, "9", "8", 1))
	a.want(200, "POST", "/v1/jobs/plan", registration)
	for _, change := range []struct {
		body string
		want float64
	}{{`{"delay":90}`, 9}, {`{"priority":1}`, 1}, {`{"priority":5}`, 5}} {
		if got := a.want(200, "PATCH", "/v1/jobs/t/a", change.body)["priority"]; got != change.want {
			t.Errorf("after %s: %v, want %v", change.body, got, change.want)
		}
	}
	a.wantProblem(httpapi.CodeInvalidRequest, "PATCH", "/v1/jobs/t/a", `{"priority":10}`)
	batch := a.want(200, "POST", "/v1/jobs/batch", `{"jobs":[{"topic":"t","id":"b","url":"https://a.example/","delay":60,"priority":2}]}`)
	if got := batch["results"].([]any)[0].(map[string]any)["job"].(map[string]any)["priority"]; got != 2.0 {
		t.Errorf("registered in a batch with %v", got)
	}
}

func TestDeadLettersAreCountedByGroup(t *testing.T) {
	a := newAPI(t)
	for i, url := range []string{"https://a.example/1", "https://b.example/2", "https://a.example:443/3"} {
		a.clock.Advance(time.Second)
		a.want(201, "POST", "/v1/jobs", fmt.Sprintf(`{"topic":"t","id":"%d","url":%q}`, i, url))
		a.end(job.OutcomeRefused)
	}
	group := func(endpoint string, count float64, oldest, newest string) any {
		return map[string]any{
			"topic": "t", "endpoint": endpoint, "reason": job.ReasonGone, "count": count, "oldest_at": oldest, "newest_at": newest,
		}
	}
	one := group("https://a.example:443", 2, "2026-01-01T09:00:01.087Z", "2026-01-01T09:00:03.261Z")
	two := group("https://b.example:443", 1, "2026-01-01T09:00:02.174Z", "2026-01-01T09:00:02.174Z")
	if diff := cmp.Diff(map[string]any{"data": []any{one, two}, "next_cursor": nil}, a.want(200, "GET", "/v1/dead", "")); diff != "" {
		t.Error(diff)
	}
	first := a.want(200, "GET", "/v1/dead?topic=t&limit=1", "")
	rest := a.want(200, "GET", "/v1/dead?topic=t&limit=1&cursor="+url.QueryEscape(first["next_cursor"].(string)), "")
	if diff := cmp.Diff([]any{[]any{one}, []any{two}}, []any{first["data"], rest["data"]}); diff != "" {
		t.Error(diff)
	}
	if none := a.want(200, "GET", "/v1/dead?topic=u", "")["data"]; len(none.([]any)) != 0 {
		t.Errorf("got %v", none)
	}
}
