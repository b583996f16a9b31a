package v1

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/duehook/duehook/httpapi"
	"github.com/duehook/duehook/internal/app/groups"
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/services/access"
	"github.com/duehook/duehook/store"
)

const twoMembers = `{"members":[{"name":"billing","url":"https://billing.example/paid"},` +
	`{"name":"crm","url":"https://crm.example/in","headers":{"x-key":"k-17"},"filter_label":"eu"}]}`

func coverGroups(a *keyedAPI) {
	const path = "/v1/groups/paid"
	a.want(201, "PUT", path, twoMembers)
	a.want(200, "PUT", path, twoMembers)
	if p := a.wantProblem(httpapi.CodeDestinationBlocked, "PUT", path, `{"members":[{"name":"a","url":"http://169.254.169.254/"}]}`); p.Errors[0].Pointer != "/members/0/url" {
		a.t.Errorf("the blocked URL is at %s", p.Errors[0].Pointer)
	}
	a.wantProblem(httpapi.CodeDestinationBlocked, "PATCH", path, `{"members":{"crm":{"url":"http://169.254.169.254/"}}}`)
	a.want(201, "POST", "/v1/jobs", `{"group":"paid","id":"o","topic":"fan","delay":60}`)
	a.want(200, "POST", "/v1/jobs", `{"group":"paid","id":"o","topic":"fan","delay":60}`)
	a.wantProblem(httpapi.CodeJobExists, "POST", "/v1/jobs", `{"group":"paid","id":"o","topic":"fan","delay":90}`)
	a.want(200, "POST", "/v1/jobs/batch", `{"jobs":[{"group":"paid","topic":"fan","delay":60},{"group":"paid","id":"o","topic":"fan"}]}`)
	a.want(200, "GET", "/v1/jobs?group_id=o", "")
	a.want(200, "POST", "/v1/operations?dry_run=true", `{"action":"cancel","filter":{"group_id":"o"}}`)
	if _, err := store.PutDocument(a.t.Context(), a.mem, store.Document{Kind: "group", Name: "newer", Data: []byte(`{"members":[],"order":"random"}`)}); err != nil {
		a.t.Fatal(err)
	}
	a.wantProblem(httpapi.CodeNewerVersion, "POST", "/v1/jobs", `{"group":"newer"}`)
	a.want(200, "DELETE", "/v1/groups/newer", "")
	full, err := store.PutDocument(a.t.Context(), a.mem, store.Document{Kind: "group", Name: "full", Data: make([]byte, groups.MaxAllBytes)})
	if err != nil {
		a.t.Fatal(err)
	}
	a.clock.Advance(time.Minute) // groups are counted now and then
	a.wantProblem(httpapi.CodeTooManyGroups, "PATCH", path, `{"members":{"third":{"url":"https://third.example/"}}}`)
	if err := store.DeleteDocument(a.t.Context(), a.mem, full.Kind, full.Name, full.Version); err != nil {
		a.t.Fatal(err)
	}
	a.clock.Advance(time.Minute)
	for i := range groups.MaxGroups - 1 {
		a.want(201, "PUT", fmt.Sprint("/v1/groups/more-", i), `{"members":[]}`)
	}
	a.wantProblem(httpapi.CodeTooManyGroups, "PUT", "/v1/groups/many", `{"members":[]}`)
	a.want(200, "DELETE", path, "")
}

func TestGroups(t *testing.T) {
	a := newKeyedAPI(t)
	made := a.want(201, "PUT", "/v1/groups/paid", twoMembers)
	if diff := cmp.Diff(map[string]any{"name": "paid", "created_at": "2026-01-01T09:00:00.000Z", "updated_at": "2026-01-01T09:00:00.000Z", "version": 1767258000000.0, "members": []any{
		map[string]any{"name": "billing", "url": "https://billing.example/paid", "headers": map[string]any{}, "filter_label": nil},
		map[string]any{"name": "crm", "url": "https://crm.example/in", "headers": map[string]any{"X-Key": "k-17"}, "filter_label": "eu"},
	}}, made); diff != "" {
		t.Errorf("the group: (-want +got)\n%s", diff)
	}
	tag := a.tag("GET", "/v1/groups/paid", "")
	a.want(200, "PUT", "/v1/groups/paid", `{"members":[]}`, "If-Match", tag)
	a.wantProblem(httpapi.CodeVersionChanged, "PUT", "/v1/groups/paid", twoMembers, "If-Match", tag)
	a.wantProblem(httpapi.CodeVersionChanged, "PUT", "/v1/groups/new", twoMembers, "If-Match", "*")
	if again := a.want(200, "PUT", "/v1/groups/paid", twoMembers); again["version"] != 1767258000002.0 {
		t.Errorf("version %v after two changes", again["version"])
	}
	reader, key := a.newKey(access.Draft{Scope: "read"})
	a.accept(a.admin, key)
	for _, path := range []string{"/v1/groups/paid", "/v1/groups", "/v1/groups/paid/members"} {
		if got := a.call("GET", path, "", "Authorization", "Bearer "+reader); got.Code != 200 || strings.Contains(got.Body.String(), "k-17") {
			t.Errorf("a reader sees the secrets of members: %d %s", got.Code, got.Body)
		}
	}
	a.want(201, "PUT", "/v1/groups/a", `{"members":[]}`)
	var names []any
	listed, _ := a.entries("/v1/groups?limit=1")
	for _, g := range listed {
		names = append(names, object(g)["name"])
	}
	if diff := cmp.Diff([]any{"a", "paid"}, names); diff != "" {
		t.Errorf("groups: (-want +got)\n%s", diff)
	}
	a.want(200, "DELETE", "/v1/groups/a", "")
	a.wantProblem(httpapi.CodeGroupNotFound, "DELETE", "/v1/groups/a", "")
}

func TestMembersOfAGroup(t *testing.T) {
	a := newAPI(t)
	a.want(201, "PUT", "/v1/groups/paid", `{"members":[{"name":"crm","url":"https://crm.example/in?key=k-17","headers":{"x-key":"a"},"filter_label":"eu"},
		{"name":"billing","url":"https://billing.example/paid"},{"name":"audit","url":"https://log.example:8443/in"}]}`)
	for query, want := range map[string]string{
		"": "audit billing crm", "q=billing": "billing", "q=il": "billing", "q=eu": "crm", "q=https://log.example:8443": "audit",
		"q=k-17": "", "q=/in": "", "limit=2": "audit billing",
	} {
		var names []string
		page := a.want(200, "GET", "/v1/groups/paid/members?"+query, "")
		for _, m := range page["data"].([]any) {
			names = append(names, m.(map[string]any)["name"].(string))
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("%s: %s, want %s", query, got, want)
		}
		if next, more := page["next_cursor"].(string); more != (query == "limit=2") {
			t.Errorf("%s: the next page is at %q", query, next)
		} else if more {
			last := a.want(200, "GET", "/v1/groups/paid/members?limit=2&cursor="+next, "")["data"].([]any)
			if diff := cmp.Diff([]any{map[string]any{"name": "crm", "url": "https://crm.example/in?key=k-17", "headers": map[string]any{"X-Key": "a"}, "filter_label": "eu"}}, last); diff != "" {
				t.Error(diff)
			}
		}
	}
	for _, query := range []string{"q=", "limit=0", "cursor=%21"} {
		a.wantProblem(httpapi.CodeInvalidRequest, "GET", "/v1/groups/paid/members?"+query, "")
	}
	a.wantProblem(httpapi.CodeGroupNotFound, "GET", "/v1/groups/none/members", "")
}

func TestRefusedGroups(t *testing.T) {
	a := newAPI(t)
	many := strings.Repeat(`{"name":"a","url":"https://a.example/"},`, groups.MaxMembers)
	large := make([]string, 40)
	for i := range large {
		large[i] = fmt.Sprintf(`{"name":"m%d","url":"https://a.example/","headers":{"a":%q,"b":%[2]q,"c":%[2]q,"d":%[2]q}}`, i, strings.Repeat("x", 3900))
	}
	for _, c := range []struct{ request, want string }{
		{`{}`, "/members"},
		{`{"members":{}}`, "/members"},
		{`{"members":[` + many + `{}]}`, "/members"},
		{`{"members":[` + strings.Join(large, ",") + `]}`, "/members"},
		{`{"members":[{}]}`, "/members/0/name /members/0/url"},
		{`{"members":[7]}`, "/members/0"},
		{`{"members":[{"name":"a:b","url":"ftp://x"},{"name":"","url":"https://a.example/"}]}`, "/members/0/name /members/0/url /members/1/name"},
		{`{"members":[{"name":"a","url":"https://a.example/"},{"name":"a","url":"https://b.example/"}]}`, "/members/1/name"},
		{`{"members":[{"name":"a","url":"https://a.example/","headers":{"Host":"b"},"filter_label":""}]}`, "/members/0/headers/Host /members/0/filter_label"},
		{`{"members":[{"name":"a","pull":true,"headers":{"Host":"b"}}]}`, "/members/0/pull /members/0/url /members/0/headers/Host"},
		{`{"members":[{"name":"a","url":"https://a.example/","colour":"blue"}],"x":1}`, "/members/0/colour /x"},
	} {
		var pointers []string
		for _, e := range a.wantProblem(httpapi.CodeInvalidRequest, "PUT", "/v1/groups/g", c.request).Errors {
			pointers = append(pointers, e.Pointer)
			if strings.Contains(e.Message, `"pull": true`) {
				t.Errorf("%.200s: %s recommends what a member refuses: %s", c.request, e.Pointer, e.Message)
			}
		}
		if got := strings.Join(pointers, " "); got != c.want {
			t.Errorf("%.200s: %s, want %s", c.request, got, c.want)
		}
	}
	a.wantProblem(httpapi.CodeGroupNotFound, "GET", "/v1/groups/g", "")
}

// fanned are the jobs of an answer: their ids with results.
func fanned(answer map[string]any) (all []string) {
	for _, j := range answer["jobs"].([]any) {
		of := j.(map[string]any)
		all = append(all, fmt.Sprint(of["id"], " ", of["result"]))
	}
	return all
}

func (a *api) fans(status int, request string, want ...string) map[string]any {
	a.t.Helper()
	answer := a.want(status, "POST", "/v1/jobs", request)
	if diff := cmp.Diff(want, fanned(answer)); diff != "" {
		a.t.Errorf("%s: (-want +got)\n%s", request, diff)
	}
	return answer
}

func TestFanOut(t *testing.T) {
	a := newAPI(t)
	a.want(201, "PUT", "/v1/groups/paid", twoMembers)
	const request = `{"topic":"events","id":"o-1","group":"paid","delay":60,"headers":{"x-event":"paid"},"body":{"order":1}}`
	got := a.call("POST", "/v1/jobs", request)
	if location := got.Header().Get("Location"); got.Code != 201 || location != "../v1/jobs?group_id=o-1&topic=events" {
		t.Errorf("%d, location %q: %s", got.Code, location, got.Body)
	}
	billing, crm := a.stored("events", "o-1:billing"), a.stored("events", "o-1:crm")
	if billing.UID == crm.UID || string(billing.Spec.Body) != `{"order":1}` || billing.Spec.Destination != "https://billing.example/paid" {
		t.Errorf("%+v", billing)
	}
	if diff := cmp.Diff([]job.Header{{Name: "X-Event", Value: "paid"}, {Name: "X-Key", Value: "k-17"}}, crm.Spec.Headers); diff != "" {
		t.Errorf("headers (-want +got)\n%s", diff)
	}
	again := a.fans(200, request, "o-1:billing same", "o-1:crm same")
	first := again["jobs"].([]any)[0].(map[string]any)
	if again["group_id"] != "o-1" || again["group"] != "paid" || first["uid"] != billing.UID || first["group"] != "paid" || first["group_id"] != "o-1" {
		t.Errorf("repeated: %v", again)
	}
	a.fans(201, `{"topic":"events","id":"o-2","group":"paid","filter_label":"eu"}`, "o-2:crm created")
	a.fans(201, `{"topic":"events","id":"o-3","group":"paid","filter_label":"us"}`)
	if made := a.want(201, "POST", "/v1/jobs", `{"topic":"events","group":"paid"}`); len(made["group_id"].(string)) != 26 {
		t.Errorf("without an id: %v", made["group_id"])
	}
	if made := a.want(201, "POST", "/v1/jobs", `{"topic":"events","group":"paid"}`, "Idempotency-Key", "k"); made["group_id"] != "k" {
		t.Errorf("with an idempotency key: %v", made["group_id"])
	}
	a.want(200, "GET", "/v1/jobs?topic=events&group_id=o-1&state=waiting", "")
	if ids, _ := a.pages("group_id=o-1"); len(ids) != 2 {
		t.Errorf("by group id: %v", ids)
	}
	made := a.want(202, "POST", "/v1/operations", `{"action":"cancel","filter":{"group_id":"o-1"}}`)
	a.work(made["id"].(string))
	if billing, crm = a.stored("events", "o-1:billing"), a.stored("events", "o-1:crm"); billing.State != job.Cancelled || crm.State != job.Cancelled {
		t.Errorf("cancelled by group id: %s, %s", billing.State, crm.State)
	}
	a.fans(201, request, "o-1:billing created", "o-1:crm created")
}

// A repetition is for the members of the first registration.
func TestRepeatedFanOut(t *testing.T) {
	a := newAPI(t)
	a.want(201, "PUT", "/v1/groups/g", `{"members":[{"name":"a","url":"https://a.example/"},{"name":"b","url":"https://b.example/"}]}`)
	const request = `{"id":"o","group":"g","delay":60}`
	a.fans(201, request, "o:a created", "o:b created")
	a.want(200, "PUT", "/v1/groups/g", `{"members":[{"name":"c","url":"https://c.example/"},{"name":"a","url":"https://new.example/","headers":{"x":"1"}}]}`)
	a.fans(200, request, "o:a same", "o:b same")
	failed := a.call("POST", "/v1/jobs", `{"id":"o","group":"g","delay":90}`).Body.String()
	if !strings.Contains(failed, `"jobs":[],"failed":[{"id":"o:a","status":409,"code":"job_exists"`) {
		t.Errorf("other content: %s", failed)
	}
	if ids, _ := a.pages("group_id=o"); !slices.Equal(ids, []string{"o:a", "o:b"}) {
		t.Errorf("jobs: %v", ids)
	}
	a.fans(200, `{"id":"o","group":"g","delay":90,"on_conflict":"ignore"}`, "o:a kept", "o:b kept")
	a.fans(200, `{"id":"o","group":"g","delay":90,"on_conflict":"later"}`, "o:a moved", "o:b moved")
	a.fans(201, `{"id":"o","group":"g","delay":5,"on_conflict":"replace"}`, "o:c created", "o:a created")
	a.want(200, "DELETE", "/v1/groups/g", "")
	a.fans(200, `{"id":"o","group":"g","delay":5}`, "o:c same", "o:a same")
	a.wantProblem(httpapi.CodeInvalidRequest, "POST", "/v1/jobs", `{"id":"p","group":"g","delay":5}`)
}

func TestPartlyFailedFanOut(t *testing.T) {
	a := newAPI(t)
	a.want(201, "PUT", "/v1/groups/g", twoMembers)
	a.want(201, "PUT", "/v1/topics/t", `{"capacity":1}`)
	got := a.call("POST", "/v1/jobs", `{"topic":"t","id":"o","group":"g","delay":60}`)
	if body := got.Body.String(); got.Code != 429 || got.Header().Get("Retry-After") == "" || !strings.Contains(body, `"group_id":"o","jobs":[{`) ||
		!strings.Contains(body, `"failed":[{"id":"o:crm","status":429,"code":"topic_full"`) {
		t.Errorf("%d %s", got.Code, body)
	}
	a.want(200, "PUT", "/v1/topics/t", `{"capacity":2}`)
	a.fans(201, `{"topic":"t","id":"o","group":"g","delay":60}`, "o:billing same", "o:crm created")
	a.want(200, "PUT", "/v1/topics/t", `{"capacity":3}`)
	results := a.want(200, "POST", "/v1/jobs/batch", `{"jobs":[{"topic":"t","id":"p","group":"g","delay":60},{"topic":"u","id":"p","group":"g"},{"topic":"u","id":"p:crm"},`+
		`{"topic":"u","group":"none"},{"topic":"u","id":"s","url":"https://a.example/"}]}`)["results"].([]any)
	var statuses []any
	for _, r := range results {
		statuses = append(statuses, r.(map[string]any)["status"])
	}
	if diff := cmp.Diff([]any{429.0, 201.0, 422.0, 422.0, 201.0}, statuses); diff != "" {
		t.Errorf("statuses of the batch (-want +got)\n%s", diff)
	}
	first, second := results[0].(map[string]any), results[1].(map[string]any)
	if len(first["jobs"].([]any)) != 1 || len(first["failed"].([]any)) != 1 || len(second["jobs"].([]any)) != 2 || results[4].(map[string]any)["job"].(map[string]any)["id"] != "s" {
		t.Errorf("batch: %v", results)
	}
}

// A fan-out over a key that another job holds registers nothing, alone and in a batch.
func TestFanOutOverATakenKey(t *testing.T) {
	a := newAPI(t)
	a.want(201, "PUT", "/v1/groups/g", twoMembers)
	a.want(201, "POST", "/v1/jobs", `{"id":"o:crm","url":"https://a.example/","delay":60}`)
	const failed = `"jobs":[],"failed":[{"id":"%s:crm","status":409,"code":"job_exists"`
	if got := a.call("POST", "/v1/jobs", `{"id":"o","group":"g","delay":60}`); got.Code != 409 || !strings.Contains(got.Body.String(), fmt.Sprintf(failed, "o")) {
		t.Errorf("alone: %d %s", got.Code, got.Body)
	}
	if got := a.call("GET", "/v1/jobs/default/o:billing", ""); got.Code != 404 {
		t.Errorf("the other member's job: %d %s", got.Code, got.Body)
	}
	batch := a.call("POST", "/v1/jobs/batch", `{"jobs":[{"id":"p:crm","url":"https://a.example/","delay":60},{"id":"p","group":"g","delay":60},{"id":"q","group":"g","delay":60}]}`)
	if !strings.Contains(batch.Body.String(), fmt.Sprintf(failed, "p")) {
		t.Errorf("in a batch: %s", batch.Body)
	}
	if ids, _ := a.pages("state=waiting"); !slices.Equal(ids, []string{"o:crm", "p:crm", "q:billing", "q:crm"}) {
		t.Errorf("waiting: %v", ids)
	}
}

func TestRefusedFanOuts(t *testing.T) {
	a := newAPI(t)
	long := strings.Repeat("x", 96)
	a.want(201, "PUT", "/v1/groups/g", fmt.Sprintf(`{"members":[{"name":"a","url":"https://a.example/"},{"name":%q,"url":"https://b.example/","headers":{"x":%q,"y":%[2]q}}]}`,
		long, strings.Repeat("h", 4000)))
	headers := fmt.Sprintf(`{"a":%q,"b":%[1]q,"c":%[1]q}`, strings.Repeat("h", 4000))
	for _, c := range []struct{ path, request, want string }{
		{"", `{"group":"none"}`, "/group"},
		{"", `{"group":""}`, "/group"},
		{"", `{"group":"g","url":"https://a.example/"}`, "/url"},
		{"", `{"group":"g","delay":-1,"colour":1}`, "/delay /colour"},
		{"", `{"group":"g","id":"` + long[:32] + `"}`, "/id"},
		{"", `{"group":"g","headers":` + headers + `}`, "/headers"},
		{"", `{"group":"g","filter_label":""}`, "/filter_label"},
		{"", `{"group":"g","topic":"duehook-alerts"}`, "/topic"},
		{"", `{"url":"https://a.example/","filter_label":"eu"}`, "/filter_label"},
		{"/plan", `{"group":"g"}`, "/group"},
		{"/batch", `{"jobs":[` + strings.Repeat(`{"group":"g"},`, 500) + `{"group":"g"}]}`, "/jobs"},
	} {
		var pointers []string
		for _, e := range a.wantProblem(httpapi.CodeInvalidRequest, "POST", "/v1/jobs"+c.path, c.request).Errors {
			pointers = append(pointers, e.Pointer)
			if strings.Contains(e.Message, `"pull": true`) {
				t.Errorf("%.200s: %s recommends what a member refuses: %s", c.request, e.Pointer, e.Message)
			}
		}
		if got := strings.Join(pointers, " "); got != c.want {
			t.Errorf("%.200s: %s, want %s", c.request, got, c.want)
		}
	}

	var members []string // of whose jobs the bodies alone are within the limit
	for i := range 1000 {
		members = append(members, fmt.Sprintf(`{"name":"m%d","url":"https://a.example/"}`, i))
	}
	a.want(201, "PUT", "/v1/groups/large", `{"members":[`+strings.Join(members, ",")+`]}`)
	large := fmt.Sprintf(`{"group":"large","body_text":%q,"headers":%s,"callbacks":{"dead":{"url":"https://a.example/","headers":%[2]s}}}`,
		strings.Repeat("b", 50_000), headers)
	if e := a.wantProblem(httpapi.CodeInvalidRequest, "POST", "/v1/jobs", large).Errors; len(e) != 1 || e[0].Pointer != "/group" {
		t.Errorf("jobs that are too large together: %v", e)
	}
	item := a.want(200, "POST", "/v1/jobs/batch", `{"jobs":[{"group":"g","colour":1}]}`)["results"].([]any)[0].(map[string]any)
	if item["status"] != 422.0 {
		t.Errorf("an item of a batch with an unknown field: %v", item)
	}
	if n := len(a.held()); n != 0 {
		t.Errorf("%d jobs are registered", n)
	}
	made := a.want(201, "POST", "/v1/jobs", `{"url":"https://a.example/","topic":"t","id":"single","delay":60}`)
	if _, some := made["group"]; some {
		t.Errorf("a job of no group: %v", made)
	}
	a.wantProblem(httpapi.CodeInvalidRequest, "PATCH", "/v1/jobs/t/single", `{"group":"g"}`)
}
