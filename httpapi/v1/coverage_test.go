package v1

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"mime"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/duehook/duehook/httpapi"
	"github.com/duehook/duehook/internal/app"
	"github.com/duehook/duehook/internal/app/operations"
	"github.com/duehook/duehook/internal/app/pulls"
	"github.com/duehook/duehook/internal/app/schedules"
	"github.com/duehook/duehook/internal/app/topics"
	"github.com/duehook/duehook/internal/documents"
	"github.com/duehook/duehook/internal/inbox"
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/services/access"
	"github.com/duehook/duehook/internal/services/alerts"
	"github.com/duehook/duehook/internal/services/signing"
	"github.com/duehook/duehook/store"
)

const okJob = `{"url":"https://shop.example/hook","delay":"30m","topic":"t","id":"%s"}`

// coverAnswers brings about the answers of calls that are like no others.
func coverAnswers(t *testing.T, seen map[outcome]bool) {
	a := newKeyedAPI(t, func(o *testOptions) {
		o.Guard = func(rawURL string) error {
			if strings.Contains(rawURL, "169.254.") {
				return errors.New("link-local")
			}
			return nil
		}
	})
	a.seen = seen
	coverUnchanged(a)
	coverRegistrations(a)
	coverStates(a)
	coverCounts(a)
	coverKeys(a)
	coverSigning(a)
	coverTopics(a)
	coverGroups(a)
	coverPulls(a)
	coverOperations(a)
	coverSchedules(a)
	coverAlerts(a)
	coverInboxes(a)
	coverEndpoints(a)
	coverBlocked(a)
	coverEnds(a)
	coverHeaders(a)
}

// coverHeaders sends more headers than a request may have. Only a connection has that limit.
func coverHeaders(a *keyedAPI) {
	a.t.Helper()
	ln, err := (&net.ListenConfig{}).Listen(a.t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		a.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(a.t.Context())
	served := make(chan error, 1)
	go func() { served <- a.server.Serve(ctx, ln) }()
	defer func() {
		stop()
		if err := <-served; err != nil {
			a.t.Error(err)
		}
	}()
	for _, path := range []string{"/livez", "/readyz", "/openapi.json"} {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+ln.Addr().String()+path, nil)
		if err != nil {
			a.t.Fatal(err)
		}
		r.Header.Set("X-Long", strings.Repeat("x", 64<<10))
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			a.t.Fatal(err)
		}
		_ = answer.Body.Close()
		if mediaType, _, _ := mime.ParseMediaType(answer.Header.Get("Content-Type")); answer.StatusCode != http.StatusRequestHeaderFieldsTooLarge || mediaType != "text/plain" {
			a.t.Errorf("%s: %s %s", path, answer.Status, mediaType)
		}
		a.seen[outcome{operation: "GET " + path, status: answer.StatusCode}] = true
	}
}

func coverRegistrations(a *keyedAPI) {
	a.want(201, "POST", "/v1/jobs", fmt.Sprintf(okJob, "waits"))
	a.want(200, "POST", "/v1/jobs", fmt.Sprintf(okJob, "waits"))
	a.wantProblem(httpapi.CodeJobExists, "POST", "/v1/jobs", strings.Replace(fmt.Sprintf(okJob, "waits"), "30m", "31m", 1))
	a.want(201, "POST", "/v1/jobs", `{"url":"https://shop.example/hook","delay":"1h"}`, "Idempotency-Key", "named")
	a.wantProblem(httpapi.CodeKeyReused, "POST", "/v1/jobs", `{"url":"https://shop.example/hook","delay":"2h"}`, "Idempotency-Key", "named")
	a.want(201, "POST", "/v1/jobs", `{"url":"https://shop.example/hook","topic":"letters","id":"dies"}`)
	a.end(job.OutcomeRefused)
	a.wantProblem(httpapi.CodeJobDead, "POST", "/v1/jobs", `{"url":"https://shop.example/other","topic":"letters","id":"dies"}`)
	a.want(201, "POST", "/v1/jobs", `{"url":"https://shop.example/hook","topic":"t","id":"arrives"}`)
	a.end(job.OutcomeDelivered)
	a.want(201, "POST", "/v1/jobs", `{"url":"https://shop.example/hook","topic":"t","id":"flies"}`)
	a.claim()
	a.wantProblem(httpapi.CodeJobInFlight, "POST", "/v1/jobs", `{"url":"https://shop.example/other","topic":"t","id":"flies","on_conflict":"replace"}`)
	a.want(201, "POST", "/v1/jobs", fmt.Sprintf(okJob, "over"))
	a.want(200, "DELETE", "/v1/jobs/t/over", "")
}

func coverStates(a *keyedAPI) {
	const waits, flies, over = "/v1/jobs/t/waits", "/v1/jobs/t/flies", "/v1/jobs/t/over"
	a.wantProblem(httpapi.CodeJobInFlight, "PATCH", flies, `{"delay":"1h"}`)
	a.wantProblem(httpapi.CodeJobFinished, "PATCH", over, `{"delay":"1h"}`)
	a.wantProblem(httpapi.CodeJobInFlight, "POST", flies+"/run", "")
	a.wantProblem(httpapi.CodeJobFinished, "POST", over+"/run", "{}")
	a.wantProblem(httpapi.CodeJobInFlight, "POST", waits+"/replay", "")
	a.wantProblem(httpapi.CodeJobInFlight, "POST", flies+"/finish", "")
	a.wantProblem(httpapi.CodeJobFinished, "POST", over+"/finish", "")
	a.want(202, "DELETE", flies, "")
	a.wantProblem(httpapi.CodeJobFinished, "DELETE", "/v1/jobs/t/arrives", "")
}

func coverCounts(a *keyedAPI) {
	const counts, expires = "/v1/jobs/t/counts", "/v1/jobs/t/expires"
	a.want(201, "POST", "/v1/jobs", `{"url":"https://shop.example/hook","topic":"t","id":"counts","count":{"target":1000000}}`)
	a.want(200, "POST", counts+"/count", `{"key":"k"}`)
	for range job.MaxCountKeys / store.MaxAdds {
		c := store.Count{Key: job.Key{Topic: "t", ID: "counts"}}
		for range store.MaxAdds {
			c.Adds = append(c.Adds, job.Add{N: 1, Key: rand.Text()})
		}
		if _, err := a.mem.Count(context.Background(), c); err != nil {
			a.t.Fatal(err)
		}
	}
	a.wantProblem(httpapi.CodeTooManyCountKeys, "POST", counts+"/count", `{"key":"another"}`)
	a.want(200, "DELETE", counts, "")
	a.wantProblem(httpapi.CodeJobFinished, "POST", counts+"/count", "")
	a.want(201, "POST", "/v1/jobs", `{"url":"https://shop.example/hook","topic":"t","id":"expires","delay":0,"count":{"target":2,"at_deadline":"expire"}}`)
	a.claim()
	a.wantProblem(httpapi.CodeJobInFlight, "POST", expires+"/count", "")
}

func coverKeys(a *keyedAPI) {
	a.wantProblem(httpapi.CodeKeyFixed, "DELETE", "/v1/keys/"+a.admin.ID, "")
	keys := []access.Key{a.admin}
	for i := range access.MaxKeys {
		keys = append(keys, access.Key{ID: strconv.Itoa(i)})
	}
	a.withAccess(a.keyring(keys...), func() {
		a.wantProblem(httpapi.CodeTooManyKeys, "POST", "/v1/keys", `{"scope":"read"}`)
	})
}

func coverTopics(a *keyedAPI) {
	const topic = "/v1/topics/limited"
	a.want(201, "PUT", topic, `{"capacity":1,"rate":2.5,"retry":{"steps":["1s"]}}`)
	a.want(200, "PUT", topic, `{"capacity":1,"rate":2.5,"retry":{"steps":["1s"]}}`)
	a.want(201, "PATCH", "/v1/topics/patched", `{"rate":1}`)
	a.wantProblem(httpapi.CodeDestinationBlocked, "PATCH", topic, `{"callbacks":{"dead":{"url":"http://169.254.169.254/"}}}`)
	a.want(201, "POST", "/v1/jobs", `{"url":"https://shop.example/hook","delay":"30m","topic":"limited","id":"a"}`)
	a.want(200, "DELETE", "/v1/jobs/limited/a", "")
	a.want(201, "POST", "/v1/jobs", `{"url":"https://shop.example/hook","delay":"30m","topic":"limited","id":"b"}`)
	a.wantProblem(httpapi.CodeTopicFull, "POST", "/v1/jobs", `{"url":"https://shop.example/hook","topic":"limited","id":"c"}`)
	a.wantProblem(httpapi.CodeTopicFull, "POST", "/v1/jobs/limited/a/replay", "")
	a.want(200, "POST", topic+"/drain", "{}")
	a.wantProblem(httpapi.CodeTopicDraining, "POST", "/v1/jobs", `{"url":"https://shop.example/hook","topic":"limited","id":"c"}`)
	a.wantProblem(httpapi.CodeTopicDraining, "POST", "/v1/jobs/limited/a/replay", "")
	a.want(200, "POST", topic+"/resume", "")
	a.want(200, "DELETE", topic, "")
	const limits = topic + "/limits"
	a.want(201, "PUT", limits, `{"capacity":1}`)
	a.want(200, "PUT", limits, `{"capacity":2}`)
	a.want(200, "DELETE", limits, "")
	full := store.Document{Kind: "topic", Name: "others", Data: make([]byte, topics.MaxAllBytes)}
	full, err := store.PutDocument(a.t.Context(), a.mem, full)
	if err != nil {
		a.t.Fatal(err)
	}
	a.clock.Advance(time.Minute) // topics are counted now and then
	a.wantProblem(httpapi.CodeTooManyTopics, "PUT", topic, `{"rate":1}`)
	a.wantProblem(httpapi.CodeTooManyTopics, "PATCH", topic, `{"rate":1}`)
	a.wantProblem(httpapi.CodeTooManyTopics, "PUT", limits, `{"rate":1}`)
	a.wantProblem(httpapi.CodeTooManyTopics, "POST", topic+"/pause", "")
	a.wantProblem(httpapi.CodeTooManyTopics, "POST", topic+"/drain", "")
	if err := store.DeleteDocument(a.t.Context(), a.mem, full.Kind, full.Name, full.Version); err != nil {
		a.t.Fatal(err)
	}
}

func coverSigning(a *keyedAPI) {
	const topic = "/v1/topics/s/signing"
	a.want(200, "PUT", "/v1/signing", `{}`)
	a.want(200, "POST", "/v1/signing/rotate", "")
	a.want(201, "PUT", topic, `{}`)
	a.want(200, "PUT", topic, `{}`)
	for range signing.MaxSecrets - 1 {
		a.want(200, "POST", topic+"/rotate", `{"overlap":60}`)
	}
	a.wantProblem(httpapi.CodeTooManySecrets, "POST", topic+"/rotate", `{}`)
	a.want(200, "DELETE", topic, "")
	for range signing.MaxSecrets - 2 {
		a.want(200, "POST", "/v1/signing/rotate", `{}`)
	}
	a.wantProblem(httpapi.CodeTooManySecrets, "POST", "/v1/signing/rotate", `{}`)

	docs := faultyDocuments{a.mem, a.faults}
	all := func(want httpapi.Code, calls ...string) {
		for _, call := range calls {
			method, path, _ := strings.Cut(call, " ")
			body := ""
			if method == "PUT" {
				body = "{}"
			}
			a.wantProblem(want, method, path, body)
		}
	}
	changesOfDefault := []string{"PUT /v1/signing", "POST /v1/signing/rotate"}
	changesOfTopic := []string{"PUT " + topic, "POST " + topic + "/rotate"}
	a.withSigning(a.newSigning(docs, "", a.secret), func() {
		all(httpapi.CodeSecretFixed, changesOfDefault...)
		all(httpapi.CodeMasterKeyMissing, changesOfTopic...)
	})
	a.withSigning(nil, func() {
		all(httpapi.CodeSigningOff, append(changesOfDefault, append(changesOfTopic, "GET /v1/signing", "GET "+topic, "DELETE "+topic)...)...)
	})
	a.withSigning(a.newSigning(docs, documents.GenerateMasterKey(), ""), func() {
		all(httpapi.CodeSecretUnreadable, append(changesOfDefault, append(changesOfTopic, "GET /v1/signing", "GET "+topic)...)...)
	})
	a.withSigning(a.newSigning(a.emptyStore(), documents.GenerateMasterKey(), ""), func() {
		all(httpapi.CodeSecretNotFound, "GET /v1/signing", "GET "+topic)
		a.want(201, "PUT", "/v1/signing", `{}`)
	})
}

func coverOperations(a *keyedAPI) {
	made := a.want(202, "POST", "/v1/operations", `{"action":"run","all":true}`, "Idempotency-Key", `"run-1"`)
	if again := a.want(202, "POST", "/v1/operations", `{"all":true,"action":"run"}`, "Idempotency-Key", "run-1"); again["id"] != made["id"] || again["version"] != made["version"] {
		a.t.Errorf("began %v, and with the same key %v", made, again)
	}
	a.wantProblem(httpapi.CodeKeyReused, "POST", "/v1/operations", `{"all":true,"action":"cancel"}`, "Idempotency-Key", "run-1")
	path := "/v1/operations/" + made["id"].(string)
	a.withOperations(operationsWith{a.operations, operations.ErrEnded}, func() {
		a.wantProblem(httpapi.CodeOperationEnded, "POST", path+"/stop", "")
		a.wantProblem(httpapi.CodeOperationEnded, "POST", path+"/resume", "")
	})
	a.withOperations(operationsWith{a.operations, operations.ErrTooMany}, func() {
		a.wantProblem(httpapi.CodeTooManyOperations, "POST", "/v1/operations", `{"action":"run","all":true}`)
	})
}

// coverUnchanged reads what the client has.
func coverUnchanged(a *keyedAPI) {
	a.want(201, "PUT", "/v1/groups/unchanged", twoMembers)
	a.want(201, "PUT", "/v1/alerts/rules/unchanged", `{"metric":"open_circuits"}`)
	a.want(201, "POST", "/v1/jobs", `{"topic":"t","id":"unchanged","pull":true}`)
	for _, path := range []string{"/v1/groups/unchanged", "/v1/alerts/rules/unchanged", "/v1/jobs/t/unchanged/registration"} {
		if got := a.call("GET", path, "", "If-None-Match", "*"); got.Code != 304 {
			a.t.Errorf("%s: %d", path, got.Code)
		}
	}
	for _, path := range []string{"/v1/groups/unchanged", "/v1/alerts/rules/unchanged"} {
		a.call("DELETE", path, "")
	}
	a.want(200, "DELETE", "/v1/jobs/t/unchanged", "")
}

func coverEndpoints(a *keyedAPI) {
	a.wantProblem(httpapi.CodeDestinationBlocked, "POST", "/v1/endpoints/test", `{"url":"http://169.254.169.254/"}`)
	a.faults.set(func() error { return &pulls.BusyError{} })
	a.wantProblem(httpapi.CodeTooManyPulls, "POST", "/v1/topics/t/pull", "")
	a.wantProblem(httpapi.CodeTooManyPulls, "POST", "/v1/pull", `{"topics":["t"]}`)
	a.faults.set(nil)
	a.endpoints.fail = app.ErrTooManyTests
	a.wantProblem(httpapi.CodeTooManyTests, "POST", "/v1/endpoints/test", `{"url":"https://shop.example/hook"}`)
	a.endpoints.fail = nil
}

// coverBlocked names a blocked address wherever a URL can be.
func coverBlocked(a *keyedAPI) {
	a.wantProblem(httpapi.CodeDestinationBlocked, "POST", "/v1/jobs", `{"url":"http://169.254.169.254/"}`)
	a.wantProblem(httpapi.CodeDestinationBlocked, "POST", "/v1/jobs/plan", `{"url":"http://169.254.169.254/"}`)
	blocked := `{"every":"1h","job":{"url":"http://169.254.169.254/"}}`
	for _, call := range []string{"PUT /v1/schedules/s", "POST /v1/schedules/preview"} {
		method, path, _ := strings.Cut(call, " ")
		if p := a.wantProblem(httpapi.CodeDestinationBlocked, method, path, blocked); p.Errors[0].Pointer != "/job/url" {
			a.t.Errorf("the refused URL is said to be at %s", p.Errors[0].Pointer)
		}
	}
	a.wantProblem(httpapi.CodeDestinationBlocked, "PUT", "/v1/topics/t", `{"url":"http://169.254.169.254/"}`)
	a.wantProblem(httpapi.CodeDestinationBlocked, "PUT", "/v1/alerts/rules/r", `{"metric":"open_circuits","url":"http://169.254.169.254/"}`)
	a.wantProblem(httpapi.CodeDestinationBlocked, "POST", "/v1/operations", `{"action":"replay","all":true,"set":{"url":"http://169.254.169.254/"}}`)
	a.wantProblem(httpapi.CodeDestinationBlocked, "POST", "/v1/jobs/t/waits/replay", `{"url":"http://169.254.169.254/"}`)
	a.wantProblem(httpapi.CodeDestinationBlocked, "PATCH", "/v1/jobs/t/waits", `{"url":"http://169.254.169.254/"}`)
}

func coverAlerts(a *keyedAPI) {
	const rule = "/v1/alerts/rules/backlog"
	a.want(201, "PUT", rule, `{"metric":"backlog","above":10}`)
	a.want(200, "PUT", rule, `{"metric":"backlog","above":20}`)
	a.wantProblem(httpapi.CodeDestinationBlocked, "PATCH", rule, `{"url":"http://169.254.169.254/"}`)
	mine := a.v1.Alerts
	a.v1.Alerts = alertsWith{a.alerts, alerts.ErrTooMany}
	a.wantProblem(httpapi.CodeTooManyAlertRules, "PUT", rule, `{"metric":"backlog","above":10}`)
	a.v1.Alerts = mine
}

// coverEnds changes a job that others change, and stops the server.
func coverEnds(a *keyedAPI) {
	a.want(201, "POST", "/v1/jobs", `{"url":"https://shop.example/hook","topic":"t","id":"busy","delay":"1h"}`)
	calls := 0
	a.faults.set(func() error {
		if calls++; calls == 1 { // Register, then Update
			return nil
		}
		return store.ErrConflict
	})
	a.wantProblem(httpapi.CodeJobBusy, "POST", "/v1/jobs", `{"url":"https://shop.example/hook","topic":"t","id":"busy","on_conflict":"later","delay":"9h"}`)
	a.faults.set(nil)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		a.t.Fatal(err)
	}
	stopped, stop := context.WithCancel(a.t.Context())
	stop()
	if err := a.server.Serve(stopped, ln); err != nil {
		a.t.Fatal(err)
	}
	a.wantProblem(httpapi.CodeShuttingDown, "GET", "/readyz", "")
}

// Every documented code has an entry of its own in docs/api-errors.md, and
// every entry is a code.
func TestEveryErrorIsExplained(t *testing.T) {
	explained, known := map[string]bool{}, map[string]bool{}
	for _, heading := range headings(t, "../../docs/api-errors.md", "## ") {
		if name := strings.Fields(heading)[0]; strings.HasPrefix(name, "`") { // the other headings are of no code
			explained[strings.Trim(name, "`")] = true
		}
	}
	for _, c := range httpapi.Codes() {
		known[c.Name] = true
		if !explained[c.Name] {
			t.Errorf("docs/api-errors.md does not explain %s", c.Name)
		}
	}
	for name := range explained {
		if !known[name] {
			t.Errorf("docs/api-errors.md explains %s, which is no code", name)
		}
	}
}

// The map of errors knows each error on which the domain and the stores let
// callers decide.
func TestErrorsHaveCodes(t *testing.T) {
	for err, want := range map[error]httpapi.Code{
		store.ErrNotFound:         httpapi.CodeJobNotFound,
		store.ErrUnavailable:      httpapi.CodeStoreUnavailable,
		store.ErrBadCursor:        httpapi.CodeInvalidRequest,
		store.ErrOtherLayout:      httpapi.CodeStoreUnavailable,
		store.ErrNewer:            httpapi.CodeNewerVersion,
		store.ErrConflict:         httpapi.CodeStoreUnavailable,
		app.ErrBusy:               httpapi.CodeJobBusy,
		job.ErrFinished:           httpapi.CodeJobFinished,
		job.ErrInFlight:           httpapi.CodeJobInFlight,
		job.ErrNotEnded:           httpapi.CodeJobInFlight,
		access.ErrMissing:         httpapi.CodeUnauthorized,
		access.ErrMalformed:       httpapi.CodeUnauthorized,
		access.ErrUnknown:         httpapi.CodeUnauthorized,
		access.ErrExpired:         httpapi.CodeUnauthorized,
		access.ErrNoKey:           httpapi.CodeKeyNotFound,
		access.ErrFixedKey:        httpapi.CodeKeyFixed,
		access.ErrTooManyKeys:     httpapi.CodeTooManyKeys,
		schedules.ErrNotFound:     httpapi.CodeScheduleNotFound,
		schedules.ErrTooMany:      httpapi.CodeTooManySchedules,
		schedules.ErrBusy:         httpapi.CodeStoreUnavailable,
		alerts.ErrNotFound:        httpapi.CodeAlertRuleNotFound,
		alerts.ErrTooMany:         httpapi.CodeTooManyAlertRules,
		inbox.ErrNotFound:         httpapi.CodeInboxNotFound,
		inbox.ErrUnavailable:      httpapi.CodeInboxUnavailable,
		operations.ErrNotFound:    httpapi.CodeOperationNotFound,
		operations.ErrEnded:       httpapi.CodeOperationEnded,
		operations.ErrTooMany:     httpapi.CodeTooManyOperations,
		signing.ErrNoSecret:       httpapi.CodeSecretNotFound,
		signing.ErrConfigured:     httpapi.CodeSecretFixed,
		signing.ErrTooManySecrets: httpapi.CodeTooManySecrets,
		signing.ErrTooManyTopics:  httpapi.CodeTooManySecrets,
		topics.ErrNoLimits:        httpapi.CodeTopicUnlimited,
		topics.ErrTooMany:         httpapi.CodeTooManyTopics,
		documents.ErrNoMasterKey:  httpapi.CodeMasterKeyMissing,
		documents.ErrMasterKey:    httpapi.CodeSecretUnreadable,
		documents.ErrDamaged:      httpapi.CodeSecretUnreadable,
		&access.NamespaceError{}:  httpapi.CodeForbidden,
		&access.ScopeError{}:      httpapi.CodeForbidden,
		errors.New("else"):        httpapi.CodeInternalError,
	} {
		if got := httpapi.AsError(fmt.Errorf("wrapped: %w", err)); got.Code != want {
			t.Errorf("%v: got %s, want %s", err, got.Code.Name, want.Name)
		}
	}
}
