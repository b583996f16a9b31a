package memstore

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/encoding"
)

// record is a stored job. Millions may only wait, so the fields that they do not need are
// in extra, and the Spec is encoded.
type record struct {
	id, uid string
	spec    string // the job.Spec in msgpack
	bizKey  string

	topic *topic
	turns *turns // of its order key; nil without one
	lane  *lane  // nil once the job has ended
	score score  // of its entry in the lane's bucket, or in the topic's list

	createdAt job.Instant
	dueAt     job.Instant
	nextAt    job.Instant
	expiresAt job.Instant

	attempts int
	token    uint64
	version  uint64
	extra    *extra

	timeout         int32     // of one attempt, in milliseconds
	state           job.State // never Ready, which only the bucket knows
	cancelRequested bool
	keepsEnd        bool // see job.Spec.KeepsEnd
	grouped         bool // it has a group id, which is a part of its id
}

// extra has the fields that a record needs once its job was claimed or counted.
type extra struct {
	endedAt       job.Instant
	reason        string
	snoozes       int
	expiredLeases int
	log           []job.Attempt // entries are never changed, so copies may share them

	dead      *deadGroup // nil unless the job is dead
	claim     claim
	settled   store.Settled // what the settlement of token settledBy stored
	settledBy uint64
	tally     *tally // nil: nothing was counted
}

// claim is the answer to a repeated Claim.
type claim struct {
	nonce string
	at    job.Instant
	from  job.State
	by    string
}

// more is the record's extra, for writing.
func (r *record) more() *extra {
	if r.extra == nil {
		r.extra = &extra{}
	}
	return r.extra
}

// settledBy reports whether the claim with this token was the last one and is settled.
func (r *record) settledBy(token uint64) bool {
	return r.extra != nil && token != 0 && r.extra.settledBy == token
}

// shown is the state that callers see.
func (r *record) shown() job.State {
	if r.lane == nil {
		return r.state
	}
	return r.score.code()
}

// wakeAt is job.Job.WakeAt of the record.
func (r *record) wakeAt() job.Instant {
	j := job.Job{NextAt: r.nextAt, ExpiresAt: r.expiresAt}
	return j.WakeAt()
}

// leaseFrom is the end of a lease taken at now.
func (r *record) leaseFrom(now job.Instant, o store.ClaimOptions) job.Instant {
	if r.timeout > 0 {
		return now.Add(time.Duration(r.timeout)*time.Millisecond + o.LeaseMargin)
	}
	return now.Add(o.Lease)
}

// encoded is the part of a job that is computed before the store is locked.
type encoded struct {
	spec    string
	bizKey  string
	timeout int32
	lane    job.Lane
	order   string // topic/order_key; empty without one

	keepsEnd, grouped bool
}

// encoder encodes the jobs of one call, one after the other.
type encoder struct{ text []byte }

// encode returns strings that share one piece of memory, because there may be millions.
func (e *encoder) encode(key job.Key, spec *job.Spec) encoded {
	e.text = encoding.AppendSpec(append(e.text[:0], spec.BizKey...), spec)
	text, n := string(e.text), len(spec.BizKey)
	timeout := min(max(spec.Timeout, 0).Milliseconds(), math.MaxInt32)
	j := job.Job{Key: key, Spec: *spec}
	order := ""
	if spec.OrderKey != "" {
		order = key.Topic + "/" + spec.OrderKey
	}
	return encoded{
		spec: text[n:], bizKey: text[:n], timeout: int32(timeout), lane: j.Lane(), order: order, keepsEnd: spec.KeepsEnd(),
		grouped: spec.Group != nil,
	}
}

// newRecord makes a record for a job.
func newRecord(j *job.Job, e encoded) *record {
	names, n := j.ID+j.UID, len(j.ID)
	rec := &record{id: names[:n], uid: names[n:]}
	rec.assign(j, e)
	return rec
}

// assign stores everything of j except its log. The caller updates the bucket.
func (r *record) assign(j *job.Job, e encoded) {
	r.spec, r.bizKey, r.timeout, r.keepsEnd, r.grouped = e.spec, e.bizKey, e.timeout, e.keepsEnd, e.grouped
	if e.order != "" && r.turns == nil {
		r.turns = &turns{name: e.order} // until the record takes its place
	}
	r.createdAt, r.dueAt, r.nextAt, r.expiresAt = j.CreatedAt, j.DueAt, j.NextAt, j.ExpiresAt
	r.attempts, r.token, r.version = j.Attempts, j.Token, j.Version
	r.state, r.cancelRequested = j.State, j.CancelRequested
	r.assignCount(j)
	if r.extra == nil && j.EndedAt == 0 && j.Reason == "" && j.Snoozes == 0 && j.ExpiredLeases == 0 {
		return
	}
	x := r.more()
	x.endedAt, x.reason, x.snoozes, x.expiredLeases = j.EndedAt, j.Reason, j.Snoozes, j.ExpiredLeases
}

// snapshot is a job as it was while the lock was held. It is decoded without the lock.
type snapshot struct {
	job.Job // see progress
	spec    string
}

func (r *record) snapshot() snapshot { return snapshot{r.progress(), r.spec} }

// job decodes the job.
func (s *snapshot) job() (job.Job, error) {
	j := s.Job
	err := decode(&j, s.spec)
	return j, err
}

// decode completes what progress returned. The job shares nothing with the store then.
func decode(j *job.Job, spec string) error {
	if j.LastAttempt != nil {
		last := *j.LastAttempt
		j.LastAttempt = &last
	}
	if err := encoding.DecodeSpec([]byte(spec), &j.Spec); err != nil {
		return fmt.Errorf("decode job %s: %w", j.Key, err)
	}
	return nil
}

// progress is the job without its Spec. It shares its last attempt with the store.
func (r *record) progress() job.Job {
	j := job.Job{
		Key: job.Key{Topic: r.topic.name, ID: r.id}, UID: r.uid, State: r.shown(),
		DueAt: r.dueAt, NextAt: r.nextAt, ExpiresAt: r.expiresAt, CreatedAt: r.createdAt,
		Attempts: r.attempts, Token: r.token, Version: r.version, CancelRequested: r.cancelRequested,
	}
	x := r.extra
	if x == nil {
		return j
	}
	j.EndedAt, j.Reason, j.Snoozes, j.ExpiredLeases = x.endedAt, x.reason, x.snoozes, x.expiredLeases
	if n := len(x.log); n > 0 {
		j.LastAttempt = &x.log[n-1]
	}
	if x.tally != nil {
		j.Counted, j.Fired = x.tally.count, x.tally.fired
	}
	return j
}

// appendAttempt adds a to the log, and drops the oldest attempts beyond its bounds.
func (x *extra) appendAttempt(a job.Attempt) { x.log = store.KeptLog(append(x.log, a)) }

// restoreLog stores a log. The last attempt replaces a lost log.
func (x *extra) restoreLog(log []job.Attempt, last *job.Attempt) {
	if len(log) == 0 && last != nil {
		log = []job.Attempt{*last}
	}
	x.log = slices.Clone(store.KeptLog(log))
}
