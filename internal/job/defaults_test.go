package job

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/duehook/duehook/internal/testing/must"
)

func draftOf(t *testing.T, text string) *Draft {
	t.Helper()
	var d struct {
		Draft
		URL *Destination
	}
	must.OK(t, json.Unmarshal([]byte(text), &d))
	d.Destination = d.URL
	return &d.Draft
}

func TestDefaults(t *testing.T) {
	limits := Bounds{MaxBody: 1000, MaxTimeout: time.Minute}
	zero, two := 0, 2
	defaults, err := draftOf(t, `{"url":"https://t.example","retry":{"steps":[1000000000],"limit":2},"timeout":5000000000,"ttl":3600000000000,"headers":{"x-a":"1","x-b":"2"},"priority":7,"spread":60000000000}`).Defaults(limits)
	must.OK(t, err)
	want := Defaults{
		Destination: "https://t.example",
		Retry:       &Retry{Steps: []time.Duration{time.Second}, Limit: &two}, Timeout: 5 * time.Second, TTL: time.Hour,
		Headers: []Header{{"X-A", "1"}, {"X-B", "2"}}, Priority: 7, Spread: time.Minute,
	}
	if diff := cmp.Diff(want, defaults); diff != "" {
		t.Fatalf("(-want +got):\n%s", diff)
	}
	for _, tc := range []struct {
		name, draft string
		want        Spec
	}{
		{"all", `{"url":"https://a.example"}`, Spec{
			Retry: want.Retry, Timeout: want.Timeout, TTL: want.TTL, Headers: want.Headers, Priority: 7, When: When{Spread: time.Minute},
		}},
		{"its own win", `{"url":"https://a.example","retry":{"limit":0},"timeout":1000000000,"ttl":7200000000000,"headers":{"X-b":"own","A":"own"},"priority":1,"spread":0}`, Spec{
			Retry: &Retry{Limit: &zero}, Timeout: time.Second, TTL: 2 * time.Hour,
			Headers: []Header{{"A", "own"}, {"X-A", "1"}, {"X-B", "own"}}, Priority: 1,
		}},
		{"the server's ladder, and the usual priority", `{"url":"https://a.example","retry":{},"priority":5}`, Spec{
			Timeout: want.Timeout, TTL: want.TTL, Headers: want.Headers, When: When{Spread: time.Minute},
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d := draftOf(t, tc.draft)
			request, err := d.Registration(limits, 1)
			must.OK(t, err)
			request.Spec = defaults.Apply(d, request.Spec)
			tc.want.Destination = "https://a.example"
			must.Same(t, "result", request.Spec, tc.want)
		})
	}
	must.Same(t, "applying changed the defaults", defaults, want)
}

func TestDefaultsAreChecked(t *testing.T) {
	_, err := draftOf(t, `{"retry":{"limit":-1},"timeout":3600000000000,"ttl":0,"headers":{"Host":"x"},"priority":10,"spread":-1}`).Defaults(Bounds{MaxTimeout: time.Minute})
	var invalid *ValidationError
	if !errors.As(err, &invalid) {
		t.Fatalf("got %v", err)
	}
	var pointers []string
	for _, f := range invalid.Fields {
		pointers = append(pointers, string(f.Field))
	}
	must.Same(t, "result", pointers, []string{"headers.Host", "retry.limit", "timeout", "ttl", "priority", "spread"})
}
