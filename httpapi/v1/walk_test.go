package v1

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/duehook/duehook/httpapi"
	"github.com/duehook/duehook/internal/services/access"
	"github.com/duehook/duehook/store"
)

// The rules of the walk hold for every answer of every test here: contract.check calls
// checkShape. TestEveryCall asks each call of the document for what all calls promise, so that a call
// which no other test makes keeps these promises, too. Nothing here names a resource: a new one is walked at once.

// checkShape holds an accepted call's answer against the rules that all resources share.
func (op *operation) checkShape(got *httptest.ResponseRecorder) error {
	if !strings.HasPrefix(op.path, "/v1/") || got.Code >= 300 || op.path == eventsPath {
		return nil
	}
	var v map[string]any
	decoder := json.NewDecoder(bytes.NewReader(got.Body.Bytes()))
	decoder.UseNumber() // a job's body may have numbers beyond any float64
	if err := decoder.Decode(&v); err != nil {
		return err
	}
	if err := errors.Join(op.checkList(v), op.checkResource(v, got)); err != nil {
		return err
	}
	return checkParts(v)
}

// checkResource holds what a path ends with the name of, or what can be put at it, against the
// rules of a resource.
func (op *operation) checkResource(v map[string]any, got *httptest.ResponseRecorder) error {
	before, last, named := cutLast(op.path)
	if op.method == http.MethodDelete || op.method == http.MethodPost || !named && !canPut(op.path) {
		return nil
	}
	want, identity := []string{"created_at", "updated_at", "version"}, "name"
	if last == "id" {
		identity = "id"
	}
	if named {
		want = append(want, identity)
	} else {
		before = op.path
	}
	for _, name := range want {
		if _, has := v[name]; !has {
			return fmt.Errorf("a resource below %s has no %s", before, name)
		}
	}
	if _, has := v[last]; has && named && last != identity {
		return fmt.Errorf("a resource has a name, and not a %s", last)
	}
	if want := fmt.Sprintf(`"%v"`, v["version"]); got.Header().Get("ETag") != want {
		return fmt.Errorf("the ETag is %s, and the version %s", got.Header().Get("ETag"), want)
	}
	return nil
}

func canPut(path string) bool {
	return slices.ContainsFunc(theContract().operations, func(op operation) bool { return op.path == path && op.method == http.MethodPut })
}

// cutLast cuts the last part of a path, if it is a parameter.
func cutLast(path string) (before, last string, ok bool) {
	i := strings.LastIndex(path, "/{")
	if i < 0 || !strings.HasSuffix(path, "}") || strings.Contains(path[i+1:], "/") {
		return "", "", false
	}
	return path[:i], path[i+2 : len(path)-1], true
}

// views are answers with several lists, none of which can be long.
var views = []string{"/v1/overview", "/v1/jobs/{topic}/{id}/explain"}

// checkList wants a list to be data, in pages.
func (op *operation) checkList(v map[string]any) error {
	_, isList := v["data"]
	if _, pages := v["next_cursor"]; isList != pages {
		return fmt.Errorf("a list has data and next_cursor, and nothing else has")
	}
	_, resource := v["version"]
	_, hasID := v["id"]
	if op.method != http.MethodGet || resource || hasID || slices.Contains(views, op.path) {
		return nil
	}
	for name, value := range v {
		list, _ := value.([]any)
		if len(list) > 0 && object(list[0]) != nil && name != "data" && !isList {
			return fmt.Errorf("%s is a list: it has to be data, in pages", name)
		}
	}
	return nil
}

// checkParts holds every object of an answer against the rules.
func checkParts(v any) error {
	switch v := v.(type) {
	case []any:
		for _, part := range v {
			if err := checkParts(part); err != nil {
				return err
			}
		}
	case map[string]any:
		for name, part := range v {
			if slices.Contains(opaque, name) {
				continue
			}
			if err := errors.Join(checkMember(name, part), checkParts(part)); err != nil {
				return err
			}
		}
	}
	return nil
}

// opaque are objects with names of clients.
var opaque = []string{"body", "headers", "labels", "label", "response_headers", "params"}

// checkMember knows what a name stands for, wherever it is.
func checkMember(name string, v any) error {
	switch name {
	case "status":
		if _, number := v.(json.Number); !number && v != nil {
			return fmt.Errorf("status is %v: it is the status of an HTTP answer, and anything else is a state", v)
		}
	case "paused", "draining":
		if members := slices.Sorted(maps.Keys(object(v))); v != nil && !slices.Equal(members, []string{"by", "note", "since", "until"}) {
			return fmt.Errorf("%s has %v, and not since, until, by and note", name, members)
		}
	case "paused_at", "paused_until", "paused_by":
		return fmt.Errorf("%s stands beside paused", name)
	}
	return nil
}

// walk asks the calls of the document for what all calls promise, on one server.
type walk struct {
	*keyedAPI
	made map[string]map[string]any // what exists, by the path of its collection
	keys walkKeys
}

// walkKeys are tokens of all kinds.
type walkKeys struct {
	fits                 map[access.Scope]string
	foreign, late, wrong string
	limited              string // of a key of one call a day
	ring                 *access.Keys
}

// nothing has names of what does not exist.
func nothing() map[string]map[string]any {
	return map[string]map[string]any{"/v1/keys": {"id": "aaaaaaaa"}, "/v1/operations": {"id": "01KDWCJ2M00000000000000009"}}
}

// newWalk returns a walk on a server without jobs or anything else.
func newWalk(t *testing.T) *walk {
	w := &walk{keyedAPI: newKeyedAPI(t, func(o *testOptions) { o.MaxBatchBytes = 64 << 10 }), made: nothing()}
	w.keys.fits = map[access.Scope]string{access.Admin: w.token}
	all := []access.Key{w.admin}
	add := func(d access.Draft, namespace ...string) string {
		token, key := w.newKey(d, namespace...)
		all = append(all, key)
		return token
	}
	for _, scope := range []access.Scope{access.Read, access.Write, access.Consume} {
		w.keys.fits[scope] = add(access.Draft{Scope: scope.String()})
	}
	w.keys.foreign = add(access.Draft{Scope: "admin"}, "other")
	w.keys.late = add(access.Draft{Scope: "admin", ExpiresAt: w.clock.Now().Add(time.Hour).Format(time.RFC3339)})
	w.keys.wrong, _ = w.newKey(access.Draft{Scope: "admin"})
	limited, key := w.newKey(access.Draft{Scope: "admin", Rate: "1/1d"})
	w.keys.limited, w.keys.ring = limited, w.keyring(key)
	w.accept(all...)
	w.clock.Advance(time.Hour)
	return w
}

// each does something with each call of the document: first what makes things, then what reads, changes and deletes them.
func (w *walk) each(do func(*operation)) {
	operations := slices.Clone(theContract().operations)
	slices.SortStableFunc(operations, func(a, b operation) int { return phase(&a) - phase(&b) })
	for i := range operations {
		do(&operations[i])
	}
}

var partOfPath = regexp.MustCompile(`\{([a-z]+)\}`)

// collectionOf is the path of what a path names one of, or a part of one.
func collectionOf(path string) string {
	before, _, _ := strings.Cut(path, "/{")
	return before
}

// target is the path of an operation, of what was made before.
func (w *walk) target(op *operation) string {
	made := w.made[collectionOf(op.path)]
	return partOfPath.ReplaceAllStringFunc(op.path, func(part string) string {
		name := strings.Trim(part, "{}")
		if value, ok := made[name].(string); ok {
			return value
		}
		return "walked"
	})
}

// body is the first example of the document.
func (w *walk) body(op *operation) string {
	_, body := theContract().at(op.at + "/requestBody")
	if body == nil {
		return ""
	}
	examples := object(object(object(object(body)["content"])["application/json"])["examples"])
	if len(examples) == 0 {
		if object(body)["required"] == true {
			w.t.Errorf("%s %s: the document has no example of its body, so it is not walked", op.method, op.path)
		}
		return ""
	}
	first := slices.Sorted(maps.Keys(examples))[0]
	data, err := json.Marshal(object(examples[first])["value"])
	if err != nil {
		w.t.Fatal(err)
	}
	return string(data)
}

// do calls an operation, and remembers what it makes.
func (w *walk) do(op *operation) *httptest.ResponseRecorder {
	w.t.Helper()
	got := w.call(op.method, w.target(op), w.body(op))
	var v map[string]any
	if op.method == http.MethodPost && !strings.Contains(op.path, "{") && (got.Code == 201 || got.Code == 202) && json.Unmarshal(got.Body.Bytes(), &v) == nil {
		w.made[op.path] = v
	}
	return got
}

// phases are the order in which operations are walked: things are made, changed, listed and
// deleted.
func phase(op *operation) int {
	switch op.method {
	case http.MethodPut:
		return 0
	case http.MethodPost:
		if strings.Contains(op.path, "{") {
			return 3
		}
		return 1
	case http.MethodGet:
		return 2
	case http.MethodPatch:
		return 4
	}
	return 5
}

// TestEveryCall asks each call of the document for what all calls promise. Then it brings about the other answers that the
// document promises. Each answer is compared with its schema on the way.
func TestEveryCall(t *testing.T) {
	w := newWalk(t)
	w.each(w.isAsInTheTable)
	w.each(w.refusesBadRequests)
	w.failsWithTheStore()
	w.each(w.findsNothing)
	w.leavesNewerVersions()
	w.each(w.takesEmptyObjects)
	w.asksForKeys()
	w.isBusy()
	w.each(func(op *operation) {
		if phase(op) < 2 {
			w.obeysDryRun(op)
			w.succeeds(op)
		}
	})
	w.each(w.obeysConditions)
	w.each(func(op *operation) {
		if phase(op) >= 2 {
			w.obeysDryRun(op)
			w.succeeds(op)
		}
	})

	coverAnswers(t, w.seen)
	for _, o := range theContract().documented() {
		if !w.seen[o] {
			t.Errorf("the document promises %v, but no test brings it about", o)
		}
	}
}

// succeeds makes a call. What can be read has a HEAD, and pages if it is a list.
func (w *walk) succeeds(op *operation) {
	got := w.do(op)
	if got.Code >= 500 {
		w.t.Errorf("%s %s: %d %s", op.method, op.path, got.Code, got.Body)
	}
	if op.method != http.MethodGet {
		return
	}
	if head := w.call(http.MethodHead, w.target(op), ""); got.Code != 200 || head.Code != 200 {
		w.t.Errorf("%s: GET %d, HEAD %d", op.path, got.Code, head.Code)
	}
	w.checkPages(op)
}

// refusesBadRequests: a call refuses what it does not take before it looks at the store.
func (w *walk) refusesBadRequests(op *operation) {
	if op.row.body == bodyIgnored {
		return
	}
	path := w.target(op)
	w.wantProblem(httpapi.CodeInvalidRequest, op.method, path+"?colour=blue", "")
	if op.method != http.MethodGet {
		w.wantProblem(httpapi.CodeForbidden, op.method, path, "", "Sec-Fetch-Site", "cross-site")
	}
	if op.row.body == bodyRefused {
		return
	}
	w.wantProblem(httpapi.CodeMalformedJSON, op.method, path, `{"`)
	w.wantProblem(httpapi.CodeUnsupportedMediaType, op.method, path, `{}`, "Content-Type", "text/plain")
	w.wantProblem(httpapi.CodeBodyTooLarge, op.method, path, `{"x":"`+strings.Repeat("x", 1<<20)+`"}`)
}

// isAsInTheTable: the document and the table of routes have the same parameters, body and scope of a call.
func (w *walk) isAsInTheTable(op *operation) {
	var query []string
	for _, p := range op.parameters() {
		if p["in"] == "query" {
			query = append(query, p["name"].(string))
		}
	}
	if known := slices.Collect(parameterNames(op.row.query)); !slices.Equal(query, known) {
		w.t.Errorf("%s %s: the document has the query parameters %v, the table %v", op.method, op.path, query, known)
	}
	_, body := theContract().at(op.at + "/requestBody")
	required := op.row.body == bodyJSON || op.row.body == bodyMergePatch
	if takes := required || op.row.body == bodyEmptyJSON || op.row.body == bodyOptionalJSON; (body != nil) != takes || (object(body)["required"] == true) != required {
		w.t.Errorf("%s %s: the document and the table disagree on the body", op.method, op.path)
	}
	scope := []any{map[string]any{"key": []any{op.row.scope.String()}}}
	if op.row.scope == access.Public {
		scope = []any{}
	}
	_, security := theContract().at(op.at + "/security")
	if diff := cmp.Diff(any(scope), security); diff != "" {
		w.t.Errorf("%s %s: scope (-table +document)\n%s", op.method, op.path, diff)
	}
}

// failsWithTheStore makes every call that asks the store fail by it.
func (w *walk) failsWithTheStore() {
	for _, fault := range []struct {
		code httpapi.Code
		busy bool // the changes of a job say that it is busy
		fail func() error
	}{
		{httpapi.CodeStoreUnavailable, false, func() error { return fmt.Errorf("%w: connection refused", store.ErrUnavailable) }},
		{httpapi.CodeStoreUnavailable, true, func() error { return store.ErrConflict }},
		{httpapi.CodeInternalError, false, func() error { return errors.New("a defect") }},
		{httpapi.CodeInternalError, false, func() error { panic("a defect") }},
	} {
		w.faults.set(fault.fail)
		w.clock.Advance(time.Minute) // the last one would be shown
		w.each(func(op *operation) {
			if op.row.body == bodyIgnored && op.path != "/readyz" || op.path == "/v1/whoami" || strings.HasPrefix(op.path, "/v1/inboxes") {
				return // asks no store
			}
			code := fault.code
			if fault.busy && op.method != http.MethodGet && strings.HasPrefix(op.path, jobsPath+"/{topic}/{id}") {
				code = httpapi.CodeJobBusy
			}
			w.wantProblem(code, op.method, w.target(op), w.body(op))
		})
	}
	w.faults.set(nil)
}

// findsNothing: what does not exist is not found.
func (w *walk) findsNothing(op *operation) {
	_, response := theContract().at(op.at + "/responses/404")
	settings := strings.HasPrefix(op.path, "/v1/inboxes") || op.method == http.MethodGet && strings.HasSuffix(op.path, "/signing")
	if response == nil || !strings.Contains(op.path, "{") || settings {
		return
	}
	if got := w.call(op.method, w.target(op), w.body(op)); got.Code != http.StatusNotFound {
		w.t.Errorf("%s %s: %d %s", op.method, op.path, got.Code, got.Body)
	}
}

// leavesNewerVersions: what only a newer version can read is neither shown nor overwritten, and holds up nothing else.
func (w *walk) leavesNewerVersions() {
	var left []store.Document
	for kind, name := range map[string]string{
		"topic": "walked", "alert-rule": "walked", "schedule": "walked", "group": "walked", "operation": nothing()["/v1/operations"]["id"].(string),
	} {
		d, err := store.PutDocument(w.t.Context(), w.mem, store.Document{Kind: kind, Name: name, Data: []byte(`[]`)})
		if err != nil {
			w.t.Fatal(err)
		}
		left = append(left, d)
	}
	promises := theContract().documented()
	w.each(func(op *operation) {
		refused := outcome{op.method + " " + op.path, httpapi.CodeNewerVersion.Status, httpapi.CodeNewerVersion.Name}
		if strings.Contains(op.path, "{") && slices.Contains(promises, refused) {
			w.wantProblem(httpapi.CodeNewerVersion, op.method, w.target(op), w.body(op))
		}
	})
	w.want(200, "GET", "/v1/topics", "")
	for _, d := range left {
		if is, err := store.ReadDocument(w.t.Context(), w.mem, d.Kind, d.Name); err != nil || string(is.Data) != "[]" {
			w.t.Errorf("%s: %s, %v", d.Kind, is.Data, err)
		}
		if d.Kind == "schedule" || d.Kind == "group" { // deleted readable or not
			w.want(200, "DELETE", "/v1/"+d.Kind+"s/walked", "")
		} else if err := store.DeleteDocument(w.t.Context(), w.mem, d.Kind, d.Name, d.Version); err != nil {
			w.t.Error(err)
		}
	}
}

// takesEmptyObjects: {} is as good as no body if the call needs none.
func (w *walk) takesEmptyObjects(op *operation) {
	if op.row.body != bodyEmptyJSON && op.row.body != bodyOptionalJSON {
		return
	}
	if empty, object := w.call(op.method, w.target(op), ""), w.call(op.method, w.target(op), "{}"); object.Code != empty.Code {
		w.t.Errorf("%s %s: %d without a body, but %d with {}: %s", op.method, op.path, empty.Code, object.Code, object.Body)
	}
}

// asksForKeys: every call but probes is closed to callers without a key that fits.
func (w *walk) asksForKeys() {
	tooSmall := map[access.Scope][]access.Scope{
		access.Read: {access.Consume}, access.Consume: {access.Read}, access.Write: {access.Read, access.Consume}, access.Admin: {access.Read, access.Consume, access.Write},
	}
	public := []string{}
	w.each(func(op *operation) {
		methods := []string{op.method}
		if op.method == http.MethodGet {
			methods = append(methods, http.MethodHead)
		}
		for _, method := range methods {
			is := func(want int, headers ...string) {
				w.t.Helper()
				if got := w.call(method, w.target(op), "", headers...); got.Code != want {
					w.t.Errorf("%s %s with %q: got %d, want %d", method, op.path, headers, got.Code, want)
				}
			}
			scope := op.row.scope
			if scope == access.Public {
				public = append(public, method+" "+op.path)
				is(http.StatusOK, "Authorization", "")
				continue
			}
			is(http.StatusUnauthorized, "Authorization", "")
			is(http.StatusUnauthorized, "Authorization", "Bearer "+w.keys.wrong)
			is(http.StatusUnauthorized, "Authorization", "Bearer "+w.keys.late)
			is(http.StatusUnauthorized, "Authorization", "Bearer "+w.token[:len(w.token)-1])
			is(http.StatusUnauthorized, "Authorization", "Basic "+w.token)
			is(http.StatusUnauthorized, "Authorization", "Bearer "+w.token, "Authorization", "Bearer "+w.token)
			is(http.StatusForbidden, "Authorization", "Bearer "+w.keys.foreign)
			for _, small := range tooSmall[scope] {
				is(http.StatusForbidden, "Authorization", "Bearer "+w.keys.fits[small])
			}
			if got := w.call(method, w.target(op), "", "Authorization", "Bearer "+w.keys.fits[scope]); got.Code == http.StatusUnauthorized || got.Code == http.StatusForbidden {
				w.t.Errorf("%s %s refuses a key of scope %v: %s", method, op.path, scope, got.Body)
			}
		}
		if op.row.scope == access.Public {
			return
		}
		w.withAccess(w.keys.ring, func() {
			w.call(op.method, w.target(op), "", "Authorization", "Bearer "+w.keys.limited)
			w.wantProblem(httpapi.CodeRateLimited, op.method, w.target(op), "", "Authorization", "Bearer "+w.keys.limited)
		})
		w.withAccess(w.keyring(), func() { // which has not read the stored keys yet
			w.wantProblem(httpapi.CodeStoreUnavailable, op.method, w.target(op), "", "Authorization", "Bearer "+w.keys.wrong)
		})
	})
	slices.Sort(public)
	if diff := cmp.Diff([]string{"GET /livez", "GET /openapi.json", "GET /readyz", "HEAD /livez", "HEAD /openapi.json", "HEAD /readyz"}, public); diff != "" {
		w.t.Errorf("public: (-want +got)\n%s", diff)
	}
}

// isBusy calls while others hold all of the memory.
func (w *walk) isBusy() {
	for range 8 {
		h := w.budget.Hold(nil)
		if err := h.Add(w.budget.Share()); err != nil {
			w.t.Fatal(err)
		}
		defer h.Free()
	}
	patient, leave := context.WithCancel(w.t.Context())
	leave()
	w.each(func(op *operation) {
		if op.path == "/livez" || op.path == "/readyz" { // they need no memory
			return
		}
		if got := w.api.do(httptest.NewRequestWithContext(patient, op.method, w.target(op), nil), nil); got.Code != http.StatusServiceUnavailable || !strings.Contains(got.Body.String(), httpapi.CodeServerBusy.Name) {
			w.t.Errorf("%s %s: %d %s", op.method, op.path, got.Code, got.Body)
		}
	})
}

// obeysConditions: a call that changes something obeys If-Match and If-None-Match, or refuses them.
func (w *walk) obeysConditions(op *operation) {
	if op.method == http.MethodGet {
		return
	}
	for name, value := range map[string]string{"If-Match": `"1"`, "If-None-Match": "*"} {
		want := httpapi.CodeInvalidRequest
		if op.documents(name) {
			want = httpapi.CodeVersionChanged
		}
		if name == "If-Match" && op.documents(name) {
			value = `"9"`
		}
		w.wantProblem(want, op.method, w.target(op), w.body(op), name, value)
	}
	if op.documents("If-Match") != op.documents("If-None-Match") || op.documents("If-Match") != op.row.is(obeys) {
		w.t.Errorf("%s %s: the document and the table disagree on conditions", op.method, op.path)
	}
	if !op.documents("If-Match") && (op.method == http.MethodPut || op.method == http.MethodPatch) {
		w.t.Errorf("%s %s replaces something, and obeys no conditions", op.method, op.path)
	}
}

// obeysDryRun: a call takes dry_run and changes nothing then, or refuses it.
func (w *walk) obeysDryRun(op *operation) {
	if op.method == http.MethodGet {
		return
	}
	path := w.target(op) + "?dry_run="
	if takes := slices.Contains([]string{jobsPath, batchPath, "/v1/operations"}, op.path); op.documents("dry_run") != takes {
		w.t.Errorf("%s %s: it has a dry run: %t", op.method, op.path, !takes)
	}
	if !op.documents("dry_run") {
		w.wantProblem(httpapi.CodeInvalidRequest, op.method, path+"true", w.body(op))
		return
	}
	before := w.lists()
	if got := w.want(200, op.method, path+"true", w.body(op)); got["dry_run"] != true {
		w.t.Errorf("%s %s: %v", op.method, op.path, got)
	}
	if diff := cmp.Diff(before, w.lists()); diff != "" {
		w.t.Errorf("%s %s changed something in a dry run (-before +after):\n%s", op.method, op.path, diff)
	}
	w.wantProblem(httpapi.CodeInvalidRequest, op.method, path+"1", w.body(op))
	if got := w.do(op); cmp.Equal(before, w.lists()) {
		w.t.Errorf("%s %s changes no list without dry_run, so this shows nothing: %s", op.method, op.path, got.Body)
	}
}

// parameters are those of the operation in the document.
func (op *operation) parameters() (all []map[string]any) {
	c := theContract()
	_, parameters := c.at(op.at + "/parameters")
	list, _ := parameters.([]any)
	for _, p := range list {
		if ref, ok := object(p)["$ref"].(string); ok {
			_, p = c.at(strings.TrimPrefix(ref, "#"))
		}
		all = append(all, object(p))
	}
	return all
}

// documents reports whether the operation has a parameter.
func (op *operation) documents(name string) bool {
	return slices.ContainsFunc(op.parameters(), func(p map[string]any) bool { return p["name"] == name })
}

// checkPages reads a list one by one, and in one page.
func (w *walk) checkPages(op *operation) {
	w.t.Helper()
	_, schema := theContract().at(op.at + "/responses/200/content/application~1json/schema")
	if object(object(schema)["properties"])["data"] == nil {
		if w.isCollection(op.path) {
			w.t.Errorf("GET %s has no data, but entries have paths below it", op.path)
		}
		return
	}
	path := w.target(op)
	each := []any{}
	for cursor, limit := "", 1; ; {
		page := w.want(200, "GET", fmt.Sprintf("%s?limit=%d%s", path, limit, cursor), "")
		each = append(each, page["data"].([]any)...)
		next, more := page["next_cursor"].(string)
		if !more || len(each) >= 20 {
			break
		}
		cursor = "&cursor=" + next
	}
	all := w.want(200, "GET", fmt.Sprintf("%s?limit=%d", path, max(len(each), 1)), "")["data"].([]any)
	if diff := cmp.Diff(all, each); diff != "" {
		w.t.Errorf("GET %s, in one page and one by one (-page +each):\n%s", op.path, diff)
	}
	w.wantProblem(httpapi.CodeInvalidRequest, "GET", path+"?limit=0", "")
	w.wantProblem(httpapi.CodeInvalidRequest, "GET", path+"?cursor=", "")
}

func (w *walk) isCollection(path string) bool {
	return slices.ContainsFunc(theContract().operations, func(op operation) bool { return strings.HasPrefix(op.path, path+"/{") })
}

// lists reads all lists.
func (w *walk) lists() map[string]any {
	all := map[string]any{}
	for i := range theContract().operations {
		if op := &theContract().operations[i]; op.method == http.MethodGet && !strings.Contains(op.path, "{") && w.isCollection(op.path) {
			all[op.path] = w.want(200, "GET", op.path, "")["data"]
		}
	}
	return all
}
