package importer_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/duehook/duehook/client"
	"github.com/duehook/duehook/internal/importer"
	"github.com/duehook/duehook/internal/testing/fronts"
)

// called is a source's call as text.
func called(j *importer.Job) string {
	var b strings.Builder
	_, _ = fmt.Fprintf(&b, "POST %s\n", j.Call.Path)
	_ = j.Call.Header.Write(&b)
	_, _ = fmt.Fprintf(&b, "%s\n", j.Call.Body)
	return strings.ReplaceAll(b.String(), "\r", "")
}

// QStash as its documents describe it: events come in pages, the latest first.
func TestQStash(t *testing.T) {
	t.Parallel()
	var limited atomic.Bool
	answers := map[string]string{
		"/v2/schedules": `[{"scheduleId":"nightly","cron":"CRON_TZ=Asia/Shanghai 30 4 * * *","destination":"https://shop.example/report?a=1","createdAt":1767258000000,
			"method":"GET","header":{"Content-Type":["text/plain"],"X-A":["1","2"]},"retries":2,"timeout":30,"delay":60,"isPaused":true,"queueName":"q1","nextScheduleTime":1795724000000}]`,
		"/v2/logs?count=100": `{"cursor":"2-a","events":[{"time":"1795716004000","messageId":"msg_done","state":"delivered"},
			{"time":1795716003000,"messageId":"msg_late","state":"CREATED","timeout":2500},{"time":1795716002500,"messageId":"msg_done","state":"ACTIVE"}]}`,
		"/v2/logs?count=100&cursor=2-a": `{"cursor":"3","logs":[]}`,
		"/v2/logs?count=100&cursor=3": `{"logs":[{"time":1795716002000,"messageId":"msg_gone","state":"CREATED"},{"time":1795716001000,"messageId":"msg_early","state":"RETRY"},
			{"time":1795716000500,"messageId":"msg_odd","state":"CREATED"},{"time":1795716000000,"messageId":"msg_early","state":"CREATED"}]}`,
		"/v2/messages/msg_late": `{"messageId":"msg_late","url":"https://shop.example//a%2Fb?x=1&x=2","method":"PUT","header":{"Content-Type":["application/json"],"X-Tenant":["acme"]},
			"bodyBase64":"/wA=","maxRetries":5,"notBefore":1795719600001,"createdAt":1795716003000,"retryDelayExpression":"1000 * retried","callback":"https://cb.example/",
			"failureCallback":"https://cb.example/f","callbackHeader":{"X-Key":["7"],"Upstash-Method":["PUT"]},"label":"vip","labels":["vip","eu"],
			"flowControlKey":"a b","parallelism":2,"rate":3,"period":60}`,
		"/v2/messages/msg_early": `{"messageId":"msg_early","url":"https://shop.example/q","method":"POST","body":"é","maxRetries":0,"notBefore":1795716000000,"queueName":"q1"}`,
		"/v2/messages/msg_odd":   `<html>`,
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer, known := answers[r.URL.String()]
		switch {
		case r.Method != http.MethodGet, r.URL.Path == "/v2/messages/msg_done": // which the logs show as ended
			t.Errorf("%s %s", r.Method, r.URL)
		case r.Header.Get("Authorization") != "Bearer T":
			w.WriteHeader(http.StatusUnauthorized)
			answer = `{"error":"invalid token"}`
		case r.URL.Path == "/v2/messages/msg_late" && limited.CompareAndSwap(false, true):
			w.Header().Set("Retry-After", "0")
			w.WriteHeader(http.StatusTooManyRequests)
			answer = `{"error":"rate limit"}`
		case !known:
			w.WriteHeader(http.StatusNotFound)
			answer = `{"error":"not found"}`
		}
		_, _ = io.WriteString(w, answer)
	}))
	defer s.Close()
	source, err := importer.Open(t.Context(), "qstash", importer.Options{Address: s.URL + "/", Token: "T", DryRun: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = source.Close() }()
	var got []string
	for j, err := range source.Jobs {
		switch r := j.Registration; {
		case err != nil:
			t.Fatal(err)
		case j.Note != "":
			got = append(got, j.Note)
		case j.Err != nil:
			got = append(got, r.ID+": "+j.Err.Error())
		default:
			got = append(got, fmt.Sprintf("%s/%s %d\n%s", r.Topic, r.ID, r.At.UnixMilli(), called(&j)))
		}
	}
	want := []string{`schedules/nightly 1795724000000
POST /v2/schedules/https://shop.example/report?a=1
Content-Type: text/plain
Duehook-Dry-Run: true
Duehook-Id: nightly
Duehook-Paused: true
Upstash-Cron: CRON_TZ=Asia/Shanghai 30 4 * * *
Upstash-Delay: 60s
Upstash-Forward-X-A: 1, 2
Upstash-Method: GET
Upstash-Queue-Name: q1
Upstash-Retries: 2
Upstash-Timeout: 30s

`, `qstash:queue:q1/msg_early 1795716000000
POST /v2/enqueue/q1/https://shop.example/q
Duehook-Dry-Run: true
Duehook-Id: msg_early
Upstash-Method: POST
Upstash-Not-Before: 1795716000
Upstash-Retries: 0
é
`, "msg_odd: it cannot be read: invalid character '<' looking for beginning of value", `qstash:flow:a:20b/msg_late 1795719600001
POST /v2/publish/https://shop.example//a%2Fb?x=1&x=2
Content-Type: application/json
Duehook-Dry-Run: true
Duehook-Id: msg_late
Upstash-Callback: https://cb.example/
Upstash-Callback-Forward-X-Key: 7
Upstash-Callback-Method: PUT
Upstash-Failure-Callback: https://cb.example/f
Upstash-Flow-Control-Key: a b
Upstash-Flow-Control-Value: parallelism=2, rate=3, period=60s
Upstash-Forward-X-Tenant: acme
Upstash-Label: vip,eu
Upstash-Method: PUT
Upstash-Not-Before: 1795719601
Upstash-Retries: 5
Upstash-Retry-Delay: 1000 * retried
Upstash-Timeout: 2500ms
` + "\xff\x00\n", "The logs of " + s.URL + " begin at 2026-11-26T18:00:00Z: messages without an event since then were not found."}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}

	at := func(address, token string) importer.Options { return importer.Options{Address: address, Token: token} }
	wantError(t, "qstash", at(s.URL, "other"), nil, "refuses the token: 401 Unauthorized invalid token")
	wantError(t, "qstash", at(s.URL, ""), importer.ErrUsage, "DUEHOOK_SOURCE_TOKEN")
	wantError(t, "qstash", at(s.URL+"/console", "T"), nil, "does not answer as QStash does: 404")
	wantError(t, "qstash", at("redis://127.0.0.1", "T"), importer.ErrUsage, "https://qstash.upstash.io")
	wantError(t, "qstash", importer.Options{Token: "T", Pull: true}, importer.ErrUsage, "leave out --to and --pull")
	answers["/v2/schedules"], answers["/v2/logs?count=100"] = `[]`, `{"events":[]}`
	wantError(t, "qstash", importer.Options{Address: s.URL, Set: map[string]string{"token": "T"}}, importer.ErrNothing, "no messages that wait")
}

// move moves what waits on one node to another, and returns how many were new, kept and refused.
func move(t *testing.T, from, to *fronts.Server, dryRun bool) (created, kept int, refused []string) {
	t.Helper()
	source, err := importer.Open(t.Context(), "qstash", importer.Options{Address: from.Base, Token: from.Token, DryRun: dryRun})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = source.Close() }()
	var jobs []importer.Job
	for j, err := range source.Jobs {
		if err != nil {
			t.Fatal(err)
		}
		if j.Call != nil {
			jobs = append(jobs, j)
		}
	}
	results, err := importer.NewServer(to.Base, to.Token).Register(t.Context(), jobs)
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range results {
		switch {
		case r.Err != nil:
			refused = append(refused, jobs[i].Registration.ID+": "+r.Err.Error())
		case r.Created:
			created++
		default:
			kept++
		}
	}
	return created, kept, refused
}

// Messages and schedules of one node move to another one, once.
func TestQStashToDuehook(t *testing.T) {
	t.Parallel()
	from, to := fronts.Start(t, "qstash", "qstash*", "--max-timeout=2m"), fronts.Start(t, "qstash", "qstash*")
	headers := func(pairs ...string) http.Header {
		h := http.Header{}
		for i := 0; i < len(pairs); i += 2 {
			h.Set(pairs[i], pairs[i+1])
		}
		return h
	}
	publish := func(path, body string, pairs ...string) (id string) {
		var answer struct{ MessageID string }
		status, data := from.Call("POST", path, headers(pairs...), body)
		if err := json.Unmarshal(data, &answer); err != nil || status != 200 {
			t.Fatalf("%d %s", status, data)
		}
		return answer.MessageID
	}
	hooks := to.Receiver.URL
	later := publish("/v2/publish/"+hooks+"/later?a=1", `{"n":1}`, "Content-Type", "application/json", "Upstash-Delay", "1h", "Upstash-Forward-X-Tenant", "acme",
		"Upstash-Callback", hooks+"/back", "Upstash-Callback-Forward-X-Key", "7", "Upstash-Label", "vip,eu", "Upstash-Retries", "2", "Upstash-Retry-Delay", "1000", "Upstash-Timeout", "5s")
	soon := publish("/v2/publish/"+hooks+"/soon", "hi", "Upstash-Delay", "1s", "Upstash-Forward-X-Tenant", "acme")
	queued := publish("/v2/enqueue/q1/"+hooks+"/queued", "q", "Upstash-Delay", "1h")
	flow := publish("/v2/publish/"+hooks+"/flow", "f", "Upstash-Delay", "1h", "Upstash-Flow-Control-Key", "acme", "Upstash-Flow-Control-Value", "parallelism=2, rate=10, period=1m")
	slow := publish("/v2/publish/"+hooks+"/slow", "", "Upstash-Delay", "1h", "Upstash-Timeout", "90s")
	publish("/v2/schedules/"+hooks+"/nightly", "run", "Upstash-Cron", "CRON_TZ=Asia/Shanghai 30 4 * * *", "Upstash-Schedule-Id", "nightly", "Upstash-Queue-Name", "q1")
	if status, data := from.Call("PATCH", "/v2/schedules/nightly/pause", nil, ""); status != 200 {
		t.Fatalf("%d %s", status, data)
	}
	// Only the node that moves them delivers.
	if status, data := from.Call("POST", "/v1/topics/qstash/pause", nil, ""); status != 200 {
		t.Fatalf("%d %s", status, data)
	}

	tooLong := []string{slow + ": Upstash-Timeout (bounded by --max-timeout) must be from 100ms to 1m"}
	check := func(dryRun bool, wantCreated, wantKept int) {
		t.Helper()
		if created, kept, refused := move(t, from, to, dryRun); created != wantCreated || kept != wantKept || !cmp.Equal(refused, tooLong) {
			t.Fatalf("created %d, kept %d, refused %q", created, kept, refused)
		}
	}
	check(true, 5, 0)
	if status, data := to.Call("GET", "/v2/queues/q1", nil, ""); status != 404 {
		t.Fatalf("the dry run made a queue: %d %s", status, data)
	}
	check(false, 5, 0)
	check(true, 0, 5)
	check(false, 0, 5)

	d := to.Await("/soon", func(fronts.Delivery) bool { return true })
	if d.Header.Get("Upstash-Message-Id") != soon || d.Header.Get("X-Tenant") != "acme" || string(d.Content) != "hi" {
		t.Errorf("%v %s", d.Header, d.Content)
	}
	for _, path := range []string{"/v2/messages/" + later, "/v2/messages/" + queued, "/v2/messages/" + flow, "/v2/schedules/nightly"} {
		var had, has map[string]any
		for _, each := range []struct {
			s  *fronts.Server
			to *map[string]any
		}{{from, &had}, {to, &has}} {
			status, data := each.s.Call("GET", path, nil, "")
			if err := json.Unmarshal(data, each.to); err != nil || status != 200 {
				t.Fatalf("%s: %d %s", path, status, data)
			}
			if at, ok := (*each.to)["notBefore"].(float64); ok {
				(*each.to)["notBefore"] = float64(int64(at+999) / 1000)
			}
			delete(*each.to, "createdAt")
		}
		if diff := cmp.Diff(had, has); diff != "" {
			t.Errorf("%s: %s", path, diff)
		}
	}
	// A changed schedule stays, and the id of the original cancels.
	if status, data := to.Call("PATCH", "/v2/schedules/nightly/resume", nil, ""); status != 200 {
		t.Fatalf("%d %s", status, data)
	}
	check(false, 0, 5)
	if _, data := to.Call("GET", "/v2/schedules/nightly", nil, ""); !strings.Contains(string(data), `"isPaused":false`) {
		t.Errorf("%s", data)
	}
	if status, data := to.Call("DELETE", "/v2/messages/"+url.PathEscape(queued), nil, ""); status != 200 {
		t.Errorf("%d %s", status, data)
	}
	check(false, 0, 5)
}

// A server that is away is not taken for the source.
func TestServerIsAway(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // or the call is repeated for a while
	_, err := importer.NewServer("http://127.0.0.1:1", "").Register(ctx, []importer.Job{{Call: &importer.Call{Path: "/v2/publish/http://a.example"}}})
	if !errors.Is(err, client.ErrUnreachable) || errors.Is(err, importer.ErrUnreachable) {
		t.Errorf("got %v", err)
	}
}

// The calls of a queue are made in its order.
func TestServerKeepsQueues(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	got := map[string]string{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		body, _ := io.ReadAll(r.Body)
		got[r.URL.Path] += string(body)
		w.Header().Set("Duehook-Result", "created")
	}))
	defer s.Close()
	var jobs []importer.Job
	const letters = "abcdefghijklmnopqrstuvwxyz"
	for _, letter := range letters {
		for _, queue := range []string{"p", "q"} {
			jobs = append(jobs, importer.Job{Call: &importer.Call{Path: "/" + queue, Queue: queue, Body: []byte(string(letter))}})
		}
	}
	if _, err := importer.NewServer(s.URL, "").Register(t.Context(), jobs); err != nil || got["/p"] != letters || got["/q"] != letters {
		t.Errorf("%v, %v", got, err)
	}
}
