package job

import (
	"cmp"
	"errors"
	"fmt"
	"time"
)

// State is where a job stands. The four unfinished states come first: their
// numbers are also the codes by which stores mark a bucket's entries.
type State uint8

// The states of a job. The zero value, Waiting, is where every job starts.
const (
	Waiting   State = iota // its first attempt is not due yet
	Retrying               // an attempt failed; the next is not due yet
	Ready                  // carried to the ready list
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

// Final reports whether a job in this state is out of its bucket for good,
// unless it is replayed.
func (s State) Final() bool { return s >= Delivered }

// Event is something that happens to a job.
type Event uint8

// The events of the lifecycle.
const (
	Carry      Event = iota // the carrier put it on the ready list, for the first time or again
	Claim                   // a dispatcher took it
	Deliver                 // the receiver accepted it
	Fail                    // the attempt failed and a retry follows
	GiveUp                  // no retry follows
	Expire                  // its TTL has passed
	Release                 // given back without an attempt: shutdown, breaker open, snooze
	Cancel                  // the client withdrew it
	Reschedule              // the client changed it or its due time; "run now" too
	Replay                  // the client wants an ended job sent again
	Discard                 // the client gives a dead letter up
)

var eventNames = [...]string{"carry", "claim", "deliver", "fail", "give_up", "expire", "release", "cancel", "reschedule", "replay", "discard"}

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

// Lifecycle is every change of state that can happen. Where To names two
// states, Waiting is for a job without a counted attempt and Retrying for one
// with. A carried job whose hint was lost and a claimed job whose worker died
// are the same case: they become due again in their bucket and are carried.
var Lifecycle = []Step{
	{Waiting, Carry, []State{Ready}},
	{Waiting, Claim, []State{Running}}, // an older hint survived and the job is due
	{Waiting, Cancel, []State{Cancelled}},
	{Waiting, Reschedule, []State{Waiting}},
	{Retrying, Carry, []State{Ready}},
	{Retrying, Claim, []State{Running}},
	{Retrying, Cancel, []State{Cancelled}},
	{Retrying, Reschedule, []State{Retrying}},
	{Ready, Carry, []State{Ready}},
	{Ready, Claim, []State{Running}},
	{Ready, Cancel, []State{Cancelled}},
	{Ready, Reschedule, []State{Waiting, Retrying}},
	{Running, Carry, []State{Ready}},   // the lease lapsed
	{Running, Claim, []State{Running}}, // the lease lapsed and an older hint survived
	{Running, Deliver, []State{Delivered}},
	{Running, Fail, []State{Retrying}},
	{Running, GiveUp, []State{Dead}},
	{Running, Expire, []State{Expired}},
	{Running, Release, []State{Waiting, Retrying}},
	{Running, Cancel, []State{Running, Cancelled}}, // in flight: noted, and done when the attempt ends
	{Delivered, Replay, []State{Waiting}},
	{Dead, Replay, []State{Waiting}},
	{Dead, Discard, []State{Cancelled}},
	{Cancelled, Replay, []State{Waiting}},
	{Expired, Replay, []State{Waiting}},
}

// Allowed reports whether the lifecycle has a step from from to to on event e.
func Allowed(from State, e Event, to State) bool {
	for _, s := range Lifecycle {
		if s.From != from || s.On != e {
			continue
		}
		for _, t := range s.To {
			if t == to {
				return true
			}
		}
	}
	return false
}

// MaxSnoozes is how many answers "snooze" use no attempt. The next one counts as a
// failure.
const MaxSnoozes = 100

// Reasons for which jobs end or attempts are followed by a certain next time.
const (
	ReasonRetryLimit  = "retry_limit"         // the last step of the ladder failed
	ReasonGone        = "receiver_gone"       // the receiver answered 410
	ReasonAborted     = "aborted_by_receiver" // webhook-delivery: abort-message
	ReasonBlocked     = "destination_blocked" // the address guard refused the target
	ReasonLapsed      = "lease_lapsed"        // many leases in a row expired, the last ones alone
	ReasonTTL         = "ttl_passed"          // expired
	ReasonCancelled   = "cancelled"           // the client withdrew it
	ReasonDiscarded   = "discarded"           // the client discarded the dead letter
	ReasonDelivered   = "delivered"           // the receiver took it
	ReasonLadder      = "ladder"              // next step of the retry ladder
	ReasonRetryAfter  = "retry_after"         // the receiver named the time
	ReasonSnoozed     = "snoozed"             // the receiver asked to be asked again
	ReasonShutdown    = "shutdown"            // the node stopped; no attempt used
	ReasonCircuitOpen = "circuit_open"        // the endpoint's breaker is open; no attempt used
	ReasonQuarantined = "quarantined"         // a suspect waits for its turn to go alone; no attempt used
)

// ErrorSnoozeLimit is the error of an attempt answered "snooze" once too often.
const ErrorSnoozeLimit = "snooze_limit"

// Errors of commands that the lifecycle refuses.
var (
	ErrFinished = errors.New("the job has ended")
	ErrInFlight = errors.New("the job is in flight")
	ErrNotEnded = errors.New("the job has not ended")
	// ErrNotDead: only dead letters are discarded.
	ErrNotDead = errors.New("the job is no dead letter")
	// ErrKeepsSchedule: an outage that is over is no reason to try it earlier.
	ErrKeepsSchedule = errors.New("the job keeps its schedule")
)

// Pending is the state of a job that waits for its next attempt.
func (j *Job) Pending() State {
	if j.Attempts > 0 {
		return Retrying
	}
	return Waiting
}

// Cancel withdraws the job. When an attempt is in flight it reports true: the
// attempt cannot be called back, but no further one follows.
func (j *Job) Cancel(now Instant) (inFlight bool, err error) {
	switch {
	case j.State.Final():
		return false, ErrFinished
	case j.State == Running:
		j.CancelRequested = true
		return true, nil
	}
	j.State, j.Reason = Cancelled, ReasonCancelled
	// A job that took the place of another at the same instant was registered a
	// little later than now. Which came last can be told by when they ended.
	j.NextAt, j.EndedAt = 0, max(now, j.CreatedAt)
	return false, nil
}

// Reschedule makes the next attempt due at w. Before the first attempt that is
// also the job's due time.
func (j *Job) Reschedule(w When, now Instant) error {
	if err := j.mayChange(); err != nil {
		return err
	}
	j.NextAt = w.Due(now)
	if j.Attempts == 0 {
		j.DueAt = j.NextAt
	}
	j.State = j.Pending()
	return nil
}

// MoveDue makes the next attempt due at w if that is later than it is now due, or
// sooner, as later says, and reports whether it did. Otherwise nothing changes.
func (j *Job) MoveDue(w When, later bool, now Instant) (moved bool, err error) {
	if err := j.mayChange(); err != nil {
		return false, err
	}
	due := w.Due(now)
	if later && due <= max(j.NextAt, now) || !later && due >= j.NextAt {
		return false, nil
	}
	return true, j.Reschedule(w, now)
}

// BringForward makes a retry due now, or leastWait after the failure if that is
// later, because its endpoint works again: after an outage since an instant in
// which the last attempt failed, and which was longer than firstStep of the
// ladder. What a receiver or a client asked for stays: a job that waits for
// another reason than its ladder gives ErrKeepsSchedule.
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

// Respecify replaces what the client asked for but its due time. Its TTL goes
// on counting from the registration, or from the replay that started it anew.
// A carried job goes back to its bucket: its hint may name another lane.
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

// mayChange refuses an ended job, and one in flight: the worker holds a copy
// of it, and would settle by the old one.
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
// counts anew, or the replayed job would expire at once.
func (j *Job) Replay(now Instant) error { return j.ReplayAs(j.Spec, nil, now) }

// ReplayAs is Replay with what the client asks for now, as Draft.Patch gives it;
// it is due at w unless that is nil.
func (j *Job) ReplayAs(s Spec, w *When, now Instant) error {
	if !j.State.Final() {
		return ErrNotEnded
	}
	j.Spec = s
	j.State, j.Reason = Waiting, ""
	j.Attempts, j.Snoozes, j.Lapses = 0, 0, 0
	j.CancelRequested = false
	j.EndedAt, j.DueAt, j.NextAt, j.ExpiresAt = 0, now, now, 0
	if w != nil {
		j.DueAt = w.Due(now)
		j.NextAt = j.DueAt
	}
	if s.TTL > 0 {
		j.ExpiresAt = now.Add(s.TTL)
	}
	return nil
}

// Discard gives a dead letter up. From now on it is as if it had been cancelled:
// it is kept for the retention, and what its attempts met stays in its log.
func (j *Job) Discard(now Instant) error {
	if j.State != Dead {
		return ErrNotDead
	}
	j.State, j.Reason, j.EndedAt = Cancelled, ReasonDiscarded, max(now, j.EndedAt)
	return nil
}

// Outcome is what came of a claim.
type Outcome struct {
	Kind OutcomeKind
	// After is how long to wait: what Retry-After named for OutcomeFailed (zero:
	// nothing named) and OutcomeSnoozed (zero makes it a failure, or it would be
	// asked again at once, over and over), the delay for OutcomeReleased.
	After time.Duration
	// Reason says why, for OutcomeRefused and OutcomeReleased.
	Reason string
	// Attempt is the log entry of a request that was made, or nil.
	Attempt *Attempt
}

// OutcomeKind tells outcomes apart.
type OutcomeKind uint8

// The outcomes of a claim.
const (
	OutcomeDelivered OutcomeKind = iota // the receiver took it
	OutcomeFailed                       // next step of the ladder, or the receiver's Retry-After
	OutcomeRefused                      // no attempt can succeed: dead now, with Reason
	OutcomeSnoozed                      // the receiver asks to be asked again; no attempt used
	OutcomeReleased                     // given back by us; no attempt used
	OutcomeExpired                      // the TTL had passed
	OutcomeCancelled                    // a cancel had been noted before the attempt
	OutcomeLapsed                       // too many leases expired, the last ones while it was sent alone
)

// Settlement is the change that an outcome makes, worked out by Settle and
// applied by a store if Token is still current. Stores know no rules about
// it: they compare Token and write Change.
type Settlement struct {
	Key       Key
	Lane      Lane
	Token     uint64
	CreatedAt Instant // when the job was registered
	Due       Instant // when the attempt was due

	To     State
	Reason string
	// Delay is from the store's now to the next attempt, for an unfinished To.
	Delay time.Duration
	// IfCancelled replaces To, when a cancel was noted during the attempt.
	IfCancelled State

	Attempts int // the new counts
	Snoozes  int
	Lapses   int
	// Attempt is appended to the log; the store fills in its NextAt.
	Attempt *Attempt
	BizKey  string // so that stores can forget the job at once
}

// Change is what a settlement stores of a job.
type Change struct {
	To     State
	Reason string
	Delay  time.Duration // from the store's now to the next attempt, for an unfinished To
}

// Change is what the settlement stores. A cancel request of the client wins over
// everything but a delivery.
func (s *Settlement) Change(cancelRequested bool) Change {
	if cancelRequested && s.IfCancelled != s.To {
		return Change{To: s.IfCancelled, Reason: ReasonCancelled}
	}
	return Change{To: s.To, Reason: s.Reason, Delay: s.Delay}
}

// Times are the times that the change stores at now: of the next attempt and of the end,
// one of which is zero. A job that was registered in the place of another at the same
// instant was registered a little later than now. It ends then, so that its end shows
// which of the two came last.
func (c Change) Times(now, createdAt Instant) (next, ended Instant) {
	if c.To.Final() {
		return 0, max(now, createdAt)
	}
	return now.Add(c.Delay), 0
}

// Before decides what to do with a job claimed from a state before any request is
// made: nil means go ahead.
func (j *Job) Before(from State, now Instant) *Outcome {
	switch {
	case j.CancelRequested:
		return &Outcome{Kind: OutcomeCancelled}
	case j.Lapses >= MaxLapses:
		return &Outcome{Kind: OutcomeLapsed}
	case j.ExpiresAt != 0 && j.ExpiresAt <= now:
		return &Outcome{Kind: OutcomeExpired}
	case from == Running && j.Suspect():
		return &Outcome{Kind: OutcomeReleased, Reason: ReasonQuarantined, After: j.quarantine()}
	}
	return nil
}

// Charged is what the outcome is for the job: a snooze beyond MaxSnoozes is a
// failure like any other. Its Attempt is a copy then.
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

// Settle works out what outcome o makes of the claimed job j. retry gives the
// delay after the n-th counted attempt, or false when n was the last.
func Settle(j *Job, o Outcome, retry func(n int) (time.Duration, bool)) Settlement {
	o = o.Charged(j)
	s := Settlement{
		Key: j.Key, Lane: j.Lane(), Token: j.Token, CreatedAt: j.CreatedAt, Due: cmp.Or(j.NextAt, j.DueAt), BizKey: j.Spec.BizKey,
		Attempts: j.Attempts, Snoozes: j.Snoozes, Attempt: o.Attempt,
		IfCancelled: Cancelled,
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
		case o.After > 0:
			s.To, s.Reason, s.Delay = Retrying, ReasonRetryAfter, o.After
		default:
			s.To, s.Reason, s.Delay = Retrying, ReasonLadder, delay
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
		// Giving back says nothing of the job itself, so a run of lapses goes on.
		s.Lapses = j.Lapses
		s.To, s.Reason, s.Delay = j.Pending(), o.Reason, o.After
	case OutcomeExpired:
		s.To, s.Reason = Expired, ReasonTTL
	case OutcomeCancelled:
		s.To, s.Reason = Cancelled, ReasonCancelled
	case OutcomeLapsed:
		s.Lapses = j.Lapses
		s.To, s.Reason = Dead, ReasonLapsed
	}
	if o.Attempt != nil {
		a := *o.Attempt
		a.Reason = s.Reason
		s.Attempt = &a
	}
	return s
}
