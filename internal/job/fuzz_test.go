package job_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/testing/must"
)

func FuzzParseDuration(f *testing.F) {
	for _, s := range []string{
		"0", "1500ms", "1d12h", "1.5s", "PT30M", "P1DT12H", "P1Y", "15250w1d", "1h1h", "5s\xff", "", "-5s",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		d, err := job.ParseDuration(s)
		if err != nil {
			must.Equal(t, fmt.Sprintf("refused (%v), but", err), d, 0)
			return
		}
		if d < 0 || d%time.Millisecond != 0 {
			t.Errorf("%q gave %v", s, d)
		}
		if again, err := job.ParseDuration(job.FormatDuration(d)); err != nil || again != d {
			t.Errorf("%v is read back as %v, %v", d, again, err)
		}
	})
}

func FuzzLadder(f *testing.F) {
	for _, s := range []string{"", "15s 3m 10m 30m 30m 1h 2h 6h 15h", "1s,2s", "PT1S 0s", "31d", strings.Repeat("1s ", 65)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		steps, err := job.ParseLadder(s)
		if err != nil {
			if !utf8.ValidString(err.Error()) {
				t.Errorf("the error is not valid UTF-8: %q", err)
			}
			return
		}
		if len(steps) < 1 || len(steps) > job.MaxRetrySteps {
			t.Fatalf("%d steps", len(steps))
		}
		again, err := job.ParseLadder(job.FormatLadder(steps))
		if diff := gocmp.Diff(steps, again); err != nil || diff != "" {
			t.Errorf("%v\n%s", err, diff)
		}
	})
}

func FuzzEndpoint(f *testing.F) {
	for _, raw := range goodURLs {
		f.Add(raw)
	}
	for _, raws := range badURLs {
		for _, raw := range raws {
			f.Add(raw)
		}
	}
	f.Fuzz(func(t *testing.T, raw string) {
		err := job.Destination(raw).Check()
		if err != nil {
			if !utf8.ValidString(err.Error()) {
				t.Errorf("the error is not valid UTF-8: %q", err)
			}
			return
		}
		checkEndpoint(t, raw)
	})
}

// checkEndpoint checks what duehook relies on in the endpoint of a good URL:
// it is a key of stores, a part of a lane, and stable.
func checkEndpoint(t *testing.T, raw string) {
	endpoint, err := job.Destination(raw).Endpoint()
	if err != nil {
		t.Fatalf("%q is content, but has no endpoint: %v", raw, err)
	}
	if again, err := job.Destination(endpoint).Endpoint(); err != nil || again != endpoint {
		t.Errorf("the endpoint of %q is %q, %v", endpoint, again, err)
	}
	must.Equal(t, fmt.Sprintf("the endpoint of %q", raw), parsedEndpoint(t, raw), endpoint)
	if strings.ContainsAny(endpoint, "|{} \t\r\n%@?#") || strings.ToLower(endpoint) != endpoint || len(endpoint) > 300 {
		t.Errorf("the endpoint of %q is %q", raw, endpoint)
	}
	u, err := url.Parse(endpoint)
	if err != nil || u.Port() == "" || u.Path != "" || job.Destination(endpoint).Check() != nil {
		t.Errorf("the endpoint of %q is %q: %v", raw, endpoint, err)
	}
	lane := job.Lane{Topic: "t", Endpoint: endpoint}
	if got, err := job.ParseLane(lane.String()); err != nil || got != lane {
		t.Errorf("lane %q is read back as %v, %v", lane, got, err)
	}
}

// parsedEndpoint is the endpoint of a good URL as net/url reads it.
func parsedEndpoint(t *testing.T, raw string) string {
	u, err := url.Parse(raw)
	must.OK(t, err)
	host, port := strings.TrimSuffix(strings.ToLower(u.Hostname()), "."), u.Port()
	if addr, err := netip.ParseAddr(host); err == nil {
		host = addr.String()
	}
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return u.Scheme + "://" + net.JoinHostPort(host, port)
}

func FuzzDraft(f *testing.F) {
	for _, doc := range []string{
		`{"url":"http://a"}`, `{"url":"http://a","delay":"30m","body":{"a":[1]},"headers":{"x-tenant":"acme"}}`,
		`{"url":"https://[::1]:8443/x","at":"2027-01-15T16:00:00+08:00","body_text":"x","content_type":"text/csv"}`,
		`{"priority":9,"topic":"t","id":"i","biz_key":"b","url":"http://a","method":"PUT","body_base64":"AP8=","timeout":"10s","ttl":"2h",
			"retry":{"steps":["15s",3,"PT10M"],"limit":3},"expect":{"body":" ok "},"on_conflict":"replace"}`,
		`{"url":"http://a","headers":{"host":"a","a b":"","\u0000":"\n","X":"1","x":"2","a~/b":""}}`,
		`{"url":"http://a","body":null,"delay":-1,"retry":{"steps":[null,0]},"ttl":1e99,"timeout":[]}`,
		`{"topic":"\ud800","id":"..","url":"http://u@a:0/#","body":1,"body_text":"","on_conflict":""}`,
		`{"url":"http://a","body_text":"` + strings.Repeat("x", 65) + `"}`, `{}`,
	} {
		f.Add([]byte(doc))
	}
	f.Fuzz(func(t *testing.T, doc []byte) {
		var tagged taggedDraft
		if json.Unmarshal(doc, &tagged) != nil {
			return
		}
		d := tagged.draft()
		r, err := d.Registration(limits, now)
		if err == nil {
			checkRequest(t, r)
		} else {
			checkRefusal(t, err)
		}
		j := registered()
		s, when, err := d.Patch(&j, limits, now)
		if err == nil {
			checkSpec(t, &s)
			if (when != nil) != (d.At != nil || d.Delay != nil) {
				t.Errorf("when is %v", when)
			}
		} else {
			checkRefusal(t, err)
		}
	})
}

func checkRefusal(t *testing.T, err error) {
	var invalid *job.ValidationError
	switch {
	case errors.Is(err, job.ErrBodyTooLarge):
		return
	case !errors.As(err, &invalid) || len(invalid.Fields) == 0:
		t.Fatalf("refused with %v", err)
	}
	for _, f := range invalid.Fields {
		if f.Message == "" || !utf8.ValidString(string(f.Field)+f.Message) || len(f.Field)+len(f.Message) > 1100 {
			t.Errorf("%q: %q", f.Field, f.Message)
		}
	}
}

func checkRequest(t *testing.T, r job.Request) {
	if job.CheckName(r.Key.Topic) != nil || r.Key.ID != "" && job.CheckName(r.Key.ID) != nil ||
		r.Spec.BizKey != "" && job.CheckName(r.Spec.BizKey) != nil {
		t.Errorf("took %v with biz_key %q", r.Key, r.Spec.BizKey)
	}
	if key, err := job.ParseKey(r.Key.String()); err != nil || key != r.Key {
		t.Errorf("%v is read back as %v, %v", r.Key, key, err)
	}
	switch r.OnConflict {
	case job.ConflictReject, job.ConflictIgnore, job.ConflictReplace:
	default:
		t.Errorf("on conflict %q", r.OnConflict)
	}
	checkSpec(t, &r.Spec)
}

func checkSpec(t *testing.T, s *job.Spec) {
	checkEndpoint(t, string(s.Destination))
	if d := s.When.Due(job.Key{}, now).Sub(now); d < 0 || d > job.MaxDelay+job.MaxSpread {
		t.Errorf("due in %v", d)
	}
	switch s.Method {
	case "", "PUT", "PATCH", "GET", "DELETE":
	default:
		t.Errorf("method %q", s.Method)
	}
	if s.Timeout != 0 && (s.Timeout < job.MinTimeout || s.Timeout > limits.MaxTimeout) || s.TTL < 0 || s.TTL > job.MaxTTL {
		t.Errorf("timeout %v, ttl %v", s.Timeout, s.TTL)
	}
	if (s.BodyForm == job.BodyNone) != (s.ContentType == "") || s.BodyForm == job.BodyNone && s.Body != nil ||
		s.Body != nil && len(s.Body) == 0 || len(s.Body) > limits.MaxBody || s.BodyForm == job.BodyJSON && !json.Valid(s.Body) {
		t.Errorf("body %q in form %d of type %q", s.Body, s.BodyForm, s.ContentType)
	}
	for i, h := range s.Headers {
		if strings.ContainsAny(h.Name+h.Value, "\r\n\x00") || h.Name == "" || i > 0 && s.Headers[i-1].Name >= h.Name {
			t.Errorf("headers %q", s.Headers)
		}
	}
	for i, l := range s.Labels {
		if parsed, err := job.ParseLabel(l.Key + ":" + l.Value); err != nil || parsed != l || i > 0 && s.Labels[i-1].Key >= l.Key {
			t.Errorf("labels %q", s.Labels)
		}
	}
	if r := s.Retry; r != nil {
		if r.Steps == nil && r.Limit == nil || r.Limit != nil && (*r.Limit < 0 || *r.Limit > job.MaxRetryLimit) {
			t.Errorf("retry %v", r)
		}
		for _, step := range r.Steps {
			if step < time.Millisecond || step > job.MaxRetryStep {
				t.Errorf("step %v", step)
			}
		}
	}
	if strings.TrimSpace(s.ExpectBody) != s.ExpectBody || !utf8.ValidString(s.ExpectBody) {
		t.Errorf("expects %q", s.ExpectBody)
	}
}
