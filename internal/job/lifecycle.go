package job

import (
	"cmp"
	"errors"
	"fmt"
	"time"
)

// State is the state of a job. The four unfinished states come first: stores encode
// their numbers in a bucket's entries. In JSON, too, it is its number: answers to clients have String.
type State uint8

// The states of a job. The zero value, Waiting, is where every job starts.
const (
	Waiting   State = iota // its first attempt is not due yet
	Retrying               // an attempt failed; the next is not due yet
	Ready                  // carried to the ready list, on Redis
	Running                // claimed by a dispatcher
	Delivered              // the receiver took it
	Dead                   // the policy gave up; kept until replayed, discarded or replaced
	Cancelled              // the client withdrew it, or discarded it as a dead letter
	Expired                // its TTL passed
)

// States lists every state in the order in which the API shows them.
var States = []State{Waiting, Ready, Running, Retrying, Delivered, Dead, Cancelled, Expired}

var stateNames = [...]string{"waiting", "retrying", "ready", "running", "delivered", "dead", "cancelled", "expired"}

func (s State) String() string {
	if int(s) < len(stateNames) {
		return stateNames[s]
	}
	return fmt.Sprintf("state(%d)", uint8(s))
}

// ParseState is the reverse of State.String.
func ParseState(name string) (State, bool) {
	for i, n := range stateNames {
		if n == name {
			return State(i), true
		}
	}
	return 0, false
}

// Final reports whether a job in this state has ended: it is in no bucket.
func (s State) Final() bool { return s >= Delivered }

// Event is something that happens to a job.
type Event uint8

// The events of the lifecycle.
const (
	Carry      Event = iota // the carrier put it on the ready list, for the first time or again
	Claim                   // a dispatcher took it
	Deliver                 // the receiver accepted it
	Fail                    // the attempt failed, or was put off but counts; another follows
	GiveUp                  // no retry follows
	Expire                  // its TTL has passed
	Release                 // returned without using an attempt: shutdown, circuit open, snooze
	Cancel                  // the client withdrew it
	Reschedule              // the client changed it or its due time; "run now" too
	Replay                  // the client sends an ended job again
	Discard                 // the client discards a dead letter
	Finish                  // the client ends it as delivered, without a delivery
)

var eventNames = [...]string{"carry", "claim", "deliver", "fail", "give_up", "expire", "release", "cancel", "reschedule", "replay", "discard", "finish"}

func (e Event) String() string {
	if int(e) < len(eventNames) {
		return eventNames[e]
	}
	return fmt.Sprintf("event(%d)", uint8(e))
}

// Step is one row of the lifecycle.
type Step struct {
	From State
	On   Event
	To   []State
}

// Lifecycle has every possible change of state. If To has Waiting and Retrying,
// Retrying is for a job with a counted attempt. A carried job with a lost hint and a
// claimed job with a dead worker are the same case: they become due again in their
// bucket and are carried.
var Lifecycle = []Step{
	{Waiting, Carry, []State{Ready}},
	{Waiting, Claim, []State{Running}}, // an older hint survived and the job is due
	{Waiting, Cancel, []State{Cancelled}},
	{Waiting, Reschedule, []State{Waiting}},
	{Waiting, Finish, []State{Delivered}},
	{Retrying, Carry, []State{Ready}},
	{Retrying, Claim, []State{Running}},
	{Retrying, Cancel, []State{Cancelled}},
	{Retrying, Reschedule, []State{Retrying}},
	{Retrying, Finish, []State{Delivered}},
	{Ready, Carry, []State{Ready}},
	{Ready, Claim, []State{Running}},
	{Ready, Cancel, []State{Cancelled}},
	{Ready, Reschedule, []State{Waiting, Retrying}},
	{Ready, Finish, []State{Delivered}},
	{Running, Carry, []State{Ready}},   // the lease expired
	{Running, Claim, []State{Running}}, // the lease expired and an older hint survived
	{Running, Deliver, []State{Delivered}},
	{Running, Fail, []State{Retrying}},
	{Running, GiveUp, []State{Dead}},
	{Running, Expire, []State{Expired}},
	{Running, Release, []State{Waiting, Retrying}},
	{Running, Cancel, []State{Running, Cancelled}}, // in flight: recorded, and applied when the attempt ends
	{Delivered, Replay, []State{Waiting}},
	{Dead, Replay, []State{Waiting}},
	{Dead, Discard, []State{Cancelled}},
	{Cancelled, Replay, []State{Waiting}},
	{Expired, Replay, []State{Waiting}},
}

// MaxSnoozes is the number of snoozes that use no attempt. Further ones count as
// failures.
const MaxSnoozes = 100

// Reasons for the end of a job, or for the time of its next attempt.
const (
	ReasonRetryLimit   = "retry_limit"         // the last step of the ladder failed
	ReasonGone         = "receiver_gone"       // the receiver answered 410, or webhook-delivery: disable
	ReasonAborted      = "aborted_by_receiver" // webhook-delivery: abort-message
	ReasonRejected     = "rejected"            // a consumer gave it up
	ReasonBlocked      = "destination_blocked" // the address guard refused the target
	ReasonLeaseExpired = "lease_expired"       // many leases in a row expired, the last ones alone
	ReasonTTL          = "ttl_passed"          // expired
	ReasonCountMissed  = "count_not_reached"   // expired: its deadline came before its target count
	ReasonCancelled    = "cancelled"           // the client withdrew it
	ReasonDiscarded    = "discarded"           // the client discarded the dead letter
	ReasonSuperseded   = "superseded"          // a newer callback took its place
	ReasonDelivered    = "delivered"           // the receiver took it
	ReasonFinished     = "finished"            // the client ended it without a delivery
	ReasonLadder       = "ladder"              // next step of the retry ladder
	ReasonRetryAfter   = "retry_after"         // the receiver named the time
	ReasonSnoozed      = "snoozed"             // the receiver snoozed the job
	ReasonRescheduled  = "rescheduled"         // the receiver set the time; the attempt counts
	ReasonShutdown     = "shutdown"            // the node stopped; no attempt used
	ReasonCircuitOpen  = "circuit_open"        // the endpoint's circuit is open; no attempt used
	ReasonQuarantined  = "quarantined"         // a suspect waits to be sent alone; no attempt used
)

// PutOff reports whether the reason of an attempt says that the receiver asked for
// another one later. Such an attempt did not fail.
func PutOff(reason string) bool { return reason == ReasonSnoozed || reason == ReasonRescheduled }

// Errors of attempts that a receiver may not put off any more.
const (
	ErrorSnoozeLimit     = "snooze_limit"     // beyond MaxSnoozes
	ErrorRescheduleLimit = "reschedule_limit" // no attempt is left
)

// Errors of commands that the lifecycle refuses.
var (
	ErrFinished = errors.New("the job has ended")
	ErrInFlight = errors.New("the job is in flight")
	ErrNotEnded = errors.New("the job has not ended")
	// ErrStripped: the callback has ended and lost its content.
	ErrStripped = errors.New("the callback has lost its content")
	// ErrNotDead: only dead letters are discarded.
	ErrNotDead = errors.New("the job is not a dead letter")
	// ErrKeepsSchedule: the end of an outage does not bring this job forward.
	ErrKeepsSchedule = errors.New("the job keeps its schedule")
)

// Pending is the state of a job that waits for its next attempt.
func (j *Job) Pending() State {
	if j.Attempts > 0 {
		return Retrying
	}
	return Waiting
}

// Cancel withdraws the job. It reports true if an attempt is in flight: the attempt
// cannot be recalled, but no further one follows.
func (j *Job) Cancel(now Instant) (inFlight bool, err error) {
	switch {
	case j.State.Final():
		return false, ErrFinished
	case j.State == Running:
		j.CancelRequested = true
		return true, nil
	}
	j.end(Cancelled, ReasonCancelled, now)
	return false, nil
}

// Finish ends the job as delivered: its work was done without this delivery.
func (j *Job) Finish(now Instant) error {
	if err := j.mayChange(); err != nil {
		return err
	}
	j.end(Delivered, ReasonFinished, now)
	return nil
}

func (j *Job) end(as State, reason string, now Instant) {
	j.State, j.Reason = as, reason
	// A job that replaced another one at the same instant was registered slightly
	// later than now. The times of their ends must show which came last.
	j.NextAt, j.EndedAt = 0, max(now, j.CreatedAt)
}

// Reschedule makes the next attempt due at w. Before the first attempt, w also
// becomes the job's due time.
func (j *Job) Reschedule(w When, now Instant) error {
	if err := j.mayChange(); err != nil {
		return err
	}
	j.NextAt = w.Due(j.Key, now)
	if j.Attempts == 0 {
		j.DueAt = j.NextAt
	}
	j.State = j.Pending()
	return nil
}

// Run makes the next attempt due now.
func (j *Job) Run(now Instant) error {
	if err := j.Reschedule(When{}, now); err != nil {
		return err
	}
	j.fire()
	return nil
}

// MoveDue makes the next attempt due at w if w is later (or, without later, sooner)
// than its due time. It reports whether it changed the job.
func (j *Job) MoveDue(w When, later bool, now Instant) (moved bool, err error) {
	if err := j.mayChange(); err != nil {
		return false, err
	}
	due := w.Due(j.Key, now)
	if later && due <= max(j.NextAt, now) || !later && due >= j.NextAt {
		return false, nil
	}
	return true, j.Reschedule(w, now)
}

// BringForward makes a retry due now, or leastWait after the failure if that is
// later, because its endpoint has recovered. The last attempt must have failed
// during the outage, and the outage must have been longer than firstStep of the
// ladder. Times set by a receiver or a client stay: a job that waits for another
// reason than its ladder returns ErrKeepsSchedule.
func (j *Job) BringForward(since, now Instant, firstStep, leastWait time.Duration) error {
	last := j.LastAttempt
	if j.State != Retrying || last == nil || last.Reason != ReasonLadder || last.NextAt != j.NextAt {
		return ErrKeepsSchedule
	}
	failed := last.StartedAt.Add(last.Duration)
	next := max(now, failed.Add(leastWait))
	if failed < since || now.Sub(since) <= firstStep || next >= j.NextAt {
		return ErrKeepsSchedule
	}
	j.NextAt = next
	return nil
}

// Respecify replaces the content of the job except its due time. Its TTL still runs
// from the registration, or from the replay that restarted it. A carried job
// returns to its bucket, because its hint may name another lane.
func (j *Job) Respecify(s Spec) error {
	if err := j.mayChange(); err != nil {
		return err
	}
	start := j.CreatedAt
	if j.ExpiresAt != 0 {
		start = j.ExpiresAt.Add(-j.Spec.TTL)
	}
	j.Spec = s
	j.ExpiresAt = 0
	if s.TTL > 0 {
		j.ExpiresAt = start.Add(s.TTL)
	}
	j.State = j.Pending()
	return nil
}

// mayChange refuses an ended job, and one in flight: its worker has a copy and
// would settle the old version.
func (j *Job) mayChange() error {
	switch {
	case j.State.Final():
		return ErrFinished
	case j.State == Running:
		return ErrInFlight
	}
	return nil
}

// Replay sends an ended job again now, with the ladder from its start. A TTL
// restarts; otherwise the replayed job would expire at once.
func (j *Job) Replay(now Instant) error { return j.ReplayAs(j.Spec, nil, now) }

// ReplayAs is Replay with new content, as returned by Draft.Patch. The job is due
// at w unless w is nil. Then a job with an order key keeps its due time, and with it
// its turn.
func (j *Job) ReplayAs(s Spec, w *When, now Instant) error {
	switch {
	case !j.State.Final():
		return ErrNotEnded
	case j.stripped():
		return ErrStripped
	}
	j.Spec = s
	j.Spec.Callbacks = j.Spec.Callbacks.replayed()
	j.State, j.Reason = Waiting, ""
	j.Attempts, j.Snoozes, j.ExpiredLeases = 0, 0, 0
	j.CancelRequested = false
	j.fire()
	j.EndedAt, j.NextAt, j.ExpiresAt = 0, now, 0
	if w != nil {
		j.NextAt = w.Due(j.Key, now)
	}
	if w != nil || s.OrderKey == "" {
		j.DueAt = j.NextAt
	}
	if s.TTL > 0 {
		j.ExpiresAt = now.Add(s.TTL)
	}
	return nil
}

// Discard makes a dead letter cancelled. It is kept for the retention, with its
// attempt log.
func (j *Job) Discard(now Instant) error {
	if j.State != Dead {
		return ErrNotDead
	}
	j.State, j.Reason, j.EndedAt = Cancelled, ReasonDiscarded, max(now, j.EndedAt)
	return nil
}

// Outcome is the outcome of a claim.
type Outcome struct {
	Kind OutcomeKind
	// After is the wait: for OutcomeFailed the Retry-After (zero: none), for
	// OutcomeSnoozed, too (zero makes it a failure; otherwise it could repeat
	// forever), and for OutcomeReleased the delay (zero: the attempt keeps its due time).
	After time.Duration
	// Named: After is the wait of OutcomeFailed even if it is zero.
	Named bool
	// At is the time of the next attempt, for OutcomeRescheduled.
	At Instant
	// Reason is set for OutcomeRefused and OutcomeReleased. For OutcomeExpired, empty
	// means the TTL.
	Reason string
	// Attempt is the log entry of the request; nil without one.
	Attempt *Attempt
	// Response is the answer's body, for jobs with callbacks.
	Response *Response
}

// OutcomeKind is the kind of an outcome.
type OutcomeKind uint8

// The outcomes of a claim.
const (
	OutcomeDelivered    OutcomeKind = iota // the receiver took it
	OutcomeFailed                          // next step of the ladder, or the receiver's Retry-After
	OutcomeRefused                         // no attempt can succeed: dead now, with Reason
	OutcomeSnoozed                         // the receiver snoozed the job; no attempt used
	OutcomeReleased                        // returned by the node; no attempt used
	OutcomeExpired                         // the TTL had passed
	OutcomeCancelled                       // a cancel was recorded before the attempt
	OutcomeLeaseExpired                    // too many leases expired, the last ones while it was sent alone
	OutcomeRescheduled                     // the receiver set the time of the next attempt; the attempt counts
)

// Settlement is the change that follows from an outcome. Settle computes it; a store
// applies it if Token is current. Stores know no rules about it: they compare Token
// and write Change.
type Settlement struct {
	Key       Key
	Lane      Lane
	Token     uint64
	CreatedAt Instant // when the job was registered
	Due       Instant // when the attempt was due

	To     State
	Reason string
	// Delay is the time from the store's now to the next attempt, for an unfinished To;
	// At is its time instead, even if it has passed, unless it is zero.
	Delay time.Duration
	At    Instant
	// IfCancelled replaces To if a cancel was recorded during the attempt.
	IfCancelled State

	Attempts      int // the new counts
	Snoozes       int
	ExpiredLeases int
	// Attempt is appended to the log; the store fills in its NextAt.
	Attempt  *Attempt
	Indexes  Indexes // for stores that delete the job at once
	OrderKey string  // the job's
	// Keep: a store without retention must not delete the job at once; see KeepOccurrence.
	Keep bool

	// Job is the claimed job if it may have successors, otherwise nil. Claimed is always that job,
	// for observers, and nil if the settlement extends a lease.
	Job, Claimed *Job
	// Response is the body that answered Attempt, for callbacks.
	Response *Response
}

// Change is the stored part of a settlement.
type Change struct {
	To     State
	Reason string
	Delay  time.Duration // from the store's now to the next attempt, for an unfinished To
	At     Instant       // or its time, even if it has passed; zero: Delay counts
}

// Change returns the stored part of the settlement. A cancel request of the client
// wins over every outcome except a delivery.
func (s *Settlement) Change(cancelRequested bool) Change {
	if cancelRequested && s.IfCancelled != s.To {
		return Change{To: s.IfCancelled, Reason: ReasonCancelled}
	}
	return Change{To: s.To, Reason: s.Reason, Delay: s.Delay, At: s.At}
}

// Times returns the times that the change stores at now: of the next attempt and of the
// end, one of which is zero. A job that replaced another one at the same instant was
// registered slightly later than now. It ends at that time, so that the ends show which
// of the two came last.
func (c Change) Times(now, createdAt Instant) (next, ended Instant) {
	if c.To.Final() {
		return 0, max(now, createdAt)
	}
	if c.At != 0 {
		return c.At, 0
	}
	return now.Add(c.Delay), 0
}

// Before decides the outcome of a job claimed from a state before any request is made. earlier is
// the time of the claim before, 0 if unknown. Nil: make the request.
func (j *Job) Before(from State, earlier, now Instant) *Outcome {
	switch {
	case j.CancelRequested:
		return &Outcome{Kind: OutcomeCancelled}
	case j.ExpiredLeases >= MaxExpiredLeases:
		return &Outcome{Kind: OutcomeLeaseExpired}
	case j.ExpiresAt != 0 && j.ExpiresAt <= now:
		o := &Outcome{Kind: OutcomeExpired}
		if from == Running && j.Spec.Destination.Pulled() {
			o.Attempt = j.leaseEnded(earlier, now).Attempt
		}
		return o
	case from == Running && j.Spec.Destination.Pulled():
		return j.leaseEnded(earlier, now)
	case from == Running && j.Suspect():
		return &Outcome{Kind: OutcomeReleased, Reason: ReasonQuarantined, After: j.quarantine()}
	}
	return j.expiresAtDeadline()
}

// Charged returns the effective outcome: a snooze beyond MaxSnoozes is a failure like
// any other, with a copy of Attempt.
func (o Outcome) Charged(j *Job) Outcome {
	if o.Kind != OutcomeSnoozed || j.Snoozes < MaxSnoozes && o.After > 0 {
		return o
	}
	o.Kind, o.After = OutcomeFailed, 0
	if j.Snoozes >= MaxSnoozes && o.Attempt != nil {
		a := *o.Attempt
		a.Error = ErrorSnoozeLimit
		o.Attempt = &a
	}
	return o
}

// Settle computes the settlement of the claimed job j with outcome o. retry returns the
// delay after the n-th counted attempt, or false if n was the last.
func Settle(j *Job, o Outcome, retry func(n int) (time.Duration, bool)) Settlement {
	o = o.Charged(j)
	s := Settlement{
		Key: j.Key, Lane: j.Lane(), Token: j.Token, CreatedAt: j.CreatedAt, Due: j.AttemptDue(), Indexes: j.Indexes(), OrderKey: j.Spec.OrderKey,
		Attempts: j.Attempts, Snoozes: j.Snoozes, Attempt: o.Attempt,
		IfCancelled: Cancelled, Keep: j.Spec.KeepsEnd(), Claimed: j,
	}
	if j.Spec.Callbacks != nil {
		s.Job, s.Response = j, o.Response
	}
	switch o.Kind {
	case OutcomeDelivered:
		s.Attempts++
		s.To, s.Reason, s.IfCancelled = Delivered, ReasonDelivered, Delivered
	case OutcomeFailed:
		s.Attempts++
		delay, more := retry(s.Attempts)
		switch {
		case !more:
			s.To, s.Reason = Dead, ReasonRetryLimit
		case o.After > 0 || o.Named:
			s.To, s.Reason, s.Delay = Retrying, ReasonRetryAfter, o.After
		default:
			s.To, s.Reason, s.Delay = Retrying, ReasonLadder, delay
		}
	case OutcomeRescheduled:
		s.Attempts++
		if _, more := retry(s.Attempts); more {
			s.To, s.Reason, s.At = Retrying, ReasonRescheduled, o.At
		} else {
			s.To, s.Reason = Dead, ReasonRetryLimit
		}
	case OutcomeRefused:
		if o.Attempt != nil {
			s.Attempts++
		}
		s.To, s.Reason = Dead, o.Reason
	case OutcomeSnoozed:
		s.Snoozes++
		s.To, s.Reason, s.Delay = j.Pending(), ReasonSnoozed, o.After
	case OutcomeReleased:
		// A release says nothing about the job itself, so expired leases keep counting.
		s.ExpiredLeases = j.ExpiredLeases
		s.To, s.Reason, s.Delay = j.Pending(), o.Reason, o.After
		if o.After == 0 {
			s.At = s.Due // it keeps its place among the due jobs of its lane
		}
	case OutcomeExpired:
		if o.Attempt != nil {
			s.Attempts++
		}
		s.To, s.Reason = Expired, cmp.Or(o.Reason, ReasonTTL)
	case OutcomeCancelled:
		s.To, s.Reason = Cancelled, cmp.Or(o.Reason, ReasonCancelled)
	case OutcomeLeaseExpired:
		s.ExpiredLeases = j.ExpiredLeases
		s.To, s.Reason = Dead, ReasonLeaseExpired
	}
	if o.Attempt != nil {
		a := *o.Attempt
		a.Reason = s.Reason
		if o.Kind == OutcomeRescheduled && s.To == Dead {
			a.Error = ErrorRescheduleLimit
		}
		s.Attempt = &a
	}
	return s
}
