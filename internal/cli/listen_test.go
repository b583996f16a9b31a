package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/duehook/duehook/client"
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/testing/testenv"
)

// newTestListener passes jobs on to a receiver with one answer.
func newTestListener(t *testing.T, answer http.HandlerFunc) (l *listener, out, err *bytes.Buffer) {
	t.Helper()
	to := httptest.NewServer(answer)
	t.Cleanup(to.Close)
	out, err = &bytes.Buffer{}, &bytes.Buffer{}
	a := &app{Options: Options{Clock: testenv.NewClock(time.Date(2026, 1, 1, 9, 0, 0, 0, time.UTC)), Out: out, Err: err, In: strings.NewReader("")}}
	l, failed := a.newListener(job.Destination(to.URL+"/a|b%2Fc"), nil, time.Minute)
	if failed != nil {
		t.Fatal(failed)
	}
	return l, out, err
}

func pulledJob() *client.LeasedJob {
	return &client.LeasedJob{
		Receipt: "r", Attempt: 2, Job: client.Job{Topic: "orders", ID: "a", UID: "01K", Pull: true},
		Headers: map[string]string{"Content-Type": "application/json"}, Body: json.RawMessage(`{"n":1}`),
	}
}

// An answer means what it means for a delivery.
func TestListenJudgesAnswers(t *testing.T) {
	for name, tt := range map[string]struct {
		status  int
		headers []string
		body    string
		want    string // of the nack; empty: an acknowledgement
		delay   time.Duration
		dead    bool
		shown   string
	}{
		"200":        {status: 200, shown: "delivered orders/a  attempt 2  200 in 0s"},
		"204":        {status: 204, shown: "delivered orders/a"},
		"500":        {status: 500, body: "no\npaper", want: "http_500: no\npaper", shown: "failed    orders/a  attempt 2  500 in 0s  http_500: no paper"},
		"302":        {status: 302, headers: []string{"Location", "/elsewhere"}, want: "http_302", shown: "failed"},
		"503, later": {status: 503, headers: []string{"Retry-After", "90"}, want: "http_503", delay: 90 * time.Second, shown: "http_503, again in 1m30s"},
		"410":        {status: 410, want: "http_410", dead: true, shown: "dead      orders/a"},
		"abort":      {status: 400, headers: []string{"webhook-delivery", "abort-message"}, want: "http_400", dead: true, shown: "dead"},
		"snooze":     {status: 200, headers: []string{"Duehook-Action", "snooze", "Retry-After", "60"}, want: "snoozed", delay: time.Minute, shown: "again in 1m"},
		"reschedule": {status: 200, headers: []string{"Duehook-Action", "reschedule", "Duehook-At", "2026-01-01T10:00:00Z"}, want: "rescheduled", delay: time.Hour, shown: "again in 1h"},
		"wrong time": {status: 200, headers: []string{"Duehook-Action", "snooze"}, want: "snooze_without_retry_after", shown: "failed"},
	} {
		t.Run(name, func(t *testing.T) {
			l, out, _ := newTestListener(t, func(w http.ResponseWriter, _ *http.Request) {
				for i := 0; i < len(tt.headers); i += 2 {
					w.Header().Set(tt.headers[i], tt.headers[i+1])
				}
				w.WriteHeader(tt.status)
				_, _ = io.WriteString(w, tt.body)
			})
			err := l.handle(t.Context(), pulledJob())
			if tt.want == "" {
				if err != nil {
					t.Errorf("got %v", err)
				}
			} else {
				n := new(client.NackError)
				if !errors.As(err, &n) || err.Error() != tt.want || n.Dead != tt.dead || (n.Delay != nil) != (tt.delay != 0) || n.Delay != nil && time.Duration(*n.Delay) != tt.delay {
					t.Errorf("got %v, %+v", err, n)
				}
			}
			l.answered(pulledJob(), err)
			if !strings.Contains(out.String(), tt.shown) || strings.Count(out.String(), "\n") != 1 {
				t.Errorf("shown: %q, want %q", out, tt.shown)
			}
		})
	}
}

func TestListenSaysThatALeaseIsLost(t *testing.T) {
	l, out, stderr := newTestListener(t, func(http.ResponseWriter, *http.Request) {})
	l.a.json = true
	if err := l.handle(t.Context(), pulledJob()); err != nil {
		t.Fatal(err)
	}
	l.answered(pulledJob(), client.ErrLeaseLost)
	var line attemptLine
	if err := json.Unmarshal(out.Bytes(), &line); err != nil || line.Result != "lost" || *line.Status != 200 || line.Topic != "orders" || line.Attempt != 2 {
		t.Errorf("%s, %v", out, err)
	}
	if !strings.Contains(stderr.String(), "LEASE LOST: orders/a, attempt 2") {
		t.Errorf("got %q", stderr)
	}
}

// A receiver that crashes gets a request once, whatever answered before.
func TestListenSendsARequestOnce(t *testing.T) {
	var requests atomic.Int64
	l, out, _ := newTestListener(t, func(_ http.ResponseWriter, _ *http.Request) {
		if requests.Add(1) > 3 {
			panic(http.ErrAbortHandler) // closes the connection
		}
	})
	for _, name := range []string{"Idempotency-Key", "X-Idempotency-Key", "X-Other", "Idempotency-Key"} {
		j := pulledJob()
		j.Headers[name] = "k"
		err := l.handle(t.Context(), j)
		l.answered(j, err)
	}
	if requests.Load() != 4 || strings.Count(out.String(), "delivered") != 3 || !strings.Contains(out.String(), "no answer") {
		t.Errorf("%d requests, shown %q", requests.Load(), out)
	}
}

func TestListenReplays(t *testing.T) {
	requests := 0
	l, out, stderr := newTestListener(t, func(w http.ResponseWriter, r *http.Request) {
		requests++
		if r.Header.Get("Duehook-Attempt") != "2" || r.Header.Get("Webhook-Id") != "01K" || r.RequestURI != "/a%7Cb%2Fc" {
			t.Errorf("the headers of %s are %v", r.RequestURI, r.Header)
		}
		w.WriteHeader(http.StatusTeapot)
	})
	l.a.In = strings.NewReader("r\n")
	l.readKeys(t.Context())
	if !strings.Contains(stderr.String(), "no request to send again") {
		t.Errorf("got %q", stderr)
	}
	_ = l.handle(t.Context(), pulledJob())
	l.a.In = strings.NewReader("x\nr\n")
	l.readKeys(t.Context())
	if requests != 2 || !strings.Contains(out.String(), "replayed  orders/a  attempt 2  418 in") {
		t.Errorf("%d requests, shown %q", requests, out)
	}
}

// The request shows what a delivery of the job would show.
func TestListenShowsAllOfAJob(t *testing.T) {
	due := time.Date(2026, 1, 1, 9, 0, 0, 0, time.UTC)
	j := asDelivered(&client.LeasedJob{BodyText: "hello", Job: client.Job{
		Topic: "t", ID: "fan:m", UID: "u", DueAt: due, NextAt: due.Add(time.Hour), Group: "g", Schedule: "s",
		Occurrence: &client.JobOccurrence{Time: due}, Count: &client.JobCount{Count: 7},
	}})
	if j.GroupID() != "fan" || j.Spec.Occurrence.Schedule != "s" || j.Spec.Occurrence.Time != job.InstantOf(due) ||
		j.Counted != 7 || j.Spec.Count == nil || j.AttemptDue() != job.InstantOf(due.Add(time.Hour)) || string(j.Spec.Body) != "hello" {
		t.Errorf("got %+v", j)
	}
	if plain := asDelivered(&client.LeasedJob{Job: client.Job{Topic: "t", ID: "a"}}); plain.Spec.Group != nil || plain.Spec.Count != nil || plain.AttemptDue() != 0 {
		t.Errorf("got %+v", plain)
	}
}
