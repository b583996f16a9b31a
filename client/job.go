package client

import (
	"encoding/json"
	"fmt"
	"time"
)

// State is the state of a job.
type State string

// The states of jobs. The last four are final.
const (
	StateWaiting   State = "waiting"
	StateReady     State = "ready"
	StateRunning   State = "running"
	StateRetrying  State = "retrying"
	StateDelivered State = "delivered"
	StateDead      State = "dead"
	StateCancelled State = "cancelled"
	StateExpired   State = "expired"
)

// Final reports whether a job in this state has ended.
func (s State) Final() bool {
	return s == StateDelivered || s == StateDead || s == StateCancelled || s == StateExpired
}

// Registration is a job to register. URL, Group or Pull is required.
type Registration struct {
	Topic       string            `json:"topic,omitempty"` // "default" if empty
	ID          string            `json:"id,omitempty"`    // made by the client if empty
	UID         string            `json:"uid,omitempty"`   // that the job had in another store; else the server makes one
	BizKey      string            `json:"biz_key,omitempty"`
	OrderKey    string            `json:"order_key,omitempty"`
	URL         string            `json:"url,omitempty"`
	Pull        bool              `json:"pull,omitempty"` // consumers fetch the job, see Client.Pull
	Group       string            `json:"group,omitempty"`
	FilterLabel string            `json:"filter_label,omitempty"`
	Method      string            `json:"method,omitempty"` // POST if empty
	Delay       Duration          `json:"delay,omitzero"`
	At          time.Time         `json:"at,omitzero"`
	Spread      Duration          `json:"spread,omitzero"`
	Body        any               `json:"body,omitempty"` // a value to encode as JSON; answers have a json.RawMessage
	BodyText    string            `json:"body_text,omitempty"`
	BodyBytes   []byte            `json:"body_base64,omitempty"`
	ContentType string            `json:"content_type,omitempty"`
	Headers     map[string]string `json:"headers,omitempty"`
	Retry       *Retry            `json:"retry,omitempty"`
	Timeout     Duration          `json:"timeout,omitzero"`
	TTL         Duration          `json:"ttl,omitzero"`
	Expect      *Expect           `json:"expect,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"`
	Priority    int               `json:"priority,omitempty"` // 1 to 9
	Callbacks   *Callbacks        `json:"callbacks,omitempty"`
	Count       *CountTarget      `json:"count,omitempty"`
	OnConflict  OnConflict        `json:"on_conflict,omitempty"`
}

// UnmarshalJSON keeps the bytes of the body, so that numbers stay as they are written.
func (r *Registration) UnmarshalJSON(data []byte) error {
	type plain Registration
	p := struct {
		*plain
		Body json.RawMessage `json:"body"`
	}{plain: (*plain)(r)}
	if err := json.Unmarshal(data, &p); err != nil {
		return fmt.Errorf("decode a registration: %w", err)
	}
	if r.Body = nil; len(p.Body) > 0 && string(p.Body) != "null" {
		r.Body = p.Body
	}
	return nil
}

// OnConflict is what happens if another job has the topic and id.
type OnConflict string

// The values of OnConflict.
const (
	Reject  OnConflict = "reject"
	Ignore  OnConflict = "ignore"
	Replace OnConflict = "replace"
	Later   OnConflict = "later"
	Sooner  OnConflict = "sooner"
	Renew   OnConflict = "renew"
	Once    OnConflict = "once"
)

// Retry is a ladder of delays.
type Retry struct {
	Steps []Duration `json:"steps,omitempty"`
	Limit *int       `json:"limit,omitempty"` // retries after the first attempt
}

// Expect is what an answer must have to count as a delivery.
type Expect struct {
	Body string `json:"body,omitempty"`
}

// Callback is a request that reports an event of a job.
type Callback struct {
	URL     string            `json:"url"`
	Method  string            `json:"method,omitempty"`
	Headers map[string]string `json:"headers,omitempty"`
}

// Callbacks are the callbacks of a job.
type Callbacks struct {
	Delivered     *Callback `json:"delivered,omitempty"`
	Dead          *Callback `json:"dead,omitempty"`
	Expired       *Callback `json:"expired,omitempty"`
	Cancelled     *Callback `json:"cancelled,omitempty"`
	AttemptFailed *Callback `json:"attempt_failed,omitempty"`
	Retry         *Retry    `json:"retry,omitempty"`
	// IncludeRequest adds the headers and the body of the job.
	IncludeRequest bool `json:"include_request,omitempty"`
}

// CountTarget makes a job due at a count.
type CountTarget struct {
	Target     int64  `json:"target"`
	AtDeadline string `json:"at_deadline,omitempty"` // "fire" or "expire"
}

// Job is a registered job.
type Job struct {
	UID         string            `json:"uid"`
	Topic       string            `json:"topic"`
	ID          string            `json:"id"`
	BizKey      string            `json:"biz_key"`
	OrderKey    string            `json:"order_key"`
	Labels      map[string]string `json:"labels"`
	Dialect     string            `json:"dialect"` // of the API that registered it; empty: v1
	URL         string            `json:"url"`     // empty for a job that consumers fetch
	Method      string            `json:"method"`  // empty for a job that consumers fetch
	Pull        bool              `json:"pull"`    // consumers fetch the job
	State       State             `json:"state"`
	Priority    int               `json:"priority"`
	DueAt       time.Time         `json:"due_at"`
	Spread      Duration          `json:"spread"`
	CreatedAt   time.Time         `json:"created_at"`
	UpdatedAt   time.Time         `json:"updated_at"` // when Version last grew
	NextAt      time.Time         `json:"next_at"`    // zero after the end
	Attempts    int               `json:"attempts"`
	MaxAttempts int               `json:"max_attempts"`
	LastAttempt *Attempt          `json:"last_attempt"`
	EndedAt     time.Time         `json:"ended_at"` // zero until the end
	Reason      string            `json:"reason"`   // why the job ended
	Version     uint64            `json:"version"`
	Group       string            `json:"group"`
	GroupID     string            `json:"group_id"`
	Schedule    string            `json:"schedule"`   // that made the job
	Occurrence  *JobOccurrence    `json:"occurrence"` // of the schedule
	// CallbackJobs are the last callbacks that were registered for the job.
	CallbackJobs []JobCallback `json:"callback_jobs"`
	CallbackOf   *CallbackOf   `json:"callback_of"`
	Count        *JobCount     `json:"count"`
}

// JobDetails is a job with all that was registered except its body. JobRegistration has that.
type JobDetails struct {
	Job
	Retry       *Retry            `json:"retry"`   // nil: the server's ladder
	Timeout     Duration          `json:"timeout"` // zero: the server's
	TTL         Duration          `json:"ttl"`
	Expect      *Expect           `json:"expect"`
	ContentType string            `json:"content_type"`
	Headers     map[string]string `json:"headers"` // their values are *** if the key may only read
	Callbacks   *Callbacks        `json:"callbacks"`
}

// JobOccurrence is the occurrence of a schedule that made a job.
type JobOccurrence struct {
	Time time.Time `json:"time"`
	Kind string    `json:"kind"` // timetable, misfire or manual
}

// JobCallback is a callback that was registered for a job.
type JobCallback struct {
	Event string `json:"event"`
	ID    string `json:"id"`
	URL   string `json:"url"` // its path in the API
}

// CallbackOf is the job and event that a callback reports.
type CallbackOf struct {
	Event string    `json:"event"`
	At    time.Time `json:"at"`
	UID   string    `json:"uid"`
	ID    string    `json:"id"`
	URL   string    `json:"url"`
}

// JobCount is the count of a job.
type JobCount struct {
	Count      int64  `json:"count"`
	Target     int64  `json:"target"`
	AtDeadline string `json:"at_deadline"`
	Fired      bool   `json:"fired"`
}

// RegisteredJob is a job and what its registration did: created, same, kept or moved.
type RegisteredJob struct {
	Job
	Result string `json:"result"`
	DryRun bool   `json:"dry_run"` // nothing was registered
}

// Attempt is an attempt that ended.
type Attempt struct {
	Number           int               `json:"number"`
	StartedAt        time.Time         `json:"started_at"`
	DurationMS       int64             `json:"duration_ms"`
	DNSMS            *int64            `json:"dns_ms"`
	ConnectMS        *int64            `json:"connect_ms"`
	TLSMS            *int64            `json:"tls_ms"`
	FirstByteMS      *int64            `json:"first_byte_ms"`
	ConnectionReused bool              `json:"connection_reused"`
	Status           int               `json:"status"` // zero without an answer
	Error            string            `json:"error"`  // empty if the attempt delivered
	ResponseBody     string            `json:"response_body"`
	NextAt           time.Time         `json:"next_at"`
	Reason           string            `json:"reason"`
	ResponseHeaders  map[string]string `json:"response_headers"`
	Version          uint64            `json:"version"`
	ConnectRetries   int               `json:"connect_retries"`
	Resent           bool              `json:"resent"` // the request was made twice
}

// Explanation is why a job has not run yet, or why it ended.
type Explanation struct {
	Now        time.Time  `json:"now"`
	Reasons    []Reason   `json:"reasons"`
	Notes      []Note     `json:"notes"`
	ExpectedAt time.Time  `json:"expected_at"`
	Ladder     Ladder     `json:"ladder"`
	Job        JobDetails `json:"job"`
}

// Reason is something that delays a job.
type Reason struct {
	Code      string     `json:"code"`
	Detail    string     `json:"detail"` // for people, in English
	Sentences []Sentence `json:"sentences"`
	Until     time.Time  `json:"until"`
	Node      string     `json:"node"`
}

// Sentence is a sentence to translate.
type Sentence struct {
	Code   string         `json:"code"`
	Params map[string]any `json:"params"`
}

// Note says where a job comes from.
type Note struct {
	Code   string         `json:"code"`
	Params map[string]any `json:"params"`
	Detail string         `json:"detail"`
}

// Ladder is the attempts of a job if all fail at once.
type Ladder struct {
	Attempts  []PlannedAttempt `json:"attempts"`
	DeadAt    *Span            `json:"dead_at"`
	ExpiresAt time.Time        `json:"expires_at"`
}

// PlannedAttempt is an attempt to come.
type PlannedAttempt struct {
	Number int `json:"number"`
	Span
}

// Span is the earliest and the latest time of an event.
type Span struct {
	EarliestAt time.Time `json:"earliest_at"`
	LatestAt   time.Time `json:"latest_at"`
}

// Plan is when the attempts of a registration would be.
type Plan struct {
	Now         time.Time `json:"now"`
	DueAt       time.Time `json:"due_at"`
	MaxAttempts int       `json:"max_attempts"`
	Ladder      Ladder    `json:"ladder"`
	OthersDue   struct {
		SameSecond int64 `json:"same_second"`
		SameMinute int64 `json:"same_minute"`
	} `json:"others_due"`
}
