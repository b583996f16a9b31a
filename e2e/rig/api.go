package rig

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"
)

// apiTimeout bounds one call of the API.
const apiTimeout = 10 * time.Second

var apiClient = &http.Client{
	Timeout:   apiTimeout,
	Transport: &http.Transport{MaxIdleConnsPerHost: 64},
}

// Answer is an answer of the API.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
}

// Decode decodes the answer's JSON.
func (a Answer) Decode(v any) error {
	if err := json.Unmarshal(a.Body, v); err != nil {
		return fmt.Errorf("answer %d %s: %w", a.Status, a.Body, err)
	}
	return nil
}

// Call calls the API once. body is encoded as JSON unless it is nil.
func Call(ctx context.Context, method, url string, header map[string]string, body any) (Answer, error) {
	var content io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return Answer{}, err
		}
		content = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, url, content)
	if err != nil {
		return Answer{}, err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	for name, value := range header {
		req.Header.Set(name, value)
	}
	resp, err := apiClient.Do(req)
	if err != nil {
		return Answer{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	got, err := io.ReadAll(resp.Body)
	return Answer{resp.StatusCode, resp.Header, got}, err
}

// CloseIdle ends the connections that calls have left open.
func CloseIdle() { apiClient.CloseIdleConnections() }
