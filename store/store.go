// Package store defines what duehook asks of the place where jobs are kept.
//
// One idea makes a store correct: a job is unfinished exactly while it is in a
// bucket. Carrying does not take it out, it re-scores the job to a visibility
// deadline and pushes a hint onto the ready list; claiming re-scores it to the
// end of a lease; only settling to a final state removes it. So a lost hint or
// a dead worker leaves the job where it will become due again.
//
// Every store passes the suite in storetest.
package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/duehook/duehook/job"
)

// Errors on which callers decide.
var (
	// ErrNotFound: there is no such job (or topic), or it is no longer kept.
	ErrNotFound = errors.New("job not found")
	// ErrUnreadable: something of this name is stored that is no job any more,
	// such as a record that somebody wrote over. Registering the name anew
	// replaces it. It is an ErrNotFound, too.
	ErrUnreadable = fmt.Errorf("%w: what is stored of it cannot be read", ErrNotFound)
	// ErrUnavailable: the store cannot do it now (down, full, closing). Trying
	// again later is right. Wraps the cause.
	ErrUnavailable = errors.New("store unavailable")
	// ErrFull: the store has no room for more jobs; it goes on with those that it
	// has. It is an ErrUnavailable, too.
	ErrFull = fmt.Errorf("%w: it has no room for more jobs", ErrUnavailable)
	// ErrOtherLayout: the settings of this node do not fit what the store holds, so it
	// serves nothing. It is an ErrUnavailable, too.
	ErrOtherLayout = fmt.Errorf("%w: its jobs are laid out otherwise", ErrUnavailable)
	// ErrDegraded: the store can serve, but something of it is missing, which the
	// error tells.
	ErrDegraded = errors.New("store degraded")
	// ErrBadCursor: the cursor is not one that this listing handed out.
	ErrBadCursor = errors.New("invalid cursor")
	// ErrConflict: the job went on changing while an Update tried to change it.
	ErrConflict = errors.New("the job changed meanwhile")
)

// Store keeps jobs. All methods are safe for concurrent use, and may be
// repeated when their outcome is unknown: a second run does no harm. The times
// that a store decides by are its own (Now in results), never a caller's.
type Store interface {
	Registrar
	Reader
	Carrying
	Dispatching
	Keeping
	Comparing
	Documents
	Messaging
	Limiting

	// Ping reports whether the store can serve; its error wraps ErrUnavailable if
	// it cannot, or ErrDegraded if it can.
	Ping(ctx context.Context) error
	// Close releases everything; calls under way fail with ErrUnavailable.
	Close() error
}

// Registrar takes jobs in and changes them.
type Registrar interface {
	// Register registers each of regs; results stand in the same order. An
	// error means that nothing is known of any of them. A store that is full says
	// so in outcomes, since what it refused is known not to be there.
	Register(ctx context.Context, regs []Registration) ([]Registered, error)
	// Update reads the job, lets change alter it, and stores it if nobody else
	// changed it meanwhile; otherwise it starts over, a bounded number of times
	// (then ErrConflict). change gets the store's now. If change returns an
	// error, nothing is stored and Update returns that error with the job as it
	// stands. Update moves the job to the bucket or list that its new state and
	// lane ask for, due at job.WakeAt, and adds one to Version.
	Update(ctx context.Context, key job.Key, change func(j *job.Job, now job.Instant) error) (job.Job, error)
	// Restore puts jobs back as they stand, whatever their state, unless their
	// key exists with something else than RestoredJob.Over; running and ready ones
	// come back as Pending. It returns how many it put back. A store that has no
	// room for a key that it lacks fails with ErrFull.
	Restore(ctx context.Context, jobs []RestoredJob) (int, error)
}

// ConflictPolicy says what a registration does when its key is taken by another
// job. Against has the rule.
type ConflictPolicy uint8

// The policies; Reject is the default.
const (
	Reject  ConflictPolicy = iota // refuse
	Ignore                        // keep and return the unfinished job
	Replace                       // put the new one in its place, unless it is in flight
	Later                         // keep the unfinished job, and move its due time later
	Sooner                        // or sooner
)

// Registration is a job to be taken in. A job that gives way is replaced with its
// record. The new job is that of Over then, so the registrations of a key can be
// told apart by when they were created.
type Registration struct {
	Key job.Key
	// UID is a ULID made by BindUID; by any other, List may not find the job.
	UID        string
	Spec       job.Spec // Spec.When says when it is due, by the store's clock
	OnConflict ConflictPolicy
	// At is when the job is registered, if the caller has looked at the store's
	// clock: a journal may have written that down. Zero is the store's now. Only
	// a store in the memory of its process obeys it; those that processes share
	// date registrations themselves.
	At job.Instant
}

// Job is the new job, registered at now.
func (r Registration) Job(now job.Instant) job.Job {
	due := r.Spec.When.Due(now)
	j := job.Job{
		Key: r.Key, UID: r.UID, Spec: r.Spec, State: job.Waiting, Version: 1,
		CreatedAt: now, DueAt: due, NextAt: due,
	}
	if r.Spec.TTL > 0 {
		j.ExpiresAt = now.Add(r.Spec.TTL)
	}
	return j
}

// Over is the new job, registered at now in the place of old. It is dated after
// that, so that it can be told of two registrations of a key which came later,
// whatever the clock does.
func (r Registration) Over(old *job.Job, now job.Instant) job.Job {
	j := r.Job(now)
	j.CreatedAt = max(now, old.CreatedAt+1)
	return j
}

// Against decides what becomes of a registration whose key is taken by old.
// Created means that old gives way. Equal content is the same job for as long as
// that is kept, so that a client may repeat itself, and an ended job makes room
// for other content. There are three exceptions: a cancelled job makes room for
// equal content, too; a dead letter gives way to Replace only, or it would vanish
// unseen; and with Replace, Later and Sooner something happened anew, so that the
// content of an ended job does not count.
func (r Registration) Against(old *job.Job) RegisterOutcome {
	switch {
	case old.State.Final():
		return r.againstEnded(old)
	case r.moves() && old.State == job.Running:
		return InFlight
	case r.moves():
		return Moves
	case r.Spec.SameContent(&old.Spec):
		return Same
	case r.OnConflict == Ignore:
		return Kept
	case r.OnConflict == Reject:
		return Exists
	case old.State == job.Running:
		return InFlight
	}
	return Created
}

func (r Registration) againstEnded(old *job.Job) RegisterOutcome {
	switch {
	case r.OnConflict == Replace, old.State == job.Cancelled:
		return Created
	case r.Repeats() && r.Spec.SameContent(&old.Spec):
		return Same
	case old.State == job.Dead:
		return DeadLetter
	}
	return Created
}

// moves reports whether the registration moves the due time of an unfinished job.
func (r Registration) moves() bool { return r.OnConflict == Later || r.OnConflict == Sooner }

// Repeats reports whether the registration may be the repetition of one whose job
// has ended.
func (r Registration) Repeats() bool { return r.OnConflict == Reject || r.OnConflict == Ignore }

// RegisterOutcome says what became of a registration.
type RegisterOutcome uint8

// The outcomes of a registration.
const (
	Created       RegisterOutcome = iota // a new job
	Same                                 // the same content was registered before: a safe retry
	Kept                                 // an unfinished job holds the key and stays as it is
	Moves                                // an unfinished job holds the key: Register moves its due time
	Moved                                // Register has moved it
	Exists                               // other content was registered before: refused
	InFlight                             // Replace, Later or Sooner met an attempt in flight: refused
	DeadLetter                           // a dead letter holds the key: refused
	TopicFull                            // the topic holds as many unfinished jobs as it may: refused
	TopicDraining                        // the topic takes no jobs in: refused
	StoreFull                            // the store has no room for it: refused
)

// Held reports whether an earlier registration holds the key.
func (o RegisterOutcome) Held() bool { return o != Created && !o.Refused() }

// Refused reports whether the topic, or the store, takes no more jobs, whatever
// their keys.
func (o RegisterOutcome) Refused() bool {
	return o == TopicFull || o == TopicDraining || o == StoreFull
}

// Registered is the answer to one registration: Job is the new job, or the
// one that holds the key; when it was refused, it is empty.
type Registered struct {
	Outcome RegisterOutcome
	Job     job.Job
}

// Reader answers questions.
type Reader interface {
	Get(ctx context.Context, key job.Key) (job.Job, error)
	// Attempts is the log of the job's attempts, oldest first: of the last MaxLog,
	// at least those that take MaxLogBytes together.
	Attempts(ctx context.Context, key job.Key) ([]job.Attempt, error)
	// Outlook tells what keeps the job from its next attempt. Its error is that
	// of Get; with ErrNotFound the answer still has Now.
	Outlook(ctx context.Context, key job.Key) (Outlook, error)
	// List pages through jobs in a fixed order: a job that does not change
	// state, URL or due time between the pages is listed exactly once. A page
	// may hold fewer jobs than asked for, even none, and still have a next
	// cursor: a page examines a bounded number of jobs, and ends when its jobs take
	// PageBytes.
	List(ctx context.Context, q Query) (Page, error)
	// Topics pages, by name, through the topics that hold a job. Its work is
	// bounded by the page, however many there are.
	Topics(ctx context.Context, q TopicQuery) (TopicPage, error)
	// Busiest gives the n topics with the most unfinished jobs, those with more first.
	// n is 100 at most. With more than 100 topics it may pass over those of which few
	// jobs wait, and prefer one to another that has less than twice as many.
	Busiest(ctx context.Context, n int) ([]BusyTopic, error)
	// Topic gives one topic with its DueIn; ErrNotFound when it holds no job.
	Topic(ctx context.Context, topic string) (TopicStats, error)
	// DeadGroups pages through the groups of dead letters, of one topic or of all,
	// by name. Its work is bounded by limit, 1..1000, however many there are.
	DeadGroups(ctx context.Context, topic string, limit int, cursor string) (DeadPage, error)
	// Backlogs tells which topics have jobs that are due and wait. Its work grows
	// with the number of lanes that have such jobs or may be put off, and is bounded
	// by MaxLanes.
	Backlogs(ctx context.Context) (Backlogs, error)
	// Circuits lists the endpoints that are held, probed or ramping up, by name.
	Circuits(ctx context.Context) ([]EndpointCircuit, error)
	// Endpoints pages, by name, through the endpoints that have unfinished jobs,
	// are held or probed, or ramp up. Its work is bounded by the page and by how many
	// are held.
	Endpoints(ctx context.Context, q EndpointQuery) (EndpointPage, error)
	// DueCounts counts the jobs that wait, neither carried nor claimed, by when
	// they need attention. Bounds ascend. Lanes are counted one after the other, those
	// first that need attention first, so a job that moves meanwhile may be missed or
	// counted twice. Its work is bounded; with many lanes the last of them are left out.
	DueCounts(ctx context.Context, bounds []job.Instant) (DueCounts, error)
	// Depth sums up the store for metrics and alerts.
	Depth(ctx context.Context) (Depth, error)
}

// Page is one page of a listing; Next is empty on the last.
type Page struct {
	Jobs []job.Job
	Next string
}

// DueRanges names the ranges by which unfinished jobs are counted: the time
// from now to when they next need attention. A range ends before its bound.
var DueRanges = []struct {
	Name  string
	Below time.Duration // zero: no bound
}{
	{"0_1min", time.Minute},
	{"1_10min", 10 * time.Minute},
	{"10_30min", 30 * time.Minute},
	{"30min_1h", time.Hour},
	{"1_6h", 6 * time.Hour},
	{"6h_1day", 24 * time.Hour},
	{"1_7day", 7 * 24 * time.Hour},
	{"7_30day", 30 * 24 * time.Hour},
	{"30day_more", 0},
}

// DueCounts counts jobs by when they need attention.
type DueCounts struct {
	// Counts are of those before bounds[0], from there before bounds[1], and so on,
	// and from the last bound on.
	Counts []int64
	// PartialFrom is zero when all lanes were counted. Otherwise it is when the first
	// lane that was left out needs attention: of jobs that are due then or later some
	// are missing, and of earlier ones only those whose lane is put off, for example to
	// the end of its endpoint's hold.
	PartialFrom job.Instant
}

// Depth is the store in figures.
type Depth struct {
	States map[job.State]int64
	// ReadyList is the number of hints on the ready lists.
	ReadyList int64
	// OldestDue is when the earliest lane should have been looked at: in the
	// past when the carrier is behind, zero when there is no unfinished job.
	OldestDue job.Instant
	Now       job.Instant
	// Held are the endpoints held at the moment.
	Held int64
}

// Carrying is what the carrier needs.
type Carrying interface {
	// Shards is the number of independent parts, each carried on its own.
	Shards() int
	// Carry moves due jobs of one shard to its ready list, visiting topics and
	// endpoints in turn. Of what is due in a topic those with a higher priority go
	// first, and then those that were due first: of one endpoint always, of several
	// as far as they are looked at together. It is safe with any number of callers.
	Carry(ctx context.Context, shard int, o CarryOptions) (CarryResult, error)
	// Wakeups calls wake whenever a job may be due earlier than all others of
	// its shard, until ctx ends (then nil) or the source fails. A hint only:
	// calls may be lost.
	Wakeups(ctx context.Context, wake func(shard int)) error
	// Locker gives the lock that saves carriers double work.
	Locker(shard int) Locker
}

// Locker is a lock that ends by itself when its holder stops extending it.
// Nothing depends on it for safety.
type Locker interface {
	// TryLock takes the lock for ttl; false means that another holds it.
	TryLock(ctx context.Context, ttl time.Duration) (bool, error)
	// Extend prolongs a held lock by the ttl of TryLock; false means that it was lost.
	Extend(ctx context.Context) (bool, error)
	// Unlock gives a held lock back.
	Unlock(ctx context.Context) error
}

// CarryOptions bound one call of Carry. Cap, Visibility and HalfOpenLimit are
// required. The limits hold for the whole store; one with several shards gives
// each an equal part of them, at least one.
type CarryOptions struct {
	Cap        int           // most hints on the shard's ready list
	Visibility time.Duration // until a carried job that nobody claims is due again
	// Longest is how long the longest visibility deadline and the longest lease last.
	// What ends later when the store's clock went back was stored by a clock that was
	// ahead, and ends then. Zero: all may.
	Longest time.Duration
	// EndpointLimit is the most carried and claimed jobs of one endpoint,
	// whatever their topics; 0: no limit.
	EndpointLimit int
	// TopicLimits are the most carried and claimed jobs of a topic at one endpoint,
	// for topics that have a limit of their own. One above EndpointLimit replaces it for
	// the topic's jobs.
	TopicLimits map[string]int
	// HalfOpenLimit is the EndpointLimit of an endpoint whose hold has just ended.
	HalfOpenLimit int
	// By is recorded as the carrier by stores that keep a journal.
	By string
}

// CarryResult says what a call of Carry did.
type CarryResult struct {
	// Carried are the jobs pushed, with the states that they came from.
	Carried []Carried
	// Wait is how long nothing may be carried, by the store's clock; zero when
	// more is due now, negative when the shard holds nothing that waits. Lanes
	// at a limit are due when a place may have come free, those of a topic with a
	// rate when it is their turn.
	Wait time.Duration
	// Full is set when the ready list was full while more was due: look again
	// soon, not at once.
	Full bool
}

// Carried is one carried job.
type Carried struct {
	Hint Hint
	From job.State
}

// Hint names a job on the ready list. It may be stale or doubled: only a
// claim tells.
type Hint struct {
	Lane job.Lane
	ID   string
}

// Key is the key of the hinted job.
func (h Hint) Key() job.Key { return job.Key{Topic: h.Lane.Topic, ID: h.ID} }

// Dispatching is what the dispatcher needs.
type Dispatching interface {
	Shards() int
	// Pop takes up to max hints off the shard's ready list, waiting up to wait
	// for the first. It returns none after the wait. When ctx ends it returns
	// at once, with ctx's error; hints popped meanwhile are lost, which is safe.
	Pop(ctx context.Context, shard, max int, wait time.Duration) ([]Hint, error)
	// Claim claims the hinted jobs that are due and not leased. The others are
	// left out of the answer; of a topic with limits, so are those that are not
	// carried. Repeating a call with its nonce gives the claims
	// that it made again, while their leases last, and later makes them anew. A claim
	// from Running means that a lease lapsed, unless it is such a repetition, and adds
	// one to Lapses as long as the job is no suspect.
	Claim(ctx context.Context, shard int, hints []Hint, o ClaimOptions) ([]Claimed, error)
	// Settle applies settlements; results stand in the same order.
	Settle(ctx context.Context, settlements []job.Settlement) ([]Settled, error)
	// Hold keeps an endpoint's lanes from being carried for d. After that they
	// are carried up to CarryOptions.HalfOpenLimit until CloseCircuit, or until as long
	// as d (at least a minute) has passed without another Hold. With a d of zero,
	// a hold ends and that begins at once; an endpoint that is not held is left alone.
	OpenCircuit(ctx context.Context, endpoint string, d time.Duration) error
	// CloseCircuit lets the endpoint's lanes be carried again, if it is held or
	// probed: up to HalfOpenLimit at first, twice as many each second, and after
	// RampTime freely.
	CloseCircuit(ctx context.Context, endpoint string) error
}

// ClaimOptions are the terms of a claim.
type ClaimOptions struct {
	Nonce string // unique to the call, up to 64 of [A-Za-z0-9_-]
	// Lease is the lease of a job without a timeout of its own; a job with one
	// gets its timeout plus LeaseMargin.
	Lease       time.Duration
	LeaseMargin time.Duration
	// By names the worker: in Outlook, and in stores that keep a journal.
	By string
	// Left is told of hints that were left because the claims are large enough
	// without them: BatchBytes. Their jobs may be claimed by the next call. Nil: the
	// call claims them all, a batch after the other.
	Left func(hints []Hint)
}

// Claimed is a claimed job. Job.State is Running, Job.Token the claim's. A
// store may leave Job.LastAttempt out, to save reading the log.
type Claimed struct {
	Job job.Job
	// Now is the store's time of the claim.
	Now job.Instant
	// From is the state that the job was claimed from: Ready, as a rule.
	From job.State
}

// SettleStatus says what became of a settlement.
type SettleStatus uint8

// The statuses of a settlement.
const (
	Applied SettleStatus = iota // stored, now or by an earlier run of the same settlement
	Stale                       // the token is not the current one: nothing was changed
	Missing                     // the job is gone: nothing was changed
)

// Settled is the answer to one settlement. For Applied, To, Reason, NextAt,
// EndedAt and Now tell what was stored, UID and Version of which job and as
// which of its versions; Repeated is set when an earlier run did it.
type Settled struct {
	Status   SettleStatus
	Repeated bool
	To       job.State
	Reason   string
	NextAt   job.Instant
	EndedAt  job.Instant
	Now      job.Instant
	UID      string
	Version  uint64
}

// Keeping is what housekeeping needs.
type Keeping interface {
	// Purge forgets up to limit jobs that ended (delivered, cancelled or
	// expired) longer ago than the store's retention. Dead letters stay.
	Purge(ctx context.Context, limit int) (int, error)
}
