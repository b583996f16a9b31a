// Package contract is what a receiver is sent, and what its answer means.
package contract

import (
	"bytes"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/duehook/duehook/internal/job"
)

// Bounds of what a receiver may ask for with Retry-After.
const (
	minRetryAfter = time.Second
	maxRetryAfter = 24 * time.Hour
)

// maxReschedule is how far ahead a receiver may put off a job with Duehook-At.
const maxReschedule = job.MaxDelay

// Headers by which a receiver controls its deliveries.
const (
	headerDelivery = "Webhook-Delivery" // Standard Webhooks
	headerAction   = "Duehook-Action"
	headerAt       = "Duehook-At"

	deliveryAbort    = "abort-message"
	deliveryDisable  = "disable"
	actionSnooze     = "snooze"
	actionReschedule = "reschedule"
)

// ExpectLimit is how much of a body is read if it decides the outcome, in bytes.
const ExpectLimit = 16 << 10

// ExcerptLimit is how much text the attempt log keeps of a body, in bytes.
const ExcerptLimit = 1 << 10

// Classes of errors, beside "http_NNN".
const (
	TooLarge   = "response_too_large"
	Unexpected = "unexpected_body"
	BadSnooze  = "snooze_without_retry_after"
	BadAt      = "reschedule_without_time"
)

// Answer is the answer of a receiver.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte // the part that was read
	Cut    bool   // there is more
	Lost   string // class of the error that ended reading it, or empty
}

// Judge applies the contract with receivers. Its outcome has no Attempt yet. class is the error of
// the attempt; empty: none. The first matching rule counts:
//
//	410, or webhook-delivery: disable without a 2xx          dead now; the schedule of the job is paused
//	webhook-delivery: abort-message without a 2xx            dead now
//	Duehook-Action: snooze with Retry-After, any status      again then, no attempt used
//	Duehook-Action: snooze without a usable Retry-After      failure
//	Duehook-Action: reschedule with Duehook-At, any status   again then, an attempt used
//	Duehook-Action: reschedule without a usable Duehook-At   failure
//	2xx, and expect holds                                    delivered
//	anything else, with Retry-After                          failure, again then
//	anything else                                            failure
func Judge(a Answer, expect string, now job.Instant) (o job.Outcome, class string) {
	after, named := retryAfter(a.Header.Get("Retry-After"), now, maxRetryAfter)
	success := a.Status >= 200 && a.Status <= 299
	switch {
	case a.Status == http.StatusGone, !success && headerIs(a.Header, headerDelivery, deliveryDisable):
		return job.Outcome{Kind: job.OutcomeRefused, Reason: job.ReasonGone}, StatusClass(a.Status)
	case !success && headerIs(a.Header, headerDelivery, deliveryAbort):
		return job.Outcome{Kind: job.OutcomeRefused, Reason: job.ReasonAborted}, StatusClass(a.Status)
	case headerIs(a.Header, headerAction, actionSnooze):
		if !named {
			return job.Outcome{Kind: job.OutcomeFailed}, BadSnooze
		}
		return job.Outcome{Kind: job.OutcomeSnoozed, After: after}, ""
	case headerIs(a.Header, headerAction, actionReschedule):
		at, ok := rescheduleAt(a.Header.Get(headerAt), now)
		if !ok {
			return job.Outcome{Kind: job.OutcomeFailed}, BadAt
		}
		return job.Outcome{Kind: job.OutcomeRescheduled, At: at}, ""
	case success:
		if class := expectation(a, expect); class != "" {
			return job.Outcome{Kind: job.OutcomeFailed, After: after}, class
		}
		return job.Outcome{Kind: job.OutcomeDelivered}, ""
	}
	return job.Outcome{Kind: job.OutcomeFailed, After: after}, StatusClass(a.Status)
}

// expectation returns the class of error of a 2xx without the expected body. Without an
// expectation, the body does not matter.
func expectation(a Answer, expect string) string {
	switch {
	case expect == "":
		return ""
	case a.Lost != "":
		return a.Lost
	case a.Cut, len(a.Body) > ExpectLimit:
		return TooLarge
	case !strings.EqualFold(string(bytes.TrimSpace(a.Body)), strings.TrimSpace(expect)):
		return Unexpected
	}
	return ""
}

func headerIs(h http.Header, name, value string) bool {
	return strings.EqualFold(strings.TrimSpace(h.Get(name)), value)
}

// StatusClass is the class of error of a status.
func StatusClass(status int) string { return "http_" + strconv.Itoa(status) }

// retryAfter reads a Retry-After header: seconds or a date. It returns false if the header is
// absent or invalid. The result is from minRetryAfter to most.
func retryAfter(value string, now job.Instant, most time.Duration) (time.Duration, bool) {
	value = strings.TrimSpace(value)
	if value == "" {
		return 0, false
	}
	if strings.Trim(value, "0123456789") == "" {
		seconds, err := strconv.ParseInt(value, 10, 64)
		if err != nil || seconds > int64(most/time.Second) {
			return most, true // also with too many digits for an int64
		}
		return max(time.Duration(seconds)*time.Second, minRetryAfter), true
	}
	date, err := http.ParseTime(value)
	if err != nil {
		return 0, false
	}
	// time.Time.Sub saturates: a far year cannot overflow.
	return min(max(date.Sub(now.Time()), minRetryAfter), most), true
}

// rescheduleAt reads a Duehook-At header: a time as the API takes it, clamped to
// minRetryAfter to maxReschedule from now. It returns false if the header is absent or
// invalid.
func rescheduleAt(value string, now job.Instant) (job.Instant, bool) {
	at, err := job.ParseWritten(strings.TrimSpace(value))
	if err != nil {
		return 0, false
	}
	return min(max(job.InstantOf(at), now.Add(minRetryAfter)), now.Add(maxReschedule)), true
}

// Excerpt returns the beginning of body as text that any store can keep: valid UTF-8
// without NUL, at most excerptLimit bytes.
func Excerpt(body []byte) string {
	text := CutRunes(body, ExcerptLimit)
	if !utf8.Valid(text) || bytes.IndexByte(text, 0) >= 0 {
		mark := []byte("\uFFFD")
		text = CutRunes(bytes.ToValidUTF8(bytes.ReplaceAll(text, []byte{0}, mark), mark), ExcerptLimit)
	}
	return string(text)
}

// CutRunes returns at most limit bytes of text, without a partial rune at the end.
func CutRunes(text []byte, limit int) []byte {
	if len(text) <= limit {
		return text
	}
	cut := limit
	for cut > max(limit-utf8.UTFMax, 0) && !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut]
}
