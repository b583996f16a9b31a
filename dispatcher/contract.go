package dispatcher

import (
	"bytes"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/duehook/duehook/job"
)

// Bounds of what a receiver may ask for with Retry-After.
const (
	minRetryAfter = time.Second
	maxRetryAfter = 24 * time.Hour
)

// maxReschedule is how far ahead a receiver may put off a job with Duehook-At, or arm it
// again.
const maxReschedule = job.MaxDelay

// Headers by which a receiver controls its deliveries.
const (
	headerDelivery = "Webhook-Delivery" // Standard Webhooks
	headerAction   = "Duehook-Action"
	headerAt       = "Duehook-At"

	deliveryAbort    = "abort-message"
	actionSnooze     = "snooze"
	actionReschedule = "reschedule"
	actionAgain      = "again"
)

// answer is the answer of a receiver.
type answer struct {
	status  int
	header  http.Header
	body    []byte // the part that was read
	cut     bool   // there is more
	bodyErr string // class of the error that ended reading, or empty
}

// judge applies the receiver contract. Its outcome has no Attempt yet. class is the error of
// the attempt; empty: none. The first matching rule counts:
//
//	410, or webhook-delivery: abort-message without a 2xx    dead now
//	Duehook-Action: snooze with Retry-After, any status      again then, no attempt used
//	Duehook-Action: snooze without a usable Retry-After      failure
//	Duehook-Action: reschedule with Duehook-At, any status   again then, an attempt used
//	Duehook-Action: reschedule without a usable Duehook-At   failure
//	2xx, and Duehook-Action: again with Retry-After          delivered; armed again with After
//	2xx, and Duehook-Action: again without Retry-After       failure
//	2xx, and expect holds                                    delivered
//	429 or 503 with Retry-After                              failure, again then
//	anything else                                            failure
func judge(a answer, expect string, now job.Instant) (o job.Outcome, class string) {
	after, named := retryAfter(a.header.Get("Retry-After"), now, maxRetryAfter)
	success := a.status >= 200 && a.status <= 299
	switch {
	case a.status == http.StatusGone:
		return job.Outcome{Kind: job.OutcomeRefused, Reason: job.ReasonGone}, statusClass(a.status)
	case !success && headerIs(a.header, headerDelivery, deliveryAbort):
		return job.Outcome{Kind: job.OutcomeRefused, Reason: job.ReasonAborted}, statusClass(a.status)
	case headerIs(a.header, headerAction, actionSnooze):
		if !named {
			return job.Outcome{Kind: job.OutcomeFailed}, classBadSnooze
		}
		return job.Outcome{Kind: job.OutcomeSnoozed, After: after}, ""
	case headerIs(a.header, headerAction, actionReschedule):
		at, ok := rescheduleAt(a.header.Get(headerAt), now)
		if !ok {
			return job.Outcome{Kind: job.OutcomeFailed}, classBadAt
		}
		return job.Outcome{Kind: job.OutcomeRescheduled, At: at}, ""
	case success && headerIs(a.header, headerAction, actionAgain):
		after, named := retryAfter(a.header.Get("Retry-After"), now, maxReschedule)
		if !named {
			return job.Outcome{Kind: job.OutcomeFailed}, classBadAgain
		}
		return job.Outcome{Kind: job.OutcomeDelivered, After: after}, ""
	case success:
		if class := expectation(a, expect); class != "" {
			return job.Outcome{Kind: job.OutcomeFailed}, class
		}
		return job.Outcome{Kind: job.OutcomeDelivered}, ""
	case a.status == http.StatusTooManyRequests, a.status == http.StatusServiceUnavailable:
		return job.Outcome{Kind: job.OutcomeFailed, After: after}, statusClass(a.status)
	}
	return job.Outcome{Kind: job.OutcomeFailed}, statusClass(a.status)
}

// expectation returns the class of error of a 2xx without the expected body. Without an
// expectation, the body does not matter.
func expectation(a answer, expect string) string {
	switch {
	case expect == "":
		return ""
	case a.bodyErr != "":
		return a.bodyErr
	case a.cut, len(a.body) > expectLimit:
		return classTooLarge
	case !strings.EqualFold(string(bytes.TrimSpace(a.body)), strings.TrimSpace(expect)):
		return classUnexpected
	}
	return ""
}

func headerIs(h http.Header, name, value string) bool {
	return strings.EqualFold(strings.TrimSpace(h.Get(name)), value)
}

func statusClass(status int) string { return "http_" + strconv.Itoa(status) }

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

// excerpt returns the beginning of body as text that any store can keep: valid UTF-8
// without NUL, at most excerptLimit bytes.
func excerpt(body []byte) string {
	text := cutRunes(body, excerptLimit)
	if !utf8.Valid(text) || bytes.IndexByte(text, 0) >= 0 {
		mark := []byte("\uFFFD")
		text = cutRunes(bytes.ToValidUTF8(bytes.ReplaceAll(text, []byte{0}, mark), mark), excerptLimit)
	}
	return string(text)
}

// cutRunes returns at most limit bytes of text, without a partial rune at the end.
func cutRunes(text []byte, limit int) []byte {
	if len(text) <= limit {
		return text
	}
	cut := limit
	for cut > max(limit-utf8.UTFMax, 0) && !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut]
}
