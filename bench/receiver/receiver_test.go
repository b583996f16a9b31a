package receiver

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/duehook/duehook/internal/job"
)

var noon = time.UnixMilli(1_800_000_000_000)

func TestBody(t *testing.T) {
	b := Body(123, noon, 300)
	if len(b) != 300 || !json.Valid(b) {
		t.Errorf("%d bytes, or no JSON: %s", len(b), b)
	}
	n, due, err := parse(b)
	if n != 123 || !due.Equal(noon) || err != nil {
		t.Errorf("parsed as %d, %v, %v", n, due, err)
	}
	if _, _, err := parse([]byte(`{"n":1}`)); err == nil {
		t.Error("another body is accepted")
	}
}

func TestRound(t *testing.T) {
	r := newRound(2, false)
	for _, a := range []struct {
		n    int
		late time.Duration
	}{{1, 5 * time.Millisecond}, {1, time.Second}, {0, -time.Millisecond}, {2, 0}} {
		r.take(Body(a.n, noon, 100), noon.Add(a.late))
	}
	select {
	case <-r.done:
	default:
		t.Error("not done after the last job")
	}
	want := Report{
		Accepted: 2, Repeated: 1, Strange: 1,
		First: noon.Add(-time.Millisecond), Last: noon.Add(5 * time.Millisecond),
		P50: -time.Millisecond, P99: 5 * time.Millisecond, Max: 5 * time.Millisecond, Earliest: -time.Millisecond,
	}
	if diff := cmp.Diff(want, r.sum()); diff != "" {
		t.Error(diff)
	}
}

func TestControl(t *testing.T) {
	server := httptest.NewServer(New(job.SystemClock()).Handler())
	defer server.Close()
	c := Client{Base: server.URL}
	if err := c.Expect(t.Context(), 1, true); err != nil {
		t.Fatal(err)
	}
	for _, want := range []int{500, 200} { // it fails once
		resp, err := http.Post(server.URL+"/hook", "application/json", bytes.NewReader(Body(0, noon, 100)))
		if err != nil || resp.StatusCode != want {
			t.Fatalf("%v, %v; want %d", resp, err, want)
		}
		_ = resp.Body.Close()
	}
	got, err := c.Report(t.Context(), time.Minute)
	if err != nil || got.Accepted != 1 || got.Failed != 1 {
		t.Errorf("%+v, %v", got, err)
	}
	if err := c.Expect(t.Context(), 0, false); err == nil {
		t.Error("no jobs can be expected")
	}
}

func TestCallbacksCountAsJobs(t *testing.T) {
	server := httptest.NewServer(New(job.SystemClock()).Handler())
	defer server.Close()
	c := Client{Base: server.URL}
	if err := c.Expect(t.Context(), 2, false); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{CallbackPath + "1", "/hook", CallbackPath + "2", CallbackPath + "x"} {
		resp, err := http.Post(server.URL+path, "application/json", bytes.NewReader(Body(0, noon, 100)))
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("%s: %v, %v; want 200", path, resp, err)
		}
		_ = resp.Body.Close()
	}
	got, err := c.Report(t.Context(), time.Minute)
	if err != nil || got.Accepted != 2 || got.Strange != 2 {
		t.Errorf("%+v, %v; want 2 accepted and 2 strange", got, err)
	}
}

func TestParseReady(t *testing.T) {
	got, ok := ParseReady("receiver http://a:1 https://a:2")
	if !ok || got != (Client{"http://a:1", "https://a:2"}) {
		t.Errorf("%+v, %v", got, ok)
	}
	if _, ok := ParseReady("something else"); ok {
		t.Error("any line will do")
	}
}
