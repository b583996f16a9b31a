package job

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"time"
)

// Key addresses a job: ids are unique within a topic.
type Key struct{ Topic, ID string }

// String is "topic/id". Neither part can hold a slash, so it is unambiguous.
func (k Key) String() string { return k.Topic + "/" + k.ID }

// ParseKey is the reverse of Key.String.
func ParseKey(s string) (Key, error) {
	topic, id, ok := strings.Cut(s, "/")
	if !ok {
		return Key{}, errors.New("a job key is written topic/id")
	}
	return Key{Topic: topic, ID: id}, nil
}

// Header is one request header of a callback.
type Header struct {
	Name  string
	Value string
}

// Retry is a job's own retry policy. A nil pointer or slice means "the
// server's": the ladder that the settings name.
type Retry struct {
	// Steps are the delays between attempts; the last repeats when Limit is
	// larger than their number.
	Steps []time.Duration
	// Limit is how many retries follow the first attempt; nil means one for
	// each step.
	Limit *int
}

// When says when a job is due: at an instant, or after a delay that the
// store's clock measures. The zero value is "now".
type When struct {
	At    Instant
	Delay time.Duration
}

// Due is the instant meant, seen from now. The past is now.
func (w When) Due(now Instant) Instant {
	if w.At != 0 {
		return max(w.At, now)
	}
	return now.Add(w.Delay)
}

// BodyForm says in which field of the API the client gave the body, so that
// it can be shown the same way.
type BodyForm uint8

// The forms of a body; BodyNone is a job without one.
const (
	BodyNone BodyForm = iota
	BodyJSON
	BodyText
	BodyBase64
)

// Spec is what the client asked for. Two registrations of one key with equal
// Specs are the same job. Encoders rely on the field order being stable.
type Spec struct {
	Destination Destination
	Method      string // empty means POST
	BizKey      string
	ContentType string
	Headers     []Header // sorted by name
	Body        []byte   // sent byte for byte
	BodyForm    BodyForm
	Priority    Priority
	When        When
	Retry       *Retry
	Timeout     time.Duration // of one attempt; zero means the server's
	TTL         time.Duration // from registration; zero means for ever
	ExpectBody  string        // a 2xx counts only with this body
	Traceparent string        // W3C trace context of the registration
	Labels      []Label       // sorted by key
}

// SameContent reports whether two registrations ask for the same thing. The
// trace context does not count: a client's retry runs under a new span. Nor does
// white space between the tokens of a JSON body: its encoder may have changed.
func (s *Spec) SameContent(o *Spec) bool {
	return s.Destination == o.Destination && s.HTTPMethod() == o.HTTPMethod() && s.BizKey == o.BizKey &&
		s.ContentType == o.ContentType && slices.Equal(s.Headers, o.Headers) &&
		s.BodyForm == o.BodyForm && s.sameBody(o) && s.Priority == o.Priority &&
		s.When == o.When && s.Retry.same(o.Retry) && s.Timeout == o.Timeout &&
		s.TTL == o.TTL && s.ExpectBody == o.ExpectBody && slices.Equal(s.Labels, o.Labels)
}

func (s *Spec) sameBody(o *Spec) bool {
	return bytes.Equal(s.Body, o.Body) || s.BodyForm == BodyJSON && sameJSON(s.Body, o.Body)
}

func (r *Retry) same(o *Retry) bool {
	if r == nil || o == nil {
		return r == o
	}
	if (r.Limit == nil) != (o.Limit == nil) || (r.Limit != nil && *r.Limit != *o.Limit) {
		return false
	}
	return slices.Equal(r.Steps, o.Steps)
}

// HTTPMethod is the method to send with.
func (s *Spec) HTTPMethod() string {
	if s.Method == "" {
		return "POST"
	}
	return s.Method
}

// Job is a registered callback with all that duehook knows of it but the log
// of its attempts, of which it holds the last.
type Job struct {
	Key
	UID  string // ULID of this registration, sent as webhook-id
	Spec Spec

	State State
	// DueAt is when the client wanted the job to be delivered first.
	DueAt Instant
	// NextAt is when the next attempt is due; for an ended job, zero.
	NextAt Instant
	// ExpiresAt is the end of the TTL, or zero.
	ExpiresAt Instant
	CreatedAt Instant
	EndedAt   Instant

	Attempts int // attempts that count against the limit
	Snoozes  int // answers "snooze", which use no attempt
	Lapses   int // leases in a row that lapsed without an outcome

	// Token is the number of the current or last claim. Only who holds the
	// current one may settle.
	Token uint64
	// Version grows with every stored change but carrying.
	Version uint64
	// CancelRequested is set when a cancel met an attempt in flight: no
	// further attempt follows.
	CancelRequested bool

	Reason      string // why the job ended, one of the Reason constants
	LastAttempt *Attempt
}

// Lane is the lane that the job belongs to. The destination was validated when the
// job was registered, so it has an endpoint.
func (j *Job) Lane() Lane {
	endpoint, err := j.Spec.Destination.Endpoint()
	if err != nil {
		endpoint = "invalid://"
	}
	return Lane{Topic: j.Topic, Endpoint: endpoint, Priority: j.Spec.Priority}
}

// WakeAt is when the job next needs attention while it waits: its next
// attempt, or the end of its TTL if that comes first.
func (j *Job) WakeAt() Instant {
	if j.ExpiresAt != 0 && j.ExpiresAt < j.NextAt {
		return j.ExpiresAt
	}
	return j.NextAt
}

// Attempt is one delivery attempt as kept in the attempt log.
type Attempt struct {
	Number       int
	StartedAt    Instant
	Duration     time.Duration
	Timings      Timings
	Status       int    // HTTP status, or zero when none came
	Error        string // its class, one of a closed set, or empty
	ResponseBody string // an excerpt, valid UTF-8
	NextAt       Instant
	Reason       string // why the next step was chosen
	// ResponseHeaders are those of the answer, as far as they are kept, sorted by name.
	ResponseHeaders []Header
	Version         uint64 // of the job that was sent; zero when it is not known
	// ConnectRetries is how often the attempt connected again, because the request had
	// not left.
	ConnectRetries int
}

// Timings are how long the phases of an attempt took. DNS, Connect and TLS are
// given however the phase ended: well, with an error, or cut off by the
// attempt's deadline. Zero means that it was not reached or not needed.
type Timings struct {
	DNS     time.Duration // looking up the host's addresses
	Connect time.Duration // TCP, over all addresses tried
	TLS     time.Duration // the handshake
	// FirstByte is from having the connection, through sending the request, to
	// the first byte of the answer; zero when none came.
	FirstByte time.Duration
	// Reused: the connection is of an earlier request, so that the first three
	// are zero.
	Reused bool
}
