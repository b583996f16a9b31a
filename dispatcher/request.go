package dispatcher

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"github.com/hashicorp/go-retryablehttp"

	"github.com/duehook/duehook/job"
)

// Headers of a delivery, in the form in which net/http keeps them.
const (
	headerUserAgent   = "User-Agent"
	headerID          = "Webhook-Id"
	headerTimestamp   = "Webhook-Timestamp"
	headerSignature   = "Webhook-Signature"
	headerTopic       = "Duehook-Topic"
	headerJobID       = "Duehook-Job-Id"
	headerAttempt     = "Duehook-Attempt"
	headerDueAt       = "Duehook-Due-At"
	headerTraceparent = "Traceparent"

	ownHeaders = 12 // at most, with those that have no name here
)

// newRequest makes the request of attempt number of j, which starts at at.
func (s *sender) newRequest(ctx context.Context, j *job.Job, number int, at job.Instant) (*retryablehttp.Request, error) {
	var body any // an empty []byte would be sent as a body of unknown length
	if len(j.Spec.Body) > 0 {
		body = j.Spec.Body
	}
	req, err := retryablehttp.NewRequestWithContext(ctx, j.Spec.HTTPMethod(), string(j.Spec.Destination), body)
	if err != nil {
		return nil, err
	}
	h := make(http.Header, len(j.Spec.Headers)+ownHeaders)
	req.Header = h
	for _, user := range j.Spec.Headers {
		h.Set(user.Name, user.Value)
	}
	if s.replay {
		markReplayable(h)
	}
	if j.Spec.ContentType != "" {
		h.Set("Content-Type", j.Spec.ContentType)
	}
	if j.Spec.Traceparent != "" {
		h.Set(headerTraceparent, j.Spec.Traceparent)
	}
	setAll(h, []field{
		{headerUserAgent, s.agent},
		{headerID, j.UID},
		{headerTimestamp, strconv.FormatInt(at.Time().Unix(), 10)},
		{headerTopic, url.PathEscape(j.Topic)}, // headers are ASCII; so are most names, and unchanged
		{headerJobID, url.PathEscape(j.ID)},
		{headerAttempt, strconv.Itoa(number)},
		{headerDueAt, dueAt(j).RFC3339()},
	})
	return req, nil
}

// field is a header whose name is in the form in which net/http keeps it.
type field struct{ name, value string }

// setAll sets fields. Their values share one array: header by header, each
// would be an allocation of its own.
func setAll(h http.Header, fields []field) {
	values := make([]string, len(fields))
	for i, f := range fields {
		values[i] = f.value
		h[f.name] = values[i : i+1 : i+1]
	}
}

// sign adds the signature, if requests are signed.
func (s *sender) sign(ctx context.Context, h http.Header, j *job.Job, at job.Instant) error {
	if s.signer == nil {
		return nil
	}
	signature, err := s.signer.Sign(ctx, j.Topic, j.UID, at.Time(), j.Spec.Body)
	if err != nil {
		return err
	}
	h.Set(headerSignature, signature)
	return nil
}

// markReplayable lets the transport send the request once more, on another
// connection, when a kept-alive one turns out to have been closed by the
// receiver before it answered. Without it that everyday race would use up an
// attempt. An empty value is not sent; receivers tell doubles by webhook-id.
func markReplayable(h http.Header) {
	const key = "X-Idempotency-Key"
	if _, ok := h[key]; !ok {
		h[key] = nil
	}
}

// dueAt is when the attempt to be made was due.
func dueAt(j *job.Job) job.Instant {
	if j.NextAt != 0 {
		return j.NextAt
	}
	return j.DueAt
}
