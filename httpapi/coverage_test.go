package httpapi

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/duehook/duehook/internal/services/access"
	"github.com/duehook/duehook/internal/services/alerts"
	"github.com/duehook/duehook/internal/services/signing"
	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/scheduler"
	"github.com/duehook/duehook/scheduler/operations"
	"github.com/duehook/duehook/store"
)

const okJob = `{"url":"https://shop.example/hook","delay":"30m","topic":"t","id":"%s"}`

// TestEveryDocumentedAnswer brings about every answer that the document
// promises, and each is held against its schema on the way.
func TestEveryDocumentedAnswer(t *testing.T) {
	a := newKeyedAPI(t, func(o *testOptions) {
		o.CheckURL = func(rawURL string) error {
			if strings.Contains(rawURL, "169.254.") {
				return errors.New("link-local")
			}
			return nil
		}
		o.MaxBatchBytes = 64 << 10
	})
	coverRegistrations(a)
	coverStates(a)
	coverReads(a)
	coverKeys(a)
	coverSigning(a)
	coverTopics(a)
	coverOperations(a)
	coverAlerts(a)
	coverNewer(a)
	coverRestore(a)
	coverEndpoints(a)
	coverRefusals(a)
	coverFaults(a)

	for _, o := range theContract().documented() {
		if !a.seen[o] {
			t.Errorf("the document promises %v, but no test brings it about", o)
		}
	}
}

func coverRegistrations(a *keyedAPI) {
	a.want(201, "POST", "/v1/jobs", fmt.Sprintf(okJob, "waits"))
	a.want(200, "POST", "/v1/jobs", fmt.Sprintf(okJob, "waits"))
	a.wantProblem(codeJobExists, "POST", "/v1/jobs", strings.Replace(fmt.Sprintf(okJob, "waits"), "30m", "31m", 1))
	a.want(201, "POST", "/v1/jobs", `{"url":"https://shop.example/hook","topic":"letters","id":"dies"}`)
	a.end(job.OutcomeRefused)
	a.wantProblem(codeJobDead, "POST", "/v1/jobs", `{"url":"https://shop.example/other","topic":"letters","id":"dies"}`)
	a.want(201, "POST", "/v1/jobs", `{"url":"https://shop.example/hook","topic":"t","id":"flies"}`)
	a.claim()
	a.wantProblem(codeJobInFlight, "POST", "/v1/jobs", `{"url":"https://shop.example/other","topic":"t","id":"flies","on_conflict":"replace"}`)
	a.want(201, "POST", "/v1/jobs", fmt.Sprintf(okJob, "over"))
	a.want(200, "DELETE", "/v1/jobs/t/over", "")
	a.want(200, "POST", "/v1/jobs/batch", `{"jobs":[{"url":"https://shop.example/hook","delay":60},{}]}`)
}

func coverStates(a *keyedAPI) {
	const waits, flies, over = "/v1/jobs/t/waits", "/v1/jobs/t/flies", "/v1/jobs/t/over"
	a.want(200, "PATCH", waits, `{"delay":"1h"}`)
	for _, call := range []string{"PATCH " + waits, "DELETE " + waits, "POST " + waits + "/run", "POST " + over + "/replay"} {
		method, path, _ := strings.Cut(call, " ")
		a.wantProblem(codeVersionChanged, method, path, map[bool]string{true: `{"delay":"1h"}`}[method == "PATCH"], "If-Match", `"none"`)
	}
	a.wantProblem(codeJobInFlight, "PATCH", flies, `{"delay":"1h"}`)
	a.wantProblem(codeJobFinished, "PATCH", over, `{"delay":"1h"}`)
	a.want(200, "POST", waits+"/run", "")
	a.wantProblem(codeJobInFlight, "POST", flies+"/run", "")
	a.wantProblem(codeJobFinished, "POST", over+"/run", "{}")
	a.wantProblem(codeJobInFlight, "POST", waits+"/replay", "")
	a.want(200, "POST", over+"/replay", "{}")
	a.want(200, "DELETE", over, "")
	a.want(202, "DELETE", flies, "")
	a.wantProblem(codeJobFinished, "DELETE", over, "")
}

func coverReads(a *keyedAPI) {
	a.want(200, "GET", "/v1/jobs", "")
	a.want(200, "GET", "/v1/jobs/t/waits", "")
	a.want(200, "GET", "/v1/jobs/t/waits/attempts", "")
	a.want(200, "GET", "/v1/dead", "")
	a.want(200, "GET", "/v1/jobs/t/waits/explain", "")
	a.want(200, "GET", "/v1/jobs/t/waits/registration", "")
	a.want(200, "POST", "/v1/jobs/plan", fmt.Sprintf(okJob, "waits"))
	a.want(200, "GET", "/v1/topics", "")
	a.want(200, "GET", "/v1/topics/t", "")
	if got := a.call("GET", eventsPath, ""); got.Code != 200 {
		a.t.Errorf("GET %s: %d", eventsPath, got.Code)
	}
	a.server.streams.Store(maxStreams)
	a.wantProblem(codeTooManyStreams, "GET", eventsPath, "")
	a.server.streams.Store(0)
	a.want(200, "GET", "/v1/whoami", "")
	a.want(200, "GET", "/livez", "")
	a.want(200, "GET", "/readyz", "")
	a.want(200, "GET", "/openapi.json", "")
	if got := a.call("GET", "/metrics", ""); got.Code != 200 {
		a.t.Errorf("GET /metrics: %d", got.Code)
	}
}

func coverKeys(a *keyedAPI) {
	made := a.want(201, "POST", "/v1/keys", `{"scope":"read"}`)
	a.want(200, "GET", "/v1/keys", "")
	a.want(200, "DELETE", "/v1/keys/"+made["id"].(string), "")
	a.wantProblem(codeKeyNotFound, "DELETE", "/v1/keys/"+made["id"].(string), "")
	a.wantProblem(codeKeyFixed, "DELETE", "/v1/keys/"+a.admin.ID, "")
	keys := []access.Key{a.admin}
	for i := range access.MaxKeys {
		keys = append(keys, access.Key{ID: strconv.Itoa(i)})
	}
	a.withAccess(a.keyring(keys...), func() {
		a.wantProblem(codeTooManyKeys, "POST", "/v1/keys", `{"scope":"read"}`)
	})

	limited, key := a.newKey("--scope=admin", "--rate=1/1d")
	unlimited, _ := a.newKey("--scope=admin")
	narrow, narrowKey := a.newKey("--scope=read", "--namespace=other")
	for _, rt := range routes {
		if rt.scope == access.Public {
			continue
		}
		path := rt.example("t", "waits")
		a.wantProblem(codeUnauthorized, rt.method, path, "", "Authorization", "")
		a.withAccess(a.keyring(key, narrowKey), func() {
			a.call(rt.method, path, "", "Authorization", "Bearer "+limited)
			a.wantProblem(codeRateLimited, rt.method, path, "", "Authorization", "Bearer "+limited)
			a.wantProblem(codeForbidden, rt.method, path, "", "Authorization", "Bearer "+narrow)
		})
		a.withAccess(a.keyring(), func() { // which has not read the stored keys yet
			a.wantProblem(codeStoreUnavailable, rt.method, path, "", "Authorization", "Bearer "+unlimited)
		})
	}
}

func coverTopics(a *keyedAPI) {
	const topic = "/v1/topics/limited"
	a.want(200, "PUT", topic, `{"capacity":1,"rate":2.5,"retry":{"steps":["1s"]}}`)
	a.want(201, "POST", "/v1/jobs", `{"url":"https://shop.example/hook","delay":"30m","topic":"limited","id":"a"}`)
	a.want(200, "DELETE", "/v1/jobs/limited/a", "")
	a.want(201, "POST", "/v1/jobs", `{"url":"https://shop.example/hook","delay":"30m","topic":"limited","id":"b"}`)
	a.wantProblem(codeTopicFull, "POST", "/v1/jobs", `{"url":"https://shop.example/hook","topic":"limited","id":"c"}`)
	a.wantProblem(codeTopicFull, "POST", "/v1/jobs/limited/a/replay", "")
	a.want(200, "POST", topic+"/pause", "")
	a.want(200, "POST", topic+"/drain", "{}")
	a.wantProblem(codeTopicDraining, "POST", "/v1/jobs", `{"url":"https://shop.example/hook","topic":"limited","id":"c"}`)
	a.wantProblem(codeTopicDraining, "POST", "/v1/jobs/limited/a/replay", "")
	a.want(200, "POST", topic+"/resume", "")
	a.want(200, "DELETE", topic, "")
	a.wantProblem(codeTopicPlain, "DELETE", topic, "")
}

func coverSigning(a *keyedAPI) {
	const topic = "/v1/topics/s/signing"
	a.want(200, "GET", "/v1/signing", "")
	a.want(200, "PUT", "/v1/signing", `{}`)
	a.want(200, "POST", "/v1/signing/rotate", "")
	a.want(200, "GET", topic, "")
	a.want(201, "PUT", topic, `{}`)
	a.want(200, "PUT", topic, `{}`)
	for range signing.MaxSecrets - 1 {
		a.want(200, "POST", topic+"/rotate", `{"overlap":60}`)
	}
	a.wantProblem(codeTooManySecrets, "POST", topic+"/rotate", `{}`)
	a.want(200, "DELETE", topic, "")
	a.wantProblem(codeSecretNotFound, "DELETE", topic, "")
	for range signing.MaxSecrets - 2 {
		a.want(200, "POST", "/v1/signing/rotate", `{}`)
	}
	a.wantProblem(codeTooManySecrets, "POST", "/v1/signing/rotate", `{}`)

	documents := faultyDocuments{a.mem, a.faults}
	all := func(want code, calls ...string) {
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
	a.withSigning(a.newSigning(documents, "", a.secret), func() {
		all(codeSecretFixed, changesOfDefault...)
		all(codeMasterKeyMissing, changesOfTopic...)
	})
	a.withSigning(nil, func() {
		all(codeSigningOff, append(changesOfDefault, append(changesOfTopic, "GET /v1/signing", "GET "+topic, "DELETE "+topic)...)...)
	})
	a.withSigning(a.newSigning(documents, signing.GenerateMasterKey(), ""), func() {
		all(codeSecretUnreadable, append(changesOfDefault, append(changesOfTopic, "GET /v1/signing", "GET "+topic)...)...)
	})
	a.withSigning(a.newSigning(a.emptyStore(), signing.GenerateMasterKey(), ""), func() {
		all(codeSecretNotFound, "GET /v1/signing", "GET "+topic)
		a.want(201, "PUT", "/v1/signing", `{}`)
	})
}

func coverOperations(a *keyedAPI) {
	made := a.want(202, "POST", "/v1/operations", `{"action":"run","all":true}`)
	path := "/v1/operations/" + made["id"].(string)
	a.want(200, "POST", "/v1/operations", `{"action":"run","all":true,"dry_run":true}`)
	a.want(200, "GET", "/v1/operations", "")
	a.want(200, "GET", path, "")
	a.want(200, "POST", path+"/stop", "")
	a.want(200, "POST", path+"/resume", "")
	const missing = "/v1/operations/01KDWCJ2M00000000000000009"
	a.wantProblem(codeOperationNotFound, "GET", missing, "")
	a.wantProblem(codeOperationNotFound, "POST", missing+"/stop", "")
	a.wantProblem(codeOperationNotFound, "POST", missing+"/resume", "")
	a.withOperations(operationsWith{a.operations, operations.ErrEnded}, func() {
		a.wantProblem(codeOperationEnded, "POST", path+"/stop", "")
		a.wantProblem(codeOperationEnded, "POST", path+"/resume", "")
	})
	a.withOperations(operationsWith{a.operations, operations.ErrTooMany}, func() {
		a.wantProblem(codeTooManyOperations, "POST", "/v1/operations", `{"action":"run","all":true}`)
	})
}

func coverEndpoints(a *keyedAPI) {
	a.want(200, "GET", "/v1/overview", "")
	a.want(200, "GET", "/v1/endpoints", "")
	a.want(200, "POST", "/v1/endpoints/try", `{"endpoint":"https://shop.example"}`)
	a.want(200, "POST", "/v1/endpoints/test", `{"url":"https://shop.example/hook"}`)
	a.wantProblem(codeDestinationBlocked, "POST", "/v1/endpoints/test", `{"url":"http://169.254.169.254/"}`)
	a.endpoints.fail = scheduler.ErrTooManyTests
	a.wantProblem(codeTooManyTests, "POST", "/v1/endpoints/test", `{"url":"https://shop.example/hook"}`)
	a.endpoints.fail = nil
}

// coverRefusals sends each call what it refuses before it looks at the store.
func coverRefusals(a *keyedAPI) {
	for _, rt := range routes {
		if rt.body == bodyIgnored {
			continue
		}
		path := rt.example("t", "nobody")
		a.wantProblem(codeInvalidRequest, rt.method, path+"?colour=blue", "")
		if rt.method != "GET" {
			a.wantProblem(codeForbidden, rt.method, path, "", "Sec-Fetch-Site", "cross-site")
		}
		if strings.Contains(path, "nobody") {
			sent := ""
			if rt.method == "PATCH" {
				sent = `{"delay":1}`
			}
			a.wantProblem(codeJobNotFound, rt.method, path, sent)
		}
		if rt.body == bodyRefused {
			continue
		}
		a.wantProblem(codeMalformedJSON, rt.method, path, `{"`)
		a.wantProblem(codeUnsupportedMediaType, rt.method, path, `{}`, "Content-Type", "text/plain")
		a.wantProblem(codeBodyTooLarge, rt.method, path, `{"x":"`+strings.Repeat("x", 1<<20)+`"}`)
	}
	a.wantProblem(codeTopicNotFound, "GET", "/v1/topics/nothing", "")
	a.wantProblem(codeDestinationBlocked, "POST", "/v1/jobs", `{"url":"http://169.254.169.254/"}`)
	a.wantProblem(codeDestinationBlocked, "POST", "/v1/jobs/plan", `{"url":"http://169.254.169.254/"}`)
	a.wantProblem(codeDestinationBlocked, "PUT", "/v1/alerts/rules/r", `{"metric":"open_circuits","url":"http://169.254.169.254/"}`)
	a.wantProblem(codeDestinationBlocked, "POST", "/v1/operations", `{"action":"replay","all":true,"set":{"url":"http://169.254.169.254/"}}`)
	a.wantProblem(codeDestinationBlocked, "POST", "/v1/jobs/t/waits/replay", `{"url":"http://169.254.169.254/"}`)
	a.wantProblem(codeDestinationBlocked, "PATCH", "/v1/jobs/t/waits", `{"url":"http://169.254.169.254/"}`)
}

func coverAlerts(a *keyedAPI) {
	const rule = "/v1/alerts/rules/backlog"
	a.want(201, "PUT", rule, `{"metric":"backlog","above":10}`)
	a.want(200, "PUT", rule, `{"metric":"backlog","above":20}`)
	a.want(200, "GET", rule, "")
	a.want(200, "GET", "/v1/alerts/rules", "")
	a.want(200, "GET", "/v1/alerts", "")
	a.wantProblem(codeVersionChanged, "PUT", rule, `{"metric":"backlog","above":30}`, "If-Match", `"none"`)
	a.wantProblem(codeVersionChanged, "DELETE", rule, "", "If-Match", `"none"`)
	for _, call := range []string{"PUT", "DELETE", "POST/pause", "POST/drain", "POST/resume"} {
		method, path, more := strings.Cut(call, "/")
		a.wantProblem(codeVersionChanged, method, "/v1/topics/t"+map[bool]string{true: "/"}[more]+path, map[bool]string{true: "{}"}[method == "PUT"], "If-Match", `"none"`)
	}
	a.want(200, "DELETE", rule, "")
	a.wantProblem(codeAlertRuleNotFound, "GET", rule, "")
	a.wantProblem(codeAlertRuleNotFound, "DELETE", rule, "")
	mine := a.server.opts.Alerts
	a.server.opts.Alerts = alertsWith{a.alerts, alerts.ErrTooMany}
	a.wantProblem(codeTooManyAlertRules, "PUT", rule, `{"metric":"backlog","above":10}`)
	a.server.opts.Alerts = mine
	for i := range alerts.MaxTopics {
		a.want(200, "PUT", fmt.Sprint("/v1/topics/watched-", i), `{"alerts":{"backlog":10}}`)
	}
	a.wantProblem(codeTooManyAlertRules, "PUT", "/v1/topics/watched", `{"alerts":{"backlog":10}}`)
	p := a.wantProblem(codeDestinationBlocked, "PUT", "/v1/topics/watched-1", `{"alerts":{"backlog":10,"url":"http://169.254.169.254/"}}`)
	if got := p.Errors[0].Pointer; got != "/alerts/url" {
		a.t.Errorf("the refused URL is said to be at %s", got)
	}
}

func coverRestore(a *keyedAPI) {
	a.restoring.status.Requested.State = store.RestoreDone
	a.want(202, "POST", "/v1/restore", "")
	a.wantProblem(codeRestoreRunning, "POST", "/v1/restore", `{"expired":false,"topic":"t"}`)
	a.want(200, "GET", "/v1/restore", "")
	a.want(200, "POST", "/v1/jobs/t/waits/restore", "")
	a.wantProblem(codeJobFinished, "POST", "/v1/jobs/t/over/restore", "{}")
	a.server.opts.Restoring = nil
	for _, call := range []string{"POST /v1/restore", "GET /v1/restore", "POST /v1/jobs/t/waits/restore"} {
		method, path, _ := strings.Cut(call, " ")
		a.wantProblem(codeLedgerMissing, method, path, "")
	}
	a.server.opts.Restoring = a.restoring
}

// coverFaults makes every call that asks the store fail by it.
func coverFaults(a *keyedAPI) {
	valid := map[string]string{
		"POST /v1/jobs":               fmt.Sprintf(okJob, "fault"),
		"POST /v1/jobs/plan":          fmt.Sprintf(okJob, "fault"),
		"POST /v1/jobs/batch":         `{"jobs":[{"url":"https://shop.example/hook"}]}`,
		"POST /v1/keys":               `{"scope":"read"}`,
		"PATCH /v1/jobs/{topic}/{id}": `{"delay":1}`,

		"POST /v1/operations":         `{"action":"run","all":true}`,
		"PUT /v1/alerts/rules/{rule}": `{"metric":"open_circuits"}`,

		"POST /v1/endpoints/try":  `{"endpoint":"https://shop.example"}`,
		"POST /v1/endpoints/test": `{"url":"https://shop.example/hook"}`,

		"PUT /v1/signing":                `{}`,
		"PUT /v1/topics/{topic}/signing": `{}`,
		"PUT /v1/topics/{topic}":         `{}`,
	}
	for _, fault := range []struct {
		code code
		fail func() error
	}{
		{codeStoreUnavailable, func() error { return fmt.Errorf("%w: connection refused", store.ErrUnavailable) }},
		{codeStoreUnavailable, func() error { return store.ErrConflict }},
		{codeInternalError, func() error { return errors.New("a defect") }},
		{codeInternalError, func() error { panic("a defect") }},
	} {
		a.faults.set(fault.fail)
		a.clock.advance(time.Minute) // the last one would be shown
		for _, rt := range routes {
			if rt.body == bodyIgnored && rt.path != "/readyz" || rt.path == "/v1/whoami" {
				continue // asks no store
			}
			path := rt.example("t", "waits")
			a.wantProblem(fault.code, rt.method, path, valid[rt.method+" "+rt.path])
		}
	}
	a.faults.set(nil)
	a.server.draining.Store(true)
	a.wantProblem(codeShuttingDown, "GET", "/readyz", "")
	a.server.draining.Store(false)
}

// Every documented code has an entry of its own in docs/api-errors.md, and
// every entry is a code.
func TestEveryErrorIsExplained(t *testing.T) {
	explained := map[code]bool{}
	for _, heading := range headings(t, "../docs/api-errors.md", "## ") {
		explained[code(strings.Trim(strings.Fields(heading)[0], "`"))] = true
	}
	for c := range codes {
		if !explained[c] {
			t.Errorf("docs/api-errors.md does not explain %s", c)
		}
	}
	for c := range explained {
		if _, ok := codes[c]; !ok {
			t.Errorf("docs/api-errors.md explains %s, which is no code", c)
		}
	}
}

// The map of errors knows each error on which the domain and the stores let
// callers decide.
func TestErrorsHaveCodes(t *testing.T) {
	for err, want := range map[error]code{
		store.ErrNotFound:         codeJobNotFound,
		store.ErrUnavailable:      codeStoreUnavailable,
		store.ErrBadCursor:        codeInvalidRequest,
		store.ErrOtherLayout:      codeStoreUnavailable,
		store.ErrNewer:            codeNewerVersion,
		store.ErrConflict:         codeStoreUnavailable,
		job.ErrFinished:           codeJobFinished,
		job.ErrInFlight:           codeJobInFlight,
		job.ErrNotEnded:           codeJobInFlight,
		access.ErrMissing:         codeUnauthorized,
		access.ErrMalformed:       codeUnauthorized,
		access.ErrUnknown:         codeUnauthorized,
		access.ErrExpired:         codeUnauthorized,
		access.ErrNoKey:           codeKeyNotFound,
		access.ErrFixedKey:        codeKeyFixed,
		access.ErrTooManyKeys:     codeTooManyKeys,
		alerts.ErrNotFound:        codeAlertRuleNotFound,
		alerts.ErrTooMany:         codeTooManyAlertRules,
		alerts.ErrTooManyTopics:   codeTooManyAlertRules,
		operations.ErrNotFound:    codeOperationNotFound,
		operations.ErrEnded:       codeOperationEnded,
		operations.ErrTooMany:     codeTooManyOperations,
		signing.ErrNoSecret:       codeSecretNotFound,
		signing.ErrConfigured:     codeSecretFixed,
		signing.ErrTooManySecrets: codeTooManySecrets,
		signing.ErrNoMasterKey:    codeMasterKeyMissing,
		signing.ErrMasterKey:      codeSecretUnreadable,
		signing.ErrDamaged:        codeSecretUnreadable,
		&access.NamespaceError{}:  codeForbidden,
		&access.ScopeError{}:      codeForbidden,
		errors.New("else"):        codeInternalError,
	} {
		if got := asAPIError(fmt.Errorf("wrapped: %w", err)); got.code != want {
			t.Errorf("%v: got %s, want %s", err, got.code, want)
		}
	}
}
