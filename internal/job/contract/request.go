package contract

import (
	"net/http"
	"net/url"
	"strconv"

	"github.com/duehook/duehook/internal/job"
)

// HeaderSignature is the header with the signature of a request, HeaderTopicSignature that with the one of its topic.
const (
	HeaderSignature      = "Webhook-Signature"
	HeaderTopicSignature = "Duehook-Topic-Signature"
)

// SignedTopic is what takes the place of the webhook-id in the signature of a topic, which has no body. No webhook-id begins
// like it, so no signature of a body is one of a topic. It holds for one message: the webhook-id is a part of it.
func SignedTopic(topic, id string) string { return "topic:" + topic + "\n" + id }

// Headers of a delivery, in the form in which net/http keeps them.
const (
	headerUserAgent   = "User-Agent"
	headerID          = "Webhook-Id"
	headerTimestamp   = "Webhook-Timestamp"
	headerTopic       = "Duehook-Topic"
	headerJobID       = "Duehook-Job-Id"
	headerAttempt     = "Duehook-Attempt"
	headerDueAt       = "Duehook-Due-At"
	headerTraceparent = "Traceparent"
	headerTracestate  = "Tracestate"
	headerSchedule    = "Duehook-Schedule"
	headerOccurrence  = "Duehook-Schedule-Time"
	headerCount       = "Duehook-Count"
	headerGroup       = "Duehook-Group"
	headerGroupID     = "Duehook-Group-Id"

	ownHeaders = 12 // of most requests, with those that have no name here
)

// RequestHeader returns the header of the request of an attempt, without a signature. number is
// that of the attempt, stamp its time, and agent who sends it.
func RequestHeader(j *job.Job, number int, stamp job.Instant, agent string) http.Header {
	h := make(http.Header, len(j.Spec.Headers)+ownHeaders)
	for _, user := range j.Spec.Headers {
		h.Set(user.Name, user.Value)
	}
	if j.Spec.ContentType != "" {
		h.Set("Content-Type", j.Spec.ContentType)
	}
	if j.Spec.Traceparent != "" {
		h.Set(headerTraceparent, j.Spec.Traceparent)
		if j.Spec.Tracestate != "" {
			h.Set(headerTracestate, j.Spec.Tracestate)
		}
	}
	setAll(h, []field{
		{headerUserAgent, agent},
		{headerID, j.MessageID()},
		{headerTimestamp, strconv.FormatInt(stamp.Time().Unix(), 10)},
		{headerTopic, url.PathEscape(j.Topic)}, // headers are ASCII; so are most names, and unchanged
		{headerJobID, url.PathEscape(j.ID)},
		{headerAttempt, strconv.Itoa(number)},
		{headerDueAt, j.AttemptDue().RFC3339()},
	})
	if o := j.Spec.Occurrence; o != nil {
		setAll(h, []field{{headerSchedule, url.PathEscape(o.Schedule)}, {headerOccurrence, o.Time.RFC3339()}})
	}
	if j.Spec.Count != nil {
		h.Set(headerCount, strconv.FormatInt(j.Counted, 10))
	}
	if g := j.Spec.Group; g != nil {
		setAll(h, []field{{headerGroup, url.PathEscape(g.Group)}, {headerGroupID, url.PathEscape(j.GroupID())}})
	}
	return h
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
