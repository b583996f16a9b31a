package v1

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/duehook/duehook/httpapi"
	"github.com/duehook/duehook/internal/job"
)

func (a *api) stored(topic, id string) job.Job {
	a.t.Helper()
	j, err := a.mem.Get(context.Background(), job.Key{Topic: topic, ID: id})
	if err != nil {
		a.t.Fatal(err)
	}
	return j
}

func TestRegister(t *testing.T) {
	a := newAPI(t)
	got := a.call("POST", "/v1/jobs", `{"topic":"order-timeout","id":"order-8812","biz_key":"8812","url":"https://shop.example/hooks/timeout?a=1&b=<2>",
		"delay":"30m","body":{"order_id":8812},"headers":{"x-tenant":"acme"},"retry":{"steps":["15s","3m","10m"],"limit":3.0},"timeout":"10s","ttl":"2h",
		"expect":{"body":"success"},"on_conflict":"reject"}`)
	if got.Code != 201 || got.Header().Get("Location") != "../v1/jobs/order-timeout/order-8812" {
		t.Fatalf("got %d, Location %q: %s", got.Code, got.Header().Get("Location"), got.Body)
	}
	uid := a.stored("order-timeout", "order-8812").UID
	want := `{"uid":"` + uid + `","topic":"order-timeout","id":"order-8812","biz_key":"8812","labels":{},"url":"https://shop.example/hooks/timeout?a=1&b=<2>",` +
		`"method":"POST","state":"waiting","priority":5,"due_at":"2026-01-01T09:30:00.000Z","created_at":"2026-01-01T09:00:00.000Z","updated_at":"2026-01-01T09:00:00.000Z","next_at":"2026-01-01T09:30:00.000Z",` +
		`"attempts":0,"max_attempts":4,"last_attempt":null,"ended_at":null,"reason":null,"version":1767258000000,"schedule":null,"occurrence":null,"result":"created"}` + "\n"
	if diff := cmp.Diff(want, got.Body.String()); diff != "" {
		t.Error(diff)
	}
	limit := 3
	wantSpec := job.Spec{
		Destination: "https://shop.example/hooks/timeout?a=1&b=<2>", BizKey: "8812", ContentType: "application/json",
		Headers: []job.Header{{Name: "X-Tenant", Value: "acme"}}, Body: []byte(`{"order_id":8812}`), BodyForm: job.BodyJSON,
		When:    job.When{Delay: 30 * time.Minute},
		Retry:   &job.Retry{Steps: []time.Duration{15 * time.Second, 3 * time.Minute, 10 * time.Minute}, Limit: &limit},
		Timeout: 10 * time.Second, TTL: 2 * time.Hour, ExpectBody: "success",
		Content: a.stored("order-timeout", "order-8812").Spec.Content,
	}
	if diff := cmp.Diff(wantSpec, a.stored("order-timeout", "order-8812").Spec); diff != "" {
		t.Error(diff)
	}
}

// The body reaches the receiver as the client wrote it: no key is dropped, no
// number rounded, no space taken out.
func TestBodiesAreKeptByteForByte(t *testing.T) {
	a := newAPI(t)
	for i, body := range []string{
		`{"b":1,"a":2}`, `{ "a" : [ 1 ,2] }`, `{"a":1,"a":2}`, `12345678901234567890.10`, `1e400`, `-0.0`, `"\u00e4\/<&"`, `"ä"`, `"\ud800"`,
		"[\n  1\n]", `true`, `""`, `[]`, `{}`, `0`, `{"}":"]{","\"":"\\\""}`,
	} {
		id := fmt.Sprint("b", i)
		// Space around the value belongs to the envelope.
		a.want(201, "POST", "/v1/jobs", `{"url":"https://shop.example/hook","id":"`+id+`" , "body" : `+body+" \n,\"delay\":60}")
		if got := string(a.stored("default", id).Spec.Body); got != body {
			t.Errorf("%s was kept as %s", body, got)
		}
	}
	a.want(201, "POST", "/v1/jobs", `{"url":"https://shop.example/hook","id":"none","body":null}`)
	if got := a.stored("default", "none").Spec; got.BodyForm != job.BodyNone || got.Body != nil {
		t.Errorf("null was kept as %q", got.Body)
	}
}

func TestIdentity(t *testing.T) {
	a := newAPI(t)
	const body = `{"url":"https://shop.example/hook","delay":60}`
	first := a.want(201, "POST", "/v1/jobs", body)
	if first["id"] != first["uid"] || first["topic"] != "default" {
		t.Errorf("without an id: %v", first)
	}
	if second := a.want(201, "POST", "/v1/jobs", body); second["uid"].(string) <= first["uid"].(string) {
		t.Errorf("uids do not grow: %v, then %v", first["uid"], second["uid"])
	}
	keyed := a.want(201, "POST", "/v1/jobs", body, "Idempotency-Key", "k-1")
	if keyed["id"] != "k-1" {
		t.Errorf("with an Idempotency-Key: %v", keyed)
	}
	again := a.want(200, "POST", "/v1/jobs", body, "Idempotency-Key", `"k-1"`)
	if again["uid"] != keyed["uid"] {
		t.Errorf("repeated, with the key in quotes: %v", again)
	}
	if nulls := a.want(201, "POST", "/v1/jobs", `{"url":"https://shop.example/hook","id":null,"topic":null,"retry":null,"headers":null,"delay":null,"expect":null}`); nulls["topic"] != "default" {
		t.Errorf("with nulls: %v", nulls)
	}
}

// A key stands for one request, whatever became of its job.
func TestIdempotencyKeys(t *testing.T) {
	a := newAPI(t)
	a.want(201, "PUT", "/v1/topics/t", `{"priority":9}`)
	a.want(201, "PUT", "/v1/groups/g", twoMembers)
	const content, url = `"body":{"a":1,"b":[1.0,{"c":2,"d":3}]}`, `"topic":"t","url":"https://shop.example/hook"`
	end := func(key, how string) {
		switch how {
		case "cancelled":
			a.want(200, "DELETE", "/v1/jobs/t/"+key, "")
		case "delivered":
			a.end(job.OutcomeDelivered)
		case "dead":
			a.end(job.OutcomeRefused)
		}
	}
	for _, state := range []string{"waiting", "cancelled", "delivered", "dead"} {
		delay := `,"delay":"1h"`
		if state == "delivered" || state == "dead" {
			delay = ""
		}
		made := a.want(201, "POST", "/v1/jobs", `{`+url+`,`+content+delay+`}`, "Idempotency-Key", state)
		end(state, state)
		a.want(200, "PATCH", "/v1/topics/t", `{"timeout":"7s"}`)
		for _, same := range []string{`{` + url + `,` + content + delay + `}`, `{` + content + delay + `,"method":"POST",` + url + `}`, `{` + url + delay + `, "body" : {"b":[ 1.0, {"d":3,"c":2}], "a":1}}`} {
			again := a.want(200, "POST", "/v1/jobs", same, "Idempotency-Key", `"`+state+`";v=1`)
			if again["uid"] != made["uid"] || again["state"] != state || again["result"] != "same" {
				t.Errorf("%s, repeated as %s: %v", state, same, again)
			}
		}
		for _, other := range []string{
			`{` + url + `,` + content + `,"delay":"2h"}`, `{` + url + `,"body":{"b":[1,{"c":2,"d":3}],"a":1}` + delay + `}`, `{` + url + `,` + content + delay + `,"priority":9}`,
		} {
			if p := a.wantProblem(httpapi.CodeKeyReused, "POST", "/v1/jobs", other, "Idempotency-Key", state); !strings.Contains(p.Detail, made["uid"].(string)) {
				t.Errorf("%s: %s", state, p.Detail)
			}
		}
	}
	if got := string(a.stored("t", "waiting").Spec.Body); got != `{"a":1,"b":[1.0,{"c":2,"d":3}]}` {
		t.Errorf("the receiver gets %s", got)
	}
	const fan = `{"topic":"t","group":"g","delay":"1h"}`
	a.want(201, "POST", "/v1/jobs", fan, "Idempotency-Key", "fan")
	a.want(200, "PUT", "/v1/groups/g", `{"members":[]}`)
	a.want(200, "POST", "/v1/jobs", fan, "Idempotency-Key", "fan")
	a.wantProblem(httpapi.CodeKeyReused, "POST", "/v1/jobs", strings.Replace(fan, "1h", "2h", 1), "Idempotency-Key", "fan")
	// With the id in the body, the rules of ids hold.
	a.wantProblem(httpapi.CodeJobExists, "POST", "/v1/jobs", `{`+url+`,"id":"waiting","delay":"3h"}`)
	a.want(201, "POST", "/v1/jobs", `{`+url+`,"id":"delivered","delay":"3h"}`)
}

// A retry of a registration finds its job, also when the job has ended, with or
// without an Idempotency-Key, alone or in a batch.
func TestRepeatedRegistrations(t *testing.T) {
	a := newAPI(t)
	const body = `{"url":"https://shop.example/hook","topic":"t","id":"a"}`
	const traceA, traceB = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01"
	uid := a.want(201, "POST", "/v1/jobs", body, "Traceparent", traceA, "Tracestate", "vendor=1, other=2")["uid"]
	if got := a.stored("t", "a").Spec; got.Traceparent != traceA || got.Tracestate != "vendor=1,other=2" {
		t.Errorf("trace context kept: %q, %q", got.Traceparent, got.Tracestate)
	}
	if got := a.want(200, "POST", "/v1/jobs", body, "Traceparent", traceB)["uid"]; got != uid {
		t.Errorf("a retry under another span made another job")
	}
	a.end(job.OutcomeDelivered)
	if got := a.want(200, "POST", "/v1/jobs", `{"url":"https://shop.example/hook","topic":"t"}`, "Idempotency-Key", "a"); got["uid"] != uid || got["state"] != "delivered" {
		t.Errorf("a retry with the id as a key after the end: %v", got)
	}
	if got := a.want(200, "POST", "/v1/jobs", body); got["uid"] != uid || got["result"] != "same" {
		t.Errorf("a retry after the end: %v", got)
	}
	batch := a.want(200, "POST", "/v1/jobs/batch", `{"jobs":[`+body+`]}`)["results"].([]any)[0].(map[string]any)
	if got := batch["job"].(map[string]any)["uid"]; got != uid || batch["status"] != 200.0 || batch["result"] != "same" {
		t.Errorf("a retry in a batch after the end: %v", batch)
	}
	if got := a.want(201, "POST", "/v1/jobs", strings.TrimSuffix(body, "}")+`,"on_conflict":"replace"}`); got["uid"] == uid || got["result"] != "created" {
		t.Errorf("with replace: %v", got)
	}
	a.want(201, "POST", "/v1/jobs", `{"url":"https://shop.example/hook","topic":"t","id":"b"}`, "Traceparent", "00-zz")
	if got := a.stored("t", "b").Spec.Traceparent; got != "" {
		t.Errorf("an invalid traceparent was kept: %q", got)
	}
}

func TestConflicts(t *testing.T) {
	a := newAPI(t)
	register := func(delay, policy string) *httptest.ResponseRecorder {
		return a.call("POST", "/v1/jobs", `{"url":"https://shop.example/hook","topic":"t","id":"a","delay":"`+delay+`","on_conflict":"`+policy+`"}`)
	}
	uid := func(r *httptest.ResponseRecorder) string {
		var v struct{ UID string }
		if err := json.Unmarshal(r.Body.Bytes(), &v); err != nil {
			t.Fatal(err)
		}
		return v.UID
	}
	first := uid(register("1h", "reject"))
	if p := decodeProblem(register("2h", "reject")); p.Code != httpapi.CodeJobExists.Name || !strings.Contains(p.Detail, first) {
		t.Errorf("reject: %+v", p)
	}
	if r := register("2h", "ignore"); r.Code != 200 || uid(r) != first {
		t.Errorf("ignore: %d %s", r.Code, r.Body)
	}
	if r := register("1h", "replace"); r.Code != 200 || uid(r) != first {
		t.Errorf("replace by the same: %d %s", r.Code, r.Body)
	}
	if r := register("0s", "replace"); r.Code != 201 || uid(r) == first || r.Header().Get("Location") == "" {
		t.Errorf("replace: %d %s", r.Code, r.Body)
	}
	claimed := a.claim()
	if p := decodeProblem(register("3h", "replace")); p.Code != httpapi.CodeJobInFlight.Name {
		t.Errorf("replace in flight: %+v", p)
	}
	a.settle(claimed[0], job.OutcomeDelivered, job.Attempt{Status: 200})
	if r := register("3h", "reject"); r.Code != 201 {
		t.Errorf("after the end: %d %s", r.Code, r.Body)
	}
	kept := uid(register("3h", "reject"))
	for _, move := range []struct{ delay, policy, result, due string }{
		{"4h", "sooner", "kept", "2026-01-01T12:00:00."},
		{"4h", "later", "moved", "2026-01-01T13:00:00."},
		{"4h", "later", "kept", "2026-01-01T13:00:00."},
		{"1h", "sooner", "moved", "2026-01-01T10:00:00."},
		{"0s", "sooner", "moved", "2026-01-01T09:00:00."},
	} {
		r := register(move.delay, move.policy)
		var got struct {
			Result string
			DueAt  string `json:"due_at"`
		}
		if err := json.Unmarshal(r.Body.Bytes(), &got); err != nil {
			t.Fatal(err)
		}
		if r.Code != 200 || uid(r) != kept || got.Result != move.result || !strings.HasPrefix(got.DueAt, move.due) {
			t.Errorf("%+v: %d %s", move, r.Code, r.Body)
		}
	}
	claimed = a.claim()
	for _, policy := range []string{"later", "sooner"} {
		if p := decodeProblem(register("3h", policy)); p.Code != httpapi.CodeJobInFlight.Name {
			t.Errorf("%s in flight: %+v", policy, p)
		}
	}
	a.settle(claimed[0], job.OutcomeRefused, job.Attempt{Status: 410})
	for _, policy := range []string{"reject", "ignore"} {
		if p := decodeProblem(register("5h", policy)); p.Code != httpapi.CodeJobDead.Name || !strings.Contains(p.Detail, kept) {
			t.Errorf("%s over a dead letter: %+v", policy, p)
		}
	}
	if r := register("3h", "reject"); r.Code != 200 || uid(r) != kept {
		t.Errorf("the same content as that of the dead letter: %d %s", r.Code, r.Body)
	}
	for _, policy := range []string{"later", "sooner"} {
		if r := register("5h", policy); r.Code != 200 || uid(r) != kept || !strings.Contains(r.Body.String(), `"result":"moved"`) || !strings.Contains(r.Body.String(), `"state":"waiting"`) {
			t.Errorf("%s over a dead letter: %d %s", policy, r.Code, r.Body)
		}
		a.want(200, "POST", "/v1/jobs/t/a/run", "")
		a.end(job.OutcomeRefused)
	}
	if r := register("3h", "replace"); r.Code != 201 || uid(r) == kept {
		t.Errorf("in the place of the dead letter: %d %s", r.Code, r.Body)
	}
}

func TestNoUIDs(t *testing.T) {
	a := newAPI(t, func(o *testOptions) {
		o.NewUID = func(job.Key) (string, error) { return "", errors.New("no entropy") }
	})
	a.wantProblem(httpapi.CodeInternalError, "POST", "/v1/jobs", `{"url":"https://shop.example/hook"}`)
	a.wantProblem(httpapi.CodeInternalError, "POST", "/v1/jobs/batch", `{"jobs":[{},{"url":"https://shop.example/hook"}]}`)
	if n := len(a.held()); n != 0 {
		t.Errorf("%d jobs are held", n)
	}
}

func TestBatch(t *testing.T) {
	a := newAPI(t, func(o *testOptions) {
		o.Guard = func(rawURL string) error {
			if strings.Contains(rawURL, "10.0.0.1") {
				return fmt.Errorf("private")
			}
			return nil
		}
	})
	a.want(201, "POST", "/v1/jobs", `{"url":"https://shop.example/hook","topic":"t","id":"old","delay":60}`)
	got := a.want(200, "POST", "/v1/jobs/batch", `{"jobs":[
		{"url":"https://shop.example/hook","topic":"t","id":"a","delay":60,"body":1},
		{"url":"https://shop.example/hook","topic":"t","id":"a","delay":60,"body":1},
		{"url":"https://shop.example/hook","topic":"t","id":"a","delay":61},
		{"url":"https://shop.example/hook","topic":"t","id":"a","delay":61,"on_conflict":"ignore"},
		{"url":"https://shop.example/hook","topic":"t","id":"a","delay":62,"on_conflict":"replace"},
		{"url":"nope","colour":1},
		7,
		{"url":"nope","delay":-1},
		{"url":"http://10.0.0.1/"},
		{"url":"https://shop.example/hook","topic":"t","id":"old","delay":60},
		{"url":"https://shop.example/hook","delay":60}
	]}`)
	type result struct {
		Status   int
		Code     string
		Pointers string
		ID       string
	}
	var results []result
	for _, v := range got["results"].([]any) {
		r := result{Status: int(object(v)["status"].(float64))}
		r.ID, _ = object(object(v)["job"])["id"].(string)
		r.Code, _ = object(object(v)["error"])["code"].(string)
		list, _ := object(object(v)["error"])["errors"].([]any)
		for _, e := range list {
			r.Pointers += object(e)["pointer"].(string) + " "
		}
		results = append(results, r)
	}
	last := results[len(results)-1].ID
	if len(last) != 26 {
		t.Errorf("the job without an id got %q", last)
	}
	want := []result{
		{201, "", "", "a"},
		{200, "", "", "a"},
		{409, "job_exists", "", ""},
		{200, "", "", "a"},
		{201, "", "", "a"},
		{422, "invalid_request", "/colour /url ", ""},
		{422, "invalid_request", " ", ""},
		{422, "invalid_request", "/delay /url ", ""},
		{422, "destination_blocked", "/url ", ""},
		{200, "", "", "old"},
		{201, "", "", last},
	}
	if diff := cmp.Diff(want, results); diff != "" {
		t.Error(diff)
	}
}

// A whole batch of the most jobs is one call to the store, in order.
func TestLargestBatch(t *testing.T) {
	a := newAPI(t)
	jobs := make([]string, maxBatch)
	for i := range jobs {
		jobs[i] = fmt.Sprintf(`{"url":"https://shop.example/hook","topic":"t","id":"%04d","delay":60}`, i)
	}
	got := a.want(200, "POST", "/v1/jobs/batch", `{"jobs":[`+strings.Join(jobs, ",")+`]}`)
	for i, r := range got["results"].([]any) {
		if id := object(object(r)["job"])["id"]; id != fmt.Sprintf("%04d", i) {
			t.Fatalf("result %d is of %v", i, id)
		}
	}
	if n := len(a.held()); n != maxBatch {
		t.Errorf("%d jobs are held", n)
	}
}

// Names of any script address jobs, percent-encoded or not.
func TestNamesOfAnyScript(t *testing.T) {
	a := newAPI(t)
	const topic, id = "订单", "заказ-ऑ:1"
	r := a.call("POST", "/v1/jobs", `{"url":"https://shop.example/hook","topic":"`+topic+`","id":"`+id+`","biz_key":"طلب","delay":60}`)
	location := strings.TrimPrefix(r.Header().Get("Location"), "..")
	if want := "/v1/jobs/%E8%AE%A2%E5%8D%95/%D0%B7%D0%B0%D0%BA%D0%B0%D0%B7-%E0%A4%91:1"; r.Code != 201 || location != want {
		t.Fatalf("%d, Location %q, want %q: %s", r.Code, location, want, r.Body)
	}
	for _, path := range []string{location, strings.ToLower(location), "/v1/jobs/" + topic + "/" + id, "/v1/jobs/" + topic + "/" + url.PathEscape(id)} {
		if got := a.want(200, "GET", path, ""); got["topic"] != topic || got["id"] != id || got["biz_key"] != "طلب" {
			t.Errorf("GET %s: %v", path, got)
		}
		a.want(200, "PATCH", path, `{"delay":"2h"}`)
		a.want(200, "GET", path+"/explain", "")
	}
	for _, query := range []string{"topic=" + url.QueryEscape(topic), "biz_key=" + url.QueryEscape("طلب"), "topic=" + topic + "&id=" + url.QueryEscape("заказ")} {
		if got := a.want(200, "GET", "/v1/jobs?"+query, "")["data"].([]any); len(got) != 1 {
			t.Errorf("GET ?%s: %v", query, got)
		}
	}
	a.want(201, "PUT", "/v1/topics/"+url.PathEscape(topic), `{"capacity":5}`)
	if got := a.want(200, "GET", "/v1/topics/"+url.PathEscape(topic), ""); got["name"] != topic {
		t.Errorf("the topic: %v", got)
	}
	for _, name := range []string{"😀", "a%E2%80%8Db", "%CC%81a", "%C3", strings.Repeat("订", 43)} {
		a.wantProblem(httpapi.CodeInvalidRequest, "GET", "/v1/jobs/t/"+name, "")
	}
	a.wantProblem(httpapi.CodeInvalidRequest, "POST", "/v1/jobs", `{"url":"https://shop.example/hook","topic":"😀"}`)
}
