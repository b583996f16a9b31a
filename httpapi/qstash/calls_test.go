package qstash_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/testing/testenv"
)

// want makes a call that must have a status, and decodes its answer.
func (s *server) want(status int, method, target, headers, body string, into ...any) {
	s.T.Helper()
	got, text := s.call(method, s.filled(target), headersOf(s.filled(headers)), s.filled(body))
	if got != status {
		s.T.Fatalf("%s %s: %d %s, want %d", method, target, got, text, status)
	}
	for _, v := range into {
		if err := json.Unmarshal(text, v); err != nil {
			s.T.Fatalf("%s %s: %s: %v", method, target, text, err)
		}
	}
}

type accepted struct {
	MessageID    string
	Deduplicated bool
}

// A message whose id the client chose is found by it in any queue.
func TestChosenIDs(t *testing.T) {
	s := newServer(t)
	for id, target := range map[string]string{"order-1": "/v2/publish/R/a", "order-2": "/v2/enqueue/mine/R/b"} {
		var sent, read accepted
		s.want(200, "POST", target, "Duehook-Id: "+id+"; Upstash-Delay: 1h", "x", &sent)
		s.want(200, "GET", "/v2/messages/"+id, "", "", &read)
		if sent.MessageID != id || read.MessageID != id {
			t.Errorf("%s is %s, read as %s", id, sent.MessageID, read.MessageID)
		}
		s.want(404, "GET", "/v2/messages/"+id+"0", "", "")
		s.want(200, "DELETE", "/v2/messages/"+id, "", "")
		s.want(404, "GET", "/v2/messages/"+id, "", "")
	}
}

// A body with very many names or values is refused before it is decoded: a short one takes a hundred times its bytes.
func TestBodiesWithManyMembers(t *testing.T) {
	s := newServer(t)
	var members strings.Builder
	for i := range 30_000 {
		_, _ = fmt.Fprintf(&members, `"%d":0,`, i)
	}
	body := "{" + members.String() + `"z":0}`
	for _, call := range []string{"GET /v2/dlq", "DELETE /v2/messages", "POST /v2/queues", "POST /v2/topics/g/endpoints"} {
		method, target, _ := strings.Cut(call, " ")
		s.want(400, method, target, "", body)
	}
	s.want(200, "GET", "/v2/dlq", "", `{"other":[0,0]}`)
}

// The messages of a URL group have ids of their own, also if the client chose one for the call.
func TestChosenIDsAtGroups(t *testing.T) {
	s := newServer(t)
	s.want(200, "POST", "/v2/topics/paid/endpoints", "Content-Type: application/json", `{"endpoints":[{"url":"http://a.example/","name":"a"},{"url":"http://b.example/"}]}`)
	var sent, again []accepted
	s.want(200, "POST", "/v2/publish/paid", "Duehook-Id: order-1; Upstash-Delay: 1h", "x", &sent)
	s.want(202, "POST", "/v2/publish/paid", "Duehook-Id: order-1; Upstash-Delay: 1h", "x", &again)
	if len(sent) != 2 || len(again) != 2 {
		t.Fatalf("%v, and again %v", sent, again)
	}
	for i := range sent {
		var read accepted
		s.want(200, "GET", "/v2/messages/"+sent[i].MessageID, "", "", &read)
		if read.MessageID != sent[i].MessageID || again[i].MessageID != sent[i].MessageID || !again[i].Deduplicated {
			t.Errorf("%v is read as %v, and sent again as %v", sent[i], read, again[i])
		}
	}
	s.want(404, "GET", "/v2/messages/order-1", "", "")
}

func TestPages(t *testing.T) {
	s := newServer(t)
	sent := map[string]bool{}
	for range 5 {
		var m accepted
		s.want(200, "POST", "/v2/publish/R/fails", "Upstash-Retries: 0", "x", &m)
		sent[m.MessageID] = true
	}
	type page struct {
		Messages []struct{ MessageID, DlqID string }
		Events   []struct {
			MessageID, State string
			Time             int64
		}
		Cursor *string
	}
	testenv.Eventually(t, patience, func() bool {
		var all page
		s.want(200, "GET", "/v2/dlq", "", "", &all)
		return len(all.Messages) == 5
	}, "five dead letters")
	seen, cursor, pages := map[string]bool{}, "", 0
	for more := true; more; pages++ {
		var p page
		s.want(200, "GET", "/v2/dlq?count=2&cursor="+cursor, "", "", &p)
		for _, m := range p.Messages {
			seen[m.MessageID] = true
		}
		if more = p.Cursor != nil; more {
			cursor = *p.Cursor
		}
		if len(p.Messages) > 2 || more && cursor == "" {
			t.Fatalf("a page of %d with the cursor %q", len(p.Messages), cursor)
		}
	}
	if len(seen) != 5 || pages > 4 {
		t.Errorf("%d of 5 on %d pages", len(seen), pages)
	}
	events, cursor := []string{}, ""
	for more := true; more; {
		var p page
		s.want(200, "GET", "/v2/logs?count=3&cursor="+cursor, "", "", &p)
		for _, e := range p.Events {
			events = append(events, e.MessageID+" "+e.State)
		}
		if more = p.Cursor != nil; more {
			cursor = *p.Cursor
		}
	}
	once := slices.Compact(slices.Sorted(slices.Values(events)))
	if len(events) != 20 || len(once) != 20 {
		t.Errorf("%d events, of which %d differ: %q", len(events), len(once), events)
	}
	var deleted struct{ Deleted int }
	s.want(200, "DELETE", "/v2/dlq?count=2", "", "", &deleted)
	s.want(200, "DELETE", "/v2/dlq", "", "", &deleted)
	if deleted.Deleted != 3 {
		t.Errorf("deleted %d at last", deleted.Deleted)
	}
	s.want(400, "GET", "/v2/dlq?host=h", "", "")
	s.want(400, "GET", "/v2/dlq?count=0", "", "")
}

// Each event of a message repeats its body. An answer has as many as fit.
func TestPagesOfLargeMessages(t *testing.T) {
	s := newServer(t)
	var m accepted
	s.want(200, "POST", "/v2/publish/R/fails", "Upstash-Retries: 9; Upstash-Retry-Delay: 1", strings.Repeat("\x01", 250<<10), &m)
	testenv.Eventually(t, patience, func() bool {
		code, _ := s.Call("GET", "/v2/dlq/"+strings.Replace(m.MessageID, "msg_", "dlq_", 1), nil, "")
		return code == 200
	}, "a dead letter")
	const most = 5 << 20 // 4 MiB, and an event
	events, cursor, pages := 0, "", 0
	for more := true; more; pages++ {
		code, text := s.Call("GET", "/v2/logs?count=1000&cursor="+cursor, nil, "")
		var p struct {
			Events []struct{ State string }
			Logs   []struct{ State string }
			Cursor *string
		}
		if err := json.Unmarshal(text, &p); err != nil || code != 200 || len(text) > 2*most { // events and logs are the same
			t.Fatalf("a page of %d bytes: %d %v", len(text), code, err)
		}
		events += len(p.Events)
		if more = p.Cursor != nil; more {
			cursor = *p.Cursor
		}
	}
	if events != 31 || pages < 3 { // created, then active, error and retry or failed of ten attempts
		t.Errorf("%d events on %d pages", events, pages)
	}
	ids := strings.Repeat(","+m.MessageID, 100)
	for _, target := range []string{"/v2/logs?messageIds=", "/v2/dlq?dlqIds="} {
		if code, text := s.Call("GET", target+strings.ReplaceAll(ids, "msg_", map[bool]string{true: "dlq_", false: "msg_"}[strings.Contains(target, "dlq")]), nil, ""); code != 400 || !strings.Contains(string(text), "MiB") {
			t.Errorf("%s of 100 large messages: %d %.100s", target, code, text)
		}
	}
}

// A deleted queue leaves no message, however many it had.
func TestDeleteLongQueue(t *testing.T) {
	s := newServer(t)
	const most = 12_100 // more than one page of a call looks at
	for n := 0; n < most; n += 100 {
		s.want(200, "POST", "/v2/batch", "", "["+strings.Repeat(`{"destination":"R/paid","queue":"long","headers":{"Upstash-Delay":"1h"}},`, 99)+`{"destination":"R/paid","queue":"long","headers":{"Upstash-Delay":"1h"}}]`)
	}
	var q struct{ Lag int }
	if s.want(200, "GET", "/v2/queues/long", "", "", &q); q.Lag != most {
		t.Fatalf("the queue has %d messages", q.Lag)
	}
	s.want(200, "DELETE", "/v2/queues/long", "", "")
	s.want(404, "GET", "/v2/queues/long", "", "")
	var topic struct{ States map[string]int }
	if s.want(200, "GET", "/v1/topics/qstash:queue:long", "", "", &topic); topic.States["waiting"] != 0 || topic.States["cancelled"] != most {
		t.Errorf("the deleted queue has %v", topic.States)
	}
}

// A flow-control key is text: other bytes are refused wherever a call names one.
func TestFlowKeysAreUTF8(t *testing.T) {
	s := newServer(t)
	for _, key := range []string{"\xff", "k\xc3", "\xed\xa0\x80"} {
		h := http.Header{"Upstash-Flow-Control-Key": {key}, "Upstash-Flow-Control-Value": {"parallelism=1"}}
		if got, text := s.call("POST", s.filled("/v2/publish/R/paid"), h, "x"); got != 400 || !strings.Contains(string(text), "UTF-8") {
			t.Errorf("publishing with the key %q: %d %s", key, got, text)
		}
		path := "/v2/flowControl/" + url.PathEscape(key)
		for _, call := range []string{"GET " + path, "POST " + path + "/pause"} {
			method, target, _ := strings.Cut(call, " ")
			if got, text := s.call(method, target, nil, ""); got != 400 || !strings.Contains(string(text), "UTF-8") {
				t.Errorf("%s: %d %s", call, got, text)
			}
		}
	}
	s.want(200, "POST", "/v2/publish/R/paid", "Upstash-Flow-Control-Key: ключ; Upstash-Flow-Control-Value: parallelism=1", "x")
}

// A queue sends one message after the other, in their order, also if one fails at first.
func TestQueueKeepsTheOrder(t *testing.T) {
	s := newServer(t)
	s.want(200, "POST", "/v2/queues", "", `{"queueName":"q","paused":true}`)
	for n := range 3 {
		target := "R/paid"
		if n == 0 {
			target = "R/fails"
		}
		s.want(200, "POST", "/v2/enqueue/q/"+target, "Upstash-Retries: 1; Upstash-Retry-Delay: 300", fmt.Sprint(n))
	}
	s.want(200, "POST", "/v2/queues/q/resume", "", "")
	var got []string
	for len(got) < 4 {
		got = append(got, string((<-s.Deliveries).Content))
	}
	if strings.Join(got, " ") != "0 0 1 2" {
		t.Errorf("delivered in the order %q", got)
	}
	s.want(200, "POST", "/v2/queues/q/pause", "", "")
	s.want(200, "POST", "/v2/enqueue/q/R/paid", "", "")
	s.want(200, "DELETE", "/v2/queues/q", "", "")
	s.want(404, "GET", "/v2/queues/q", "", "")
	var c struct{ Cancelled int }
	s.want(200, "DELETE", "/v2/messages?queueName=q", "", "", &c)
	if c.Cancelled != 0 {
		t.Errorf("the deleted queue had %d messages", c.Cancelled)
	}
}

// A queue and a flow-control key that an operator limits keep these limits, whatever messages and calls set beside them.
func TestLimitsOfOperators(t *testing.T) {
	s := newServer(t)
	const queue, key = "/v1/topics/qstash:queue:q", "/v1/topics/qstash:flow:k"
	for _, topic := range []string{queue, key} {
		s.want(201, "PUT", topic+"/limits", "Content-Type: application/json", `{"concurrency":2,"rate":0.5}`)
	}
	s.want(200, "POST", "/v2/queues", "", `{"queueName":"q","parallelism":5}`)
	s.want(200, "POST", "/v2/publish/R/paid", "Upstash-Flow-Control-Key: k; Upstash-Flow-Control-Value: parallelism=9,rate=100; Upstash-Delay: 1h", "x")
	s.want(200, "DELETE", "/v2/queues/q", "", "")
	for _, topic := range []string{queue, key} {
		var got struct {
			Limits struct{ Concurrency, Rate float64 }
		}
		if s.want(200, "GET", topic, "", "", &got); got.Limits.Concurrency != 2 || got.Limits.Rate != 0.5 {
			t.Errorf("%s has the limits %+v", topic, got.Limits)
		}
	}
	s.want(404, "GET", "/v2/queues/q", "", "")
	var queues []json.RawMessage
	if s.want(200, "GET", "/v2/queues", "", "", &queues); len(queues) != 0 {
		t.Errorf("after the deletion of the only queue there is %s", queues)
	}
}

// A deduplication id is taken whatever became of its message, except that a cancelled message frees it, and at a group for each endpoint.
func TestDeduplication(t *testing.T) {
	s := newServer(t)
	var first, second accepted
	s.want(200, "POST", "/v2/publish/R/paid", "Upstash-Content-Based-Deduplication: True; Upstash-Delay: 1h", "x", &first)
	s.want(202, "POST", "/v2/publish/R/paid", "Upstash-Content-Based-Deduplication: true", "x", &second)
	if second != (accepted{first.MessageID, true}) {
		t.Errorf("%+v after %+v", second, first)
	}
	for range 2 {
		s.want(200, "DELETE", "/v2/messages/"+first.MessageID, "", "")
		var third accepted
		s.want(200, "POST", "/v2/publish/R/paid", "Upstash-Content-Based-Deduplication: True; Upstash-Delay: 1h", "x", &third)
		if third.Deduplicated || third.MessageID == first.MessageID {
			t.Errorf("after the cancellation of %+v: %+v", first, third)
		}
		first = third
	}
	var other accepted
	s.want(200, "POST", "/v2/publish/R/paid", "Upstash-Content-Based-Deduplication: true", "y", &other)
	if other.Deduplicated {
		t.Error("other content is a duplicate")
	}
	s.want(200, "POST", "/v2/topics/g/endpoints", "", `{"endpoints":[{"url":"R/a"},{"url":"R/b"}]}`)
	var all, again []accepted
	s.want(200, "POST", "/v2/publish/g", "Upstash-Deduplication-Id: 1", "x", &all)
	s.want(202, "POST", "/v2/publish/g", "Upstash-Deduplication-Id: 1", "y", &again)
	if len(again) != 2 || again[0] != (accepted{all[0].MessageID, true}) || !again[1].Deduplicated {
		t.Errorf("%+v after %+v", again, all)
	}
	all, again = nil, nil
	s.want(200, "POST", "/v2/publish/g", "Upstash-Deduplication-Id: 2; Upstash-Delay: 1h", "x", &all)
	s.want(200, "DELETE", "/v2/messages/"+all[0].MessageID, "", "")
	s.want(202, "POST", "/v2/publish/g", "Upstash-Deduplication-Id: 2", "x") // of one endpoint it waits still
	s.want(200, "DELETE", "/v2/messages/"+all[1].MessageID, "", "")
	again = nil
	s.want(200, "POST", "/v2/publish/g", "Upstash-Deduplication-Id: 2; Upstash-Delay: 1h", "x", &again)
	if len(again) != 2 || again[0].Deduplicated || again[1].Deduplicated || again[0] == all[0] {
		t.Errorf("%+v after %+v were cancelled", again, all)
	}
	s.want(404, "POST", "/v2/publish/unknown", "", "")
	var e struct{ Error string }
	s.want(400, "POST", "/v2/publish/R/paid", "Duehook-Dry-Run: maybe", "x", &e)
	if e.Error != "Duehook-Dry-Run must be true or false" {
		t.Errorf("a dry run: %s", e.Error)
	}
	s.want(400, "POST", "/v2/schedules/R/paid", "Upstash-Cron: 0 0 1 1 *; Duehook-Dry-Run: maybe", "x")
	s.want(400, "POST", "/v2/schedules/R/paid", "Upstash-Cron: 0 0 1 1 *; Duehook-Paused: maybe", "x")
}

// A schedule can have a URL group as its destination.
func TestScheduleForAURLGroup(t *testing.T) {
	s := newServer(t)
	s.want(200, "POST", "/v2/schedules/g", "Upstash-Cron: 0 0 1 1 *; Upstash-Schedule-Id: yearly", "x")
	var schedule struct{ ScheduleID, Destination string }
	if s.want(200, "GET", "/v2/schedules/yearly", "", "", &schedule); schedule.ScheduleID != "yearly" || schedule.Destination != "g" {
		t.Errorf("%+v", schedule)
	}
}

// Jobs of the dialect are visible in v1, and a change there keeps their contract.
func TestBesideV1(t *testing.T) {
	s := newServer(t)
	var m accepted
	s.want(200, "POST", "/v2/publish/R/get?a=1", "Upstash-Method: GET; Upstash-Delay: 1h; Upstash-Callback: R/done", "", &m)
	target := "/v1/jobs/qstash/" + strings.TrimPrefix(m.MessageID, "msg_")
	var j struct{ Dialect, Method string }
	s.want(200, "GET", target, "", "", &j)
	if j.Dialect != "qstash" || j.Method != "GET" {
		t.Errorf("v1 shows %+v", j)
	}
	s.want(200, "PATCH", target, "Content-Type: application/json", `{"delay":0}`)
	d := s.await("/get?a=1", m.MessageID)
	if d.Method != http.MethodGet || d.UserAgent() != "Upstash-QStash" {
		t.Errorf("%s by %s", d.Method, d.UserAgent())
	}
	s.checkSignature(d)
	s.checkSignature(s.await("/done", ""))

	s.want(200, "POST", "/v2/schedules/R/paid", "Content-Type: text/plain; Upstash-Cron: 0 0 1 1 *; Upstash-Schedule-Id: yearly", "x")
	s.want(200, "PATCH", "/v1/schedules/yearly", "Content-Type: application/json", `{"cron":"0 0 2 1 *"}`)
	var schedule struct{ Cron string }
	s.want(200, "GET", "/v2/schedules/yearly", "", "", &schedule)
	if schedule.Cron != "0 0 2 1 *" {
		t.Errorf("the schedule is %+v", schedule)
	}
	s.want(201, "POST", "/v1/schedules/yearly/run", "", "")
	if d := s.await("/paid", ""); d.Header.Get("Upstash-Schedule-Id") != "yearly" || string(d.Content) != "x" {
		t.Errorf("the schedule delivers %v", d.Header)
	}
	for headers, why := range map[string]string{
		"Upstash-Cron: * * * * * *": "five fields", "": "Upstash-Cron is required", "Upstash-Cron: CRON_TZ=Mars/X 0 0 1 1 *": "zone",
		"Upstash-Cron: 0 0 1 1 *; Upstash-Delay: 1s": "not possible for a schedule",
	} {
		var e struct{ Error string }
		s.want(400, "POST", "/v2/schedules/R/paid", headers, "x", &e)
		if !strings.Contains(e.Error, why) {
			t.Errorf("%s: %s", headers, e.Error)
		}
	}
}

// A dead letter is sent again from the beginning, with what the call changes; nothing is ignored.
func TestRetry(t *testing.T) {
	s := newServer(t)
	var m accepted
	s.want(200, "POST", "/v2/publish/R/fails?n=1", "Upstash-Retries: 0; Upstash-Label: a", "x", &m)
	letter := func() (id string) {
		testenv.Eventually(t, patience, func() bool {
			var all struct{ Messages []struct{ DlqID string } }
			s.want(200, "GET", "/v2/dlq", "", "", &all)
			if len(all.Messages) == 1 {
				id = all.Messages[0].DlqID
			}
			return id != ""
		}, "a dead letter")
		return id
	}
	id := letter()
	for headers, why := range map[string]string{
		"Upstash-Flow-Control-Key: k": "flow-control key", "Upstash-Deduplication-Id: 1": "deduplication id", "Upstash-Redact-Fields: body": "not supported",
	} {
		for _, target := range []string{"/v2/dlq/retry/" + id, "/v2/dlq/retry?dlqIds=" + id, "/v2/dlq/retry?label=a"} {
			var e struct{ Error string }
			s.want(400, "POST", target, headers, "", &e)
			if !strings.Contains(e.Error, why) {
				t.Errorf("%s: %s", headers, e.Error)
			}
		}
	}
	s.want(201, "POST", "/v2/dlq/retry/"+id, "Upstash-Retries: 7; Upstash-Retry-Delay: 3600000; Upstash-Delay: 1h", "")
	var changed struct {
		MaxRetries           int
		RetryDelayExpression string
	}
	s.want(200, "GET", "/v2/messages/"+m.MessageID, "", "", &changed)
	if changed.MaxRetries != 7 || changed.RetryDelayExpression != "3600000" {
		t.Errorf("got %+v", changed)
	}
	s.want(404, "POST", "/v2/dlq/retry/"+id, "", "")
}

// A queue whose topic no job could have is not kept.
func TestLongQueueNames(t *testing.T) {
	s := newServer(t)
	long := strings.Repeat("q", job.MaxName)
	s.want(400, "POST", "/v2/queues/"+long+"/pause", "", "")
	s.want(400, "POST", "/v2/queues", "", `{"queueName":"`+long+`","paused":true}`)
	s.want(404, "GET", "/v2/queues/"+long, "", "")
}

// The server refuses to cancel in the background: no call reports its progress.
func TestAsyncIsRefused(t *testing.T) {
	s := newServer(t)
	s.want(200, "POST", "/v2/publish/R/paid", "Upstash-Delay: 1h", "")
	s.want(400, "DELETE", "/v2/messages?async=true", "", "")
	s.want(400, "DELETE", "/v2/messages", "", `{"async":true}`)
	var c struct{ Cancelled int }
	s.want(200, "DELETE", "/v2/messages?async=false", "", "", &c)
	if c.Cancelled != 1 {
		t.Errorf("cancelled %d", c.Cancelled)
	}
}

// A message moves from one server to another as docs/migrate/qstash.md says; repeating it does no harm.
func TestMovingOver(t *testing.T) {
	original, s := newServer(t), newServer(t)
	var m accepted
	original.want(200, "POST", "/v2/publish/https://shop.example/paid?a=1", "Upstash-Delay: 3d; Upstash-Retries: 5; Upstash-Forward-X-Tenant: acme; Content-Type: text/plain", "x", &m)
	type message struct {
		MessageID, URL, Body string
		MaxRetries           int
		NotBefore, CreatedAt int64
		Header               map[string][]string
	}
	var is, moved message
	var to, again accepted
	original.want(200, "GET", "/v2/messages/"+m.MessageID, "", "", &is)
	headers := fmt.Sprintf("Upstash-Not-Before: %d; Upstash-Retries: %d; Upstash-Deduplication-Id: %s; Content-Type: %s; Upstash-Forward-X-Tenant: %s",
		is.NotBefore/1000, is.MaxRetries, is.MessageID, is.Header["Content-Type"][0], is.Header["X-Tenant"][0])
	s.want(200, "POST", "/v2/publish/"+is.URL, headers, is.Body, &to)
	s.want(202, "POST", "/v2/publish/"+is.URL, headers, is.Body, &again)
	original.want(200, "DELETE", "/v2/messages/"+m.MessageID, "", "")
	original.want(404, "DELETE", "/v2/messages/"+m.MessageID, "", "")
	s.want(200, "GET", "/v2/messages/"+to.MessageID, "", "", &moved)
	moved.MessageID, moved.CreatedAt = is.MessageID, is.CreatedAt
	if is.NotBefore -= is.NotBefore % 1000; again.MessageID != to.MessageID || !reflect.DeepEqual(moved, is) {
		t.Errorf("%+v became %+v", is, moved)
	}
}

// A message of a batch with more headers than any may have is refused before they take memory.
func TestBatchWithManyHeaders(t *testing.T) {
	s := newServer(t)
	batch := func(headers int) string {
		names := make([]string, headers)
		for i := range names {
			names[i] = fmt.Sprintf(`"Upstash-Forward-X-%d":"v"`, i)
		}
		return `[{"destination":"R/a","headers":{"Upstash-Delay":"1h",` + strings.Join(names, ",") + `}}]`
	}
	var sent []accepted
	s.want(200, "POST", "/v2/batch", "", batch(50), &sent)
	if len(sent) != 1 || sent[0].MessageID == "" {
		t.Errorf("%+v", sent)
	}
	s.want(400, "POST", "/v2/batch", "", batch(250))
}
