package dispatcher

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/duehook/duehook/internal/job"
)

// The body of an answer is kept for callbacks, up to the limit, and for no other job.
func TestAnswersForCallbacks(t *testing.T) {
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, strings.Repeat("x", len(r.URL.Path)))
	})
	with := &job.Callbacks{By: map[job.CallbackEvent]*job.Callback{job.CallbackDead: {Destination: "https://a.example"}}}
	for name, row := range map[string]struct {
		callbacks *job.Callbacks
		limit     int
		want      *job.Response
	}{
		"none":     {nil, 0, nil},
		"whole":    {with, 10, &job.Response{Body: []byte("xxxxxxxxxx")}},
		"cut":      {with, 9, &job.Response{Body: []byte("xxxxxxxxx"), Cut: true}},
		"left out": {with, -1, nil},
	} {
		s := realSender(t, Options{AllowCIDRs: loopback(), CallbackResponse: row.limit})
		o, _ := s.send(t.Context(), claimOf(job.Job{Spec: job.Spec{Destination: job.Destination(url + "/123456789"), Callbacks: row.callbacks}}))
		got := o.Response
		if o.Kind != job.OutcomeDelivered || (got == nil) != (row.want == nil) ||
			got != nil && (string(got.Body) != string(row.want.Body) || got.Cut != row.want.Cut) {
			t.Errorf("%s: outcome %v with %+v", name, o.Kind, got)
		}
	}
}

// A callback is sent with its rendered body and signed as sent; its id is the webhook-id.
func TestCallbackIsRendered(t *testing.T) {
	got := make(chan *http.Request, 1)
	url := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Header.Set("Body", string(body))
		got <- r
	})
	j := job.Job{Key: job.Key{Topic: "t", ID: "u.dead"}, UID: "u2", Spec: job.Spec{
		Destination: job.Destination(url), Body: []byte("report"), Reports: job.CallbackDead,
	}}
	fails := false
	signer := &recordingSigner{}
	s := realSender(t, Options{AllowCIDRs: loopback(), Signer: signer, RenderCallback: func(j *job.Job) ([]byte, error) {
		if fails {
			return nil, errors.New("no")
		}
		return append([]byte("rendered "), j.Spec.Body...), nil
	}})
	if o, _ := s.send(t.Context(), claimOf(j)); o.Kind != job.OutcomeDelivered {
		t.Fatalf("outcome %v", o.Kind)
	}
	r := <-got
	if r.Header.Get("Webhook-Id") != "u_dead" || r.Header.Get("Body") != "rendered report" || signer.id != "u_dead" || signer.body != "rendered report" {
		t.Errorf("sent %v, signed %+v", r.Header, signer)
	}
	fails = true
	if o, health := s.send(t.Context(), claimOf(j)); o.Kind != job.OutcomeFailed || o.Attempt.Error != classBadRequest || !errors.Is(health, errExcluded) {
		t.Errorf("without a body: outcome %v, %+v, %v", o.Kind, o.Attempt, health)
	}
}

// recordingSigner keeps what it signed last.
type recordingSigner struct{ id, body string }

func (s *recordingSigner) Sign(_ context.Context, _, id string, _ time.Time, body []byte) (string, error) {
	if !strings.HasPrefix(id, "topic:") {
		s.id, s.body = id, string(body)
	}
	return "v1,signature", nil
}
