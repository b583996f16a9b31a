package v1

import (
	"bytes"
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

	"github.com/google/go-cmp/cmp"

	"github.com/duehook/duehook/httpapi"
)

// The rules of the walk hold for every answer of every test here: contract.check calls
// checkShape. TestWalk calls everything in the document, so that a call which no other test
// makes obeys them, too. Nothing here names a resource: a new one is walked at once.

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

// walk is a walk through the document on one server.
type walk struct {
	*keyedAPI
	made map[string]map[string]any // what was made, by the path of its collection
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

// TestWalk calls every operation of the document.
func TestWalk(t *testing.T) {
	w := &walk{keyedAPI: newKeyedAPI(t), made: map[string]map[string]any{}}
	operations := slices.Clone(theContract().operations)
	slices.SortStableFunc(operations, func(a, b operation) int { return phase(&a) - phase(&b) })
	for i := range operations {
		op := &operations[i]
		got := w.do(op)
		if got.Code >= 500 {
			t.Errorf("%s %s: %d %s", op.method, op.path, got.Code, got.Body)
		}
		if op.method == http.MethodGet && got.Code == 200 {
			w.checkPages(op)
		}
	}
}

// TestConditionsAreObeyed: each call that changes something obeys If-Match and If-None-Match,
// or refuses them.
func TestConditionsAreObeyed(t *testing.T) {
	w := &walk{keyedAPI: newKeyedAPI(t), made: map[string]map[string]any{}}
	operations := slices.Clone(theContract().operations)
	slices.SortStableFunc(operations, func(a, b operation) int { return phase(&a) - phase(&b) })
	for i := range operations {
		if op := &operations[i]; phase(op) < 2 {
			w.do(op)
		}
	}
	for i := range operations {
		op := &operations[i]
		if op.method == http.MethodGet {
			continue
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
		obeyed := slices.ContainsFunc(routes, func(rt route) bool { return rt.method == op.method && rt.path == op.path && rt.is(obeys) })
		if op.documents("If-Match") != op.documents("If-None-Match") || op.documents("If-Match") != obeyed {
			t.Errorf("%s %s: the document and the table disagree on conditions", op.method, op.path)
		}
		if !op.documents("If-Match") && (op.method == http.MethodPut || op.method == http.MethodPatch) {
			t.Errorf("%s %s replaces something, and obeys no conditions", op.method, op.path)
		}
	}
}

// documents reports whether the operation has a header.
func (op *operation) documents(header string) bool {
	c := theContract()
	_, parameters := c.at(op.at + "/parameters")
	list, _ := parameters.([]any)
	return slices.ContainsFunc(list, func(p any) bool {
		if ref, ok := object(p)["$ref"].(string); ok {
			_, p = c.at(strings.TrimPrefix(ref, "#"))
		}
		return object(p)["name"] == header
	})
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

// TestDryRunsChangeNothing: each call takes dry_run and changes nothing then, or refuses it.
func TestDryRunsChangeNothing(t *testing.T) {
	w := &walk{keyedAPI: newKeyedAPI(t), made: map[string]map[string]any{}}
	operations := slices.Clone(theContract().operations)
	slices.SortStableFunc(operations, func(a, b operation) int { return phase(&a) - phase(&b) })
	tried := 0
	for i := range operations {
		op := &operations[i]
		if op.method == http.MethodGet {
			continue
		}
		path := w.target(op) + "?dry_run=true"
		if !op.documents("dry_run") {
			if op.path == jobsPath || op.path == batchPath || op.path == "/v1/operations" {
				t.Errorf("%s %s has no dry run", op.method, op.path)
			}
			w.wantProblem(httpapi.CodeInvalidRequest, op.method, path, w.body(op))
			w.do(op)
			continue
		}
		tried++
		before := w.lists()
		if got := w.want(200, op.method, path, w.body(op)); got["dry_run"] != true {
			t.Errorf("%s %s: %v", op.method, path, got)
		}
		if diff := cmp.Diff(before, w.lists()); diff != "" {
			t.Errorf("%s %s changed something (-before +after):\n%s", op.method, path, diff)
		}
		if got := w.do(op); cmp.Equal(before, w.lists()) {
			t.Errorf("%s %s changes no list without dry_run, so this shows nothing: %s", op.method, op.path, got.Body)
		}
		w.wantProblem(httpapi.CodeInvalidRequest, op.method, w.target(op)+"?dry_run=1", w.body(op))
	}
	if tried < 3 {
		t.Errorf("%d dry runs", tried)
	}
}
