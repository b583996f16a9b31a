// Package store is the contract of the place that keeps jobs, with its types and errors.
//
// One idea makes a store correct: a job is unfinished exactly while it is in a bucket.
// Taking a job claims it: its entry moves to the end of a lease. A store with a ready list
// carries before that: the entry moves to a visibility deadline, and a hint goes onto the list. Only
// settling to a final state removes the entry. A job whose hint was lost or whose worker died
// therefore becomes due again.
//
// The suite in storetest tests every store.
package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/duehook/duehook/internal/job"
)

// Errors on which callers decide.
var (
	// ErrNotFound: the job does not exist, or is no longer kept.
	ErrNotFound = errors.New("job not found")
	// ErrUnreadable: the stored record is not a job, for example because another program
	// overwrote it. A new registration of the key replaces it. Wraps ErrNotFound.
	ErrUnreadable = fmt.Errorf("%w: its record cannot be read", ErrNotFound)
	// ErrUnavailable: the store cannot serve the call now, because it is down, full or
	// closed. The caller may try again later. Wraps the cause.
	ErrUnavailable = errors.New("the store is unavailable")
	// ErrFull: the store has no room for more jobs. It still delivers the jobs that it
	// has. Wraps ErrUnavailable.
	ErrFull = fmt.Errorf("%w: it has no room for more jobs", ErrUnavailable)
	// ErrOtherLayout: the settings of this node do not match the stored data. The store
	// serves nothing. Wraps ErrUnavailable.
	ErrOtherLayout = fmt.Errorf("%w: its jobs have another layout", ErrUnavailable)
	// ErrBadCursor: the cursor is not from this listing.
	ErrBadCursor = errors.New("invalid cursor")
	// ErrConflict: the job or document was modified concurrently.
	ErrConflict = errors.New("modified concurrently")
)

// Unreachable reports whether a call failed because the store cannot serve it now, or because its context ended. The call may
// be repeated later. Other errors concern what the call is about.
func Unreachable(err error) bool {
	return errors.Is(err, ErrUnavailable) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}

// Store keeps jobs.
//
// All methods are safe for concurrent use. A caller that does not know the outcome of a
// call may repeat it: a second run does no harm. A store decides by its own clock, never
// by a caller's.
type Store interface {
	Registrar
	Reader
	Dispatching
	Taking
	Keeping
	Documents
	Messaging
	Limiting

	// Ping reports whether the store can serve. The error wraps ErrUnavailable if it
	// cannot.
	Ping(ctx context.Context) error
	// Close releases everything. Calls in progress fail with ErrUnavailable.
	Close() error
}

// Registrar registers and changes jobs.
type Registrar interface {
	// Register registers jobs. Results are in the order of regs. rules.Against decides
	// about a key that is taken, also by an earlier registration of the call. After an error, the outcome of all of them is unknown. A
	// full store returns no error but the outcome StoreFull: such a job is surely not
	// stored.
	Register(ctx context.Context, regs []Registration) ([]Registered, error)
	// Update reads the job, calls change with it and the store's time, and stores the
	// result if the job was not modified concurrently. Otherwise it starts over, a bounded
	// number of times; then it returns ErrConflict. An error of change stores nothing;
	// Update returns it with the job as stored. Update adds one to Version, and moves the
	// job to the bucket or list of its new state and lane, due at job.WakeAt. It returns when
	// the change is durable, see Unacknowledged.
	Update(ctx context.Context, key job.Key, change func(j *job.Job, now job.Instant) error) (job.Job, error)
	// Count adds to the count of a job, as job.Tally decides, and makes the job due if the
	// count reaches the target. Errors: ErrNotFound, or those of job.Tally. A repetition
	// counts adds with a key once, and other adds again. Job may lack the body, the headers
	// and the last attempt.
	Count(ctx context.Context, c Count) (Counted, error)
}

// Count is a call that adds to the count of a job.
type Count struct {
	Key  job.Key
	Adds []job.Add // at most MaxAdds
}

// MaxAdds is the most adds of one call.
const MaxAdds = 500

// Counted is the answer to Count.
type Counted struct {
	Job   job.Job // after the adds
	Now   job.Instant
	Tally job.Tally
}

// Registration is a job to register.
type Registration struct {
	Key job.Key
	// UID is a ULID made by BindUID. List may not find a job with another uid.
	UID        string
	Spec       job.Spec // Spec.When is relative to the store's clock
	OnConflict job.OnConflict
}

// Job is the new job, registered at now.
func (r Registration) Job(now job.Instant) job.Job {
	due := r.Spec.When.Due(r.Key, now)
	j := job.Job{
		Key: r.Key, UID: r.UID, Spec: r.Spec, State: job.Waiting, Version: 1,
		CreatedAt: now, UpdatedAt: now, DueAt: due, NextAt: due,
	}
	if r.Spec.TTL > 0 {
		j.ExpiresAt = now.Add(r.Spec.TTL)
	}
	if at := r.Spec.When.At; r.Spec.Occurrence != nil && at != 0 {
		j.DueAt = at // also a late one, which goes at once
		if expires := r.ExpiresAt(); expires != 0 {
			j.ExpiresAt = max(expires, now)
		}
	}
	return j
}

// ExpiresAt is the end of the TTL if that does not depend on when the job is registered,
// or zero. The TTL of an occurrence counts from when it is due.
func (r Registration) ExpiresAt() job.Instant {
	if at := r.Spec.When.At; r.Spec.Occurrence != nil && at != 0 && r.Spec.TTL > 0 {
		return at.Add(r.Spec.TTL)
	}
	return 0
}

// Over is the new job, registered at now in the place of old. It is dated after old,
// so that the order of a key's registrations is known whatever the clock does. The caller
// keeps the fencing token of old, so that no worker of old settles the new job.
func (r Registration) Over(old *job.Job, now job.Instant) job.Job {
	j := r.Job(now)
	j.CreatedAt = max(now, old.CreatedAt+1)
	j.UpdatedAt = j.CreatedAt
	return j
}

// RegisterOutcome is the outcome of a registration.
type RegisterOutcome uint8

// The outcomes of a registration.
const (
	Created       RegisterOutcome = iota // a new job
	Same                                 // the same content is registered: a safe repetition
	Kept                                 // an unfinished job holds the key and stays unchanged
	Moves                                // an unfinished job or a dead letter holds the key; rules.Move makes it due
	Moved                                // rules.Move did so
	Exists                               // refused: other content is registered
	InFlight                             // refused: an attempt is in flight (Replace, Later, Sooner)
	DeadLetter                           // refused: a dead letter holds the key
	KeyReused                            // refused: the Idempotency-Key named other content before
	Busy                                 // refused: others change the job with the key all the time
	OtherOrderKey                        // refused: the job with the key has another order key, which holds a turn for it
	TopicFull                            // refused: the topic has reached its capacity
	TopicDraining                        // refused: the topic is draining
	StoreFull                            // refused: the store has no room
)

// Held reports whether an earlier registration holds the key.
func (o RegisterOutcome) Held() bool { return o != Created && !o.Refused() }

// Conflicts reports whether the job that holds the key refuses the registration.
func (o RegisterOutcome) Conflicts() bool {
	return o == Exists || o == InFlight || o == DeadLetter || o == KeyReused || o == Busy || o == OtherOrderKey
}

// Refused reports whether the topic or the store accepts no jobs, whatever their keys.
func (o RegisterOutcome) Refused() bool { return o.Err() != nil }

// Err is the error of an outcome for which Refused is true, otherwise nil.
func (o RegisterOutcome) Err() error {
	switch o {
	case TopicFull:
		return ErrTopicFull
	case TopicDraining:
		return ErrTopicDraining
	case StoreFull:
		return ErrFull
	}
	return nil
}

// Registered is the answer to a registration. Job is the new job, or the job that holds
// the key, see HeldBy. It is empty if the topic or the store refused.
type Registered struct {
	Outcome RegisterOutcome
	Job     job.Job
}

// HeldBy is the answer to a registration whose key another job holds. It leaves out the body and the headers of that job:
// a thousand large ones must not be the answer to a small call.
func HeldBy(outcome RegisterOutcome, holder job.Job) Registered {
	holder.Spec.Body, holder.Spec.Headers = nil, nil
	return Registered{Outcome: outcome, Job: holder}
}

// Page is a page of jobs. Next is empty on the last.
type Page struct {
	Jobs []job.Job
	Next string
	// Scanned is what a page without an order examined, in entries: a job that does not match counts for several.
	Scanned int
}

// DueOf selects jobs to count. Empty fields select all.
type DueOf struct {
	Topic, Endpoint string
	// Within counts only jobs from the first to before the last bound.
	Within bool
	// Most bounds the entries and lanes that are examined in each shard; 0: 150,000.
	Most int
}

// DueCounts counts jobs by when they need attention.
type DueCounts struct {
	// Counts are of those before bounds[0], from there before bounds[1], and so on,
	// and from the last bound on. With DueOf.Within, the first and the last are left out.
	Counts []int64
	// PartialFrom is zero if all lanes were counted. Otherwise it is when the first
	// lane left out needs attention. Counts of jobs due then or later are incomplete;
	// earlier jobs are missing only if their lane is put off, for example until the
	// circuit of its endpoint half-opens.
	PartialFrom job.Instant
}

// Depth is the figures of the whole store.
type Depth struct {
	States       map[job.State]int64
	ReadyList    int64 // hints on the ready lists
	OpenCircuits int64
	// OldestDue is when the earliest lane needs attention. It is in the past if jobs
	// are late, and zero if none does.
	OldestDue job.Instant
	// OrderKeys are the order keys with unfinished jobs, or stopped by a dead letter.
	OrderKeys int64
	// Behind are the jobs that wait for another job of their order key.
	Behind int64
	Now    job.Instant
}

// ReadyList is the part of a store that has a ready list: carriers move due jobs there, and Take
// takes them off. Other stores take due jobs at once.
type ReadyList interface {
	// Shards returns the number of independent parts. Each is carried on its own.
	Shards() int
	// Carry moves due jobs of a shard to its ready list, visiting topics and endpoints in
	// turn. Of a topic's due jobs, those with a higher priority go first, then those that
	// were due first. Within an endpoint this always holds; across endpoints, as far as
	// the call examines them together. Any number of callers is safe. The store may keep
	// the result, so the caller does not change it.
	Carry(ctx context.Context, shard int, o CarryOptions) (CarryResult, error)
	// Locker returns the lock that saves carriers double work.
	Locker(shard int) Locker
}

// Locker is a lock that ends if its holder stops extending it. Safety never depends on
// it.
type Locker interface {
	// TryLock takes the lock for ttl. It returns false if another holder has it.
	TryLock(ctx context.Context, ttl time.Duration) (bool, error)
	// Extend extends a held lock by the ttl of TryLock. It returns false if the lock was
	// lost.
	Extend(ctx context.Context) (bool, error)
	// Unlock releases a held lock.
	Unlock(ctx context.Context) error
}

// CarryOptions bound a call of Carry. Cap, Visibility and HalfOpenLimit are required.
type CarryOptions struct {
	Cap        int           // most hints on the shard's ready list
	Visibility time.Duration // until an unclaimed job is due again
	FlightLimits
	// Pull, unless nil, has up to Cap jobs that wait in the pull queues of these topics carried,
	// instead of others. They do not go to the ready list: the caller claims them by the hints of
	// the result. CarryResult.Wait is then about these queues. Without Pull, of a pull queue
	// only jobs whose lease or visibility deadline has passed are carried.
	Pull []string
}

// CarryResult is the result of a call of Carry.
type CarryResult struct {
	// Carried are the jobs pushed, with the states that they came from.
	Carried []Carried
	// Wait is the time until more may be carried, by the store's clock: zero if more is
	// due now, negative if no job waits. A lane at a limit is due when a place may be free,
	// a lane of a topic with a rate at its next turn.
	Wait time.Duration
	// Full: the ready list was full while more was due. Look again soon, not at once.
	Full bool
}

// Carried is a carried job.
type Carried struct {
	Hint Hint
	From job.State
}

// Hint names a job on the ready list. It may be stale or doubled; the claim decides.
type Hint struct {
	Lane job.Lane
	ID   string
}

// Key is the key of the job.
func (h Hint) Key() job.Key { return job.Key{Topic: h.Lane.Topic, ID: h.ID} }

// Dispatching is the part of a store that the dispatcher needs.
type Dispatching interface {
	Shards() int
	// Settle applies settlements. Results are in their order. An applied
	// settlement may be repeated. Until the job is claimed again or gone, the answer is that of
	// the first run, with Repeated. The store may keep the settlements, so the caller does not
	// change them.
	Settle(ctx context.Context, settlements []job.Settlement) ([]Settled, error)
	// SetCircuit opens or closes the circuit of an endpoint.
	//   - CircuitOpen: nothing is taken from the endpoint's lanes for d. Then the circuit is half-open:
	//     up to FlightLimits.HalfOpenLimit jobs are taken until it is closed, or until d (at
	//     least a minute) has passed without another call.
	//   - CircuitHalfOpen: an open circuit half-opens at once. Others stay.
	//   - CircuitClosed: an open or half-open circuit closes. The endpoint's jobs are taken up
	//     to HalfOpenLimit at first, twice as much each second, and without this limit after
	//     rules.RampTime.
	SetCircuit(ctx context.Context, endpoint string, to CircuitState, d time.Duration) error
}

// ClaimOptions are the terms of a claim.
type ClaimOptions struct {
	Nonce string // unique to the call, up to 64 of [A-Za-z0-9_-]
	// Lease is the lease of a job without a timeout of its own. The lease of another job
	// is its timeout plus LeaseMargin.
	Lease       time.Duration
	LeaseMargin time.Duration
	// By names the worker in Outlook.
	By string
	// Left gets the hints left out because the claims reached BatchBytes. The next call
	// may claim their jobs. Nil: the call claims them all, in several batches.
	Left func(hints []Hint)
}

// Claimed is a claimed job. Job.State is Running, Job.Token is the claim's. A store may
// leave out Job.LastAttempt to avoid reading the log.
type Claimed struct {
	Job job.Job
	// Now is the store's time of the claim.
	Now job.Instant
	// From is the state before the claim, usually Ready.
	From job.State
	// Earlier is the time of the claim before, if From is Running. 0: unknown.
	Earlier job.Instant
}

// SettleStatus is the outcome of a settlement.
type SettleStatus uint8

// The statuses of a settlement.
const (
	Applied SettleStatus = iota // stored, now or by an earlier run of the same settlement
	Stale                       // nothing changed: the fencing token is not the current one
	Missing                     // nothing changed: the job does not exist
)

// Settled is the answer to a settlement. The fields after Repeated are set if it was
// applied: the stored state, with its job and version.
type Settled struct {
	Status   SettleStatus
	Repeated bool // an earlier run applied it
	To       job.State
	Reason   string
	NextAt   job.Instant
	EndedAt  job.Instant
	Now      job.Instant
	UID      string
	Version  uint64
	// Shed is what the store left out of the successors.
	Shed job.Shed
}

// Change is the change that the store made for an applied settlement.
func (r *Settled) Change(s *job.Settlement) job.Change {
	c := s.Change(false)
	if c.To != r.To || c.Reason != r.Reason {
		c = s.Change(true)
	}
	return c
}

// Keeping is the part of a store that housekeeping needs.
type Keeping interface {
	// Purge deletes up to limit jobs that were delivered, cancelled or expired longer ago
	// than the store's retention. Dead letters stay. It returns how many it deleted.
	Purge(ctx context.Context, limit int) (int, error)
}
