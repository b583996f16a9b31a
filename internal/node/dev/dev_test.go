package dev_test

import (
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/duehook/duehook/client"
	"github.com/duehook/duehook/duehooktest"
	"github.com/duehook/duehook/internal/node/dev"
	"github.com/duehook/duehook/internal/testing/testenv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// server is a duehook whose clock stands still.
type server struct {
	*duehooktest.Server
	*testing.T
	start time.Time
}

func start(t *testing.T, settings ...string) *server {
	s := duehooktest.Start(t, settings...)
	return &server{s, t, s.Now()}
}

func (s *server) register(r client.Registration) client.RegisteredJob {
	s.Helper()
	j, err := s.Client.Register(s.T.Context(), r)
	if err != nil {
		s.Fatal(err)
	}
	return j
}

// got are the requests of a sink: the job and the time since the start.
func (s *server) got(sink string) (list []string) {
	for _, r := range s.Sink(sink).Requests() {
		list = append(list, r.Headers["duehook-job-id"]+" "+r.At.Sub(s.start).String())
	}
	return list
}

func (s *server) want(sink string, want ...string) {
	s.Helper()
	if diff := cmp.Diff(want, s.got(sink)); diff != "" {
		s.Errorf("sink %s (-want +got):\n%s", sink, diff)
	}
}

func (s *server) state(topic, id string, want client.State) {
	s.Helper()
	j, err := s.Client.Job(s.T.Context(), topic, id)
	if err != nil || j.State != want {
		s.Errorf("%s/%s is %s, not %s: %v", topic, id, j.State, want, err)
	}
}

func minutes(n int) client.Duration { return client.Duration(time.Duration(n) * time.Minute) }

func TestLadderOf25Hours(t *testing.T) {
	s := start(t)
	s.Sink("a").Answer(duehooktest.Answer{Status: 503})
	s.register(client.Registration{ID: "a", URL: s.Sink("a").URL("/x"), Delay: minutes(1)})
	if n := s.Advance(26 * time.Hour); n != 10 {
		t.Errorf("%d attempts", n)
	}
	s.want("a", "a 1m0s", "a 1m15s", "a 4m15s", "a 14m15s", "a 44m15s", "a 1h14m15s", "a 2h14m15s", "a 4h14m15s", "a 10h14m15s", "a 25h14m15s")
	s.state("default", "a", client.StateDead)
	if !s.Now().Equal(s.start.Add(26 * time.Hour)) {
		t.Errorf("it is %v", s.Now())
	}
}

// A delivery, its callback, and a job that a receiver registers follow each other at their times.
func TestConsequences(t *testing.T) {
	s := start(t)
	receiver := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		s.register(client.Registration{ID: "second", URL: s.Sink("a").URL("/"), Delay: minutes(10)})
	}))
	defer receiver.Close()
	s.register(client.Registration{ID: "first", URL: receiver.URL, Delay: minutes(1), Callbacks: &client.Callbacks{Delivered: &client.Callback{URL: s.Sink("cb").URL("/")}}})
	if n := s.Advance(time.Hour); n != 3 {
		t.Errorf("%d attempts", n)
	}
	s.want("a", "second 11m0s")
	if got := s.Sink("cb").Requests(); len(got) != 1 || got[0].At.Sub(s.start) != time.Minute {
		t.Errorf("the callback: %v", got)
	}
}

func TestSchedule(t *testing.T) {
	s := start(t)
	d := client.ScheduleDraft{Every: client.Duration(24 * time.Hour), Job: client.Registration{Topic: "s", URL: s.Sink("a").URL("/")}}
	if _, err := s.Client.PutSchedule(t.Context(), "daily", d); err != nil {
		t.Fatal(err)
	}
	if n := s.Advance(7 * 24 * time.Hour); n != 7 {
		t.Errorf("%d attempts", n)
	}
	r := s.Sink("a").Requests()
	for i := range r {
		if got := r[i].At.Format(time.RFC3339Nano); got != r[i].Headers["duehook-due-at"][:len(got)-1]+"Z" && !strings.HasPrefix(r[i].Headers["duehook-due-at"], got[:len(got)-1]) {
			t.Errorf("an occurrence due at %s came at %s", r[i].Headers["duehook-due-at"], got)
		}
		if i > 0 && r[i].At.Sub(r[i-1].At) != 24*time.Hour {
			t.Errorf("%v after the one before", r[i].At.Sub(r[i-1].At))
		}
	}
}

func TestTTL(t *testing.T) {
	s := start(t)
	s.Sink("a").Answer(duehooktest.Answer{Status: 500})
	s.register(client.Registration{ID: "a", URL: s.Sink("a").URL("/"), Delay: minutes(1), TTL: minutes(10)})
	s.Advance(10*time.Minute - time.Millisecond)
	s.state("default", "a", client.StateRetrying)
	s.Advance(time.Millisecond)
	s.state("default", "a", client.StateExpired)
	s.want("a", "a 1m0s", "a 1m15s", "a 4m15s")
}

func TestCircuit(t *testing.T) {
	s := start(t, "--breaker-failures=3", "--breaker-open=1m")
	fails := duehooktest.Answer{Status: 500}
	s.Sink("a").Answer(fails, fails, fails, duehooktest.Answer{Status: 200})
	for i := range 5 {
		s.register(client.Registration{ID: string(rune('0' + i)), URL: "http://a.sink/", Delay: client.Duration(time.Duration(i+1) * time.Second), Retry: &client.Retry{Steps: []client.Duration{minutes(60)}}})
	}
	s.Advance(10 * time.Minute)
	got := s.got("a")
	// The circuit opened at 3 s for a minute. Its end brings retries forward.
	if diff := cmp.Diff([]string{"0 1s", "1 2s", "2 3s"}, got[:3]); diff != "" {
		t.Error(diff)
	}
	slices.Sort(got[3:5])
	if diff := cmp.Diff([]string{"3 1m3s", "4 1m3s"}, got[3:5]); diff != "" {
		t.Error(diff)
	}
}

func TestDelayOfASink(t *testing.T) {
	s := start(t)
	s.Sink("slow").Answer(duehooktest.Answer{Status: 200, Delay: 2 * time.Second})
	s.Sink("late").Answer(duehooktest.Answer{Status: 200, Delay: time.Hour}, duehooktest.Answer{Status: 200})
	for _, id := range []string{"slow", "late"} {
		s.register(client.Registration{ID: id, URL: s.Sink(id).URL("/"), Delay: minutes(1), Timeout: client.Duration(5 * time.Second)})
	}
	s.Advance(time.Minute + time.Second)
	s.state("default", "slow", client.StateRunning)
	s.Advance(time.Second)
	s.state("default", "slow", client.StateDelivered)
	s.Advance(time.Minute)
	s.want("late", "late 1m0s", "late 1m20s") // a timeout, and the first step
	for a, err := range s.Client.Attempts(t.Context(), "default", "late") {
		if err != nil || a.Number == 1 && (a.Error != "response_timeout" || a.DurationMS != 5000) {
			t.Errorf("%+v, %v", a, err)
		}
	}
}

// A receiver that never answers costs a call one timeout, and then little for each attempt.
func TestHangingReceiver(t *testing.T) {
	s := start(t)
	ended := make(chan struct{})
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // so that the end of the connection is seen
		select {
		case <-r.Context().Done():
		case <-ended:
		}
	}))
	defer receiver.Close()
	defer close(ended)
	s.register(client.Registration{ID: "a", URL: receiver.URL, Delay: minutes(1), Timeout: client.Duration(time.Second)})
	s.register(client.Registration{ID: "b", URL: s.Sink("b").URL("/"), Delay: minutes(2)})
	if n := s.Advance(10 * time.Minute); n != 4 {
		t.Errorf("%d attempts", n)
	}
	s.want("b", "b 2m0s")
	for a, err := range s.Client.Attempts(t.Context(), "default", "a") {
		// On a busy machine, the time may pass before there is a connection.
		if err != nil || a.Error != "response_timeout" && a.Error != "connect_timeout" {
			t.Errorf("%+v, %v", a, err)
		}
	}
}

// call makes a call that the Go client does not have.
func (s *server) call(method, path, body string, want int) map[string]any {
	s.Helper()
	req, err := http.NewRequestWithContext(s.T.Context(), method, s.URL+path, strings.NewReader(body))
	if err != nil {
		s.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		s.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, _ := io.ReadAll(resp.Body)
	if resp.StatusCode != want {
		s.Errorf("%s %s %s: %d %s, not %d", method, path, body, resp.StatusCode, text, want)
	}
	var object map[string]any
	if len(text) > 0 && json.Unmarshal(text, &object) != nil {
		s.Errorf("%s %s: %s", method, path, text)
	}
	return object
}

func TestCalls(t *testing.T) {
	s := start(t)
	defer http.DefaultClient.CloseIdleConnections()
	at := func(d time.Duration) string { return s.start.Add(d).Format("2006-01-02T15:04:05.000Z") }
	equal := func(got map[string]any, want map[string]any) {
		t.Helper()
		for name, v := range want {
			if diff := cmp.Diff(v, got[name]); diff != "" {
				t.Errorf("%s (-want +got):\n%s", name, diff)
			}
		}
	}
	equal(s.call("GET", "/v1/dev/clock", "", 200), map[string]any{"now": at(0), "speed": 1.0, "frozen": true, "next": nil})
	s.register(client.Registration{ID: "a", URL: "http://sink/x/any/path?q=1", Delay: minutes(1), Body: map[string]int{"a": 1}})
	equal(s.call("GET", "/v1/dev/clock", "", 200), map[string]any{"next": at(time.Minute)})
	sink := s.call("PUT", "/v1/dev/sinks/x", `{"answers":[{"status":503},{"body":"success","delay":"2s"}]}`, 201)
	equal(sink, map[string]any{"name": "x", "requests": []any{}, "total": 0.0, "url": "http://sink/x"})
	s.call("PUT", "/v1/dev/sinks/x", `{"answers":[{"status":503},{"body":"success","headers":{"x-a":"b"},"delay":2}]}`, 200)
	equal(s.call("POST", "/v1/dev/clock", `{"advance":"61s"}`, 200), map[string]any{"now": at(61 * time.Second), "attempts": 1.0, "next": at(75 * time.Second)})
	equal(s.call("POST", "/v1/dev/clock", `{"to":"`+at(time.Hour)+`"}`, 200), map[string]any{"now": at(time.Hour), "attempts": 1.0, "next": nil})
	sink = s.call("GET", "/v1/dev/sinks/x", "", 200)
	requests := sink["requests"].([]any)
	if len(requests) != 2 {
		t.Fatalf("requests: %v", requests)
	}
	equal(requests[0].(map[string]any), map[string]any{"at": at(time.Minute), "method": "POST", "path": "/any/path?q=1", "body": `{"a":1}`, "signature": "valid"})
	equal(s.call("GET", "/v1/dev/sinks", "", 200), map[string]any{"data": []any{map[string]any{"name": "x", "url": "http://sink/x", "total": 2.0, "answers": sink["answers"]}}})
	s.call("DELETE", "/v1/dev/sinks/x", "", 204)
	s.call("DELETE", "/v1/dev/sinks/x", "", 204)
	equal(s.call("GET", "/v1/dev/sinks/x", "", 404), map[string]any{"code": "sink_not_found"})
	equal(s.call("POST", "/v1/dev/clock", `{"speed":240}`, 200), map[string]any{"speed": 240.0, "frozen": false, "attempts": 0.0})
	equal(s.call("POST", "/v1/dev/clock", `{"frozen":true}`, 200), map[string]any{"speed": 240.0, "frozen": true})
	equal(s.call("POST", "/v1/dev/clock", `{"frozen":false}`, 200), map[string]any{"speed": 240.0, "frozen": false})

	for _, body := range []string{
		`{}`, `{"advance":"1h","speed":2}`, `{"advance":"-1h"}`, `{"advance":"soon"}`, `{"advance":true}`, `{"advance":"101y"}`, `{"advance":3200000000}`,
		`{"to":"2020-01-01T00:00:00Z"}`, `{"to":"2300-01-01T00:00:00Z"}`, `{"to":"noon"}`, `{"speed":0}`, `{"speed":10001}`, `{"speed":"fast"}`, `{"frozen":"yes"}`, `{"froze":true}`, `[]`,
	} {
		if p := s.call("POST", "/v1/dev/clock", body, 422); p["code"] != "invalid_request" || len(p["errors"].([]any)) != 1 {
			t.Errorf("%s: %v", body, p)
		}
	}
	for body, want := range map[string]string{
		`{"advance":"-1h"}`: "/advance", `{"advance":[]}`: "/advance", `{"speed":"fast"}`: "/speed", `{"froze":true}`: "", `[]`: "",
	} {
		p := s.call("POST", "/v1/dev/clock", body, 422)
		if got := p["errors"].([]any)[0].(map[string]any); got["pointer"] != want || got["message"] == "" {
			t.Errorf("%s: %v, not of %q", body, got, want)
		}
	}
	for body, want := range map[string]string{
		`{"answers":[{"status":199}]}`: "/answers/0/status", `{"answers":[{},{"status":600}]}`: "/answers/1/status", `{"answers":[{},{"status":"503"}]}`: "/answers/1/status",
		`{"answers":[{"delay":"25h"}]}`: "/answers/0/delay", `{"answers":[{},{"delay":"soon"}]}`: "/answers/1/delay",
		`{"answers":[{},{"headers":{"a":1}}]}`: "/answers/1/headers", `{"answers":[{"headers":{"a b":"c"}}]}`: "/answers/0/headers/a b",
		`{"answers":[{},{"stat":200}]}`: "/answers/1", `{"answers":[{},503]}`: "/answers/1", `{"answers":{}}`: "/answers", `{"answer":[]}`: "",
		`{"answers":[` + strings.Repeat("{},", 100) + `{}]}`: "/answers",
	} {
		p := s.call("PUT", "/v1/dev/sinks/x", body, 422)
		if got := p["errors"].([]any)[0].(map[string]any); got["pointer"] != want {
			t.Errorf("%s: %v, not of %q", body, got, want)
		}
	}
	s.call("PUT", "/v1/dev/sinks/"+strings.Repeat("x", 101), `{}`, 422)
	s.call("POST", "/v1/dev/clock", `{`, 400)
}

func TestSignature(t *testing.T) {
	for setting, want := range map[string]string{"--signing=on": "valid", "--signing=off": "none"} {
		s := start(t, setting)
		s.register(client.Registration{ID: "a", URL: s.Sink("a").URL("/"), Delay: minutes(1), Headers: map[string]string{"x-mine": "1"}})
		s.Advance(time.Minute)
		if got := s.Sink("a").Requests(); len(got) != 1 || got[0].Signature != want || got[0].Headers["x-mine"] != "1" {
			t.Errorf("%s: %v", setting, got)
		}
	}
}

func TestSettings(t *testing.T) {
	for _, arg := range []string{"--redis-url=redis://127.0.0.1", "--data-dir=/tmp/x", "--no-such-flag", "--addr=0.0.0.0:0"} {
		if c, err := dev.Settings([]string{arg}); err == nil {
			t.Errorf("%s is accepted: %+v", arg, c)
		}
	}
}

// The document describes each call, and no other.
func TestDocument(t *testing.T) {
	text, err := dev.OpenAPI()
	if err != nil {
		t.Fatal(err)
	}
	var document struct {
		Paths map[string]map[string]any `json:"paths"`
	}
	if err := json.Unmarshal(text, &document); err != nil {
		t.Fatal(err)
	}
	var described, served []string
	for path, methods := range document.Paths {
		for method := range maps.Keys(methods) {
			if method != "parameters" {
				described = append(described, strings.ToUpper(method)+" "+path)
			}
		}
	}
	for _, r := range dev.New(true).Dialect().Routes {
		served = append(served, r.Method+" "+r.Path)
	}
	slices.Sort(described)
	slices.Sort(served)
	if diff := cmp.Diff(served, described); diff != "" {
		t.Errorf("(-served +described):\n%s", diff)
	}
	if own, err := os.ReadFile("../../../httpapi/openapi.yaml"); err != nil || strings.Contains(string(own), "/v1/dev/") {
		t.Errorf("the document of servers describes calls of the dev server: %v", err)
	}
}

// Calls of consumers that wait get what a turn of the clock makes due. Leases end by the clock, and a late
// answer changes nothing.
func TestPull(t *testing.T) {
	s := start(t)
	s.register(client.Registration{Topic: "p", ID: "a", Pull: true, Delay: minutes(60), Retry: &client.Retry{Steps: []client.Duration{minutes(5)}}})
	pull := func(wait time.Duration) []client.LeasedJob {
		t.Helper()
		jobs, err := s.Client.Pull(s.T.Context(), client.PullRequest{Topics: []string{"p"}, Wait: client.Duration(wait), Lease: minutes(1)})
		if err != nil {
			t.Fatal(err)
		}
		return jobs
	}
	woken := make(chan []client.LeasedJob)
	go func() {
		jobs, _ := s.Client.Pull(s.T.Context(), client.PullRequest{Topics: []string{"p"}, Wait: minutes(1), Lease: minutes(1)})
		woken <- jobs
	}()
	s.metric("duehook_pull_waiting 1")
	s.Advance(time.Minute) // nothing is due: the call goes on
	s.Advance(59 * time.Minute)
	first := <-woken
	if len(first) != 1 || first[0].Attempt != 1 || !first[0].LeaseUntil.Equal(s.start.Add(61*time.Minute)) {
		t.Fatalf("at %v, the waiting call got %+v", s.Now().Sub(s.start), first)
	}
	s.Advance(time.Minute - time.Millisecond)
	s.state("p", "a", client.StateRunning)
	s.Advance(time.Millisecond)
	s.state("p", "a", client.StateRetrying)
	if got := pull(0); len(got) != 0 {
		t.Errorf("before the next attempt: %v", got)
	}
	s.Advance(5 * time.Minute)
	second := pull(0)
	if len(second) != 1 || second[0].Attempt != 2 || second[0].Job.LastAttempt.Error != "lease_expired" {
		t.Fatalf("after the lease and the ladder: %+v", second)
	}
	for receipt, want := range map[string]string{first[0].Receipt: "stale", second[0].Receipt: "ok"} {
		if got, err := s.Client.Ack(t.Context(), []string{receipt}); err != nil || got[0].Result != want {
			t.Errorf("%v, %v; want %s", got, err, want)
		}
	}
	s.state("p", "a", client.StateDelivered)
}

// metric waits until the server shows a line among its metrics.
func (s *server) metric(line string) {
	s.Helper()
	testenv.Eventually(s.T, testenv.Patience, func() bool {
		resp, err := http.Get(s.URL + "/metrics")
		if err != nil {
			s.Fatal(err)
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		return err == nil && strings.Contains(string(text), "\n"+line+"\n")
	}, line)
}
