package httpapi

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/duehook/duehook/internal/operations"
	"github.com/duehook/duehook/job"
)

// operationsWith are operations whose changes fail.
type operationsWith struct {
	Operations
	err error
}

func (o operationsWith) Create(context.Context, operations.Draft) (operations.Operation, error) {
	return operations.Operation{}, o.err
}

func (o operationsWith) Stop(context.Context, string) (operations.Operation, error) {
	return operations.Operation{}, o.err
}

func (o operationsWith) Resume(context.Context, string) (operations.Operation, error) {
	return operations.Operation{}, o.err
}

// withOperations does something with other operations.
func (a *api) withOperations(other Operations, do func()) {
	a.t.Helper()
	mine := a.server.opts.Operations
	a.server.opts.Operations = other
	do()
	a.server.opts.Operations = mine
}

// work lets a node work on the operations until there is none to work on.
func (a *api) work(id string) {
	a.t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	m, err := operations.New(operations.Options{Store: operationsStore{a.faults, a.mem, a.mem}, ID: "worker"})
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
	const request = `{"action":"cancel","filter":{"topic":"t","state":"waiting","endpoint":"https://shop.example/x","label":{"shop":"7"},"priority":8,
		"due_from":"2026-01-01T09:00:00Z","due_to":"2026-01-01T11:00:00+01:00"},"rate":100`
	filter := map[string]any{
		"topic": "t", "state": []any{"waiting"}, "endpoint": "https://shop.example:443", "label": map[string]any{"shop": "7"}, "priority": 8.0,
		"due_from": "2026-01-01T09:00:00.000Z", "due_to": "2026-01-01T10:00:00.000Z",
	}
	want := map[string]any{
		"dry_run": true, "action": "cancel", "filter": filter, "rate": 100.0, "matched": 3.0, "complete": true,
	}
	if diff := cmp.Diff(want, a.want(200, "POST", "/v1/operations", request+`,"dry_run":true}`)); diff != "" {
		t.Error(diff)
	}
	if s := a.stored("t", "a").State; s != job.Waiting {
		t.Fatalf("after a dry run the job is %s", s)
	}
	made := a.call("POST", "/v1/operations", request+"}")
	path := made.Header().Get("Location")
	if made.Code != 202 || !strings.HasPrefix(path, "/v1/operations/") {
		t.Fatalf("%d, Location %q: %s", made.Code, path, made.Body)
	}
	id := strings.TrimPrefix(path, "/v1/operations/")
	a.work(id)
	got := a.want(200, "GET", path, "")
	const then = "2026-01-01T09:00:00.000Z"
	want = map[string]any{
		"id": id, "action": "cancel", "filter": filter, "reschedule_to": nil, "rate": 100.0, "state": "done", "worker": nil, "reason": nil,
		"estimate": nil, "matched": 3.0, "changed": 3.0, "skipped": 0.0, "failed": 0.0, "errors": []any{},
		"started_at": then, "updated_at": got["updated_at"], "ended_at": got["updated_at"],
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if s := a.stored("t", "a").State; s != job.Cancelled {
		t.Errorf("the job is %s", s)
	}
	a.wantProblem(codeOperationEnded, "POST", path+"/stop", "")
}

func TestOperationsAreListed(t *testing.T) {
	a := newAPI(t)
	var want, got []string
	for range 5 {
		a.clock.advance(time.Millisecond)
		want = append([]string{a.want(202, "POST", "/v1/operations", `{"action":"reschedule","all":true,"delay":"1h"}`)["id"].(string)}, want...)
	}
	cursor := ""
	for {
		page := a.want(200, "GET", "/v1/operations?limit=2"+cursor, "")
		for _, o := range page["data"].([]any) {
			got = append(got, o.(map[string]any)["id"].(string))
		}
		next, more := page["next_cursor"].(string)
		if !more {
			break
		}
		cursor = "&cursor=" + url.QueryEscape(next)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestOperationsAreStoppedAndResumed(t *testing.T) {
	a := newAPI(t)
	path := "/v1/operations/" + a.want(202, "POST", "/v1/operations", `{"action":"run","all":true}`)["id"].(string)
	for _, call := range []struct{ what, state string }{{"stop", "stopped"}, {"stop", "stopped"}, {"resume", "running"}, {"resume", "running"}} {
		if got := a.want(200, "POST", path+"/"+call.what, "")["state"]; got != call.state {
			t.Errorf("%s gives %s", call.what, got)
		}
	}
}

// A key that may only read can try an operation out, and cannot begin one.
func TestOperationsNeedTheirScope(t *testing.T) {
	a := newKeyedAPI(t)
	read, readKey := a.newKey("--scope=read")
	write, writeKey := a.newKey("--scope=write")
	a.server.opts.Access = a.keyring(readKey, writeKey)
	const request = `{"action":"run","all":true`
	bearer := []string{"Authorization", "Bearer " + read}
	a.want(200, "POST", "/v1/operations", request+`,"dry_run":true}`, bearer...)
	for _, body := range []string{request + `}`, request + `,"dry_run":false}`, request + `,"dry_run":null}`, request + `,"dry_run":"true"}`, `{}`} {
		p := a.wantProblem(codeForbidden, "POST", "/v1/operations", body, bearer...)
		if !strings.Contains(p.Detail, "scope write") {
			t.Errorf("%s", p.Detail)
		}
	}
	made := a.want(202, "POST", "/v1/operations", request+`}`, "Authorization", "Bearer "+write)
	path := "/v1/operations/" + made["id"].(string)
	a.want(200, "GET", path, "", bearer...)
	a.wantProblem(codeForbidden, "POST", path+"/stop", "", bearer...)
}

func TestBadOperations(t *testing.T) {
	a := newAPI(t)
	for body, pointers := range map[string]string{
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
		`{"action":"run","filter":{"label":{"Shop":"7"}}}`:              "/filter/label/Shop",
		`{"action":"run","filter":{"label":"shop:7"}}`:                  "/filter/label",
		`{"action":"run","filter":{"label":{"a":1}}}`:                   "/filter/label/a",
		`{"action":"run","filter":{"priority":0}}`:                      "/filter/priority",
		`{"action":"run","filter":{"priority":"9"}}`:                    "/filter/priority",
		`{"action":"run","filter":{"due_from":"now"}}`:                  "/filter/due_from",
		`{"action":"run","filter":{"due_to":5}}`:                        "/filter/due_to",
		`{"action":"run","filter":{"due_to":"2026-01-01"},"rate":"no"}`: "/filter/due_to /rate",
	} {
		p := a.wantProblem(codeInvalidRequest, "POST", "/v1/operations", body)
		var got []string
		for _, e := range p.Errors {
			got = append(got, e.Pointer)
		}
		if strings.Join(got, " ") != pointers {
			t.Errorf("%s: got %q, want %q", body, got, pointers)
		}
	}
	for query, pointer := range map[string]string{
		"limit=0": "?limit", "limit=1001": "?limit", "cursor=": "?cursor", "cursor=a%20b": "?cursor", "state=done": "?state",
	} {
		if p := a.wantProblem(codeInvalidRequest, "GET", "/v1/operations?"+query, ""); p.Errors[0].Pointer != pointer {
			t.Errorf("%s: got %v", query, p.Errors)
		}
	}
	a.wantProblem(codeInvalidRequest, "GET", "/v1/operations/a%20b", "")
}

var manyStates = "[" + strings.Repeat(`"waiting",`, 8) + `"waiting"]`

// A server that is not told how to change many jobs says so.
func TestWithoutOperations(t *testing.T) {
	a := newAPI(t)
	a.server.opts.Operations = nil
	_, err := a.server.operations()
	var known *apiError
	if !errors.As(err, &known) || known.code != codeNotFound {
		t.Errorf("got %v", err)
	}
}
