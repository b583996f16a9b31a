package job

import (
	"cmp"
	"errors"
	"strings"
	"time"
)

// Key addresses a job: ids are unique within a topic.
type Key struct{ Topic, ID string }

// String is "topic/id". Neither part can contain a slash, so it is unambiguous.
func (k Key) String() string { return k.Topic + "/" + k.ID }

// ParseKey is the reverse of Key.String.
func ParseKey(s string) (Key, error) {
	topic, id, ok := strings.Cut(s, "/")
	if !ok {
		return Key{}, errors.New("a job key is written topic/id")
	}
	return Key{Topic: topic, ID: id}, nil
}

// Header is one request header of a delivery.
type Header struct {
	Name  string
	Value string
}

// Retry is a job's own retry policy. A nil pointer or slice means the ladder of
// the server's settings.
type Retry struct {
	// Steps are the delays between attempts; the last repeats when Limit is
	// larger than their number.
	Steps []time.Duration
	// Limit is how many retries follow the first attempt; nil means one for
	// each step.
	Limit *int
}

// BodyForm is the field of the API in which the client sent the body, so that
// answers use the same.
type BodyForm uint8

// The forms of a body; BodyNone is a job without one.
const (
	BodyNone BodyForm = iota
	BodyJSON
	BodyText
	BodyBase64
)

// Spec is the content of a registration. Encoders rely on the field order being stable.
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
	TTL         time.Duration // from registration; zero means no end
	ExpectBody  string        // a 2xx counts only with this body
	Traceparent string        // W3C trace context of the registration
	Tracestate  string        // of the same; empty without a Traceparent
	Labels      []Label       // sorted by key
	Occurrence  *Occurrence   // nil: no schedule made the job
	Group       *Membership   // nil: the job is not for a member of a group
	Callbacks   *Callbacks    // nil: none
	Count       *Count        // nil: the job is due at its time only
	// Reports is the event that the job, a callback, reports; empty for other jobs. Body is
	// then an encoded Report, from which the request is made.
	Reports CallbackEvent
	// Dialect registered the job; nil: duehook's own.
	Dialect *Dialect
	// OrderKey, if not empty, has the jobs of the topic with the same key delivered one
	// at a time; see Job.Turn.
	OrderKey string
	// Content compares registrations of the job's key.
	Content Fingerprint
}

// Fingerprint stands for the content of a registration as the client asked for it, before defaults of
// the topic. A change of the job leaves it. It is zero for jobs that the server makes itself.
type Fingerprint uint64

// SameContent reports whether two registrations of clients have equal content.
func (s *Spec) SameContent(o *Spec) bool {
	return s.Content == o.Content && s.Content != 0
}

// HTTPMethod is the method of the request.
func (s *Spec) HTTPMethod() string {
	return cmp.Or(s.Method, Methods[0])
}

// Job is a registered delivery with its state and its last attempt. The log of its
// other attempts is stored separately.
type Job struct {
	Key
	UID  string // ULID of this registration, sent as webhook-id
	Spec Spec

	State State
	// DueAt is the due time that the client set, with the job's share of its spread.
	DueAt Instant
	// NextAt is the due time of the next attempt; zero for an ended job.
	NextAt Instant
	// ExpiresAt is the end of the TTL, or zero.
	ExpiresAt Instant
	CreatedAt Instant
	// UpdatedAt is when Version last grew.
	UpdatedAt Instant
	EndedAt   Instant

	Attempts      int   // attempts that count against the limit
	Snoozes       int   // answers "snooze", which use no attempt
	ExpiredLeases int   // leases in a row that expired without an outcome
	Counted       int64 // the count so far, for a job with Spec.Count

	// Token is the fencing token of the current or last claim. Settling requires the
	// current one.
	Token uint64
	// Version grows with every stored change except carrying.
	Version uint64
	// CancelRequested is set by a cancel during an attempt: no further attempt
	// follows.
	CancelRequested bool
	// Fired: the count has reached its target, or a client ran or replayed the job.
	Fired bool

	Reason      string // why the job ended, one of the Reason constants
	LastAttempt *Attempt
}

// Lane is the lane of the job. The destination was validated at the registration,
// so it has an endpoint.
func (j *Job) Lane() Lane {
	endpoint, err := j.Spec.Destination.Endpoint()
	if err != nil {
		endpoint = "invalid://"
	}
	return Lane{Topic: j.Topic, Endpoint: endpoint, Priority: j.Spec.Priority, Ordered: j.Spec.OrderKey != ""}
}

// AttemptDue is when the next attempt is due.
func (j *Job) AttemptDue() Instant { return cmp.Or(j.NextAt, j.DueAt) }

// WakeAt is the time of a waiting job's next attempt, or the end of its TTL if
// that is earlier.
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
	// ResponseHeaders are the stored headers of the answer, sorted by name.
	ResponseHeaders []Header
	Version         uint64 // of the job that was sent; zero when it is not known
	// ConnectRetries counts repeated connections, made because the request had not
	// been sent, or was resent.
	ConnectRetries int
	// Resent: the request was made twice, since the connection of the first had been used before
	// and closed without a byte of an answer.
	Resent bool
	// Node made the attempt, or leased the job to a consumer; empty: unknown. Operators see it in SQL; the API does not show
	// names of machines to clients.
	Node string
}

// Timings are the durations of an attempt's phases. DNS, Connect and TLS are set
// also if the phase failed or the attempt's deadline cut it off. Zero means that
// the phase was not reached or not needed.
type Timings struct {
	DNS     time.Duration // looking up the host's addresses
	Connect time.Duration // TCP, over all addresses tried
	TLS     time.Duration // the handshake
	// FirstByte is the time from the connection to the first byte of the answer,
	// including sending the request; zero without an answer.
	FirstByte time.Duration
	// Reused: the request used an earlier connection, so DNS, Connect and TLS are
	// zero.
	Reused bool
}
