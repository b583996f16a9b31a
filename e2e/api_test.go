package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/duehook/duehook/e2e/rig"
)

// answer is an answer of the API.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// decode decodes the answer's JSON.
func (a answer) decode(v any) error {
	if err := json.Unmarshal(a.body, v); err != nil {
		return fmt.Errorf("answer %d %s: %w", a.status, a.body, err)
	}
	return nil
}

func (a answer) into(t testing.TB, v any) {
	t.Helper()
	if err := a.decode(v); err != nil {
		t.Fatal(err)
	}
}

// call calls the API once. body is encoded as JSON unless it is nil.
func call(ctx context.Context, method, url string, header map[string]string, body any) (answer, error) {
	a, err := rig.Call(ctx, method, url, header, body)
	return answer{a.Status, a.Header, a.Body}, err
}

// must calls the API once and fails the test unless it answers with status.
func must(t testing.TB, status int, method, url string, body any) answer {
	t.Helper()
	a, err := call(t.Context(), method, url, nil, body)
	if err != nil {
		t.Fatalf("%s %s: %v", method, url, err)
	}
	if a.status != status {
		t.Fatalf("%s %s: %d, want %d: %s", method, url, a.status, status, a.body)
	}
	return a
}

// registration is the body of POST /v1/jobs, as far as the tests use it.
type registration struct {
	Topic  string         `json:"topic,omitempty"`
	ID     string         `json:"id,omitempty"`
	BizKey string         `json:"biz_key,omitempty"`
	URL    string         `json:"url"`
	Delay  string         `json:"delay,omitempty"`
	At     string         `json:"at,omitempty"`
	Body   any            `json:"body,omitempty"`
	Retry  map[string]any `json:"retry,omitempty"`
}

// jobView is a job as the API shows it, as far as the tests look at it.
type jobView struct {
	UID         string     `json:"uid"`
	Topic       string     `json:"topic"`
	ID          string     `json:"id"`
	State       string     `json:"state"`
	Reason      string     `json:"reason"`
	DueAt       time.Time  `json:"due_at"`
	NextAt      *time.Time `json:"next_at"`
	Attempts    int        `json:"attempts"`
	MaxAttempts int        `json:"max_attempts"`
}

type topicView struct {
	States map[string]int `json:"states"`
}

func register(t testing.TB, base string, r registration) jobView {
	t.Helper()
	var v jobView
	must(t, http.StatusCreated, "POST", base+"/v1/jobs", r).into(t, &v)
	return v
}

func getJob(t testing.TB, base, topic, id string) jobView {
	t.Helper()
	var v jobView
	must(t, http.StatusOK, "GET", base+"/v1/jobs/"+topic+"/"+id, nil).into(t, &v)
	return v
}

func getTopic(t testing.TB, base, topic string) topicView {
	t.Helper()
	var v topicView
	must(t, http.StatusOK, "GET", base+"/v1/topics/"+topic, nil).into(t, &v)
	return v
}
