package v1

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/duehook/duehook/httpapi"
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/services/access"
	"github.com/duehook/duehook/store"
)

// keyedAPI is an api that asks for keys. Its calls are those of an admin.
type keyedAPI struct {
	*api
	keys  *switchedAccess
	admin access.Key
}

func newKeyedAPI(t testing.TB, change ...func(*testOptions)) *keyedAPI {
	t.Helper()
	keys := &switchedAccess{}
	a := &keyedAPI{keys: keys, api: newAPI(t, append(change, func(o *testOptions) { o.serverOptions.Access, o.Options.Access = keys, keys })...)}
	a.token, a.admin = a.newKey(access.Draft{Scope: "admin", Name: "ops"})
	a.accept(a.admin)
	return a
}

// newKey makes a key, in the default namespace unless another one is given.
func (a *keyedAPI) newKey(d access.Draft, namespace ...string) (string, access.Key) {
	a.t.Helper()
	token, key, err := d.Key(append(namespace, access.DefaultNamespace)[0], job.InstantOf(a.clock.Now()))
	if err != nil {
		a.t.Fatal(err)
	}
	return token.Reveal(), key
}

// keyring has the keys in its settings.
func (a *keyedAPI) keyring(keys ...access.Key) *access.Keys {
	a.t.Helper()
	ring, err := access.New(access.Options{
		Namespace: "default", Keys: keys, Clock: a.clock, Store: faultyDocuments{a.mem, a.faults},
	})
	if err != nil {
		a.t.Fatal(err)
	}
	return ring
}

// accept replaces the keys of the settings by others. The keyring knows the stored keys, too.
func (a *keyedAPI) accept(keys ...access.Key) {
	a.t.Helper()
	ring := a.keyring(keys...)
	if _, err := ring.List(a.t.Context()); err != nil {
		a.t.Fatal(err)
	}
	a.keys.Keys = ring
}

// withAccess does something with other keys.
func (a *keyedAPI) withAccess(other *access.Keys, do func()) {
	a.t.Helper()
	mine := a.keys.Keys
	a.keys.Keys = other
	do()
	a.keys.Keys = mine
}

// faultyDocuments fails with the jobs' store.
type faultyDocuments struct {
	store.Documents
	faults *faultyStore
}

func (f faultyDocuments) ListDocuments(ctx context.Context, q store.DocumentQuery) ([]store.Document, error) {
	if err := f.faults.err(); err != nil {
		return nil, err
	}
	return f.Documents.ListDocuments(ctx, q)
}

// docs/access.md has the rule of scopes: what a GET and what other calls need, and a table of
// exceptions. Every route obeys it, and every exception is one.
func TestScopesAreAsDocumented(t *testing.T) {
	page, err := os.ReadFile("../../docs/access.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n## Scopes\n")
	section, _, _ = strings.Cut(section, "\n## ")
	exceptions := map[string]access.Scope{}
	names := map[string]access.Scope{"none": access.Public, "read": access.Read, "write": access.Write, "admin": access.Admin, "consume": access.Consume}
	for _, row := range regexp.MustCompile("(?m)^\\| `([^`|]+)`[^|]*\\| `?([a-z]+)`? \\|").FindAllStringSubmatch(section, -1) {
		scope, ok := names[row[2]]
		if !ok {
			t.Fatalf("unknown scope in the row %q", row[0])
		}
		exceptions[row[1]] = scope
	}
	if len(exceptions) < 10 {
		t.Fatalf("only %d exceptions were found", len(exceptions))
	}
	used := map[string]bool{}
	for _, rt := range newAPI(t).server.Routes() {
		want := access.Write
		if rt.Method == http.MethodGet {
			want = access.Read
		}
		for _, name := range []string{rt.Method + " " + rt.Path, "* " + rt.Path} {
			if scope, ok := exceptions[name]; ok {
				want, used[name] = scope, true
			}
		}
		if rt.Scope != want {
			t.Errorf("%s %s has the scope %v, the document says %v", rt.Method, rt.Path, rt.Scope, want)
		}
	}
	for name := range exceptions {
		if !used[name] {
			t.Errorf("the document has an exception for %s, which is no route", name)
		}
	}
}

// Where the documents name the scope of a call, it is that of the route.
func TestScopesInTheReference(t *testing.T) {
	named := regexp.MustCompile("`([A-Z]+) (/[^` ?]+)`[^`.]{0,40}\\(scope `([a-z]+)`")
	found := 0
	pages, err := filepath.Glob("../../docs/api/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range append(pages, "../../docs/schedules.md", "../../docs/alerts.md") {
		page, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range named.FindAllStringSubmatch(string(page), -1) {
			rt := find(m[1], m[2])
			if m[0] = strings.Join(strings.Fields(m[0]), " "); rt == nil || rt.path == "" {
				t.Errorf("%s: %s: there is no such route", name, m[0])
				continue
			}
			found++
			if rt.path != "/v1/operations" && rt.scope.String() != m[3] { // a dry run needs less
				t.Errorf("%s: %s; the route needs %v", name, m[0], rt.scope)
			}
		}
	}
	if found < 20 {
		t.Errorf("only %d calls with their scope were found", found)
	}
}

// find is the row of the table for a call; a HEAD goes with its GET.
func find(method, template string) *route {
	if method == http.MethodHead {
		method = http.MethodGet
	}
	for i := range allRoutes {
		if allRoutes[i].method == method && allRoutes[i].path == template {
			return &allRoutes[i]
		}
	}
	return &route{path: template}
}

func TestCallersLearnWhatTheyMayDo(t *testing.T) {
	open := newAPI(t).want(200, "GET", "/v1/whoami", "")
	if open["scope"] != "admin" || open["key"] != nil || open["key_name"] != nil {
		t.Errorf("without keys: %v", open)
	}
	a := newKeyedAPI(t)
	made := a.want(201, "POST", "/v1/keys", `{"name":"wall","scope":"read"}`)
	got := a.want(200, "GET", "/v1/whoami", "", "Authorization", "Bearer "+made["token"].(string))
	if got["scope"] != "read" || got["key"] != made["id"] || got["key_name"] != "wall" {
		t.Errorf("with a key: %v", got)
	}
}

// The answers to unknown paths and methods are the same with and without keys.
func TestUnknownPathsAskForNoKey(t *testing.T) {
	a := newKeyedAPI(t)
	a.wantProblem(httpapi.CodeNotFound, "GET", "/v2", "", "Authorization", "")
	a.wantProblem(httpapi.CodeMethodNotAllowed, "PUT", "/v1/jobs", "", "Authorization", "")
}

func TestRefusalsSayWhatIsNeeded(t *testing.T) {
	a := newKeyedAPI(t)
	read, readKey := a.newKey(access.Draft{Scope: "read"})
	foreign, foreignKey := a.newKey(access.Draft{Scope: "admin"}, "other")
	a.accept(readKey, foreignKey)
	for _, tc := range []struct {
		header, challenge, detail string
	}{
		{"", `Bearer realm="duehook"`, "no API key"},
		{"Bearer x", `Bearer realm="duehook", error="invalid_token"`, "has a malformed API key: the token does not begin with dh_."},
		{"Bearer " + a.token, `Bearer realm="duehook", error="invalid_token"`, "unknown"},
		{"Bearer " + read, `Bearer realm="duehook", error="insufficient_scope", scope="write"`, "scope write"},
		{"Bearer " + foreign, "", "namespace other"},
	} {
		got := a.call("DELETE", "/v1/jobs/t/a", "", "Authorization", tc.header)
		if challenge := got.Header().Get("WWW-Authenticate"); challenge != tc.challenge {
			t.Errorf("%q is challenged with %q, want %q", tc.header, challenge, tc.challenge)
		}
		if p := decodeProblem(got); !strings.Contains(p.Detail, tc.detail) {
			t.Errorf("%q is told %q, want %q in it", tc.header, p.Detail, tc.detail)
		}
	}
}

func TestKeysAreMadeListedAndRevoked(t *testing.T) {
	a := newKeyedAPI(t)
	made := a.want(201, "POST", "/v1/keys", `{"name":"ci","scope":"write","expires_at":"2026-01-02T09:00:00+08:00","rate":"100/s"}`)
	token, id := made["token"].(string), made["id"].(string)
	delete(made, "token")
	want := map[string]any{
		"id": id, "name": "ci", "scope": "write", "namespace": "default", "state": "active", "created_at": "2026-01-01T09:00:00.000Z",
		"updated_at": "2026-01-01T09:00:00.000Z", "version": 1767258000000.0, "expires_at": "2026-01-02T01:00:00.000Z", "rate": "100/1s", "topics": nil, "source": "store",
	}
	if diff := cmp.Diff(want, made); diff != "" {
		t.Error(diff)
	}
	bearer := []string{"Authorization", "Bearer " + token}
	a.want(200, "DELETE", "/v1/jobs/t/"+a.jobIn("t"), "", bearer...)
	a.wantProblem(httpapi.CodeForbidden, "GET", "/v1/keys", "", bearer...)

	got := a.call("GET", "/v1/keys", "")
	if strings.Contains(got.Body.String(), token) {
		t.Error("the list shows a token")
	}
	settings := map[string]any{
		"id": a.admin.ID, "name": "ops", "scope": "admin", "namespace": "default", "state": "active", "created_at": nil,
		"updated_at": nil, "version": 0.0, "expires_at": nil, "rate": nil, "topics": nil, "source": "settings",
	}
	var list map[string]any
	if err := json.Unmarshal(got.Body.Bytes(), &list); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]any{"data": []any{settings, want}, "next_cursor": nil}, list); diff != "" {
		t.Error(diff)
	}

	if diff := cmp.Diff(want, a.want(200, "GET", "/v1/keys/"+id, "")); diff != "" {
		t.Error(diff)
	}
	a.clock.Advance(24 * time.Hour)
	if got := a.want(200, "GET", "/v1/keys/"+id, ""); got["state"] != "expired" {
		t.Errorf("an expired key is %v", got["state"])
	}
	a.wantProblem(httpapi.CodeVersionChanged, "DELETE", "/v1/keys/"+id, "", "If-None-Match", `"1767258000000"`)
	a.want(200, "DELETE", "/v1/keys/"+id, "", "If-Match", `"1767258000000"`)
	a.wantProblem(httpapi.CodeKeyNotFound, "GET", "/v1/keys/"+id, "")
	a.wantProblem(httpapi.CodeUnauthorized, "GET", "/v1/topics", "", bearer...)
}

// jobIn registers a job that waits, and gives its id.
func (a *api) jobIn(topic string) string {
	a.t.Helper()
	return a.want(201, "POST", "/v1/jobs", `{"url":"https://shop.example/hook","delay":60,"topic":"`+topic+`"}`)["id"].(string)
}

func TestBadKeysAreRefused(t *testing.T) {
	a := newKeyedAPI(t)
	a.refuses("POST", "/v1/keys", map[string]string{
		`{}`:                                 "/scope",
		`{"scope":"root"}`:                   "/scope",
		`{"scope":""}`:                       "/scope",
		`{"scope":1}`:                        "/scope",
		`{"scope":"read","name":""}`:         "/name",
		`{"scope":"read","name":"a b"}`:      "/name",
		`{"scope":"read","rate":"fast"}`:     "/rate",
		`{"scope":"read","rate":""}`:         "/rate",
		`{"scope":"read","expires_at":""}`:   "/expires_at",
		`{"scope":"read","expires_at":"1h"}`: "/expires_at",
		`{"scope":"read","expires_at":"2026-01-01T08:59:59Z"}`: "/expires_at",
		`{"scope":"read","namespace":"other"}`:                 "/namespace",
		`{"scope":"root","rate":"fast"}`:                       "/scope /rate",
	})
}

// Whoever could make a key where nobody is asked for one would keep it.
func TestOpenServersManageNoKeys(t *testing.T) {
	a := newAPI(t)
	a.wantProblem(httpapi.CodeForbidden, "GET", "/v1/keys", "")
	a.wantProblem(httpapi.CodeForbidden, "POST", "/v1/keys", `{"scope":"admin"}`)
	a.wantProblem(httpapi.CodeForbidden, "DELETE", "/v1/keys/aaaaaaaa", "")
}

func TestRateLimits(t *testing.T) {
	a := newKeyedAPI(t)
	token, key := a.newKey(access.Draft{Scope: "read", Rate: "2/10s"})
	a.keys.Keys = a.keyring(a.admin, key)
	call := func(method, path string) http.Header {
		return a.call(method, path, "", "Authorization", "Bearer "+token).Header()
	}
	for i, tc := range []struct{ method, path, limit string }{
		{"GET", "/v1/jobs", `"key";r=1;t=5`},
		{"DELETE", "/v1/jobs/t/a", `"key";r=0;t=5`}, // refused, and yet counted
		{"GET", "/livez", ""},
		{"GET", "/v1/jobs", `"key";r=0;t=5`},
	} {
		h := call(tc.method, tc.path)
		if h.Get("RateLimit") != tc.limit || tc.limit != "" && h.Get("RateLimit-Policy") != `"key";q=2;w=10` {
			t.Errorf("request %d: RateLimit-Policy %q, RateLimit %q", i, h.Get("RateLimit-Policy"), h.Get("RateLimit"))
		}
	}
	p := a.wantProblem(httpapi.CodeRateLimited, "GET", "/v1/jobs", "", "Authorization", "Bearer "+token)
	if !strings.Contains(p.Detail, "2/10s") {
		t.Errorf("the limit is not told: %s", p.Detail)
	}
	if h := a.call("GET", "/v1/jobs", "").Header(); h.Get("RateLimit") != "" {
		t.Errorf("a key without a limit is told %q", h.Get("RateLimit"))
	}
	after := call("GET", "/v1/jobs").Get("Retry-After")
	seconds, err := strconv.Atoi(after)
	if err != nil {
		t.Fatalf("Retry-After %q", after)
	}
	a.clock.Advance(time.Duration(seconds) * time.Second)
	if h := call("GET", "/v1/jobs"); h.Get("Retry-After") != "" {
		t.Errorf("limited again after the Retry-After of %d s", seconds)
	}
}

func TestChangesLeaveAuditLines(t *testing.T) {
	var log bytes.Buffer
	a := newKeyedAPI(t, func(o *testOptions) { o.Logger = slog.New(slog.NewJSONHandler(&log, nil)) })
	read, readKey := a.newKey(access.Draft{Scope: "read", Name: "viewer"})
	a.keys.Keys = a.keyring(a.admin, readKey)
	const registration = `{"url":"https://shop.example/hook?secret=1","topic":"t","id":"a","delay":60,"body":"secret"}`
	id, name := a.admin.ID, "ops"
	for _, tc := range []struct {
		method, path, body, token        string
		who, name, what, target, outcome string
	}{
		{"POST", "/v1/jobs", registration, a.token, id, name, "POST /v1/jobs", "t/a", "ok"},
		{"POST", "/v1/jobs", `{"topic":"t","id":"b"}`, a.token, id, name, "POST /v1/jobs", "", "invalid_request"},
		{"POST", "/v1/jobs/batch", `{"jobs":[` + registration + `,{}]}`, a.token, id, name, "POST /v1/jobs/batch", "2 jobs", "ok"},
		{"PATCH", "/v1/jobs/t/a", `{"delay":90}`, a.token, id, name, "PATCH /v1/jobs/{topic}/{id}", "t/a", "ok"},
		{"DELETE", "/v1/jobs/t/a", "", read, readKey.ID, "viewer", "DELETE /v1/jobs/{topic}/{id}", "t/a", "forbidden"},
		{"DELETE", "/v1/jobs/t/a", "", "x", "anonymous", "", "DELETE /v1/jobs/{topic}/{id}", "t/a", "unauthorized"},
		{"DELETE", "/v1/jobs/t/a", "", a.token, id, name, "DELETE /v1/jobs/{topic}/{id}", "t/a", "ok"},
		{"DELETE", "/v1/keys/" + id, "", a.token, id, name, "DELETE /v1/keys/{id}", id, "key_fixed"},
		{"PUT", "/v1/topics/t/signing", `{}`, a.token, id, name, "PUT /v1/topics/{topic}/signing", "t", "ok"},
		{"POST", "/v1/topics/t/signing/rotate", "", a.token, id, name, "POST /v1/topics/{topic}/signing/rotate", "t", "ok"},
		{"DELETE", "/v1/topics/t/signing", "", a.token, id, name, "DELETE /v1/topics/{topic}/signing", "t", "ok"},
		{"DELETE", "/v1/topics/t/signing", "", a.token, id, name, "DELETE /v1/topics/{topic}/signing", "t", "secret_not_found"},
		{"PUT", "/v1/signing", `{}`, read, readKey.ID, "viewer", "PUT /v1/signing", "", "forbidden"},
		{"POST", "/v1/signing/rotate", "", a.token, id, name, "POST /v1/signing/rotate", "", "ok"},
		{"GET", "/v1/signing", "", a.token, "", "", "", "", ""},
		{"GET", "/v1/jobs/t/a", "", a.token, "", "", "", "", ""},
		{"POST", "/v1/jobs/plan", registration, a.token, "", "", "", "", ""},
		{"GET", "/v1/keys", "", a.token, "", "", "", "", ""},
		{"PUT", "/v1/jobs/t/a", "", a.token, "", "", "", "", ""},
	} {
		log.Reset()
		a.call(tc.method, tc.path, tc.body, "Authorization", "Bearer "+tc.token, "X-Request-Id", "r-1")
		if tc.what == "" {
			if log.Len() > 0 {
				t.Errorf("%s %s changes nothing and left %s", tc.method, tc.path, &log)
			}
			continue
		}
		var line map[string]any
		if err := json.Unmarshal(log.Bytes(), &line); err != nil {
			t.Fatalf("%s %s: %v: %s", tc.method, tc.path, err, &log)
		}
		delete(line, "time")
		want := map[string]any{
			"level": "INFO", "msg": "audit", "who": map[string]any{"key_id": tc.who, "key_name": tc.name},
			"what": tc.what, "target": tc.target, "result": tc.outcome, "client": "192.0.2.1", "request_id": "r-1",
		}
		if diff := cmp.Diff(want, line); diff != "" {
			t.Errorf("%s %s: %s", tc.method, tc.path, diff)
		}
	}
	log.Reset()
	made := a.want(201, "POST", "/v1/keys", `{"scope":"write"}`)
	if line := log.String(); !strings.Contains(line, `"target":"`+made["id"].(string)+`"`) || strings.Contains(line, made["token"].(string)) {
		t.Errorf("a new key left %s", line)
	}
	log.Reset()
	a.faults.set(func() error { panic("a defect") })
	a.wantProblem(httpapi.CodeInternalError, "DELETE", "/v1/jobs/t/a", "")
	if !strings.Contains(log.String(), `"result":"internal_error"`) {
		t.Errorf("a defect left %s", &log)
	}
	a.faults.set(nil)
	log.Reset()
	a.wantProblem(httpapi.CodeForbidden, "DELETE", "/v1/jobs/t/a", "", "Sec-Fetch-Site", "cross-site")
	if !strings.Contains(log.String(), `"result":"forbidden"`) {
		t.Errorf("a request from another site left %s", &log)
	}
}

// Where nobody is asked, there is nobody to write down.
func TestOpenServersLeaveNoAuditLines(t *testing.T) {
	var log bytes.Buffer
	a := newAPI(t, func(o *testOptions) { o.Logger = slog.New(slog.NewJSONHandler(&log, nil)) })
	a.jobIn("t")
	if log.Len() > 0 {
		t.Error(log.String())
	}
}

// A page that has its own name resolve to the loopback gets nothing.
func TestForeignHostsAreRefused(t *testing.T) {
	a := newAPI(t, func(o *testOptions) { o.LocalHosts = true })
	for host, want := range map[string]int{
		"localhost:7788": 200, "127.0.0.1:7788": 200, "[::1]:7788": 200, "localhost": 200,
		"evil.example:7788": 403, "evil.example": 403, "localhost.evil.example": 403, "": 403,
	} {
		for _, rt := range allRoutes {
			if rt.scope != access.Read || rt.method != http.MethodGet || strings.Contains(rt.path, "{") {
				continue
			}
			r, err := http.NewRequestWithContext(t.Context(), rt.method, rt.path, http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			r.Host = host
			if got := a.do(r, nil); got.Code != want {
				t.Errorf("%s of host %q: got %d, want %d", rt.path, host, got.Code, want)
			}
		}
	}
	a.want(200, "GET", "/readyz", "")                     // probes may use any name: they tell nothing
	newAPI(t).want(200, "GET", "http://evil/v1/jobs", "") // not asked to
}
