package v1

import (
	"bufio"
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/duehook/duehook/httpapi"
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/services/events"
)

// faultyEvents fails with the jobs' store.
type faultyEvents struct {
	Events
	faults *faultyStore
}

func (f faultyEvents) Watch(ctx context.Context, after string) (*events.Watcher, error) {
	if err := f.faults.err(); err != nil {
		return nil, err
	}
	return f.Events.Watch(ctx, after)
}

// newEvents runs a hub that is ready.
func (a *api) newEvents() *events.Hub {
	a.t.Helper()
	hub := events.New(events.Options{Bus: a.mem})
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- hub.Run(ctx) }()
	a.t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			a.t.Error(err)
		}
	})
	w, err := hub.Watch(ctx, "")
	if err != nil {
		a.t.Fatal(err)
	}
	w.Close()
	return hub
}

// stream is what a client reads of GET /v1/events.
type stream struct {
	t     *testing.T
	lines *bufio.Scanner
	close func()
}

func (s *serving) watch(t *testing.T, query string, headers ...string) *stream {
	t.Helper()
	ctx, end := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(end)
	r, err := http.NewRequestWithContext(ctx, "GET", s.url+eventsPath+query, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	got, err := s.client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = got.Body.Close() })
	if got.StatusCode != 200 || got.Header.Get("Content-Type") != mimeEvents {
		t.Fatalf("%s %v", got.Status, got.Header)
	}
	st := &stream{t: t, lines: bufio.NewScanner(got.Body), close: end}
	if first := st.next(); first["retry"] != "2000" {
		t.Errorf("it begins with %v", first)
	}
	return st
}

// next gives the fields of the next event; nil at the end of the stream.
func (s *stream) next() map[string]string {
	s.t.Helper()
	fields := map[string]string{}
	for s.lines.Scan() {
		line := s.lines.Text()
		if line == "" {
			return fields
		}
		name, value, _ := strings.Cut(line, ": ")
		fields[name] = value
	}
	return nil
}

func TestEventStream(t *testing.T) {
	s := serve(t)
	all, some := s.watch(t, ""), s.watch(t, "?type=dead,failed&topic=t&endpoint=https://a.example:443")
	at := job.InstantOf(time.Date(2026, 1, 2, 3, 4, 5, 6e6, time.UTC))
	s.events.Emit(
		events.Event{Type: events.Registered, At: at, Topic: "t", JobID: "1", UID: "u", Endpoint: "https://a.example:443", NextAt: at},
		events.Event{Type: events.Dead, At: at, Topic: "t", JobID: "1", Endpoint: "https://b.example:443"},
		events.Event{Type: events.Dead, At: at, Topic: "other", JobID: "1", Endpoint: "https://a.example:443"},
		events.Event{Type: events.Dead, At: at, Topic: "t", JobID: "2", Endpoint: "https://a.example:443", Status: 500, Error: "http_500", Reason: "retry_limit", Attempts: 3},
	)
	first := all.next()
	want := map[string]string{
		"id": first["id"], "event": "registered",
		"data": `{"type":"registered","at":"2026-01-02T03:04:05.006Z","topic":"t","id":"1","uid":"u","endpoint":"https://a.example:443","next_at":"2026-01-02T03:04:05.006Z"}`,
	}
	if diff := cmp.Diff(want, first); diff != "" || first["id"] == "" {
		t.Errorf("the first event (-want +got):\n%s", diff)
	}
	picked := some.next()
	want = map[string]string{
		"id": picked["id"], "event": "dead",
		"data": `{"type":"dead","at":"2026-01-02T03:04:05.006Z","topic":"t","id":"2","endpoint":"https://a.example:443","attempts":3,"status":500,"error":"http_500","reason":"retry_limit"}`,
	}
	if diff := cmp.Diff(want, picked); diff != "" {
		t.Errorf("the event that was asked for (-want +got):\n%s", diff)
	}
	if err := theContract().validate("/components/schemas/Event", []byte(picked["data"])); err != nil {
		t.Error(err)
	}
	again := s.watch(t, "?type=dead", "Last-Event-ID", first["id"])
	for _, id := range []string{"b.example", "other", `"id":"2"`} {
		if e := again.next(); !strings.Contains(e["data"], id) {
			t.Errorf("coming back: %v, want %s", e, id)
		}
	}
	if e := s.watch(t, "?type=dead", "Last-Event-ID", "unknown").next(); e["event"] != "gap" {
		t.Errorf("coming back too late: %v", e)
	}

	// Streams do not hold the server up when it stops.
	s.stop()
	if e := some.next(); e != nil {
		t.Errorf("after the end: %v", e)
	}
	if err := <-s.ended; err != nil {
		t.Error(err)
	}
}

// Each filter of the stream selects events.
func TestEventFilters(t *testing.T) {
	dead := events.Event{
		Type: events.Dead, Topic: "t", JobID: "order-1:eu", UID: "01KDWCJ2M02ZGTXB0B12BQ2R6Z", Endpoint: "https://a.example:443", Reason: "retry_limit",
		Facts: events.Facts{
			BizKey: "b", OrderKey: "k", Group: "g", Dialect: "qstash", Labels: []job.Label{{Key: "shop", Value: "7"}, {Key: "env", Value: "test"}}, CreatedAt: 1_700_000_000_000,
		},
	}
	nightly := events.Event{Type: events.ScheduleDeleted, Topic: "t", Schedule: "nightly"}
	for text, want := range map[string][2]bool{
		"": {true, true}, "topic=t": {true, true}, "topic=o": {}, "id=order-": {true, false}, "id=rder": {}, "uid=01kdwcj2m02zgtxb0b12bq2r6z": {true, false},
		"uid=01KDWCJ2M02ZGTXB0B12BQ2R60": {}, "endpoint=https://a.example/path": {true, false}, "schedule=nightly": {false, true}, "schedule=daily": {},
		"dialect=qstash": {true, false}, "dialect=other": {}, "biz_key=b": {true, false}, "biz_key=c": {}, "order_key=k": {true, false}, "order_key=l": {}, "group_id=order-1": {true, false}, "group_id=order": {},
		"labels=shop:7": {true, false}, "labels=shop:7,env:test": {true, false}, "labels=shop:7&labels=env:live": {}, "priority=5": {true, false}, "priority=1": {},
		"created_from=1700000000": {true, false}, "created_from=1700000000001": {}, "created_to=1700000001": {true, false}, "created_to=1700000000": {},
		"reason=retry_limit": {true, false}, "type=dead": {true, false}, "type=dead&id=order-2": {},
	} {
		r := &request{Call: &httpapi.Call{Request: httptest.NewRequest("GET", "/v1/events?"+text, http.NoBody)}, row: &route{query: eventQuery}}
		if err := r.readQuery(); err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got := [2]bool{r.query.admits(&dead), r.query.admits(&nightly)}; got != want || !r.query.admits(&events.Event{Type: events.Gap}) {
			t.Errorf("%s: %v, want %v", text, got, want)
		}
	}
}

func TestEventStreamRefusals(t *testing.T) {
	a := newAPI(t)
	a.refuses("GET", eventsPath, map[string]string{
		"?type=born": "?type", "?type=": "?type", "?topic=a/b": "?topic", "?endpoint=nowhere": "?endpoint",
	})
	a.wantProblem(httpapi.CodeInvalidRequest, "GET", eventsPath, "", "Last-Event-ID", strings.Repeat("x", events.MaxID+1))
	if got := a.call("HEAD", eventsPath, ""); got.Code != 200 || got.Body.Len() != 0 {
		t.Errorf("HEAD: %d %s", got.Code, got.Body)
	}
}
