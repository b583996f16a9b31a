package receiver

import (
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// The longest and shortest times that duehook waits when told to.
const (
	minWait = time.Second
	maxWait = 24 * time.Hour
)

// answerError is an error that says how to answer. Values of it are
// comparable, so errors.Is works with what the functions below return.
type answerError struct {
	status int
	header string // with its value, tells duehook what the status alone does not
	value  string
	wait   time.Duration // for Retry-After; zero: none
}

func (e answerError) Error() string {
	text := strconv.Itoa(e.status) + " " + http.StatusText(e.status)
	if e.value != "" {
		text += ", " + e.value
	}
	if e.wait > 0 {
		text += fmt.Sprintf(", again in %v", e.wait)
	}
	return "answer " + text
}

// write answers. Why is not told: answers are kept by the sender.
func (e answerError) write(w http.ResponseWriter) {
	if e.header != "" {
		w.Header().Set(e.header, e.value)
	}
	if e.wait > 0 {
		w.Header().Set("Retry-After", strconv.FormatInt(int64(e.wait/time.Second), 10))
	}
	http.Error(w, http.StatusText(e.status), e.status)
}

// Gone says that nobody wants such deliveries any more: the job becomes a dead
// letter now (410).
//
// Like the functions below it makes an error for a Handler's function to
// return, as it is or wrapped with the cause:
//
//	return fmt.Errorf("order %d is unknown: %w", id, receiver.Gone())
func Gone() error { return answerError{status: http.StatusGone} }

// Abort says that this job can never succeed, though others may: it becomes a
// dead letter now (400 with webhook-delivery: abort-message).
func Abort() error {
	return answerError{status: http.StatusBadRequest, header: "Webhook-Delivery", value: "abort-message"}
}

// RetryAfter says that the attempt failed, and when to make the next (503 with
// Retry-After), instead of at the next step of the job's retries. wait is
// rounded up to seconds, and brought to between a second and 24 hours.
func RetryAfter(wait time.Duration) error {
	return answerError{status: http.StatusServiceUnavailable, wait: wholeSeconds(wait)}
}

// Snooze says that it is too early, and when to come again. It uses up none of
// the job's attempts, at most 100 times (409 with Duehook-Action: snooze and
// Retry-After; other senders see a failure). wait is treated as by RetryAfter.
func Snooze(wait time.Duration) error {
	// Of 5xx and 429, duehook takes many in a row for an endpoint in trouble.
	return answerError{
		status: http.StatusConflict, header: "Duehook-Action", value: "snooze", wait: wholeSeconds(wait),
	}
}

func wholeSeconds(wait time.Duration) time.Duration {
	wait = min(max(wait, minWait), maxWait)
	return (wait + time.Second - 1).Truncate(time.Second)
}
