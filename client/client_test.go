package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/duehook/duehook/client"
)

// impatient repeats at once.
var impatient = client.WithRetrying(client.Retrying{Attempts: 4, Pause: time.Microsecond, Longest: time.Microsecond})

// answering is a server with one answer for each request.
type answering struct {
	*httptest.Server
	mu  sync.Mutex
	all []string // method, path and body of each request
}

func (a *answering) got() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.all)
}

func serve(t *testing.T, answers ...func(w http.ResponseWriter)) *answering {
	t.Helper()
	a := &answering{}
	a.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		a.mu.Lock()
		a.all = append(a.all, fmt.Sprintf("%s %s %s", r.Method, r.URL, body))
		n := len(a.all)
		a.mu.Unlock()
		if n <= len(answers) {
			answers[n-1](w)
			return
		}
		w.WriteHeader(http.StatusTeapot)
	}))
	t.Cleanup(a.Close)
	return a
}

func status(code int, body string) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) {
		w.WriteHeader(code)
		_, _ = io.WriteString(w, body)
	}
}

// broken closes the connection instead of answering.
func broken(w http.ResponseWriter) {
	conn, _, err := w.(http.Hijacker).Hijack()
	if err == nil {
		_ = conn.Close()
	}
}

const (
	unavailable = `{"code":"store_unavailable","detail":"Try again.","status":503}`
	aJob        = `{"topic":"t","id":"a","state":"waiting","next_at":null,"due_at":"2026-01-01T09:00:00.000Z","version":3}`
)

func newClient(t *testing.T, a *answering, options ...client.Option) *client.Client {
	t.Helper()
	c, err := client.New(a.URL, append([]client.Option{impatient}, options...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func TestSafeCallsAreRepeated(t *testing.T) {
	a := serve(t, status(503, unavailable), broken, status(429, `{"code":"rate_limited"}`), status(201, aJob))
	job, err := newClient(t, a).Register(t.Context(), client.Registration{URL: "https://shop.example/"})
	if err != nil || job.Version != 3 || !job.NextAt.IsZero() {
		t.Fatalf("got %+v, %v", job, err)
	}
	var sent client.Registration
	for _, got := range a.got() {
		var r client.Registration
		if err := json.Unmarshal([]byte(got[len("POST /v1/jobs "):]), &r); err != nil {
			t.Fatal(err)
		}
		if r.ID == "" || sent.ID != "" && r.ID != sent.ID {
			t.Errorf("repeated under another id: %q after %q", r.ID, sent.ID)
		}
		sent = r
	}
}

func TestOtherCallsAreNotRepeated(t *testing.T) {
	for name, answer := range map[string]func(http.ResponseWriter){"unavailable": status(503, unavailable), "broken": broken} {
		a := serve(t, answer, status(200, aJob))
		if _, err := newClient(t, a).ReplayJob(t.Context(), "t", "a", nil); err == nil || len(a.got()) != 1 {
			t.Errorf("%s: %d requests, %v", name, len(a.got()), err)
		}
	}
	a := serve(t, status(429, `{"code":"rate_limited"}`), status(200, aJob)) // changed nothing
	if _, err := newClient(t, a).ReplayJob(t.Context(), "t", "a", nil); err != nil || len(a.got()) != 2 {
		t.Errorf("a refused replay: %d requests, %v", len(a.got()), err)
	}
}

func TestErrors(t *testing.T) {
	a := serve(t, status(409, `{"code":"job_dead","title":"Dead","detail":"It is dead.","state":"dead","uid":"01K"}`), status(502, "<html>"),
		status(502, "<html>"), status(502, "<html>"), status(502, "<html>"))
	c := newClient(t, a)
	_, err := c.Register(t.Context(), client.Registration{URL: "https://shop.example/"})
	var refused *client.Error
	if !errors.Is(err, client.ErrJobDead) || errors.Is(err, client.ErrJobExists) || !errors.As(err, &refused) {
		t.Fatalf("got %v", err)
	}
	if refused.Status != 409 || refused.State != client.StateDead || refused.UID != "01K" || refused.Document == nil {
		t.Errorf("got %+v", refused)
	}
	if _, err = c.Job(t.Context(), "t", "a"); !errors.As(err, &refused) || refused.Status != 502 || len(a.got()) != 5 {
		t.Errorf("a proxy's answer: %v after %d requests", err, len(a.got()))
	}
	a.Close()
	if _, err = c.Job(t.Context(), "t", "a"); !errors.Is(err, client.ErrUnreachable) {
		t.Errorf("no server: %v", err)
	}
}

func TestCancelledContextEndsRetrying(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	a := serve(t, func(w http.ResponseWriter) { cancel(); status(503, unavailable)(w) })
	if _, err := newClient(t, a).Job(ctx, "t", "a"); err == nil || len(a.got()) != 1 {
		t.Errorf("%d requests, %v", len(a.got()), err)
	}
	if _, err := newClient(t, a).Job(ctx, "t", "a"); !errors.Is(err, context.Canceled) || errors.Is(err, client.ErrUnreachable) {
		t.Errorf("a call that its caller ended reports %v", err)
	}
}

func TestListsArePaged(t *testing.T) {
	a := serve(t, status(200, `{"data":[`+aJob+`],"next_cursor":"c 1"}`), status(200, `{"data":[],"next_cursor":"c2"}`), status(200, `{"data":[`+aJob+`],"next_cursor":null}`))
	n := 0
	q := client.JobQuery{JobFilter: client.JobFilter{Topic: "a b", State: []client.State{"dead", "expired"}, Labels: map[string]string{"k": "v"}}}
	for j, err := range newClient(t, a).Jobs(t.Context(), q) {
		if err != nil || j.ID != "a" {
			t.Fatalf("got %v, %v", j, err)
		}
		n++
	}
	if n != 2 || len(a.got()) != 3 {
		t.Fatalf("%d jobs of %d pages", n, len(a.got()))
	}
	if want := "GET /v1/jobs?cursor=c+1&labels=k%3Av&state=dead%2Cexpired&topic=a+b "; a.got()[1] != want {
		t.Errorf("got %s, want %s", a.got()[1], want)
	}
}

func TestEventsContinue(t *testing.T) {
	a := serve(t,
		status(200, "retry: 2000\n\nid: 7\nevent: delivered\ndata: {\"type\":\"delivered\",\"id\":\"a\"}\n\n: beat\n\n"),
		status(200, "id: 8\ndata: {\"type\":\"dead\",\"id\":\"b\"}\n\n"),
		status(403, `{"code":"forbidden"}`))
	var got []string
	for e, err := range newClient(t, a).Events(t.Context(), client.EventQuery{}) {
		if err != nil {
			if !errors.Is(err, client.ErrForbidden) {
				t.Error(err)
			}
			break
		}
		got = append(got, e.Type+" "+e.ID)
	}
	if fmt.Sprint(got) != "[delivered a dead b]" || len(a.got()) != 3 {
		t.Errorf("got %v of %d connections", got, len(a.got()))
	}
}

func TestDurations(t *testing.T) {
	for text, want := range map[string]time.Duration{
		`"1d12h"`: 36 * time.Hour, `"1500ms"`: 1500 * time.Millisecond, `"1m30s"`: 90 * time.Second, `90`: 90 * time.Second, `"2w"`: 14 * 24 * time.Hour, `"0.5h"`: 30 * time.Minute,
	} {
		var d client.Duration
		if err := json.Unmarshal([]byte(text), &d); err != nil || time.Duration(d) != want {
			t.Errorf("%s: got %v, %v", text, d, err)
		}
	}
	for _, text := range []string{`""`, `"m"`, `"1"`, `"1x"`, `"1.2.3s"`, `"-1s"`, `{}`} {
		if err := json.Unmarshal([]byte(text), new(client.Duration)); err == nil {
			t.Errorf("%s is accepted", text)
		}
	}
	for d, want := range map[time.Duration]string{
		90 * time.Minute: "1h30m", 36 * time.Hour: "1d12h", 1500 * time.Millisecond: "1s500ms", 0: "0s", -time.Minute: "-1m", math.MinInt64: "-106751d23h47m16s854ms",
		15*24*time.Hour + time.Microsecond: "15d",
	} {
		if data, err := json.Marshal(client.Duration(d)); err != nil || string(data) != strconv.Quote(want) {
			t.Errorf("got %s for %d, %v", data, d, err)
		}
	}
}

func TestAddress(t *testing.T) {
	for _, address := range []string{"", "127.0.0.1:7788", "ftp://x", "http://", "http://a b"} {
		if _, err := client.New(address); err == nil {
			t.Errorf("%q is accepted", address)
		}
	}
}

// A Retry-After is obeyed, in both of its forms. One that is longer than a call may take ends the call.
func TestRetryAfter(t *testing.T) {
	for header, want := range map[string]time.Duration{
		"": 0, "7": 7 * time.Second, "86400": 24 * time.Hour, "-1": 0, "1.5": 0, "soon": 0,
		"Sun, 29 Nov 2026 12:00:30 GMT": 30 * time.Second, "Sunday, 29-Nov-26 12:01:00 GMT": time.Minute, "Sun, 29 Nov 2026 11:00:00 GMT": 0,
	} {
		a := serve(t, func(w http.ResponseWriter) {
			w.Header().Set("Date", "Sun, 29 Nov 2026 12:00:00 GMT")
			w.Header().Set("Retry-After", header)
			status(http.StatusTooManyRequests, "<html>")(w)
		}, status(200, aJob))
		c := newClient(t, a, client.WithRetrying(client.Retrying{Attempts: 1}))
		var e *client.Error
		if _, err := c.Job(t.Context(), "t", "a"); !errors.As(err, &e) || e.RetryAfter != want {
			t.Errorf("%q: %v, not %v", header, e.RetryAfter, want)
		}
	}
	slow := func(w http.ResponseWriter) {
		w.Header().Set("Retry-After", "60")
		status(http.StatusServiceUnavailable, unavailable)(w)
	}
	a := serve(t, slow, status(200, aJob))
	if _, err := newClient(t, a).Job(t.Context(), "t", "a"); err == nil || len(a.got()) != 1 {
		t.Errorf("%d requests, %v", len(a.got()), err)
	}
}

func TestZeroClient(t *testing.T) {
	var c client.Client
	if _, err := c.Job(t.Context(), "t", "a"); err == nil {
		t.Error("a client without a server did not fail")
	}
	for _, err := range c.Events(t.Context(), client.EventQuery{}) {
		if err == nil {
			t.Error("a client without a server has events")
		}
	}
	c.Close()
	if text := (&client.Error{}).Error(); text == "" {
		t.Error("an error without a text")
	}
	if _, err := client.New("http://queue.example", client.WithHTTPClient(nil), client.WithTraceContext(nil)); err != nil {
		t.Error(err)
	}
}
