package job

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// CallbackEvent is what happened to a job that has callbacks.
type CallbackEvent string

// The events of callbacks.
const (
	CallbackDelivered     CallbackEvent = "delivered"
	CallbackDead          CallbackEvent = "dead"
	CallbackExpired       CallbackEvent = "expired"
	CallbackCancelled     CallbackEvent = "cancelled"
	CallbackAttemptFailed CallbackEvent = "attempt_failed"
)

// CallbackEvents lists the events in the order in which the API shows them.
var CallbackEvents = []CallbackEvent{
	CallbackDelivered, CallbackDead, CallbackExpired, CallbackCancelled, CallbackAttemptFailed,
}

// endEvents are the events of the final states.
var endEvents = map[State]CallbackEvent{
	Delivered: CallbackDelivered, Dead: CallbackDead, Expired: CallbackExpired, Cancelled: CallbackCancelled,
}

// Callback is the request that reports an event.
type Callback struct {
	Destination Destination
	Method      string   // empty means POST
	Headers     []Header // sorted by name
}

// Callbacks are the callbacks of a job.
type Callbacks struct {
	By    map[CallbackEvent]*Callback
	Retry *Retry // of the callbacks; nil means the ladder of the server's settings
	// IncludeRequest: reports contain the headers and the body of the job.
	IncludeRequest bool
	// Replays counts the replays of the job, so that each round has callbacks of its own.
	Replays int
}

// On returns the callback of an event, or nil.
func (c *Callbacks) On(e CallbackEvent) *Callback {
	if c == nil {
		return nil
	}
	return c.By[e]
}

// Set sets the callback of an event. The callbacks must not be those of a job yet.
func (c *Callbacks) Set(e CallbackEvent, to *Callback) {
	if c.By == nil {
		c.By = map[CallbackEvent]*Callback{}
	}
	c.By[e] = to
}

// replayed are the callbacks of the next round of a job.
func (c *Callbacks) replayed() *Callbacks {
	if c == nil {
		return nil
	}
	next := *c
	next.Replays++
	return &next
}

// Report is the content of a callback: the job after an event.
type Report struct {
	// Job is the job after the event. Its NextAt and EndedAt follow from the time of the
	// event, see At. Its Spec is that of Spec.InReport.
	Job Job
	// Request: Job has the headers and the body of the request.
	Request bool
	// Delay is the time from the event to the next attempt, if one follows.
	Delay time.Duration
	// Response is the body of the answer to the attempt that the event concludes. Nil: the event
	// concludes none, or there was no answer.
	Response *Response
}

// Response is the body of an answer, or its beginning.
type Response struct {
	Body []byte
	Cut  bool // there was more
}

// At completes the report of an event at an instant.
func (r *Report) At(now Instant) {
	c := Change{To: r.Job.State, Delay: r.Delay}
	r.Job.UpdatedAt = now
	r.Job.NextAt, r.Job.EndedAt = c.Times(now, r.Job.CreatedAt)
	if r.Job.LastAttempt != nil && r.Job.LastAttempt.NextAt == 0 {
		r.Job.LastAttempt.NextAt = r.Job.NextAt
	}
}

// InReport is the part of the content that reports contain. Of the callbacks, it has the events.
func (s Spec) InReport(request bool) Spec {
	s.ExpectBody = ""
	if !request {
		s.Headers, s.Body, s.ContentType = nil, nil, ""
	}
	if c := s.Callbacks; c != nil {
		s.Callbacks = &Callbacks{Replays: c.Replays}
		for e := range c.By {
			s.Callbacks.Set(e, &Callback{})
		}
	}
	return s
}

// Shed is what a store leaves out of the successors of an outcome, for want of room. A greater
// value leaves out more. The callback of a job's end is never left out.
type Shed uint8

// What is left out.
const (
	ShedNothing Shed = iota
	// ShedPassing leaves out passing callbacks: the topic has reached its capacity.
	ShedPassing
	// ShedContent also leaves requests and answers out of reports: the store is full.
	ShedContent
)

// Successor is a callback that an outcome registers, in one step with the outcome.
type Successor struct {
	// Passing: it is the callback of a failed attempt, and obeys the capacity of its topic. The
	// callback of an end obeys no limit: it takes the place of the job.
	Passing bool
	Key     Key
	Spec    Spec
	Report  *Report // becomes the body
}

// CallbackID is the id of the callback of an event. attempt is the number of the failed
// attempt. It is also the webhook-id. A job that was replayed has other ids, with the number
// of its round.
func (j *Job) CallbackID(e CallbackEvent, attempt int) string {
	id := j.UID + "." + string(e)
	if e == CallbackAttemptFailed {
		id += "." + strconv.Itoa(attempt)
	}
	if c := j.Spec.Callbacks; c != nil && c.Replays > 0 {
		id += "." + strconv.Itoa(c.Replays+1)
	}
	return id
}

// uidLength is the length of a uid, a ULID.
const uidLength = 26

// CallbackOf returns the uid of the job whose callback has the id. It returns false for other
// ids.
func CallbackOf(id string) (uid string, ok bool) {
	if len(id) <= uidLength || id[uidLength] != '.' {
		return "", false
	}
	event, numbers, _ := strings.Cut(id[uidLength+1:], ".")
	if !slices.Contains(CallbackEvents, CallbackEvent(event)) {
		return "", false
	}
	ok = strings.Trim(numbers, "0123456789.") == "" && !strings.ContainsFunc(id[:uidLength], notULIDRune)
	return id[:uidLength], ok
}

// EventOfCallback returns the event of the callback with the id, empty for other ids.
func EventOfCallback(id string) CallbackEvent {
	if _, ok := CallbackOf(id); !ok {
		return ""
	}
	event, _, _ := strings.Cut(id[uidLength+1:], ".")
	return CallbackEvent(event)
}

func notULIDRune(r rune) bool {
	return !strings.ContainsRune("0123456789ABCDEFGHJKMNPQRSTVWXYZ", r)
}

// MessageID is the webhook-id of the job. Standard Webhooks allows no dot in it, because dots separate the parts that are signed.
func (j *Job) MessageID() string {
	if j.Spec.Reports != "" {
		return strings.ReplaceAll(j.ID, ".", "_")
	}
	return j.UID
}

// CallbackKeys are the keys of the callbacks registered for the job since its registration or
// its last replay, oldest first. Stores may have forgotten some of them.
func (j *Job) CallbackKeys() (keys []Key) {
	c := j.Spec.Callbacks
	if c == nil {
		return nil
	}
	failed := j.Attempts
	if j.State == Delivered {
		failed--
	}
	for n := 1; n <= failed && c.On(CallbackAttemptFailed) != nil; n++ {
		keys = append(keys, Key{Topic: j.Topic, ID: j.CallbackID(CallbackAttemptFailed, n)})
	}
	e := endEvents[j.State]
	if j.Reason == ReasonDiscarded {
		e = CallbackDead
	}
	if c.On(e) != nil {
		keys = append(keys, Key{Topic: j.Topic, ID: j.CallbackID(e, 0)})
	}
	return keys
}

// Ended returns the callbacks of a job that a client has ended; from is the state before.
func (j *Job) Ended(from State, shed Shed) []Successor {
	if from.Final() || !j.State.Final() || j.Spec.Callbacks == nil {
		return nil
	}
	return j.report(nil, endEvents[j.State], j.newReport(shed))
}

// newReport returns a report of the job as it was before the event.
func (j *Job) newReport(shed Shed) *Report {
	r := &Report{Job: *j, Request: j.Spec.Callbacks.IncludeRequest && shed < ShedContent}
	r.Job.Spec = j.Spec.InReport(r.Request)
	return r
}

// report adds the callback of an event, if the job has one.
func (j *Job) report(to []Successor, e CallbackEvent, r *Report) []Successor {
	target := j.Spec.Callbacks.On(e)
	if target == nil {
		return to
	}
	return append(to, Successor{
		Key: Key{Topic: j.Topic, ID: j.CallbackID(e, r.Job.Attempts)},
		Spec: Spec{
			Destination: target.Destination, Method: target.Method, Headers: target.Headers,
			ContentType: BodyJSON.ContentType(), BodyForm: BodyJSON,
			Priority: j.Spec.Priority, Retry: j.Spec.Callbacks.Retry,
			Traceparent: j.Spec.Traceparent, Tracestate: j.Spec.Tracestate, Reports: e, Dialect: j.Spec.Dialect,
		},
		Report: r,
	})
}

// Succeeds reports whether the settlement may have successors.
func (s *Settlement) Succeeds() bool {
	return len(s.Reported(s.Change(false), ShedNothing)) > 0 || len(s.Reported(s.Change(true), ShedNothing)) > 0
}

// Reported are the events of a change that have a callback, the end first: its callback takes the
// place of the job.
func (s *Settlement) Reported(c Change, shed Shed) []CallbackEvent {
	if s.Job == nil {
		return nil
	}
	var all []CallbackEvent
	add := func(e CallbackEvent) {
		if s.Job.Spec.Callbacks.On(e) != nil {
			all = append(all, e)
		}
	}
	if e, ended := endEvents[c.To]; ended {
		add(e)
	}
	if s.Attempt != nil && s.Attempts > s.Job.Attempts && s.To != Delivered && !PutOff(c.Reason) {
		add(CallbackAttemptFailed)
	}
	return slices.DeleteFunc(all, func(e CallbackEvent) bool { return shed >= ShedPassing && e == CallbackAttemptFailed })
}

// Sheds returns the most that a store can leave out of the successors of a change.
func (s *Settlement) Sheds(c Change) Shed {
	events := s.Reported(c, ShedNothing)
	switch {
	case len(events) > 0 && (s.Response != nil || s.Job.Spec.Callbacks.IncludeRequest), slices.Contains(events, CallbackAttemptFailed):
		return ShedContent
	}
	return ShedNothing
}

// Supersedes returns the key of the callback that the one of this attempt replaces: that of the failed
// attempt before. Stores may not have it.
func (s *Settlement) Supersedes() (older Key, ok bool) {
	j := s.Job
	if j == nil || s.Attempts <= j.Attempts || j.Attempts == 0 || s.To == Delivered || j.Spec.Callbacks.On(CallbackAttemptFailed) == nil {
		return Key{}, false
	}
	return Key{Topic: j.Topic, ID: j.CallbackID(CallbackAttemptFailed, j.Attempts)}, true
}

// Passing reports whether the id is that of the callback of a failed attempt. Only its outcome is
// kept when it has ended.
func Passing(id string) bool { return EventOfCallback(id) == CallbackAttemptFailed }

// Supersede withdraws a callback for a newer one. One in flight ends with its attempt, and one that
// has ended loses its content. Error: ErrFinished if nothing changes.
func (j *Job) Supersede(now Instant) error {
	if j.State.Final() && j.State != Dead {
		return j.Strip()
	}
	if j.State == Running && j.CancelRequested {
		return ErrFinished // there is nothing to store
	}
	if err := j.Discard(now); err != nil {
		if _, err = j.Cancel(now); err != nil {
			return err
		}
	}
	if j.State.Final() {
		j.Reason = ReasonSuperseded
		return j.Strip()
	}
	return nil
}

// Strip removes the content of a callback that has ended. Dead letters keep
// theirs. Error: ErrFinished if there is nothing to remove.
func (j *Job) Strip() error {
	if !j.State.Final() || j.State == Dead || j.stripped() {
		return ErrFinished
	}
	j.Spec.Body, j.Spec.Headers = nil, nil
	return nil
}

// stripped reports whether the job is a callback without content.
func (j *Job) stripped() bool { return j.Spec.Reports != "" && len(j.Spec.Body) == 0 }

// Successors returns the callbacks that follow from a change of the settlement. version is the job's
// version after the change.
func (s *Settlement) Successors(c Change, version uint64, shed Shed) (all []Successor) {
	if s.Job == nil {
		return nil
	}
	for _, e := range s.Reported(c, shed) {
		all = s.Job.report(all, e, s.reportOf(c, version, shed))
		all[len(all)-1].Passing = e == CallbackAttemptFailed
	}
	return all
}

// reportOf is the report of the job after a change.
func (s *Settlement) reportOf(c Change, version uint64, shed Shed) *Report {
	r := s.Job.newReport(shed)
	r.Delay = c.Delay
	if shed < ShedContent {
		r.Response = s.Response
	}
	j := &r.Job
	j.Version = version
	j.State, j.Reason = c.To, ""
	if c.To.Final() {
		j.Reason = c.Reason
	}
	j.Attempts, j.Snoozes, j.ExpiredLeases = s.Attempts, s.Snoozes, s.ExpiredLeases
	if s.Attempt != nil {
		j.LastAttempt = s.Attempt
	}
	return r
}
