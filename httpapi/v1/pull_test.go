package v1

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/duehook/duehook/httpapi"
	"github.com/duehook/duehook/internal/app/pulls"
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/services/access"
	"github.com/duehook/duehook/internal/testing/testenv"
	"github.com/duehook/duehook/retrypolicy"
	"github.com/duehook/duehook/store"
)

// leased pulls exactly n jobs of a topic.
func (a *api) leased(topic string, n int, body string) []map[string]any {
	a.t.Helper()
	answer := a.want(200, "POST", "/v1/topics/"+topic+"/pull", body)
	jobs := answer["jobs"].([]any)
	if len(jobs) != n {
		a.t.Fatalf("leased %d jobs, want %d: %v", len(jobs), n, answer)
	}
	all := make([]map[string]any, n)
	for i := range jobs {
		all[i] = jobs[i].(map[string]any)
	}
	return all
}

// answered answers for a receipt, and expects a result.
func (a *api) answered(result, call, body string) {
	a.t.Helper()
	got := a.want(200, "POST", "/v1/pull/"+call, body)["results"].([]any)[0].(map[string]any)["result"]
	if got != result {
		a.t.Fatalf("%s %s: %v, want %s", call, body, got, result)
	}
}

func receiptsIn(jobs ...map[string]any) string {
	texts := make([]string, len(jobs))
	for i := range jobs {
		texts[i] = fmt.Sprintf("%q", jobs[i]["receipt"])
	}
	return `{"receipts":[` + strings.Join(texts, ",") + `]}`
}

func TestPull(t *testing.T) {
	const trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	a := newAPI(t)
	j := a.want(201, "POST", "/v1/jobs", `{"topic":"t","id":"a","pull":true,"headers":{"x-a":"1"},"body":{"n": 1},"biz_key":"k"}`, "Traceparent", trace)
	if j["url"] != nil || j["method"] != nil || j["pull"] != true {
		t.Errorf("registered %v", j)
	}
	if r := a.want(200, "GET", "/v1/jobs/t/a/registration", ""); r["pull"] != true || r["url"] != nil {
		t.Errorf("registration %v", r)
	}
	a.want(200, "POST", "/v1/jobs", `{"topic":"t","id":"a","pull":true,"headers":{"x-a":"1"},"body":{"n": 1},"biz_key":"k"}`)
	got := a.leased("t", 1, `{"max":10,"lease":"1m"}`)[0]
	if got["attempt"] != 1.0 || fmt.Sprint(got["body"]) != "map[n:1]" || fmt.Sprint(got["headers"]) != "map[Content-Type:application/json Traceparent:"+trace+" X-A:1]" ||
		got["lease_until"] != "2026-01-01T09:01:00.000Z" || got["job"].(map[string]any)["state"] != "running" {
		t.Errorf("leased %v", got)
	}
	a.leased("t", 0, "")
	a.answered("ok", "extend", strings.Replace(receiptsIn(got), "}", `,"lease":"2h"}`, 1))
	a.answered("ok", "ack", receiptsIn(got))
	a.answered("ok", "ack", receiptsIn(got)) // a repetition
	a.answered("stale", "nack", fmt.Sprintf(`{"receipts":[{"receipt":%q}]}`, got["receipt"]))
	a.answered("stale", "extend", receiptsIn(got))
	a.answered("unknown", "ack", `{"receipts":["bm8gcmVjZWlwdA"]}`)
	done := a.want(200, "GET", "/v1/jobs/t/a", "")
	if last, _ := done["last_attempt"].(map[string]any); done["state"] != "delivered" || done["attempts"] != 1.0 || last["status"] != nil || last["error"] != nil {
		t.Errorf("ended as %v", done)
	}
}

func TestNack(t *testing.T) {
	a := newAPI(t)
	for _, id := range []string{"ladder", "now", "later", "dead"} {
		a.want(201, "POST", "/v1/jobs", `{"topic":"`+id+`","id":"a","pull":true,"retry":{"steps":["1h"],"limit":3}}`)
	}
	for id, with := range map[string]string{"ladder": "", "now": `,"delay":"0s"`, "later": `,"delay":"2h","error":"busy\u0000"`, "dead": `,"dead":true,"error":"no such order"`} {
		got := a.leased(id, 1, "")[0]
		a.answered("ok", "nack", fmt.Sprintf(`{"receipts":[{"receipt":%q%s}]}`, got["receipt"], with))
	}
	for id, want := range map[string]string{
		"ladder": "retrying 1 2026-01-01T10:00:00.000Z ladder nacked <nil>", "now": "retrying 1 2026-01-01T09:00:00.000Z retry_after nacked <nil>",
		"later": "retrying 1 2026-01-01T11:00:00.000Z retry_after nacked busy\uFFFD", "dead": "dead 1 <nil> rejected nacked no such order",
	} {
		j := a.want(200, "GET", "/v1/jobs/"+id+"/a", "")
		last := j["last_attempt"].(map[string]any)
		next := j["next_at"]
		if id == "ladder" { // with jitter
			next = "2026-01-01T10:00:00.000Z"
		}
		if got := fmt.Sprint(j["state"], " ", j["attempts"], " ", next, " ", last["reason"], " ", last["error"], " ", last["response_body"]); got != want {
			t.Errorf("%s: %s, want %s", id, got, want)
		}
	}
	group := a.want(200, "GET", "/v1/dead", "")["data"].([]any)[0].(map[string]any)
	letters := a.want(200, "GET", fmt.Sprintf("/v1/jobs?state=dead&topic=dead&reason=%v&endpoint=%v", group["reason"], group["endpoint"]), "")
	if found := letters["data"].([]any); group["endpoint"] != "pull:" || len(found) != 1 {
		t.Errorf("the group %v has the dead letters %v", group, found)
	}
	if got := a.leased("now", 1, "")[0]; got["attempt"] != 2.0 {
		t.Errorf("leased again as attempt %v", got["attempt"])
	}
}

// A job that its consumer did not begin is due again at once, and no attempt is used.
func TestUnused(t *testing.T) {
	a := newAPI(t)
	a.want(201, "POST", "/v1/jobs", `{"topic":"t","id":"a","pull":true,"retry":{"limit":0}}`)
	first := a.leased("t", 1, "")[0]
	for _, with := range []string{`"dead":true`, `"delay":"0s"`, `"error":"no"`} {
		a.want(422, "POST", "/v1/pull/nack", fmt.Sprintf(`{"receipts":[{"receipt":%q,"unused":true,%s}]}`, first["receipt"], with))
	}
	unused := fmt.Sprintf(`{"receipts":[{"receipt":%q,"unused":true}]}`, first["receipt"])
	a.answered("ok", "nack", unused)
	a.answered("ok", "nack", unused) // a repetition
	if j := a.want(200, "GET", "/v1/jobs/t/a", ""); j["state"] != "waiting" || j["attempts"] != 0.0 || j["last_attempt"] != nil {
		t.Errorf("given back: %v", j)
	}
	if second := a.leased("t", 1, "")[0]; second["attempt"] != 1.0 {
		t.Errorf("leased again as attempt %v", second["attempt"])
	}
	a.answered("stale", "nack", unused)
}

// A lease that ends is a failed attempt: the dispatcher settles what the carrier finds.
func TestLeaseEnds(t *testing.T) {
	a := newAPI(t)
	a.want(201, "POST", "/v1/jobs", `{"topic":"t","id":"a","pull":true,"retry":{"steps":["0s"],"limit":1}}`)
	first := a.leased("t", 1, `{"lease":"1s"}`)[0]
	a.clock.Advance(time.Second)
	a.chargeLeases()
	second := a.leased("t", 1, `{"lease":"1s"}`)[0]
	if second["attempt"] != 2.0 {
		t.Errorf("attempt %v", second["attempt"])
	}
	a.answered("stale", "ack", receiptsIn(first))
	a.clock.Advance(time.Second)
	a.chargeLeases()
	if j := a.want(200, "GET", "/v1/jobs/t/a", ""); j["state"] != "dead" || j["reason"] != "retry_limit" || j["last_attempt"].(map[string]any)["error"] != "lease_expired" {
		t.Errorf("ended as %v", j)
	}
}

// chargeLeases settles claims of leases that have ended, as a dispatcher does.
func (a *api) chargeLeases() {
	a.t.Helper()
	for _, c := range a.claim() {
		o := c.Job.Before(c.From, c.Earlier, c.Now)
		if o == nil {
			a.t.Fatalf("%s may go", c.Job.Key)
		}
		s := retrypolicy.Default().Settle(&c.Job, *o, func() float64 { return 0.5 })
		if _, err := a.mem.Settle(a.t.Context(), []job.Settlement{s}); err != nil {
			a.t.Fatal(err)
		}
	}
}

func TestPullRefusals(t *testing.T) {
	a := newAPI(t)
	for body, pointers := range map[string]string{
		`{"pull":true,"url":"http://a.example","method":"PUT","timeout":"3s","expect":{"body":"x"},"group":"g"}`: "/pull /url",
		`{"pull":true,"url":"http://a.example","method":"PUT","timeout":"3s","expect":{"body":"x"}}`:             "/expect /method /timeout /url",
		`{"pull":false}`: "/url",
		`{"url":"http://a.example","retry":{"steps":["0s"]}}`: "/retry/steps/0",
	} {
		p := a.wantProblem(httpapi.CodeInvalidRequest, "POST", "/v1/jobs", body)
		for _, want := range strings.Fields(pointers) {
			found := false
			for _, e := range p.Errors {
				found = found || e.Pointer == want
			}
			if !found {
				t.Errorf("%s: errors %v lack %s", body, p.Errors, want)
			}
		}
	}
	a.want(201, "POST", "/v1/jobs", `{"topic":"t","id":"a","pull":true,"delay":"1h"}`)
	a.wantProblem(httpapi.CodeInvalidRequest, "PATCH", "/v1/jobs/t/a", `{"url":"http://a.example"}`)
	a.wantProblem(httpapi.CodeInvalidRequest, "PATCH", "/v1/jobs/t/a", `{"pull":false}`)
	a.want(200, "PATCH", "/v1/jobs/t/a", `{"delay":"0s","retry":{"steps":["0s"]}}`)
	for call, body := range map[string]string{
		"/v1/topics/t/pull": `{"max":0}`, "/v1/topics/u/pull": `{"max":101}`, "/v1/topics/v/pull": `{"lease":"999ms"}`, "/v1/topics/w/pull": `{"lease":"13h"}`,
		"/v1/topics/x/pull": `{"wait":"61s"}`, "/v1/topics/y/pull": `{"topics":["t"]}`, "/v1/pull": `{"max":1}`, "/v1/pull/ack": `{"receipts":[]}`,
		"/v1/pull/nack": `{"receipts":[{}]}`, "/v1/pull/extend": `{"receipts":["a"],"lease":"0s"}`,
	} {
		a.wantProblem(httpapi.CodeInvalidRequest, "POST", call, body)
	}
}

// Consumers may fetch and answer, within their topics, and nothing else.
func TestConsumeScope(t *testing.T) {
	a := newKeyedAPI(t)
	token, key := a.newKey(access.Draft{Scope: "consume", Topics: []string{"mine"}})
	reader, other := a.newKey(access.Draft{Scope: "read"})
	a.keys.Keys = a.keyring(a.admin, key, other)
	for _, topic := range []string{"mine", "theirs"} {
		a.want(201, "POST", "/v1/jobs", `{"topic":"`+topic+`","id":"a","pull":true,"body_text":"secret","callbacks":{"delivered":{"url":"https://shop.example/?token=secret"}}}`)
	}
	theirs := a.leased("theirs", 1, "")[0]
	a.token = token
	mine := a.leased("mine", 1, "")[0]
	if mine["body_text"] != "secret" {
		t.Errorf("leased %v", mine)
	}
	a.wantProblem(httpapi.CodeForbidden, "POST", "/v1/topics/theirs/pull", "")
	a.wantProblem(httpapi.CodeForbidden, "POST", "/v1/pull", `{"topics":["mine","theirs"]}`)
	a.wantProblem(httpapi.CodeForbidden, "POST", "/v1/pull/ack", receiptsIn(mine, theirs))
	a.wantProblem(httpapi.CodeForbidden, "GET", "/v1/jobs/mine/a", "")
	a.wantProblem(httpapi.CodeForbidden, "POST", "/v1/jobs", `{"topic":"mine","pull":true}`)
	a.answered("ok", "ack", receiptsIn(mine))
	a.token = reader
	a.wantProblem(httpapi.CodeForbidden, "POST", "/v1/topics/mine/pull", "")
}

// An answer has at most 4 MiB, and at least one job. The others stay due and use no attempt.
func TestPullBytes(t *testing.T) {
	a := newAPI(t)
	const jobs, bytes = 40, 200 << 10
	for i := range jobs {
		a.want(201, "POST", "/v1/jobs", fmt.Sprintf(`{"topic":"t","id":"j%d","pull":true,"body_text":%q}`, i, strings.Repeat("x", bytes)))
	}
	seen := map[string]bool{}
	for calls := 0; len(seen) < jobs; calls++ {
		got := a.call("POST", "/v1/topics/t/pull", `{"max":100}`)
		if n := got.Body.Len(); n > 4<<20 || calls > jobs {
			t.Fatalf("an answer of %d bytes, call %d", n, calls)
		}
		var answer struct {
			Jobs []struct {
				Attempt int
				Job     struct{ ID string }
			}
		}
		if err := json.Unmarshal(got.Body.Bytes(), &answer); err != nil || len(answer.Jobs) == 0 {
			t.Fatalf("%d jobs, %v", len(answer.Jobs), err)
		}
		for _, l := range answer.Jobs {
			if seen[l.Job.ID] || l.Attempt != 1 {
				t.Errorf("%s again, as attempt %d", l.Job.ID, l.Attempt)
			}
			seen[l.Job.ID] = true
		}
	}
}

// faultyPulls is the store of consumers, which fails with the others.
type faultyPulls struct {
	store.Store
	faults *faultyStore
}

func (f faultyPulls) Take(ctx context.Context, shard int, o store.TakeOptions) (store.Taken, error) {
	if err := f.faults.err(); err != nil {
		return store.Taken{}, err
	}
	return f.Store.Take(ctx, shard, o)
}

func (f faultyPulls) Get(ctx context.Context, key job.Key) (job.Job, error) {
	if err := f.faults.err(); err != nil {
		return job.Job{}, err
	}
	return f.Store.Get(ctx, key)
}

func (a *api) newPulls() *pulls.Manager {
	a.t.Helper()
	q, err := pulls.New(pulls.Options{Store: faultyPulls{a.mem, a.faults}, ID: "node", Policy: retrypolicy.Default(), Clock: a.clock})
	if err != nil {
		a.t.Fatal(err)
	}
	return q
}

func coverPulls(a *keyedAPI) {
	a.want(201, "POST", "/v1/jobs", `{"topic":"p","id":"a","pull":true}`)
	got := a.leased("p", 1, "")[0]
	a.want(200, "POST", "/v1/pull", `{"topics":["p","q"]}`)
	a.answered("ok", "extend", receiptsIn(got))
	a.answered("ok", "ack", receiptsIn(got))
	a.answered("stale", "nack", fmt.Sprintf(`{"receipts":[{"receipt":%q}]}`, got["receipt"]))
}

// broken is the writer of a client that goes away.
type broken struct {
	*httptest.ResponseRecorder
	write, flush error
	leave        func() // once the answer is written
}

func (b *broken) Write(p []byte) (int, error) {
	if b.write != nil {
		return 0, b.write
	}
	return b.ResponseRecorder.Write(p)
}

func (b *broken) FlushError() error {
	if b.leave != nil {
		b.leave()
	}
	return b.flush
}

// A consumer that does not get its answer gets no jobs: others have them at once, and no attempt is used.
func TestPulledJobsComeBack(t *testing.T) {
	gone := errors.New("the connection is reset")
	for name, w := range map[string]*broken{
		"write fails":  {write: gone},
		"flush fails":  {flush: gone},
		"client left":  {leave: func() {}},
		"answer comes": {},
	} {
		for _, path := range []string{"/v1/topics/t/pull", "/v1/pull"} {
			t.Run(name+" "+path, func(t *testing.T) {
				a := newAPI(t)
				for i := range 3 {
					a.want(201, "POST", "/v1/jobs", fmt.Sprintf(`{"topic":"t","id":"%d","pull":true,"retry":{"limit":0}}`, i))
				}
				body := `{"max":5,"topics":["t"]}`
				if path != "/v1/pull" {
					body = `{"max":5}`
				}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				r := httptest.NewRequestWithContext(ctx, "POST", path, strings.NewReader(body))
				r.Header.Set("Content-Type", "application/json")
				r.Header.Set("Authorization", "Bearer "+a.token)
				to := *w
				to.ResponseRecorder = httptest.NewRecorder()
				if w.leave != nil {
					to.leave = cancel
				}
				a.server.Handler().ServeHTTP(&to, r)
				back := 3
				if name == "answer comes" {
					back = 0
				}
				for _, l := range a.leased("t", back, `{"max":5}`) {
					if l["attempt"] != 1.0 {
						t.Errorf("an attempt was used: %v", l["attempt"])
					}
				}
			})
		}
	}
}

// A server on which too many calls wait says so, and not that its store is away.
func TestTooManyPulls(t *testing.T) {
	a := newAPI(t)
	a.faults.set(func() error { return &pulls.BusyError{Topics: 99_999} })
	for _, path := range []string{"/v1/topics/t/pull", "/v1/pull"} {
		body := `{"topics":["t"]}`
		if path != "/v1/pull" {
			body = ""
		}
		if p := a.wantProblem(httpapi.CodeTooManyPulls, "POST", path, body); !strings.Contains(p.Detail, "calls wait for jobs of 99999 topics") || strings.Contains(p.Detail, "store") {
			t.Errorf("%s: %s", path, p.Detail)
		}
	}
}

// A waiting call holds the memory of a request until it is answered. So the budget bounds such calls, and who finds no room
// hears so.
func TestWaitingPullsHoldMemory(t *testing.T) {
	a := newAPI(t)
	const each, waiting = 24 << 10, 2
	for left := a.budget.Total() - waiting*each - 1<<10; left > 0; left -= a.budget.Share() {
		h := a.budget.Hold(nil)
		defer h.Free()
		if err := h.Add(min(left, a.budget.Share())); err != nil {
			t.Fatal(err)
		}
	}
	before := a.budget.Held()
	ctx, leave := context.WithCancel(t.Context())
	done := make(chan int, waiting)
	for range waiting {
		go func() {
			body := `{"wait":"1m"}`
			r := httptest.NewRequestWithContext(ctx, "POST", "/v1/topics/t/pull", strings.NewReader(body))
			r.Header.Set("Content-Type", "application/json")
			done <- a.do(r, []byte(body)).Code
		}()
	}
	testenv.Eventually(t, testenv.Patience, func() bool { return a.budget.Held() >= before+waiting*each }, "the calls to wait")
	a.wantProblem(httpapi.CodeServerBusy, "POST", "/v1/topics/t/pull", `{"wait":"1m"}`)

	leave()
	for range waiting {
		if code := <-done; code != 200 {
			t.Errorf("a call that waited was answered %d", code)
		}
	}
	a.want(200, "POST", "/v1/topics/t/pull", "")
}
