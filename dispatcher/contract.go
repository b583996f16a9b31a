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

// Headers by which a receiver steers us.
const (
	headerDelivery = "Webhook-Delivery" // Standard Webhooks
	headerAction   = "Duehook-Action"

	deliveryAbort = "abort-message"
	actionSnooze  = "snooze"
)

// answer is what a receiver said.
type answer struct {
	status  int
	header  http.Header
	body    []byte // as much of it as was read
	cut     bool   // there is more than was read
	bodyErr string // class of the error that ended reading, or empty
}

// judge applies the receiver contract. Its outcome has no Attempt yet; class
// is the attempt's error, empty when there is none. The first rule that fits
// counts:
//
//	410, or webhook-delivery: abort-message without a 2xx    dead now
//	Duehook-Action: snooze with Retry-After, any status      again then, no attempt used
//	Duehook-Action: snooze without a usable Retry-After      failure
//	2xx, and expect holds                                    delivered
//	429 or 503 with Retry-After                              failure, again then
//	anything else                                            failure
func judge(a answer, expect string, now job.Instant) (o job.Outcome, class string) {
	after, named := retryAfter(a.header.Get("Retry-After"), now)
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

// expectation is the class of error of a 2xx without the expected body. When
// nothing is expected, the body need not even arrive.
func expectation(a answer, expect string) string {
	switch {
	case expect == "":
		return ""
	case a.bodyErr != "":
		return a.bodyErr
	case a.cut:
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

// retryAfter reads a Retry-After header, which holds seconds or a date; false
// means that it is absent or nonsense. The result is within the bounds.
func retryAfter(value string, now job.Instant) (time.Duration, bool) {
	value = strings.TrimSpace(value)
	if value == "" {
		return 0, false
	}
	if strings.Trim(value, "0123456789") == "" {
		seconds, err := strconv.ParseInt(value, 10, 64)
		if err != nil || seconds > int64(maxRetryAfter/time.Second) {
			return maxRetryAfter, true // too many digits for an int64 is also just long
		}
		return max(time.Duration(seconds)*time.Second, minRetryAfter), true
	}
	date, err := http.ParseTime(value)
	if err != nil {
		return 0, false
	}
	// time.Time.Sub saturates, so a far year cannot overflow.
	return min(max(date.Sub(now.Time()), minRetryAfter), maxRetryAfter), true
}

// excerpt is the beginning of body as text that any store can keep: valid
// UTF-8 without NUL, at most excerptLimit bytes.
func excerpt(body []byte) string {
	text := cutRunes(body, excerptLimit)
	if !utf8.Valid(text) || bytes.IndexByte(text, 0) >= 0 {
		mark := []byte("\uFFFD")
		text = cutRunes(bytes.ToValidUTF8(bytes.ReplaceAll(text, []byte{0}, mark), mark), excerptLimit)
	}
	return string(text)
}

// cutRunes is the beginning of text, at most limit bytes, without half a rune
// at its end.
func cutRunes(text []byte, limit int) []byte {
	if len(text) <= limit {
		return text
	}
	text = text[:limit]
	for i := limit - 1; i >= 0 && i > limit-utf8.UTFMax; i-- {
		if utf8.RuneStart(text[i]) {
			if !utf8.FullRune(text[i:]) {
				return text[:i]
			}
			break
		}
	}
	return text
}
