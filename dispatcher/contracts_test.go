package dispatcher

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/job/contract"
)

// A job of a dialect is delivered by its contract, others by duehook's.
func TestContracts(t *testing.T) {
	got := make(chan *http.Request, 1)
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Duehook-Action", "snooze")
		w.Header().Set("Retry-After", "5")
		w.WriteHeader(http.StatusGone)
		_, _ = io.WriteString(w, strings.Repeat("x", 20))
		got <- r
	})
	fails := false
	s := realSender(t, Options{AllowCIDRs: loopback(), CallbackResponse: 10, Contracts: map[string]*contract.Dialect{"theirs": {
		Headers: func(_ context.Context, j *job.Job, number int, _ job.Instant) ([]job.Header, error) {
			if fails {
				return nil, errors.New("no key")
			}
			return []job.Header{{Name: "User-Agent", Value: "theirs " + j.UID}, {Name: "X-Retried", Value: string(rune('0' + number - 1))}}, nil
		},
		Judge: func(status int, h http.Header, _ job.Instant) job.Outcome {
			if status != http.StatusGone || h.Get("Retry-After") != "5" {
				t.Errorf("judges %d with %v", status, h)
			}
			return job.Outcome{Kind: job.OutcomeFailed}
		},
		RenderCallback:   func(*job.Job) ([]byte, error) { return []byte("theirs"), nil },
		CallbackResponse: 15,
	}}})
	j := job.Job{UID: "u", Attempts: 2, Spec: job.Spec{
		Destination: job.Destination(url), Dialect: &job.Dialect{Name: "theirs"},
		Callbacks: &job.Callbacks{By: map[job.CallbackEvent]*job.Callback{job.CallbackDead: {Destination: "https://a.example"}}},
	}}
	o, _ := s.send(t.Context(), claimOf(j))
	if r := <-got; r.UserAgent() != "theirs u" || r.Header.Get("X-Retried") != "2" {
		t.Errorf("sent %v", r.Header)
	}
	if o.Kind != job.OutcomeFailed || o.Attempt.Error != "http_410" || len(o.Response.Body) != 15 {
		t.Errorf("outcome %+v with %s", o, o.Attempt.Error)
	}
	callback := job.Job{Spec: job.Spec{Destination: job.Destination(url), Dialect: j.Spec.Dialect, Reports: job.CallbackDead}}
	if with, err := s.rendered(claimOf(callback)); err != nil || string(with.Spec.Body) != "theirs" {
		t.Errorf("rendered %q, %v", with.Spec.Body, err)
	}

	fails = true
	if o, health := s.send(t.Context(), claimOf(j)); o.Kind != job.OutcomeReleased || !errors.Is(health, errExcluded) {
		t.Errorf("without headers: %+v, %v", o, health)
	}
	j.Spec.Dialect = nil
	if o, _ := s.send(t.Context(), claimOf(j)); o.Kind != job.OutcomeRefused || len(o.Response.Body) != 10 {
		t.Errorf("a job of no dialect: %+v", o)
	}
	<-got
	if policy := (Options{Contracts: map[string]*contract.Dialect{"theirs": {Exact: true}}}); !policy.contractOf(&callback).Exact || policy.contractOf(&j).Exact {
		t.Error("the wrong contract")
	}
}
