package job

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// OnConflict says what a registration does when its key is taken.
type OnConflict string

// The conflict policies, as the API writes them; ConflictReject is the default.
const (
	ConflictReject  OnConflict = "reject"  // refuse
	ConflictIgnore  OnConflict = "ignore"  // keep and return the unfinished job
	ConflictReplace OnConflict = "replace" // put the new one in its place, unless it is in flight
	ConflictLater   OnConflict = "later"   // keep the unfinished job, and move its due time later
	ConflictSooner  OnConflict = "sooner"  // or sooner
)

// Request is what a valid draft asks to register.
type Request struct {
	// Key.ID is empty when the draft has none: the caller chooses one.
	Key        Key
	Spec       Spec
	OnConflict OnConflict
}

// Registration reads the draft as the registration of a job. now serves only
// to see how far ahead "at" is. The error is a *ValidationError that names
// every field that is wrong, or wraps ErrBodyTooLarge. The Spec shares memory
// with the draft.
func (d *Draft) Registration(l Limits, now Instant) (Request, error) {
	var f findings
	r := Request{
		Key:        Key{Topic: f.name("topic", d.Topic, DefaultTopic), ID: f.name("id", d.ID, "")},
		OnConflict: f.onConflict(d.OnConflict),
		Spec: Spec{
			BizKey:   f.name("biz_key", d.BizKey, ""),
			Method:   f.method(d.Method),
			Headers:  f.headers(d.Headers),
			Retry:    f.retry(d.Retry),
			Timeout:  f.duration("timeout", d.Timeout, MinTimeout, l.MaxTimeout),
			TTL:      f.ttl(d),
			Labels:   f.labels("labels", d.Labels),
			Priority: f.priority("priority", d.Priority),
		},
	}
	if d.Destination == nil {
		f.add("url", "is required")
	} else if f.check("url", d.Destination.Check()) {
		r.Spec.Destination = *d.Destination
	}
	if w := f.when(d, now); w != nil {
		r.Spec.When = *w
	}
	if d.Expect != nil {
		r.Spec.ExpectBody = f.expectBody(d.Expect.Body)
	}
	f.body(d, &r.Spec, l)
	if err := f.err(); err != nil {
		return Request{}, err
	}
	return r, nil
}

func (f *findings) onConflict(s *string) OnConflict {
	if s == nil {
		return ConflictReject
	}
	switch p := OnConflict(*s); p {
	case ConflictReject, ConflictIgnore, ConflictReplace, ConflictLater, ConflictSooner:
		return p
	}
	f.add("on_conflict", `must be "reject", "ignore", "replace", "later" or "sooner"`)
	return ""
}

// method leaves POST out, as Spec wants it.
func (f *findings) method(s *string) string {
	if s == nil {
		return ""
	}
	switch *s {
	case "POST":
		return ""
	case "PUT", "PATCH":
		return *s
	}
	f.add("method", `must be "POST", "PUT" or "PATCH"`)
	return ""
}

// when is when the draft wants its job to be due, or nil if it does not say.
// An instant is kept as it was given even when it has passed: a repetition of
// the registration must have equal content.
func (f *findings) when(d *Draft, now Instant) *When {
	delay := f.duration("delay", d.Delay, 0, MaxDelay)
	if !given(d.At) {
		if !given(d.Delay) {
			return nil
		}
		return &When{Delay: delay}
	}
	at, err := ParseAt(d.At)
	switch {
	case err != nil:
	case given(d.Delay):
		err = errors.New("must not be given beside delay")
	case at > now.Add(MaxDelay):
		err = fmt.Errorf("must be at most %s ahead", FormatDuration(MaxDelay))
	}
	f.check("at", err)
	return &When{At: at}
}

// ParseAt reads a time as the API takes it: a JSON string for ParseTime, or Unix
// time as a JSON number of 10 digits, in seconds, or of 13, in milliseconds.
func ParseAt(raw json.RawMessage) (Instant, error) {
	raw = trimJSON(raw)
	if len(raw) == 0 || raw[0] != '"' && raw[0] != '-' && (raw[0] < '0' || raw[0] > '9') {
		return 0, errors.New(`must be a time such as "2026-01-31T09:30:00Z" (RFC 3339), or Unix time as a number`)
	}
	if raw[0] == '"' {
		var s string
		if err := json.Unmarshal(raw, &s); err != nil {
			s = ""
		}
		return ParseTime(s)
	}
	n, err := strconv.ParseInt(string(raw), 10, 64)
	switch {
	case err == nil && n > 0 && len(raw) == 10:
		return Instant(1000 * n), nil
	case err == nil && n > 0 && len(raw) == 13:
		return Instant(n), nil
	}
	return 0, errors.New("is no Unix time: as a number it must have 10 digits, for seconds, or 13, for milliseconds")
}

// rfc3339 is the form that time.Parse is too lenient about: it takes a comma,
// an hour of one digit and an offset of 24 hours.
var rfc3339 = regexp.MustCompile(`^[0-9-]{10}T[0-9]{2}:[0-9:]{5}([.][0-9]+)?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$`)

// ParseTime reads a time with an offset (RFC 3339).
func ParseTime(s string) (Instant, error) {
	at, err := time.Parse(time.RFC3339, s)
	if err != nil || !rfc3339.MatchString(s) {
		return 0, errors.New(`must be a time with an offset such as "2026-01-31T09:30:00Z" (RFC 3339)`)
	}
	// Zero would mean "none"; what matters is only that it has passed.
	return max(InstantOf(at), 1), nil
}

func (f *findings) ttl(d *Draft) time.Duration {
	return f.duration("ttl", d.TTL, time.Millisecond, MaxTTL)
}

// retry is nil when the draft leaves everything to the server's policy.
func (f *findings) retry(d *DraftRetry) *Retry {
	if d == nil || d.Steps == nil && d.Limit == nil {
		return nil
	}
	r := &Retry{Limit: d.Limit}
	if d.Steps != nil {
		f.check("retry.steps", checkStepCount(len(d.Steps)))
	}
	for i := range min(len(d.Steps), MaxRetrySteps) {
		step, err := ParseDelay(d.Steps[i])
		if err == nil {
			err = checkStep(step)
		}
		if err != nil {
			f.add(Field("retry.steps").In(strconv.Itoa(i)), err.Error())
		}
		r.Steps = append(r.Steps, step)
	}
	if d.Limit != nil && (*d.Limit < 0 || *d.Limit > MaxRetryLimit) {
		f.add("retry.limit", fmt.Sprintf("must be from 0 to %d", MaxRetryLimit))
	}
	return r
}

func checkStepCount(n int) error {
	if n < 1 || n > MaxRetrySteps {
		return fmt.Errorf("must have 1 to %d steps", MaxRetrySteps)
	}
	return nil
}

func checkStep(d time.Duration) error {
	if d < time.Millisecond || d > MaxRetryStep {
		return fmt.Errorf("must be from %s to %s", FormatDuration(time.Millisecond), FormatDuration(MaxRetryStep))
	}
	return nil
}

// expectBody is kept trimmed, as answers are before they are compared with it.
func (f *findings) expectBody(s *string) string {
	if s == nil {
		return ""
	}
	body := strings.TrimSpace(*s)
	var err error
	switch {
	case !utf8.ValidString(body):
		err = errors.New("must be valid UTF-8")
	case body == "":
		err = errors.New("must hold more than white space")
	case len(body) > MaxExpectBody:
		err = fmt.Errorf("must have at most %d bytes", MaxExpectBody)
	}
	f.check("expect.body", err)
	return body
}
