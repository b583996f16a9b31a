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
	headerSchedule    = "Duehook-Schedule"
	headerOccurrence  = "Duehook-Schedule-Time"
	headerRounds      = "Duehook-Rounds"
	headerCount       = "Duehook-Count"
	headerGroup       = "Duehook-Group"
	headerGroupID     = "Duehook-Group-Id"

	ownHeaders = 12 // of most requests, with those that have no name here
)

// newRequest returns the request of an attempt with a timestamp.
func (s *sender) newRequest(ctx context.Context, j *job.Job, number int, stamp job.Instant) (*retryablehttp.Request, error) {
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
		{headerID, j.MessageID()},
		{headerTimestamp, strconv.FormatInt(stamp.Time().Unix(), 10)},
		{headerTopic, url.PathEscape(j.Topic)}, // headers are ASCII; so are most names, and unchanged
		{headerJobID, url.PathEscape(j.ID)},
		{headerAttempt, strconv.Itoa(number)},
		{headerDueAt, dueAt(j).RFC3339()},
	})
	if o := j.Spec.Occurrence; o != nil {
		setAll(h, []field{{headerSchedule, url.PathEscape(o.Schedule)}, {headerOccurrence, o.Time.RFC3339()}})
	}
	if rounds := j.Spec.Rounds(); rounds > 0 {
		h.Set(headerRounds, strconv.Itoa(rounds))
	}
	if j.Spec.Count != nil {
		h.Set(headerCount, strconv.FormatInt(j.Counted, 10))
	}
	if g := j.Spec.Group; g != nil {
		setAll(h, []field{{headerGroup, url.PathEscape(g.Group)}, {headerGroupID, url.PathEscape(j.GroupID())}})
	}
	return req, nil
}

// field is a header whose name is in the form in which net/http keeps it.
type field struct{ name, value string }

// setAll sets fields. Their values share one array, to save allocations.
func setAll(h http.Header, fields []field) {
	values := make([]string, len(fields))
	for i, f := range fields {
		values[i] = f.value
		h[f.name] = values[i : i+1 : i+1]
	}
}

// complete adds the signature and the headers of the job's dialect.
func (s *sender) complete(ctx context.Context, h http.Header, j *job.Job, number int, stamp job.Instant) error {
	if err := s.sign(ctx, h, j, stamp); err != nil {
		return err
	}
	own := s.dialect(j).Headers
	if own == nil {
		return nil
	}
	headers, err := own(ctx, j, number, stamp)
	for _, added := range headers {
		h.Set(added.Name, added.Value)
	}
	return err
}

// sign adds the signature, if requests are signed.
func (s *sender) sign(ctx context.Context, h http.Header, j *job.Job, stamp job.Instant) error {
	if s.signer == nil {
		return nil
	}
	signature, err := s.signer.Sign(ctx, j.Topic, j.MessageID(), stamp.Time(), j.Spec.Body)
	if err != nil {
		return err
	}
	h.Set(headerSignature, signature)
	return nil
}

// markReplayable allows the transport to repeat the request on another connection if the
// receiver closed an idle one before it answered. Otherwise this common race would cost an
// attempt. The empty header is not sent; receivers recognize duplicates by webhook-id.
func markReplayable(h http.Header) {
	const key = "X-Idempotency-Key"
	if _, ok := h[key]; !ok {
		h[key] = nil
	}
}

// dueAt returns when the next attempt is due.
func dueAt(j *job.Job) job.Instant {
	if j.NextAt != 0 {
		return j.NextAt
	}
	return j.DueAt
}
