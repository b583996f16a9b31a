package receiver

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/testing/testenv"
)

func post(ctx context.Context, t *testing.T, client *http.Client, url string, header map[string]string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader("body"))
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range header {
		req.Header.Set(name, value)
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil
	}
	_, _ = io.Copy(io.Discard, resp.Body) // else the connection would be closed
	_ = resp.Body.Close()
	return resp
}

func headers(id, attempt string) map[string]string {
	return map[string]string{
		"webhook-id": "u-" + id, "Duehook-Topic": "t", "Duehook-Job-Id": id,
		"Duehook-Attempt": attempt, "Duehook-Due-At": "2026-01-02T03:04:05.678Z",
	}
}

func TestRecordsWhatArrives(t *testing.T) {
	r := Start(t, func(d Delivery) Answer {
		if d.Attempt == 1 {
			return Answer{Status: 503, Header: map[string]string{"Retry-After": "1"}, Body: "later"}
		}
		return Answer{}
	})
	client := &http.Client{Transport: &http.Transport{}}
	if resp := post(t.Context(), t, client, r.URL(), headers("a", "1")); resp.StatusCode != 503 || resp.Header.Get("Retry-After") != "1" {
		t.Errorf("first attempt: %s %v", resp.Status, resp.Header)
	}
	if r.Jobs() != 0 {
		t.Error("a failure counts as delivered")
	}
	post(t.Context(), t, client, r.URL(), headers("a", "2"))
	post(t.Context(), t, client, r.URL(), headers("b", "2"))
	if r.Jobs() != 2 || r.Count() != 3 {
		t.Errorf("%d jobs, %d deliveries; want 2, 3", r.Jobs(), r.Count())
	}
	got := r.Of("t", "a")
	if len(got) != 2 || got[0].Status != 503 || got[1].Status != 200 || got[1].UID != "u-a" || got[1].Body != "body" {
		t.Errorf("deliveries of a: %+v", got)
	}
	if got[0].Answered.Before(got[0].Arrived) || got[0].Due.UnixMilli() != 1767323045678 {
		t.Errorf("times: %+v", got[0])
	}
	if !got[0].Closed.IsZero() {
		t.Error("an open connection counts as closed")
	}
	client.CloseIdleConnections()
	testenv.Eventually(t, testenv.Patience, func() bool { return !r.Of("t", "b")[0].Closed.IsZero() }, "the connection is seen to end")
	if r.Problems() != nil {
		t.Errorf("problems: %q", r.Problems())
	}
}

func TestHeldAnswerEndsWithItsClient(t *testing.T) {
	r := Start(t, func(Delivery) Answer { return Answer{Hold: time.Hour} })
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		for r.Count() == 0 && job.Sleep(ctx, job.SystemClock(), time.Millisecond) == nil {
		}
		cancel()
	}()
	if resp := post(ctx, t, http.DefaultClient, r.URL(), headers("a", "1")); resp != nil {
		t.Fatalf("answered %s", resp.Status)
	}
	if got := r.Of("t", "a"); len(got) != 1 || !got[0].Answered.IsZero() {
		t.Errorf("deliveries: %+v", got)
	}
}

func TestComplainsOfMissingHeaders(t *testing.T) {
	r := Start(t, Accept)
	for _, missing := range []string{"webhook-id", "Duehook-Topic", "Duehook-Job-Id", "Duehook-Attempt", "Duehook-Due-At"} {
		h := headers("a", "1")
		delete(h, missing)
		before := len(r.Problems())
		post(t.Context(), t, http.DefaultClient, r.URL(), h)
		if len(r.Problems()) != before+1 {
			t.Errorf("no complaint without %s", missing)
		}
	}
}
