package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// apiTimeout bounds one call of the API, in real time.
const apiTimeout = 15 * time.Second

// client calls duehook's API as any program would.
type client struct {
	base string
	http *http.Client
}

func newClient(base string) *client {
	transport := &http.Transport{} // no proxy: the API is on this machine
	return &client{base: base, http: &http.Client{Timeout: apiTimeout, Transport: transport}}
}

func (c *client) close() { c.http.CloseIdleConnections() }

// jobView is the part of a job that the demo looks at.
type jobView struct {
	UID         string    `json:"uid"`
	ID          string    `json:"id"`
	State       string    `json:"state"`
	Reason      string    `json:"reason"`
	DueAt       time.Time `json:"due_at"`
	Attempts    int       `json:"attempts"`
	MaxAttempts int       `json:"max_attempts"`
}

// attemptView is the part of an attempt that the demo looks at.
type attemptView struct {
	Number int       `json:"number"`
	Status int       `json:"status"`
	NextAt time.Time `json:"next_at"`
	Reason string    `json:"reason"`
}

func (c *client) register(ctx context.Context, body string) (jobView, int, error) {
	return call[jobView](ctx, c, http.MethodPost, "/v1/jobs", body)
}

func (c *client) job(ctx context.Context, topic, id string) (jobView, error) {
	j, status, err := call[jobView](ctx, c, http.MethodGet, "/v1/jobs/"+topic+"/"+id, "")
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("asking for %s/%s was answered %d", topic, id, status)
	}
	return j, err
}

func (c *client) attempts(ctx context.Context, topic, id string) ([]attemptView, error) {
	type answer struct {
		Data []attemptView `json:"data"`
	}
	a, status, err := call[answer](ctx, c, http.MethodGet, "/v1/jobs/"+topic+"/"+id+"/attempts", "")
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("asking for the attempts of %s/%s was answered %d", topic, id, status)
	}
	return a.Data, err
}

// cancel returns the result that the API tells, and its status.
func (c *client) cancel(ctx context.Context, topic, id string) (string, int, error) {
	type answer struct {
		Result string `json:"result"`
		Code   string `json:"code"` // of an error
	}
	a, status, err := call[answer](ctx, c, http.MethodDelete, "/v1/jobs/"+topic+"/"+id, "")
	return a.Result + a.Code, status, err
}

func (c *client) replay(ctx context.Context, topic, id string) (jobView, int, error) {
	return call[jobView](ctx, c, http.MethodPost, "/v1/jobs/"+topic+"/"+id+"/replay", "")
}

// states counts the topic's jobs by state; those in no job's state are left out.
func (c *client) states(ctx context.Context, topic string) (map[string]int, error) {
	type answer struct {
		States map[string]int `json:"states"`
	}
	a, status, err := call[answer](ctx, c, http.MethodGet, "/v1/topics/"+topic, "")
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("asking for topic %s was answered %d", topic, status)
	}
	for state, n := range a.States {
		if n == 0 {
			delete(a.States, state)
		}
	}
	return a.States, err
}

// call makes one request and decodes the answer, whatever its status.
func call[T any](ctx context.Context, c *client, method, path, body string) (T, int, error) {
	var into T
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, strings.NewReader(body))
	if err != nil {
		return into, 0, err
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return into, 0, err
	}
	defer func() { _ = resp.Body.Close() }() // read to its end
	content, err := io.ReadAll(resp.Body)
	if err != nil {
		return into, resp.StatusCode, err
	}
	if err := json.Unmarshal(content, &into); err != nil {
		return into, resp.StatusCode, fmt.Errorf("%s %s: %w", method, path, err)
	}
	return into, resp.StatusCode, nil
}
