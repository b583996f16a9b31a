package sqlstore

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
)

// attempt is a job.Attempt as stored: JSON, so that SQL can read it. Durations are in nanoseconds. Names never get another
// meaning.
type attempt struct {
	Number          int           `json:"number"`
	StartedAt       job.Instant   `json:"started_at"`
	Duration        time.Duration `json:"duration,omitempty"`
	DNS             time.Duration `json:"dns,omitempty"`
	Connect         time.Duration `json:"connect,omitempty"`
	TLS             time.Duration `json:"tls,omitempty"`
	FirstByte       time.Duration `json:"first_byte,omitempty"`
	Reused          bool          `json:"reused,omitempty"`
	Status          int           `json:"status,omitempty"`
	Error           string        `json:"error,omitempty"`
	ResponseBody    string        `json:"response_body,omitempty"`
	NextAt          job.Instant   `json:"next_at,omitempty"`
	Reason          string        `json:"reason,omitempty"`
	ResponseHeaders []header      `json:"response_headers,omitempty"`
	Version         uint64        `json:"version,omitempty"`
	ConnectRetries  int           `json:"connect_retries,omitempty"`
	Resent          bool          `json:"resent,omitempty"`
	Node            string        `json:"node,omitempty"`
}

type header struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

func encodeAttempt(a *job.Attempt) (string, error) {
	is := attempt{
		Number: a.Number, StartedAt: a.StartedAt, Duration: a.Duration, DNS: a.Timings.DNS, Connect: a.Timings.Connect, TLS: a.Timings.TLS,
		FirstByte: a.Timings.FirstByte, Reused: a.Timings.Reused, Status: a.Status, Error: a.Error, ResponseBody: a.ResponseBody, NextAt: a.NextAt,
		Reason: a.Reason, Version: a.Version, ConnectRetries: a.ConnectRetries, Resent: a.Resent, Node: a.Node,
	}
	for _, h := range a.ResponseHeaders {
		is.ResponseHeaders = append(is.ResponseHeaders, header(h))
	}
	text, err := json.Marshal(&is)
	if err != nil {
		return "", fmt.Errorf("encode an attempt: %w", err)
	}
	return string(text), nil
}

func decodeAttempt(text string) (job.Attempt, error) {
	var is attempt
	if err := json.Unmarshal([]byte(text), &is); err != nil {
		return job.Attempt{}, err
	}
	a := job.Attempt{
		Number: is.Number, StartedAt: is.StartedAt, Duration: is.Duration, Status: is.Status, Error: is.Error, ResponseBody: is.ResponseBody,
		Timings: job.Timings{DNS: is.DNS, Connect: is.Connect, TLS: is.TLS, FirstByte: is.FirstByte, Reused: is.Reused},
		NextAt:  is.NextAt, Reason: is.Reason, Version: is.Version, ConnectRetries: is.ConnectRetries, Resent: is.Resent, Node: is.Node,
	}
	for _, h := range is.ResponseHeaders {
		a.ResponseHeaders = append(a.ResponseHeaders, job.Header(h))
	}
	return a, nil
}

// decodeLog decodes the log of a job's attempts.
func decodeLog(texts []string) ([]job.Attempt, error) {
	log := make([]job.Attempt, len(texts))
	for i, text := range texts {
		var err error
		if log[i], err = decodeAttempt(text); err != nil {
			return nil, fmt.Errorf("%w: attempt %d: %w", store.ErrUnreadable, i+1, err)
		}
	}
	return log, nil
}
