package v1

import (
	"encoding/base64"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/duehook/duehook/httpapi"
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/services/access"
	"github.com/duehook/duehook/internal/services/events"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/listing"
)

// foreign is in every name that a restricted key must not see.
const foreign = "foreign"

// restricted returns the API with everything in two topics, and the token of an admin of the
// topics own-*.
func restricted(t *testing.T) (*keyedAPI, string) {
	a := newKeyedAPI(t)
	token, key := a.newKey(access.Draft{Scope: "admin", Topics: []string{"own-*", "mine"}})
	a.accept(a.admin, key)
	a.withSecrets("own-orders", "own-thing")
	a.withSecrets(foreign, foreign+"-thing")
	return a, "Bearer " + token
}

// walkOf walks what withSecrets made in a topic.
func (a *keyedAPI) walkOf(topic, name string) *walk {
	a.t.Helper()
	w := &walk{keyedAPI: a, made: nothing()}
	for path, names := range map[string]map[string]any{
		jobsPath: {"topic": topic, "id": "dies"}, "/v1/topics": {"topic": topic}, groupsPath: {"group": name}, schedulesPath: {"schedule": name},
		"/v1/alerts/rules": {"rule": name}, "/v1/operations": {"id": a.operationOf(topic)},
	} {
		w.made[path] = names
	}
	return w
}

// operationOf is the id of the operation of a topic.
func (a *keyedAPI) operationOf(topic string) string {
	a.t.Helper()
	for _, o := range a.want(200, "GET", "/v1/operations", "")["data"].([]any) {
		if object(object(o)["filter"])["topic"] == topic {
			return object(o)["id"].(string)
		}
	}
	a.t.Fatalf("there is no operation of %s", topic)
	return ""
}

// state is everything that an admin sees, without the values that change with time.
func (a *keyedAPI) state() map[string]string {
	a.t.Helper()
	all := map[string]string{}
	for _, path := range []string{
		"/v1/jobs", "/v1/topics", "/v1/groups", "/v1/schedules", "/v1/operations", "/v1/alerts/rules", "/v1/keys",
		"/v1/topics/" + foreign + "/signing", "/v1/signing",
	} {
		got := a.call("GET", path, "")
		all[path] = got.Body.String()
	}
	return all
}

// Whatever call of the document a restricted key makes: of other topics it sees nothing, and
// changes nothing. A call that is added is refused, or obeys this.
func TestRestrictedKeysReachNoOtherTopic(t *testing.T) {
	a, token := restricted(t)
	before := a.state()
	w := a.walkOf(foreign, foreign+"-thing")
	w.each(func(op *operation) {
		if !strings.HasPrefix(op.path, "/v1/") {
			return
		}
		path := w.target(op)
		for _, body := range bodiesOf(w, op) {
			got := a.call(op.method, path, body, "Authorization", token)
			if shown := strings.ReplaceAll(got.Body.String(), "The topic "+foreign+" is none of them", ""); strings.Contains(shown, foreign) {
				t.Errorf("%s %s %s shows another topic: %d %s", op.method, path, body, got.Code, got.Body)
			}
			byName := strings.Contains(op.path, "{") || strings.Contains(body, foreign)
			if op.path == batchPath { // each job has its own status
				byName = strings.Contains(got.Body.String(), `"result":`)
			}
			if byName && op.method != "GET" && got.Code < 300 {
				t.Errorf("%s %s %s is answered %d %s", op.method, path, body, got.Code, got.Body)
			}
		}
	})
	if diff := cmp.Diff(before, a.state()); diff != "" {
		t.Errorf("another topic was changed (-before +after):\n%s", diff)
	}
}

// bodiesOf are bodies that name another topic, wherever a body can, and the document's example.
func bodiesOf(w *walk, op *operation) []string {
	switch op.method + " " + op.path {
	case "POST " + jobsPath, "POST " + planPath, "POST /v1/endpoints/test":
		return []string{`{"topic":"foreign","url":"https://shop.example/hook"}`, `{"url":"https://shop.example/hook"}`}
	case "POST " + batchPath:
		return []string{`{"jobs":[{"topic":"foreign","url":"https://shop.example/hook"},{"url":"https://shop.example/hook"}]}`}
	case "PUT " + schedulePath:
		return []string{`{"every":"1h","job":{"topic":"own-orders","url":"https://shop.example/hook"}}`, `{"every":"1h","job":{"topic":"foreign","url":"https://shop.example/hook"}}`}
	case "POST /v1/operations":
		return []string{`{"action":"cancel","filter":{"topic":"foreign"}}`, `{"action":"replay","filter":{"topic":"foreign"}}`}
	case "POST " + schedulePath + "/pause", "POST " + schedulePath + "/resume":
		return []string{""}
	}
	return []string{w.body(op)}
}

// A key of the topic cannot change the limits of an operator, neither through the settings nor through the limits.
func TestTenantsKeepTheLimitsOfOperators(t *testing.T) {
	a := newKeyedAPI(t)
	admin, adminKey := a.newKey(access.Draft{Scope: "admin", Topics: []string{"own-*"}})
	write, writeKey := a.newKey(access.Draft{Scope: "write"})
	a.accept(a.admin, adminKey, writeKey)
	const topic, limits = "/v1/topics/own-orders", "/v1/topics/own-orders/limits"
	shown := func(limits map[string]any) map[string]any {
		for _, name := range []string{"created_at", "updated_at", "version"} { // of the topic
			delete(limits, name)
		}
		return limits
	}
	made := shown(a.want(201, "PUT", limits, `{"capacity":5,"concurrency":2,"weight":20}`))
	for _, token := range []string{admin, write} {
		as := []string{"Authorization", "Bearer " + token}
		a.wantProblem(httpapi.CodeForbidden, "PUT", limits, `{"capacity":500}`, as...)
		a.wantProblem(httpapi.CodeForbidden, "DELETE", limits, "", as...)
		if diff := cmp.Diff(made, shown(a.want(200, "GET", limits, "", as...))); diff != "" {
			t.Errorf("the limits as the tenant sees them (-put +got):\n%s", diff)
		}
		got := a.want(201, "PUT", topic, `{"weight":100,"capacity":6}`, as...)
		if diff := cmp.Diff(made, object(got["limits"])); diff != "" {
			t.Errorf("the limits of the topic (-put +got):\n%s", diff)
		}
		a.want(200, "PATCH", topic, `{"weight":null,"concurrency":9}`, as...)
		for _, change := range []func(){func() {}, func() { a.want(200, "DELETE", topic, "", as...) }} {
			change()
			inForce, err := listing.Limits(t.Context(), a.mem)
			if err != nil {
				t.Fatal(err)
			}
			if want := (store.Limits{Capacity: 5, Concurrency: 2, Weight: 20}); inForce["own-orders"] != want {
				t.Errorf("the store has the limits %+v, want %+v", inForce["own-orders"], want)
			}
		}
	}
}

// A restricted key does in its topics what other keys do.
func TestRestrictedKeysUseTheirTopics(t *testing.T) {
	a, token := restricted(t)
	as := []string{"Authorization", token}
	w := a.walkOf("own-orders", "own-thing")
	w.each(func(op *operation) {
		if op.method != http.MethodGet || op.path == eventsPath || !strings.HasPrefix(op.path, "/v1/") {
			return
		}
		own := strings.Contains(op.path, "{topic}") || op.row.is(ownTopics)
		got := a.call("GET", w.target(op), "", as...)
		if refused := got.Code == http.StatusForbidden; refused == own {
			t.Errorf("GET %s: %d %s", op.path, got.Code, got.Body)
		}
	})
	for _, list := range []string{"/v1/jobs", "/v1/topics", "/v1/dead", "/v1/operations", "/v1/schedules"} {
		got := a.want(200, "GET", list, "", as...)
		if len(got["data"].([]any)) == 0 || got["next_cursor"] != nil {
			t.Errorf("GET %s: %v", list, got)
		}
		a.want(200, "GET", list+"?limit=1", "", as...)
	}
	a.want(201, "POST", "/v1/jobs", `{"topic":"mine","url":"https://shop.example/hook","id":"j"}`, as...)
	a.want(201, "PUT", "/v1/schedules/own-new", `{"every":"1h","job":{"topic":"own-orders","url":"https://shop.example/hook"}}`, as...)
	o := a.want(202, "POST", "/v1/operations", `{"action":"cancel","all":true}`, as...)
	if diff := cmp.Diff([]any{"own-*", "mine"}, object(o["filter"])["topics"]); diff != "" {
		t.Errorf("an operation on all jobs selects the topics (-want +got):\n%s", diff)
	}
	a.want(200, "GET", "/v1/operations/"+o["id"].(string), "", as...)
	a.wantProblem(httpapi.CodeInvalidRequest, "POST", "/v1/operations", `{"action":"cancel"}`, as...)
	a.wantProblem(httpapi.CodeForbidden, "GET", "/v1/jobs?topic=foreign", "", as...)
	a.wantProblem(httpapi.CodeForbidden, "GET", eventsPath+"?topic=foreign", "", as...)
	a.wantProblem(httpapi.CodeForbidden, "POST", "/v1/jobs", `{"topic":"mine","group":"own-thing"}`, as...)
	who := a.want(200, "GET", "/v1/whoami", "", as...)
	if diff := cmp.Diff([]any{"own-*", "mine"}, who["topics"]); diff != "" {
		t.Errorf("whoami has the topics (-want +got):\n%s", diff)
	}
	batch := a.want(200, "POST", "/v1/jobs/batch", `{"jobs":[{"topic":"mine","url":"https://shop.example/hook"},{"topic":"foreign","url":"https://shop.example/hook"}]}`, as...)
	results := batch["results"].([]any)
	if object(results[0])["status"] != 201.0 || object(results[1])["status"] != 403.0 {
		t.Errorf("the batch is answered %v", results)
	}
	for _, j := range a.want(200, "GET", "/v1/jobs?uid="+a.want(200, "GET", "/v1/jobs/foreign/waits", "")["uid"].(string), "", as...)["data"].([]any) {
		t.Errorf("the uid of another topic finds %v", j)
	}
}

// Restricted callers see the events of their topics, and that events were lost.
func TestRestrictedEvents(t *testing.T) {
	q := params{}
	q.Only = job.TopicSet{"own-*"}
	for _, c := range []struct {
		e    events.Event
		want bool
	}{
		{events.Event{Type: events.Dead, Topic: "own-orders"}, true},
		{events.Event{Type: events.Dead, Topic: foreign}, false},
		{events.Event{Type: events.CircuitOpened, Endpoint: "https://shop.example"}, false},
		{events.Event{Type: events.Gap}, true},
	} {
		if got := q.admits(&c.e); got != c.want {
			t.Errorf("%+v is shown: %t", c.e, got)
		}
	}
}

// A restricted key is created by the API, and its topics survive a restart of the node.
func TestCreateRestrictedKey(t *testing.T) {
	a := newKeyedAPI(t)
	made := a.want(201, "POST", "/v1/keys", `{"scope":"write","topics":["orders-*"]}`)
	a.accept(a.admin)
	as := []string{"Authorization", "Bearer " + made["token"].(string)}
	a.want(201, "POST", "/v1/jobs", `{"topic":"orders-eu","url":"https://shop.example/hook"}`, as...)
	a.wantProblem(httpapi.CodeForbidden, "POST", "/v1/jobs", `{"topic":"orders","url":"https://shop.example/hook"}`, as...)
	for _, bad := range []string{`[]`, `["*"]`, `["a b"]`, `[1]`, `"a"`} {
		a.wantProblem(httpapi.CodeInvalidRequest, "POST", "/v1/keys", `{"scope":"write","topics":`+bad+`}`)
	}
}

// The cursors of a restricted key reveal no names of others, and lead to all of its own entries.
func TestCursorsOfRestrictedKeysRevealNothing(t *testing.T) {
	a, token := restricted(t)
	for i := range 3 {
		name := strconv.Itoa(i)
		a.want(201, "PUT", "/v1/schedules/"+foreign+name, `{"every":"1h","job":{"topic":"`+foreign+`","pull":true}}`)
		a.want(201, "PUT", "/v1/schedules/own"+name, `{"every":"1h","job":{"topic":"mine","pull":true}}`)
		a.want(201, "PUT", "/v1/topics/"+foreign+name, `{"weight":2}`)
		a.want(201, "PUT", "/v1/topics/own-"+name, `{"weight":2}`)
		a.want(201, "POST", "/v1/jobs", `{"topic":"`+foreign+name+`","url":"https://`+foreign+`.example/","delay":"1h"}`)
		a.want(201, "POST", "/v1/jobs", `{"topic":"own-`+name+`","url":"https://shop.example/","delay":"1h"}`)
	}
	for path, want := range map[string]int{"/v1/schedules?": 4, "/v1/topics?": 4, "/v1/jobs?": 6, "/v1/jobs?order=due&state=waiting&": 4, "/v1/jobs?order=-ended&state=dead&": 1, "/v1/dead?": 1, "/v1/operations?": 1} {
		seen, cursor := 0, ""
		for {
			got := a.want(200, "GET", path+"limit=1"+cursor, "", "Authorization", token)
			seen += len(got["data"].([]any))
			next, more := got["next_cursor"].(string)
			if !more {
				break
			}
			text, err := base64.RawURLEncoding.DecodeString(next)
			if err != nil || strings.Contains(string(text), foreign) || strings.Contains(next, foreign) {
				t.Errorf("GET %s: the cursor %q is %q, %v", path, next, text, err)
			}
			cursor = "&cursor=" + next
		}
		if seen < want {
			t.Errorf("GET %s lists %d entries of its topics, want %d", path, seen, want)
		}
		if plain, _ := a.want(200, "GET", path+"limit=1", "")["next_cursor"].(string); plain != "" {
			a.wantProblem(httpapi.CodeInvalidRequest, "GET", path+"limit=1&cursor="+plain, "", "Authorization", token)
		}
	}
}
