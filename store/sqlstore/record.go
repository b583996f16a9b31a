package sqlstore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/encoding"
	"github.com/duehook/duehook/store/listing"
	"github.com/duehook/duehook/store/records"
)

// record is a row of the table job. Its State is never Ready.
type record struct {
	job.Job // without Spec and LastAttempt
	// lane is known of a record that was read with its spec.
	lane   job.Lane
	laneID laneID
	order  string // records.OrderOf; empty without an order key
	parked bool   // behind its order key
	until  job.Instant
	claim  claim

	timeout   time.Duration
	keepsEnd  bool
	names     job.Indexes
	countKeys int // rows in the table counted
	settledBy uint64
	settled   store.Settled
	spec      []byte // nil: it was not read
	last      string // attempt of the log; empty: it was not read, or there is none
	logged    int    // attempts in the log
	logBytes  int    // about

	was      *standing // what the figures count of the key; nil: nothing
	stored   bool      // there is a row of the key
	inserted bool      // by this transaction, already
	claimed  bool      // it was not read: it is as it was claimed, or the transaction fails
	answered bool      // its registration
	content  bool      // columns of the content are to be written
	changed  bool      // columns of the progress are to be written
	gone     bool      // the row is to be deleted
	fresh    bool      // the row is to be inserted
	free     bool      // and has not begun; the transaction fails if its key is taken
	append   []string  // attempts for the log
}

// touched reports whether the transaction changes the record.
func (r *record) touched() bool {
	return r.inserted || r.content || r.changed || r.gone || r.fresh
}

// claim is the last claim of a job.
type claim struct {
	at, prior job.Instant
	from      job.State
	by        string
}

// standing is what the figures know of a record.
type standing struct {
	state  job.State
	lane   job.Lane
	parked bool
	group  string // of dead letters
	uid    string
	keys   int
	wake   job.Instant
}

// Buckets of unfinished jobs in the table job.
const (
	bucketFlight = 0
	bucketDue    = 1
	bucketParked = 2
)

// newRecord makes the record of a new job, with its Spec.
func newRecord(j *job.Job) *record {
	r := &record{Job: *j}
	r.UpdatedAt = max(r.UpdatedAt, r.CreatedAt)
	r.assignSpec(&j.Spec)
	r.Spec, r.LastAttempt = job.Spec{}, nil
	return r
}

// assignSpec stores another content.
func (r *record) assignSpec(s *job.Spec) {
	j := job.Job{Key: r.Key, Spec: *s}
	r.spec, r.lane, r.names, r.timeout = encoding.AppendSpec(nil, s), j.Lane(), j.Indexes(), max(s.Timeout, 0)
	r.laneID = laneIDOf(r.lane.String())
	r.keepsEnd, r.order, r.content = s.KeepsEnd(), records.OrderOf(r.Topic, s.OrderKey), true
}

// job decodes the job as callers see it, of a record that was read with its spec.
func (r *record) job() (job.Job, error) {
	j := r.Job
	if err := encoding.DecodeSpec(r.spec, &j.Spec); err != nil {
		return j, fmt.Errorf("%w: decode job %s: %w", store.ErrUnreadable, r.Key, err)
	}
	if r.last != "" {
		a, err := decodeAttempt(r.last)
		if err != nil {
			return j, fmt.Errorf("%w: decode the last attempt of %s: %w", store.ErrUnreadable, r.Key, err)
		}
		j.LastAttempt = &a
	}
	return j, nil
}

// bucket is the bucket of the record; false if the job has ended.
func (r *record) bucket() (int16, bool) {
	switch {
	case r.State.Final():
		return 0, false
	case r.State == job.Running:
		return bucketFlight, true
	case r.parked:
		return bucketParked, true
	}
	return bucketDue, true
}

// wake is when the job next needs attention; zero if it has ended.
func (r *record) wake() job.Instant {
	switch {
	case r.State.Final():
		return 0
	case r.State == job.Running:
		return r.until
	}
	return r.WakeAt()
}

// standing is what the figures must know of the record.
func (r *record) standing() standing {
	s := standing{state: r.State, lane: r.lane, parked: r.parked && !r.State.Final(), uid: r.UID, keys: r.countKeys, wake: r.wake()}
	if r.State == job.Dead {
		s.group = listing.DeadName(r.lane, r.Reason)
	}
	return s
}

// Columns of a record, as scan reads them. Those of the content are NULL if they are not wanted.
const (
	jobColumns = `j.topic, j.id, j.uid, j.state, j.lane, j.bucket, j.wake, j.next_at, j.created_at, j.updated_at, j.due_at, j.expires_at, j.ended_at,
		j.token, j.version, j.counted, j.timeout, j.attempts, j.snoozes, j.expired_leases, j.count_keys, j.cancel_requested, j.fired, j.keeps_end,
		j.reason, j.order_key, j.claim_at, j.claim_prior, j.claim_from, j.claim_by, j.settled_by, j.settled`
	narrowColumns  = jobColumns + `, cardinality(j.log), pg_column_size(j.log)`
	withoutContent = narrowColumns + `, NULL::bytea, NULL::text`
	withContent    = narrowColumns + `, j.spec, j.log[cardinality(j.log)]`
	claimColumns   = jobColumns + `, 0, 0, j.spec, NULL::text` // without reading the log
)

// scan reads a record. A row that makes no sense is unreadable.
func scan(row pgx.Row) (*record, error) {
	r := &record{}
	var state, from int16
	var bucket *int16
	var wake, timeout, token, version, settledBy int64
	var order, last *string
	var settled []byte
	err := row.Scan(&r.Topic, &r.ID, &r.UID, &state, &r.laneID, &bucket, &wake, &r.NextAt, &r.CreatedAt, &r.UpdatedAt, &r.DueAt, &r.ExpiresAt, &r.EndedAt,
		&token, &version, &r.Counted, &timeout, &r.Attempts, &r.Snoozes, &r.ExpiredLeases, &r.countKeys, &r.CancelRequested, &r.Fired, &r.keepsEnd,
		&r.Reason, &order, &r.claim.at, &r.claim.prior, &from, &r.claim.by, &settledBy, &settled, &r.logged, &r.logBytes, &r.spec, &last)
	if err != nil {
		return nil, err
	}
	r.State, r.claim.from = job.State(state), job.State(from)
	r.Token, r.Version, r.settledBy, r.timeout = uint64(token), uint64(version), uint64(settledBy), time.Duration(timeout)
	if order != nil {
		r.order = *order
	}
	if last != nil {
		r.last = *last
	}
	if state < 0 || r.State > job.Expired || r.State == job.Ready || r.State.Final() != (bucket == nil) || !r.State.Final() && (*bucket == bucketFlight) != (r.State == job.Running) {
		return r, fmt.Errorf("%w: %s has the state %d and the bucket %v", store.ErrUnreadable, r.Key, state, bucket)
	}
	r.parked = bucket != nil && *bucket == bucketParked
	if r.State == job.Running {
		r.until = job.Instant(wake)
	}
	if settled != nil {
		if r.settled, err = decodeSettled(settled, r.UID); err != nil {
			return r, fmt.Errorf("%w: the last settlement of %s: %w", store.ErrUnreadable, r.Key, err)
		}
	}
	return r, nil
}

// locate sets the lane of a record that was read with its spec.
func (r *record) locate() error {
	j, err := r.job()
	if err != nil {
		return err
	}
	r.lane, r.names = j.Lane(), j.Indexes()
	if laneIDOf(r.lane.String()) != r.laneID {
		return fmt.Errorf("%w: %s is in another lane than its content", store.ErrUnreadable, r.Key)
	}
	return nil
}

// note notes what the figures count of a record that was read.
func (r *record) note() {
	s := r.standing()
	r.was = &s
}

// encodeSettled encodes the answer to a settlement. The uid is that of the record.
func encodeSettled(d *store.Settled) []byte {
	b := make([]byte, 0, 40)
	for _, n := range []int64{int64(d.To), int64(d.NextAt), int64(d.EndedAt), int64(d.Now), int64(d.Version), int64(d.Shed)} {
		b = binary.AppendVarint(b, n)
	}
	return append(b, d.Reason...)
}

func decodeSettled(b []byte, uid string) (store.Settled, error) {
	var n [6]int64
	for i := range n {
		v, size := binary.Varint(b)
		if size <= 0 {
			return store.Settled{}, errors.New("it is cut")
		}
		n[i], b = v, b[size:]
	}
	return store.Settled{
		Status: store.Applied, To: job.State(n[0]), NextAt: job.Instant(n[1]), EndedAt: job.Instant(n[2]), Now: job.Instant(n[3]),
		Version: uint64(n[4]), Shed: job.Shed(n[5]), Reason: strings.Clone(string(b)), UID: uid,
	}, nil
}
