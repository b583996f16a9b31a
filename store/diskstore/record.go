package diskstore

import (
	"fmt"
	"time"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/encoding"
)

// record is a stored job. Its State is never Ready. The Spec stays encoded; the parts of it by which the store finds
// and moves the job are beside it.
type record struct {
	job.Job // without Spec and LastAttempt
	spec    []byte
	lane    job.Lane
	bizKey  string
	order   string // topic/order_key; empty without one
	timeout time.Duration

	keepsEnd, grouped, byID bool

	countKeys int // keys that were counted
	settled   store.Settled
	settledBy uint64   // the fencing token of settled
	log       [][]byte // encoded attempts, the oldest first

	place  place // where it is stored; the zero value: nowhere
	row    int   // the size of its row when it was read
	parked bool  // its entry is
	flight *flight
}

// Bits of a record's flags.
const (
	hasCancel = 1 << iota
	hasFired
	hasKeepsEnd
	hasGroup
	hasEnd
	hasSettled
	hasIndexedID
)

// recordForm is the first byte of each record.
const recordForm = 2

// newRecord makes a record of a job, with its Spec.
func newRecord(j *job.Job) *record {
	rec := &record{Job: *j}
	rec.UpdatedAt = max(rec.UpdatedAt, rec.CreatedAt)
	rec.assignSpec(&j.Spec)
	rec.Spec, rec.LastAttempt = job.Spec{}, nil
	return rec
}

// assignSpec stores another content.
func (r *record) assignSpec(s *job.Spec) {
	j := job.Job{Key: r.Key, Spec: *s}
	r.spec, r.lane, r.bizKey, r.timeout = encoding.AppendSpec(nil, s), j.Lane(), s.BizKey, max(s.Timeout, 0)
	r.keepsEnd, r.grouped, r.byID, r.order = s.KeepsEnd(), s.Group != nil, s.Dialect != nil && s.Dialect.Indexed, ""
	if s.OrderKey != "" {
		r.order = r.Topic + "/" + s.OrderKey
	}
}

// job decodes the job as callers see it. It shares no memory with the record.
func (r *record) job() (job.Job, error) { return r.decode(true) }

// head is job without the body.
func (r *record) head() (job.Job, error) { return r.decode(false) }

func (r *record) decode(whole bool) (job.Job, error) {
	j := r.Job
	j.State = r.shown()
	decode := encoding.DecodeHead
	if whole {
		decode = encoding.DecodeSpec
	}
	if err := decode(r.spec, &j.Spec); err != nil {
		return j, fmt.Errorf("%w: decode job %s: %w", store.ErrUnreadable, r.Key, err)
	}
	if n := len(r.log); n > 0 {
		j.LastAttempt = &job.Attempt{}
		if err := encoding.DecodeAttempt(r.log[n-1], j.LastAttempt); err != nil {
			return j, fmt.Errorf("%w: decode the last attempt of %s: %w", store.ErrUnreadable, r.Key, err)
		}
	}
	return j, nil
}

// shown is the state that callers see.
func (r *record) shown() job.State {
	if r.flight != nil {
		return job.Running
	}
	return r.State
}

// attempts decodes the log.
func (r *record) attempts() ([]job.Attempt, error) {
	log := make([]job.Attempt, len(r.log))
	for i, text := range r.log {
		if err := encoding.DecodeAttempt(text, &log[i]); err != nil {
			return nil, fmt.Errorf("%w: decode attempt %d of %s: %w", store.ErrUnreadable, i+1, r.Key, err)
		}
	}
	return log, nil
}

// largestAttempt is more than an attempt takes in a log, in bytes.
const largestAttempt = 4 << 10

// appendAttempt adds an attempt to the log, and drops the oldest ones beyond its bounds. most is that of bytes.
func (r *record) appendAttempt(a *job.Attempt, most int) error {
	r.log = append(r.log, encoding.AppendAttempt(nil, a))
	if len(r.log) <= most/largestAttempt {
		return nil
	}
	log, err := r.attempts()
	if err != nil {
		return err
	}
	r.log = r.log[len(log)-len(store.KeptLog(log, most)):]
	return nil
}

// size is about what the record takes in memory.
func (r *record) size() int {
	n := len(r.spec)
	if len(r.log) > 0 {
		n += len(r.log[len(r.log)-1])
	}
	return n
}

// encode returns the row of the record.
func (r *record) encode() []byte {
	w := writer{make([]byte, 0, 192+len(r.spec)+len(r.bizKey)+len(r.ID)+len(r.lane.Endpoint))}
	w.uint(recordForm)
	w.uint(r.flags())
	w.text(r.Topic)
	w.text(r.ID)
	w.text(r.UID)
	w.bytes(r.spec)
	w.text(r.lane.String()[len(r.Topic):])
	w.text(r.bizKey)
	w.text(r.order)
	w.int(int64(r.timeout))
	state := r.State
	if state == job.Running {
		state = r.Pending()
	}
	w.uint(uint64(state))
	for _, at := range []job.Instant{r.CreatedAt, r.UpdatedAt, r.DueAt, r.NextAt, r.ExpiresAt} {
		w.int(int64(at))
	}
	for _, n := range []int{r.Attempts, r.Snoozes, r.ExpiredLeases, int(r.Counted), r.countKeys} {
		w.int(int64(n))
	}
	w.uint(r.Token)
	w.uint(r.Version)
	if r.State.Final() {
		w.int(int64(r.EndedAt))
		w.text(r.Reason)
	}
	if r.settledBy != 0 {
		r.encodeSettled(&w)
	}
	w.uint(uint64(len(r.log)))
	for _, a := range r.log {
		w.bytes(a)
	}
	return w.b
}

func (r *record) encodeSettled(w *writer) {
	d := &r.settled
	w.uint(r.settledBy)
	w.uint(uint64(d.To))
	w.text(d.Reason)
	w.int(int64(d.NextAt))
	w.int(int64(d.EndedAt))
	w.int(int64(d.Now))
	w.text(d.UID)
	w.uint(d.Version)
	w.uint(uint64(d.Shed))
}

func (r *record) flags() uint64 {
	return bit(hasCancel, r.CancelRequested) | bit(hasFired, r.Fired) | bit(hasKeepsEnd, r.keepsEnd) | bit(hasGroup, r.grouped) |
		bit(hasEnd, r.State.Final()) | bit(hasSettled, r.settledBy != 0) | bit(hasIndexedID, r.byID)
}

func bit(b uint64, is bool) uint64 {
	if is {
		return b
	}
	return 0
}

// decodeRecord reads what encode wrote. It shares memory with b.
func decodeRecord(b []byte) (*record, error) {
	in := reader{b: b}
	if form := in.uint(); form != recordForm {
		return nil, fmt.Errorf("%w: it has the form %d", store.ErrUnreadable, form)
	}
	r := &record{row: len(b)}
	flags := in.uint()
	r.CancelRequested, r.Fired, r.keepsEnd, r.grouped = flags&hasCancel != 0, flags&hasFired != 0, flags&hasKeepsEnd != 0, flags&hasGroup != 0
	r.byID = flags&hasIndexedID != 0
	r.Topic, r.ID, r.UID = in.text(), in.text(), in.text()
	r.spec = in.bytes()
	lane, err := job.ParseLane(r.Topic + in.text())
	if err != nil {
		return nil, fmt.Errorf("%w: %w", store.ErrUnreadable, err)
	}
	r.lane, r.bizKey, r.order, r.timeout = lane, in.text(), in.text(), time.Duration(in.int())
	r.State = job.State(in.uint())
	for _, at := range []*job.Instant{&r.CreatedAt, &r.UpdatedAt, &r.DueAt, &r.NextAt, &r.ExpiresAt} {
		*at = job.Instant(in.int())
	}
	for _, n := range []*int{&r.Attempts, &r.Snoozes, &r.ExpiredLeases} {
		*n = int(in.int())
	}
	r.Counted, r.countKeys = in.int(), int(in.int())
	r.Token, r.Version = in.uint(), in.uint()
	if flags&hasEnd != 0 {
		r.EndedAt, r.Reason = job.Instant(in.int()), in.text()
	}
	if flags&hasSettled != 0 {
		r.decodeSettled(&in)
	}
	for n := in.uint(); n > 0 && in.err == nil; n-- {
		r.log = append(r.log, in.bytes())
	}
	if in.err != nil {
		return nil, fmt.Errorf("%w: %w", store.ErrUnreadable, in.err)
	}
	return r, nil
}

func (r *record) decodeSettled(in *reader) {
	d := &r.settled
	r.settledBy = in.uint()
	d.Status, d.To, d.Reason = store.Applied, job.State(in.uint()), in.text()
	d.NextAt, d.EndedAt, d.Now = job.Instant(in.int()), job.Instant(in.int()), job.Instant(in.int())
	d.UID, d.Version, d.Shed = in.text(), in.uint(), job.Shed(in.uint())
}
