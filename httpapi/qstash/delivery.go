package qstash

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/job/contract"
	"github.com/duehook/duehook/store/successors"
)

// minCallbackResponse is how much of an answer callbacks have at least, in bytes.
const minCallbackResponse = 64 << 10

// Contract is what holds for the deliveries of messages; without keys, there is no signature.
func Contract(keys Keys) *contract.Dialect {
	return &contract.Dialect{
		Headers: deliveryHeaders(keys), Judge: judge, RenderCallback: renderCallback, CallbackResponse: minCallbackResponse, Exact: true,
	}
}

// deliveryHeaders returns a function that makes the headers of an attempt; without keys, there is no
// signature.
func deliveryHeaders(keys Keys) func(ctx context.Context, j *job.Job, number int, at job.Instant) ([]job.Header, error) {
	return func(ctx context.Context, j *job.Job, number int, at job.Instant) ([]job.Header, error) {
		all := []job.Header{
			{Name: "User-Agent", Value: "Upstash-QStash"},
			{Name: "Upstash-Message-Id", Value: messageID(j)},
			{Name: "Upstash-Retried", Value: strconv.Itoa(number - 1)},
		}
		if ip := settingsOf(j.Spec.Dialect).CallerIP; ip != "" {
			all = append(all, job.Header{Name: "Upstash-Caller-Ip", Value: ip})
		}
		if g := j.Spec.Group; g != nil {
			all = append(all, job.Header{Name: "Upstash-Topic-Name", Value: g.Group})
		}
		if o := j.Spec.Occurrence; o != nil {
			all = append(all, job.Header{Name: "Upstash-Schedule-Id", Value: o.Schedule})
		}
		if keys == nil {
			return all, nil
		}
		pair, err := keys.Keys(ctx)
		if err != nil {
			return nil, err
		}
		return append(all, job.Header{Name: "Upstash-Signature", Value: signed(pair.Current, j, at.Time())}), nil
	}
}

const signatureLife = 300 // seconds

// signed is the JWT that the SDKs verify.
func signed(key string, j *job.Job, at time.Time) string {
	digest := sha256.Sum256(j.Spec.Body)
	claims, _ := json.Marshal(map[string]any{ // it always has a form
		"iss": "Upstash", "sub": string(j.Spec.Destination), "iat": at.Unix(), "exp": at.Unix() + signatureLife, "nbf": 0,
		"jti": "jwt_" + rand.Text(), "body": base64.URLEncoding.EncodeToString(digest[:]),
	})
	text := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"HS256","typ":"JWT"}`)) + "." + base64.RawURLEncoding.EncodeToString(claims)
	mac := hmac.New(sha256.New, []byte(key))
	mac.Write([]byte(text))
	return text + "." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// statusNonRetryable ends a message at once, with its header.
const statusNonRetryable = 489

// judge decides on an answer: 2xx delivers, 489 with Upstash-NonRetryable-Error ends, and
// anything else is a failure.
func judge(status int, header http.Header, now job.Instant) job.Outcome {
	switch {
	case status >= 200 && status <= 299:
		return job.Outcome{Kind: job.OutcomeDelivered}
	case status == statusNonRetryable && isTrue(header.Get("Upstash-NonRetryable-Error")):
		return job.Outcome{Kind: job.OutcomeRefused, Reason: job.ReasonAborted}
	}
	return job.Outcome{Kind: job.OutcomeFailed, After: namedDelay(header, now.Time())}
}

// namedDelay is the delay that an answer names; zero: none.
func namedDelay(header http.Header, now time.Time) time.Duration {
	for _, name := range []string{"Retry-After", "X-RateLimit-Reset", "X-RateLimit-Reset-Requests", "X-RateLimit-Reset-Tokens"} {
		text := header.Get(name)
		if text == "" {
			continue
		}
		delay, ok := parseDuration(text)
		if !ok {
			date, err := http.ParseTime(strings.TrimSpace(text))
			if err != nil {
				continue
			}
			delay = date.Sub(now)
		}
		if delay <= longestDelay {
			return max(delay, time.Millisecond)
		}
	}
	return 0
}

// report is the body of a callback.
type report struct {
	Status          int                 `json:"status"`
	Header          map[string][]string `json:"header"`
	Body            []byte              `json:"body"`
	Retried         int                 `json:"retried"`
	MaxRetries      int                 `json:"maxRetries"`
	DLQID           string              `json:"dlqId,omitempty"`
	SourceMessageID string              `json:"sourceMessageId"`
	TopicName       string              `json:"topicName,omitempty"`
	EndpointName    string              `json:"endpointName,omitempty"`
	URL             string              `json:"url"`
	Method          string              `json:"method"`
	SourceHeader    map[string][]string `json:"sourceHeader"`
	SourceBody      []byte              `json:"sourceBody"`
	NotBefore       int64               `json:"notBefore"`
	CreatedAt       int64               `json:"createdAt"`
	ScheduleID      string              `json:"scheduleId,omitempty"`
	CallerIP        string              `json:"callerIP,omitempty"`
}

// renderCallback makes the body of a callback.
func renderCallback(callback *job.Job) ([]byte, error) {
	of, err := successors.Report(callback)
	if err != nil {
		return nil, err
	}
	j := &of.Job
	v := viewOf(j)
	r := report{
		Header: map[string][]string{}, Body: []byte{}, Retried: max(j.Attempts-1, 0), MaxRetries: v.MaxRetries,
		SourceMessageID: v.MessageID, TopicName: v.TopicName, EndpointName: v.EndpointName, URL: v.URL, Method: v.Method,
		SourceHeader: v.Header, SourceBody: append([]byte{}, j.Spec.Body...), NotBefore: int64(j.DueAt), CreatedAt: v.CreatedAt,
		ScheduleID: v.ScheduleID, CallerIP: v.CallerIP,
	}
	if callback.Spec.Reports == job.CallbackDead {
		r.DLQID = dlqID(j)
	}
	if a := j.LastAttempt; a != nil {
		r.Status, r.Header = a.Status, headers(a.ResponseHeaders, "")
	}
	if of.Response != nil {
		r.Body = append(r.Body, of.Response.Body...)
	}
	return json.Marshal(r)
}
