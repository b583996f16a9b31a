package receiver

import (
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// The bounds of a Retry-After in duehook.
const (
	minWait = time.Second
	maxWait = 24 * time.Hour
)

// answerError is an error with an answer. Its values are comparable, so errors.Is works with what the functions below return.
type answerError struct {
	status int
	header string // with its value, adds to the status
	value  string
	wait   time.Duration // for Retry-After; zero: none
	at     string        // for Duehook-At; empty: none
}

func (e answerError) Error() string {
	text := strconv.Itoa(e.status) + " " + http.StatusText(e.status)
	if e.value != "" {
		text += ", " + e.value
	}
	if e.wait > 0 {
		text += fmt.Sprintf(", again in %v", e.wait)
	}
	if e.at != "" {
		text += ", again at " + e.at
	}
	return "answer " + text
}

// write answers without the reason: senders store answers.
func (e answerError) write(w http.ResponseWriter) {
	if e.header != "" {
		w.Header().Set(e.header, e.value)
	}
	if e.wait > 0 {
		w.Header().Set("Retry-After", strconv.FormatInt(int64(e.wait/time.Second), 10))
	}
	if e.at != "" {
		w.Header().Set("Duehook-At", e.at)
	}
	http.Error(w, http.StatusText(e.status), e.status)
}

// Gone reports that nobody wants such deliveries any more: the job becomes a dead
// letter now (410).
//
// Like the functions below, it returns an error for the function of a Handler,
// which returns it directly or wraps it:
//
//	return fmt.Errorf("order %d is unknown: %w", id, receiver.Gone())
func Gone() error { return answerError{status: http.StatusGone} }

// Abort reports that this job can never succeed: it becomes a dead letter now (400 with webhook-delivery: abort-message).
func Abort() error {
	return answerError{status: http.StatusBadRequest, header: "Webhook-Delivery", value: "abort-message"}
}

// RetryAfter reports that the attempt failed, and sets the time of the next one
// instead of the next step of the ladder (503 with Retry-After). wait is rounded up
// to seconds and clamped to 1 second to 24 hours.
func RetryAfter(wait time.Duration) error {
	return answerError{status: http.StatusServiceUnavailable, wait: wholeSeconds(wait)}
}

// Snooze asks for the delivery again after wait. It uses no attempt, at most 100
// times (409 with Duehook-Action: snooze and Retry-After; other senders see a
// failure). wait is rounded and clamped as by RetryAfter.
func Snooze(wait time.Duration) error {
	// Not 5xx or 429: many of them in a row open the circuit of the endpoint.
	return answerError{
		status: http.StatusConflict, header: "Duehook-Action", value: "snooze", wait: wholeSeconds(wait),
	}
}

// Reschedule asks for the delivery again at a time. It uses an attempt, and is refused
// for the last one (409 with Duehook-Action: reschedule and Duehook-At; other senders
// see a failure). duehook clamps the time to 1 second to 366 days from now.
func Reschedule(at time.Time) error {
	return answerError{
		status: http.StatusConflict, header: "Duehook-Action", value: "reschedule", at: at.UTC().Format("2006-01-02T15:04:05.000Z07:00"),
	}
}

func wholeSeconds(wait time.Duration) time.Duration {
	wait = min(max(wait, minWait), maxWait)
	return (wait + time.Second - 1).Truncate(time.Second)
}
