package job_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/testing/must"
)

func registered() job.Job {
	j := jobIn(job.Waiting, 0)
	j.Spec = job.Spec{
		Destination: "http://a", Method: "PUT", BizKey: "b", ContentType: "text/csv", Body: []byte("x"), BodyForm: job.BodyText,
		Headers: []job.Header{{Name: "X-A", Value: "1"}}, When: job.When{At: now + 5},
		Retry: &job.Retry{Limit: ptr(3)}, Timeout: time.Second, TTL: time.Hour, ExpectBody: "ok", Traceparent: "00-x",
		Labels: []job.Label{{Key: "shop", Value: "7"}}, Priority: 8,
	}
	return j
}

func TestPatch(t *testing.T) {
	tests := []struct {
		doc  string
		want func(s *job.Spec)
		when *job.When
	}{
		{`{"delay":60}`, func(s *job.Spec) { s.When = job.When{Delay: time.Minute} }, &job.When{Delay: time.Minute}},
		{`{"delay":"0s"}`, func(s *job.Spec) { s.When = job.When{} }, &job.When{}},
		{`{"at":"2001-01-01T00:00:00Z"}`, func(s *job.Spec) { s.When = job.When{At: 978_307_200_000} }, &job.When{At: 978_307_200_000}},
		{`{"url":"http://b/c","topic":null,"timeout":null}`, func(s *job.Spec) { s.Destination = "http://b/c" }, nil},
		{`{"headers":{"y":"2"}}`, func(s *job.Spec) { s.Headers = []job.Header{{Name: "Y", Value: "2"}} }, nil},
		{`{"headers":{}}`, func(s *job.Spec) { s.Headers = nil }, nil},
		{`{"retry":{"steps":[1]}}`, func(s *job.Spec) { s.Retry = &job.Retry{Steps: []time.Duration{time.Second}} }, nil},
		{`{"retry":{}}`, func(s *job.Spec) { s.Retry = nil }, nil},
		{`{"labels":{"b":"2","a":"1"}}`, func(s *job.Spec) { s.Labels = []job.Label{{Key: "a", Value: "1"}, {Key: "b", Value: "2"}} }, nil},
		{`{"labels":{}}`, func(s *job.Spec) { s.Labels = nil }, nil},
		{`{"priority":1}`, func(s *job.Spec) { s.Priority = 1 }, nil},
		{`{"priority":5}`, func(s *job.Spec) { s.Priority = 0 }, nil},
		{`{"method":"POST"}`, func(s *job.Spec) { s.Method = "" }, nil},
		{`{"method":"PATCH"}`, func(s *job.Spec) { s.Method = "PATCH" }, nil},
		{`{"timeout":"7s"}`, func(s *job.Spec) { s.Timeout = 7 * time.Second }, nil},
		{`{"expect":{"body":" yes "}}`, func(s *job.Spec) { s.ExpectBody = "yes" }, nil},
		{`{"expect":{}}`, func(s *job.Spec) { s.ExpectBody = "" }, nil},
		{`{"no_expect":true}`, func(s *job.Spec) { s.ExpectBody = "" }, nil},
		{`{"biz_key":"c"}`, func(s *job.Spec) { s.BizKey = "c" }, nil},
		{`{"no_biz_key":true}`, func(s *job.Spec) { s.BizKey = "" }, nil},
		{`{"ttl":"2h"}`, func(s *job.Spec) { s.TTL = 2 * time.Hour }, nil},
		// A type that was given stays with its form, and goes with it.
		{`{"body_text":"y"}`, func(s *job.Spec) { s.Body = []byte("y") }, nil},
		{`{"content_type":"text/x"}`, func(s *job.Spec) { s.ContentType = "text/x" }, nil},
		{`{"body":{}}`, func(s *job.Spec) {
			s.Body, s.BodyForm, s.ContentType = []byte("{}"), job.BodyJSON, "application/json"
		}, nil},
		{`{"body":{},"content_type":"a/b"}`, func(s *job.Spec) {
			s.Body, s.BodyForm, s.ContentType = []byte("{}"), job.BodyJSON, "a/b"
		}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.doc, func(t *testing.T) {
			j, want := registered(), registered().Spec
			tt.want(&want)
			got, when, err := draft(t, tt.doc).Patch(&j, limits, now)
			must.OK(t, err)
			must.Same(t, "spec", got, want)
			must.Same(t, "when", when, tt.when)
			must.Same(t, "the job was changed", j, registered())
		})
	}
}

func TestPatchRefuses(t *testing.T) {
	for doc, wants := range map[string]map[string]string{
		`{}`:                                      {"": "must change something"},
		`{"delay":null,"headers":null}`:           {"": "must change something"},
		`{"topic":"x"}`:                           {"topic": "cannot be changed"},
		`{"id":"x","url":"http://b"}`:             {"id": "cannot be changed"},
		`{"on_conflict":"reject"}`:                {"on_conflict": "cannot be changed"},
		`{"url":"x","headers":{"host":"b"}}`:      {"url": "http://", "headers.host": "from the URL"},
		`{"delay":-1,"ttl":0}`:                    {"delay": "from 0s", "ttl": "from 1ms"},
		`{"delay":1,"at":"2027-01-15T08:00:00Z"}`: {"at": "combined with delay"},
		`{"at":"2030-01-15T08:00:00Z"}`:           {"at": "at most 366d ahead"},
		`{"spread":"5m"}`:                         {"spread": "combined with delay or at"},
		`{"delay":1,"spread":"2d"}`:               {"spread": "from 0s to 1d"},
		`{"retry":{"steps":[]}}`:                  {"retry.steps": "1 to 64"},
		`{"priority":-1}`:                         {"priority": "from 1 to 9"},
		`{"biz_key":"a/b","method":"HEAD"}`:       {"biz_key": "may contain", "method": "POST"},
		`{"timeout":0,"expect":{"body":" "}}`:     {"timeout": "from 100ms", "expect.body": "white space"},
		`{"content_type":"x"}`:                    {"content_type": "media type"},
	} {
		j := registered()
		spec, when, err := draft(t, doc).Patch(&j, limits, now)
		got := complaints(t, err)
		if len(got) != len(wants) || when != nil || spec.Destination != "" {
			t.Errorf("%s: refused for %v, want %v; gave %v, %v", doc, got, wants, spec, when)
		}
		for where, why := range wants {
			if !strings.Contains(got[where], why) {
				t.Errorf("%s: refused for %v, want %s: …%s…", doc, got, where, why)
			}
		}
	}
}

func TestPatchOfBodies(t *testing.T) {
	j := registered()
	_, _, err := draft(t, `{"body_text":"`+strings.Repeat("x", 65)+`"}`).Patch(&j, limits, now)
	if !errors.Is(err, job.ErrBodyTooLarge) {
		t.Errorf("a body over the limit: %v", err)
	}
	j.Spec.BodyForm = job.BodyNone
	_, _, err = draft(t, `{"content_type":"a/b"}`).Patch(&j, limits, now)
	if got := complaints(t, err); !strings.Contains(got["content_type"], "needs a body") {
		t.Errorf("a type without a body: %v", got)
	}
}
