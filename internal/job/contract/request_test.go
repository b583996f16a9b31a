package contract

import (
	"net/http"
	"testing"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/testing/must"
)

func TestRequestHeader(t *testing.T) {
	const due = job.Instant(1_900_000_000_000) // 2030-03-17T17:46:40Z
	own := func(more http.Header) http.Header {
		h := http.Header{
			"User-Agent": {"duehook/1"}, "Webhook-Id": {"U1"}, "Webhook-Timestamp": {"1900000001"},
			"Duehook-Topic": {"or%20der"}, "Duehook-Job-Id": {"a"}, "Duehook-Attempt": {"3"},
			"Duehook-Due-At": {"2030-03-17T17:46:40.000Z"},
		}
		for name, values := range more {
			h[name] = values
		}
		return h
	}
	for name, tt := range map[string]struct {
		spec    job.Spec
		counted int64
		want    http.Header
	}{
		"a plain job": {want: own(nil)},
		"what the client set": {
			spec: job.Spec{Headers: []job.Header{{Name: "X-Tenant", Value: "acme"}}, ContentType: "text/plain", Traceparent: "00-1-2-01", Tracestate: "a=1"},
			want: own(http.Header{"X-Tenant": {"acme"}, "Content-Type": {"text/plain"}, "Traceparent": {"00-1-2-01"}, "Tracestate": {"a=1"}}),
		},
		"an occurrence": {
			spec: job.Spec{Occurrence: &job.Occurrence{Schedule: "näch", Time: due.Add(-1)}},
			want: own(http.Header{"Duehook-Schedule": {"n%C3%A4ch"}, "Duehook-Schedule-Time": {due.Add(-1).RFC3339()}}),
		},
		"a counted job": {spec: job.Spec{Count: &job.Count{}}, counted: 7, want: own(http.Header{"Duehook-Count": {"7"}})},
	} {
		t.Run(name, func(t *testing.T) {
			j := job.Job{Key: job.Key{Topic: "or der", ID: "a"}, UID: "U1", DueAt: due, NextAt: due, Counted: tt.counted, Spec: tt.spec}
			h := RequestHeader(&j, 3, due.Add(1000*1e6), "duehook/1")
			must.Same(t, "header", h, tt.want)
		})
	}
}
