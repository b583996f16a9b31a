package job_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/testing/must"
)

func ptr[T any](v T) *T { return &v }

func TestKeysAndLanes(t *testing.T) {
	key := job.Key{Topic: "a:b", ID: "c@d"}
	if got, err := job.ParseKey(key.String()); err != nil || got != key {
		t.Errorf("ParseKey(%q) = %v, %v", key, got, err)
	}
	if got, err := job.ParseKey("a"); err == nil {
		t.Errorf("ParseKey without a slash = %v", got)
	}
	lane := job.Lane{Topic: "a:b", Endpoint: "https://[::1]:443"}
	if got, err := job.ParseLane(lane.String()); err != nil || got != lane {
		t.Errorf("ParseLane(%q) = %v, %v", lane, got, err)
	}
	for _, bad := range []string{"a", "a|5|http://b:80", "a| |http://b:80", "a||http://b:80", "a|AB|http://b:80", "a|http://b:80"} {
		if got, err := job.ParseLane(bad); err == nil {
			t.Errorf("ParseLane(%q) = %v", bad, got)
		}
	}
}

func TestPrioritiesOfLanes(t *testing.T) {
	last := ""
	for n := job.MaxPriority; n >= job.MinPriority; n-- {
		p := job.PriorityOf(n)
		must.Equal(t, "priority", p.Number(), n)
		j := job.Job{Key: job.Key{Topic: "a:b"}, Spec: job.Spec{Destination: "http://c", Priority: p}}
		name := j.Lane().String()
		if got, err := job.ParseLane(name); err != nil || got != j.Lane() {
			t.Errorf("ParseLane(%q) = %v, %v", name, got, err)
		}
		if name <= last {
			t.Errorf("%q goes after %q, but sorts before it", name, last)
		}
		last = name
		must.Equal(t, fmt.Sprintf("without its priority %q", name), j.Lane().Plain().String(), "a:b|M|http://c:80")
	}
}

func TestEndpoint(t *testing.T) {
	tests := map[string]string{
		"http://shop.example/hook?q":           "http://shop.example:80",
		"HTTPS://Shop.Example":                 "https://shop.example:443",
		"https://shop.example.:8443/x":         "https://shop.example:8443",
		"http://10.0.0.1:80/":                  "http://10.0.0.1:80",
		"https://shop.example./x":              "https://shop.example:443",
		"http://shop.example:80#f":             "http://shop.example:80",
		"https://shop.example:":                "https://shop.example:443",
		"https://u:1@shop.example":             "https://shop.example:443",
		"http://shop.example/a%20b":            "http://shop.example:80",
		"http://[2001:DB8:0:0:0:0:0:1]:8080/x": "http://[2001:db8::1]:8080",
		"https://[::FFFF:10.0.0.1]":            "https://[::ffff:10.0.0.1]:443",
	}
	for raw, want := range tests {
		got, err := job.Destination(raw).Endpoint()
		if err != nil || got != want {
			t.Errorf("Endpoint(%q) = %q, %v; want %q", raw, got, err, want)
		}
		if again, err := job.Destination(got).Endpoint(); err != nil || again != got {
			t.Errorf("Endpoint(%q) = %q, %v; want it unchanged", got, again, err)
		}
	}
	for _, raw := range []string{"", "http://", "http:///x", "://x", "http://[::1", "%"} {
		if got, err := job.Destination(raw).Endpoint(); err == nil {
			t.Errorf("Endpoint(%q) = %q, want an error", raw, got)
		}
	}
}

func TestLaneOfJob(t *testing.T) {
	j := job.Job{Key: job.Key{Topic: "orders", ID: "1"}, Spec: job.Spec{Destination: "https://shop.example/hook"}}
	if got, want := j.Lane(), (job.Lane{Topic: "orders", Endpoint: "https://shop.example:443"}); got != want {
		t.Errorf("Lane() = %v, want %v", got, want)
	}
	j.Spec.Destination = ""
	must.Equal(t, "the endpoint of no URL", j.Lane().Endpoint, "invalid://")
}

func TestWakeAt(t *testing.T) {
	for _, tt := range []struct{ next, expires, want job.Instant }{
		{5, 0, 5}, {5, 4, 4}, {5, 5, 5}, {5, 6, 5},
	} {
		j := job.Job{NextAt: tt.next, ExpiresAt: tt.expires}
		must.Equal(t, fmt.Sprintf("next %d, expires %d: wakes at", tt.next, tt.expires), j.WakeAt(), tt.want)
	}
}

func TestSameContent(t *testing.T) {
	of := func(f job.Fingerprint) *job.Spec { return &job.Spec{Content: f, TTL: time.Duration(f % 2)} }
	if !of(1).SameContent(of(1)) || of(1).SameContent(of(2)) || of(0).SameContent(of(0)) {
		t.Error("not equal fingerprints are equal content, or the server's own jobs have some")
	}
}

func TestHTTPMethod(t *testing.T) {
	for method, want := range map[string]string{"": "POST", "PUT": "PUT"} {
		must.Equal(t, fmt.Sprintf("%q is sent as", method), (&job.Spec{Method: method}).HTTPMethod(), want)
	}
}
