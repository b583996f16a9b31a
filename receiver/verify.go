package receiver

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Errors of Verify.
var (
	// ErrHeaders says that a header of a delivery is missing or malformed.
	ErrHeaders = errors.New("not the headers of a delivery")
	// ErrTimestamp says that it was signed too long ago, or in our future.
	ErrTimestamp = errors.New("signed at another time")
	// ErrSignature says that it was not signed with any of the secrets.
	ErrSignature = errors.New("no signature by a known secret")
	// ErrTopic says that it is not, by its signature, of one of Options.Topics.
	ErrTopic = errors.New("not of an accepted topic")
	// ErrTooLarge says that the body is larger than Options.MaxBody.
	ErrTooLarge = errors.New("body too large")
	// ErrBody says that the body did not arrive whole.
	ErrBody = errors.New("body cannot be read")
)

// Headers of a delivery.
const (
	headerID        = "Webhook-Id"
	headerTimestamp = "Webhook-Timestamp"
	headerSignature = "Webhook-Signature"
	headerTopic     = "Duehook-Topic"
	headerOfTopic   = "Duehook-Topic-Signature"
	headerJobID     = "Duehook-Job-Id"
	headerAttempt   = "Duehook-Attempt"
	headerDueAt     = "Duehook-Due-At"
)

// Delivery is one request of duehook's. The signature covers ID, SentAt and
// Body, and with Options.Topics also Topic, not the other headers: do not let those
// decide what TLS does not protect.
type Delivery struct {
	// ID is the webhook-id: the same on every attempt, and for every replay, of
	// one registered job.
	ID string
	// SentAt is the webhook-timestamp: when this attempt began, to the second.
	SentAt time.Time
	Body   []byte

	// Topic and JobID are how the job was registered. They, Attempt and DueAt are
	// zero when the sender is not duehook.
	Topic, JobID string
	// Attempt is 1 for the first.
	Attempt int
	// DueAt is when this attempt was due.
	DueAt time.Time
	// Header are all headers of the request.
	Header http.Header
}

// Verify reads the body of a request and returns the delivery, if one of the secrets signed
// it. Otherwise the error wraps one of this package's.
func (r *Receiver) Verify(req *http.Request) (Delivery, error) {
	if len(r.webhooks) == 0 {
		return Delivery{}, fmt.Errorf("%w: this Receiver has no secret; make it with New", ErrSignature)
	}
	d := Delivery{Header: req.Header}
	if err := d.readHeaders(); err != nil {
		return Delivery{}, err
	}
	if r.now().Sub(d.SentAt).Abs() > r.tolerance {
		return Delivery{}, fmt.Errorf("%w: %v is not within %v of our clock",
			ErrTimestamp, d.SentAt.UTC().Format(time.RFC3339), r.tolerance)
	}
	var err error
	if d.Body, err = io.ReadAll(io.LimitReader(req.Body, r.maxBody+1)); err != nil {
		return Delivery{}, fmt.Errorf("%w: %w", ErrBody, err)
	}
	if int64(len(d.Body)) > r.maxBody {
		return Delivery{}, fmt.Errorf("%w: more than %d bytes", ErrTooLarge, r.maxBody)
	}
	for _, webhook := range r.webhooks {
		if webhook.VerifyIgnoringTimestamp(d.Body, req.Header) == nil {
			if err := r.checkTopic(&d); err != nil {
				return Delivery{}, err
			}
			return d, nil
		}
	}
	return Delivery{}, ErrSignature
}

// checkTopic checks the topic of a verified delivery by its own signature.
func (r *Receiver) checkTopic(d *Delivery) error {
	if len(r.topics) == 0 {
		return nil
	}
	signed := http.Header{}
	signed.Set(headerID, "topic:"+d.Topic+"\n"+d.ID)
	signed.Set(headerTimestamp, d.Header.Get(headerTimestamp))
	signed.Set(headerSignature, d.Header.Get(headerOfTopic))
	for _, webhook := range r.webhooks {
		if slices.Contains(r.topics, d.Topic) && webhook.VerifyIgnoringTimestamp(nil, signed) == nil {
			return nil
		}
	}
	return fmt.Errorf("%w: %q", ErrTopic, d.Topic)
}

// Sign returns the header webhook-signature of a request with a webhook-id, a webhook-timestamp and a
// body: what Verify accepts. It is for tests, and for programs that pass deliveries on.
func (r *Receiver) Sign(id string, at time.Time, body []byte) (string, error) {
	signatures := make([]string, len(r.webhooks))
	for i, webhook := range r.webhooks {
		var err error
		if signatures[i], err = webhook.Sign(id, at, body); err != nil {
			return "", fmt.Errorf("sign: %w", err)
		}
	}
	return strings.Join(signatures, " "), nil
}

// readHeaders wants the signed ones, each once: of several, others on the way
// could have read another.
func (d *Delivery) readHeaders() error {
	for _, name := range []string{headerID, headerTimestamp, headerSignature} {
		if values := d.Header.Values(name); len(values) != 1 || values[0] == "" {
			return fmt.Errorf("%w: %s must be given once", ErrHeaders, name)
		}
	}
	seconds, err := strconv.ParseInt(d.Header.Get(headerTimestamp), 10, 64)
	if err != nil {
		return fmt.Errorf("%w: %s must be seconds since 1970", ErrHeaders, headerTimestamp)
	}
	d.ID, d.SentAt = d.Header.Get(headerID), time.Unix(seconds, 0)
	d.Topic, d.JobID = unescape(d.Header.Get(headerTopic)), unescape(d.Header.Get(headerJobID))
	if attempt := d.Header.Get(headerAttempt); attempt != "" {
		if d.Attempt, err = strconv.Atoi(attempt); err != nil || d.Attempt < 1 {
			return fmt.Errorf("%w: %s must be a number from 1", ErrHeaders, headerAttempt)
		}
	}
	if due := d.Header.Get(headerDueAt); due != "" {
		if d.DueAt, err = time.Parse(time.RFC3339, due); err != nil {
			return fmt.Errorf("%w: %s must be a time as in RFC 3339", ErrHeaders, headerDueAt)
		}
	}
	return nil
}

// unescape decodes a percent-encoded name of a header.
func unescape(value string) string {
	if name, err := url.PathUnescape(value); err == nil {
		return name
	}
	return value
}
