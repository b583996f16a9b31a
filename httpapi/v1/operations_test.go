package v1

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/duehook/duehook/httpapi"
	"github.com/duehook/duehook/internal/app/operations"
	"github.com/duehook/duehook/internal/documents"
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/services/access"
)

// operationsWith are operations whose changes fail.
type operationsWith struct {
	Operations
	err error
}

func (o operationsWith) Create(context.Context, operations.Draft) (operations.Operation, error) {
	return operations.Operation{}, o.err
}

func (o operationsWith) Stop(context.Context, string, ...documents.Allow) (operations.Operation, error) {
	return operations.Operation{}, o.err
}

func (o operationsWith) Resume(context.Context, string, ...documents.Allow) (operations.Operation, error) {
	return operations.Operation{}, o.err
}

// withOperations does something with other operations.
func (a *api) withOperations(other Operations, do func()) {
	a.t.Helper()
	mine := a.v1.Operations
	a.v1.Operations = other
	do()
	a.v1.Operations = mine
}

// work lets a node work on the operations until there is none to work on.
func (a *api) work(id string) {
	a.t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	m, err := operations.New(operations.Options{Store: operationsStore{a.faults, a.mem, a.mem}, Jobs: a.jobs, ID: "worker"})
	if err != nil {
		a.t.Fatal(err)
	}
	go func() { done <- m.Run(ctx) }()
	for {
		o, err := m.Get(context.Background(), id)
		if err != nil {
			a.t.Fatal(err)
		}
		if o.State != operations.Running {
			break
		}
		_ = job.Sleep(ctx, job.SystemClock(), 5*time.Millisecond)
	}
	stop()
	if err := <-done; err != nil {
		a.t.Fatal(err)
	}
}

func TestOperation(t *testing.T) {
	a := newAPI(t)
	for _, id := range []string{"a", "b", "c"} {
		a.want(201, "POST", "/v1/jobs", `{"topic":"t","id":"`+id+`","url":"https://shop.example/hook","delay":60,"labels":{"shop":"7"},"priority":8}`)
	}
	const request = `{"action":"cancel","filter":{"topic":"t","state":"waiting","endpoint":"https://shop.example/x","labels":{"shop":"7"},"priority":8,
		"due_from":"2026-01-01T09:00:00Z","due_to":"2026-01-01T11:00:00+01:00"},"rate":100`
	filter := map[string]any{
		"topic": "t", "state": []any{"waiting"}, "endpoint": "https://shop.example:443", "labels": map[string]any{"shop": "7"}, "priority": 8.0,
		"due_from": "2026-01-01T09:00:00.000Z", "due_to": "2026-01-01T10:00:00.000Z",
	}
	want := map[string]any{
		"dry_run": true, "action": "cancel", "filter": filter, "rate": 100.0, "matched": 3.0, "complete": true,
	}
	if diff := cmp.Diff(want, a.want(200, "POST", "/v1/operations?dry_run=true", request+`}`)); diff != "" {
		t.Error(diff)
	}
	if s := a.stored("t", "a").State; s != job.Waiting {
		t.Fatalf("after a dry run the job is %s", s)
	}
	made := a.call("POST", "/v1/operations", request+"}")
	path := strings.TrimPrefix(made.Header().Get("Location"), "..")
	if made.Code != 202 || !strings.HasPrefix(path, "/v1/operations/") {
		t.Fatalf("%d, Location %q: %s", made.Code, path, made.Body)
	}
	id := strings.TrimPrefix(path, "/v1/operations/")
	a.work(id)
	got := a.want(200, "GET", path, "")
	const then = "2026-01-01T09:00:00.000Z"
	want = map[string]any{
		"id": id, "action": "cancel", "filter": filter, "reschedule_to": nil, "set": nil, "rate": 100.0, "by": nil, "state": "done", "worker": nil, "reason": nil,
		"estimate": nil, "matched": 3.0, "changed": 3.0, "skipped": 0.0, "failed": 0.0, "errors": []any{},
		"created_at": then, "version": got["version"], "updated_at": got["updated_at"], "ended_at": got["updated_at"],
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if s := a.stored("t", "a").State; s != job.Cancelled {
		t.Errorf("the job is %s", s)
	}
	a.wantProblem(httpapi.CodeOperationEnded, "POST", path+"/stop", "")
}

// A replay of many jobs sets for each what a change can; a value of it is not shown.
// An operation names the key that began it.
func TestOperationNamesItsKey(t *testing.T) {
	a := newKeyedAPI(t)
	if o := a.want(202, "POST", "/v1/operations", `{"action":"cancel","all":true}`); o["by"] != "ops" {
		t.Errorf("begun by %v", o["by"])
	}
}

func TestOperationThatCorrects(t *testing.T) {
	a := newAPI(t, func(o *testOptions) {
		o.Guard = func(rawURL string) error {
			if strings.Contains(rawURL, "169.254.") {
				return errors.New("link-local")
			}
			return nil
		}
	})
	a.dead(`{"topic":"t","id":"a","url":"https://shop.example/hook","body_text":"x"}`)
	a.dead(`{"topic":"t","id":"b","url":"https://shop.example/hook"}`)
	a.clock.Advance(time.Second)
	for request, pointer := range map[string]string{
		`"set":{}`: "/set", `"set":{"url":"x"}`: "/set/url", `"set":{"topic":"u"}`: "/set/topic", `"set":{"colour":1}`: "/set/colour",
		`"set":7`: "/set", `"set":{"retry":{"steps":[]}}`: "/set/retry/steps", `"set":{"url":"http://169.254.169.254/"}`: "/set/url",
	} {
		got := decodeProblem(a.call("POST", "/v1/operations", `{"action":"replay","all":true,`+request+`}`))
		if got.Status != 422 || len(got.Errors) != 1 || got.Errors[0].Pointer != pointer {
			t.Errorf("%s: %+v", request, got)
		}
	}
	if p := a.wantProblem(httpapi.CodeInvalidRequest, "POST", "/v1/operations", `{"action":"discard","all":true,"set":{"priority":1}}`); p.Errors[0].Pointer != "/set" {
		t.Errorf("with another action: %+v", p.Errors)
	}
	made := a.want(202, "POST", "/v1/operations", `{"action":"replay","all":true,"set":{"url":"https://other.example/new","headers":{"x-key":"secret"},"content_type":"text/csv","retry":{"limit":1},"delay":"1h"}}`)
	if diff := cmp.Diff([]any{"delay", "url", "headers", "content_type", "retry"}, made["set"]); diff != "" {
		t.Error(diff)
	}
	a.work(made["id"].(string))
	done := a.want(200, "GET", "/v1/operations/"+made["id"].(string), "")
	if done["changed"] != 1.0 || done["failed"] != 1.0 || !strings.Contains(fmt.Sprint(done["errors"]), ": content_type: needs a body") {
		t.Errorf("got %v", done)
	}
	j := a.stored("t", "a")
	if j.State != job.Waiting || j.Spec.Destination != "https://other.example/new" || j.Spec.ContentType != "text/csv" || j.NextAt != j.DueAt ||
		job.InstantOf(a.clock.Now().Add(time.Hour)) != j.DueAt || len(j.Spec.Headers) != 1 || *j.Spec.Retry.Limit != 1 {
		t.Errorf("stored %+v", j)
	}
	if j := a.stored("t", "b"); j.State != job.Dead || j.Spec.Destination != "https://shop.example/hook" {
		t.Errorf("the other one: %+v", j)
	}
}

func TestOperationThatDiscards(t *testing.T) {
	a := newAPI(t)
	for _, id := range []string{"a", "b"} {
		a.dead(`{"topic":"t","id":"` + id + `","url":"https://shop.example/hook"}`)
	}
	a.want(201, "POST", "/v1/jobs", `{"topic":"t","id":"waits","url":"https://shop.example/hook","delay":60}`)
	a.clock.Advance(time.Second)
	const request = `{"action":"discard","filter":{"topic":"t","reason":"receiver_gone"}`
	if dry := a.want(200, "POST", "/v1/operations?dry_run=true", request+`}`); dry["matched"] != 2.0 || dry["complete"] != true {
		t.Errorf("a dry run counts %v", dry)
	}
	made := a.want(202, "POST", "/v1/operations", request+"}")
	a.work(made["id"].(string))
	if done := a.want(200, "GET", "/v1/operations/"+made["id"].(string), ""); done["changed"] != 2.0 || made["estimate"] != 2.0 {
		t.Errorf("got %v", done)
	}
	for id, want := range map[string]job.State{"a": job.Cancelled, "b": job.Cancelled, "waits": job.Waiting} {
		if j := a.stored("t", id); j.State != want {
			t.Errorf("%s is %v", id, j.State)
		}
	}
	a.wantProblem(httpapi.CodeInvalidRequest, "POST", "/v1/operations", `{"action":"discard","filter":{"state":"delivered"}}`)
}

// A key that may only read can try an operation out, and cannot begin one.
func TestOperationsNeedTheirScope(t *testing.T) {
	a := newKeyedAPI(t)
	read, readKey := a.newKey(access.Draft{Scope: "read"})
	write, writeKey := a.newKey(access.Draft{Scope: "write"})
	a.keys.Keys = a.keyring(readKey, writeKey)
	const request = `{"action":"run","all":true`
	bearer := []string{"Authorization", "Bearer " + read}
	a.want(200, "POST", "/v1/operations?dry_run=true", request+`}`, bearer...)
	for _, body := range []string{request + `}`, request + `,"dry_run":false}`, request + `,"dry_run":null}`, request + `,"dry_run":"true"}`, `{}`} {
		p := a.wantProblem(httpapi.CodeForbidden, "POST", "/v1/operations", body, bearer...)
		if !strings.Contains(p.Detail, "scope write") {
			t.Errorf("%s", p.Detail)
		}
	}
	made := a.want(202, "POST", "/v1/operations", request+`}`, "Authorization", "Bearer "+write)
	path := "/v1/operations/" + made["id"].(string)
	a.want(200, "GET", path, "", bearer...)
	a.wantProblem(httpapi.CodeForbidden, "POST", path+"/stop", "", bearer...)
}

func TestBadOperations(t *testing.T) {
	a := newAPI(t)
	a.refuses("POST", "/v1/operations", map[string]string{
		`{}`:                                                            "/action /filter",
		`{"action":"purge","all":true}`:                                 "/action",
		`{"action":"","all":true}`:                                      "/action",
		`{"action":1,"all":true}`:                                       "/action",
		`{"action":"run"}`:                                              "/filter",
		`{"action":"run","filter":{}}`:                                  "/filter",
		`{"action":"run","filter":null}`:                                "/filter",
		`{"action":"run","filter":[]}`:                                  "/filter",
		`{"action":"run","all":"yes"}`:                                  "/all",
		`{"action":"run","all":1}`:                                      "/all",
		`{"action":"run","all":true,"dry_run":"no"}`:                    "/dry_run",
		`{"action":"run","all":true,"rate":0}`:                          "/rate",
		`{"action":"run","all":true,"rate":10001}`:                      "/rate",
		`{"action":"run","all":true,"rate":"fast"}`:                     "/rate",
		`{"action":"run","all":true,"delay":"1h"}`:                      "/delay",
		`{"action":"run","all":true,"at":"2026-01-01T09:00:00Z"}`:       "/at",
		`{"action":"reschedule","all":true}`:                            "/delay",
		`{"action":"reschedule","all":true,"delay":"soon"}`:             "/delay",
		`{"action":"reschedule","all":true,"delay":"367d"}`:             "/delay",
		`{"action":"reschedule","all":true,"at":"soon"}`:                "/at",
		`{"action":"run","all":true,"colour":"blue"}`:                   "/colour",
		`{"action":"run","filter":{"colour":"blue"}}`:                   "/filter/colour",
		`{"action":"run","filter":{"topic":"a b"}}`:                     "/filter/topic",
		`{"action":"run","filter":{"topic":""}}`:                        "/filter/topic",
		`{"action":"run","filter":{"topic":7}}`:                         "/filter/topic",
		`{"action":"run","filter":{"biz_key":"/"}}`:                     "/filter/biz_key",
		`{"action":"run","filter":{"endpoint":"shop.example"}}`:         "/filter/endpoint",
		`{"action":"run","filter":{"reason":"a b"}}`:                    "/filter/reason",
		`{"action":"run","filter":{"state":"done"}}`:                    "/filter/state",
		`{"action":"run","filter":{"state":["waiting","done",1]}}`:      "/filter/state/1 /filter/state/2",
		`{"action":"run","filter":{"state":"dead"}}`:                    "/filter/state",
		`{"action":"run","filter":{"state":` + manyStates + `}}`:        "/filter/state",
		`{"action":"run","filter":{"labels":{"Shop":"7"}}}`:             "/filter/labels/Shop",
		`{"action":"run","filter":{"labels":"shop:7"}}`:                 "/filter/labels",
		`{"action":"run","filter":{"labels":{"a":1}}}`:                  "/filter/labels/a",
		`{"action":"run","filter":{"priority":0}}`:                      "/filter/priority",
		`{"action":"run","filter":{"priority":"9"}}`:                    "/filter/priority",
		`{"action":"run","filter":{"due_from":"now"}}`:                  "/filter/due_from",
		`{"action":"run","filter":{"due_to":5}}`:                        "/filter/due_to",
		`{"action":"run","filter":{"due_to":"2026-01-01"},"rate":"no"}`: "/filter/due_to /rate",
	})
	a.refuses("GET", "/v1/operations?", map[string]string{
		"limit=0": "?limit", "limit=1001": "?limit", "cursor=": "?cursor", "cursor=a%20b": "?cursor", "state=done": "?state",
	})
	a.wantProblem(httpapi.CodeInvalidRequest, "GET", "/v1/operations/a%20b", "")
}

var manyStates = "[" + strings.Repeat(`"waiting",`, 8) + `"waiting"]`
