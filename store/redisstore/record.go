package redisstore

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/encoding"
)

// record is a job in Redis. lua/lib/record.lua documents the encoding, and reads and writes
// it too.
type record struct {
	job.Job
	uid   []byte // as stored
	nonce string
	log   []byte // encoded
	logs  int    // entries in log
	mark  string // of the update that wrote it; two equal changes differ in it

	stored raw         // what was decoded
	now    job.Instant // of the server when it was read
}

// raw is an encoded record, in its two parts.
type raw struct {
	registration string // "<head>\n<uid><spec>": the registration
	progress     string // "<head>\n<uid><log>": the progress since; empty without any
}

const uidLen = 16

// progressSign follows the name of a job in the name of the field of its progress. Names of
// jobs cannot contain it.
const progressSign = "+"

// fieldsOf are the fields of a job's two parts in its page.
func fieldsOf(key job.Key) []string {
	name := key.String()
	return []string{name, name + progressSign}
}

// rawOf returns the record with these values of its fields, which may be missing.
func rawOf(values []any) (raw, error) {
	if len(values) != 2 {
		return raw{}, fmt.Errorf("redisstore: %d values for a record", len(values))
	}
	registration, _ := values[0].(string)
	progress, _ := values[1].(string)
	return raw{registration, progress}, nil
}

func (w raw) missing() bool { return w == raw{} }

// newRecord makes the record of a job with the log that is kept of it.
func newRecord(j job.Job, log []job.Attempt) *record {
	r := &record{Job: j}
	for i := range log {
		entry := encodeAttempt(&log[i])
		next := int64(log[i].NextAt)
		r.log = strconv.AppendInt(r.log, next, 10)
		r.log = append(r.log, ' ')
		r.log = strconv.AppendInt(r.log, int64(len(entry)), 10)
		r.log = append(r.log, '\n')
		r.log = append(r.log, entry...)
		r.logs++
	}
	return r
}

// encodeAttempt is an entry of the log, without NextAt: the settling script writes
// it before the entry, because only it knows the time.
func encodeAttempt(a *job.Attempt) []byte {
	entry := *a
	entry.NextAt = 0
	return encoding.AppendAttempt(make([]byte, 0, 96+len(a.ResponseBody)), &entry)
}

// encode encodes the record.
func (r *record) encode() (raw, error) {
	registered, since := r.heads()
	body, err := encodeBody(r.UID, &r.Spec, registered.due, registered.expires)
	if err != nil {
		return raw{}, err
	}
	b := append(registered.append(make([]byte, 0, 64+len(body))), '\n')
	w := raw{registration: string(append(b, body...))}
	if len(r.log) > 0 || since != r.untouched() {
		w.progress = r.encodeProgress(body[:uidLen])
	}
	return w, nil
}

func (r *record) encodeProgress(uid []byte) string {
	_, since := r.heads()
	b := append(since.append(make([]byte, 0, 128+len(r.log))), '\n')
	return string(append(append(b, uid...), r.log...))
}

func (r *record) heads() (registeredHead, progressHead) {
	registered := registeredHead{
		created: int64(r.CreatedAt), due: int64(r.DueAt - r.CreatedAt), expires: never, timeout: millis(r.Spec.Timeout),
		order: r.Spec.OrderKey,
	}
	if r.Spec.Occurrence != nil {
		registered.due = max(registered.due, 0) // Spec.When says how late it was
	}
	if r.ExpiresAt != 0 {
		registered.expires = int64(r.ExpiresAt - r.CreatedAt)
	}
	since := progressHead{nonce: r.nonce, reason: r.Reason, mark: r.mark}
	since.n = [fieldNonce]int64{
		fieldState: int64(r.State), fieldToken: int64(r.Token), fieldVersion: int64(r.Version),
		fieldAttempts: int64(r.Attempts), fieldSnoozes: int64(r.Snoozes), fieldExpiredLeases: int64(r.ExpiredLeases),
		fieldNext: int64(r.NextAt), fieldEnded: int64(r.EndedAt), fieldExpires: int64(r.ExpiresAt), fieldLogs: int64(r.logs),
	}
	if r.CancelRequested {
		since.n[fieldCancel] = 1
	}
	if r.UpdatedAt > r.CreatedAt {
		since.n[fieldUpdated] = int64(r.UpdatedAt)
	}
	since.n[fieldCount] = 2 * r.Counted
	if r.Fired {
		since.n[fieldCount]++
	}
	return registered, since
}

// untouched is the head of the job's progress if nothing has happened to it.
func (r *record) untouched() progressHead {
	h := fresh
	h.n[fieldNext], h.n[fieldExpires] = int64(r.DueAt), int64(r.ExpiresAt)
	return h
}

var errRecord = fmt.Errorf("redisstore: unreadable record: %w", store.ErrUnreadable)

// decodeRecord is the reverse of encode.
func decodeRecord(key job.Key, w raw) (*record, error) {
	r, err := decodeRegistration(key, w.registration)
	if err != nil {
		return nil, err
	}
	r.stored = w
	if w.progress == "" {
		return r, nil
	}
	return r, r.decodeProgress(w.progress)
}

// claimedRecord is the record of a claimed job with its present progress. The registration
// cannot change while the job is claimed.
func claimedRecord(claimed *job.Job, progress string) (*record, error) {
	id, err := ulid.ParseStrict(claimed.UID)
	if err != nil {
		return nil, fmt.Errorf("%w %q: %w", errUID, claimed.UID, err)
	}
	r := &record{Job: *claimed, uid: id[:], stored: raw{progress: progress}}
	return r, r.decodeProgress(progress)
}

// errOtherUID: the progress is another job's.
var errOtherUID = fmt.Errorf("%w: its progress is another job's", errRecord)

func (r *record) decodeProgress(progress string) error {
	text, rest, ok := strings.Cut(progress, "\n")
	switch {
	case !ok:
		return fmt.Errorf("%w of %s: no head of its progress", errRecord, r.Key)
	case !strings.HasPrefix(rest, string(r.uid)):
		return fmt.Errorf("%w: %s", errOtherUID, r.Key)
	}
	r.log = []byte(rest[uidLen:])
	return r.proceed(decodeProgressHead(text))
}

// decodeRegistration reads a job to which nothing has happened.
func decodeRegistration(key job.Key, registration string) (*record, error) {
	if orderKey, ok := forwardedTo(registration); ok {
		return nil, &forwardedError{orderKey}
	}
	text, rest, ok := strings.Cut(registration, "\n")
	if !ok {
		return nil, fmt.Errorf("%w of %s: no head", errRecord, key)
	}
	h, err := decodeRegisteredHead(text)
	if err != nil {
		return nil, fmt.Errorf("%w of %s: %w", errRecord, key, err)
	}
	if len(rest) < uidLen {
		return nil, fmt.Errorf("%w of %s: cut short", errRecord, key)
	}
	uid := []byte(rest[:uidLen])
	due := job.Instant(h.created + h.due)
	r := &record{uid: uid, Job: job.Job{
		Key: key, UID: ulid.ULID(uid).String(), Version: 1,
		CreatedAt: job.Instant(h.created), UpdatedAt: job.Instant(h.created), DueAt: due, NextAt: due,
	}}
	if h.expires != never {
		r.ExpiresAt = job.Instant(h.created + h.expires)
	}
	if err := decodeSpec(rest[uidLen:], &h, &r.Spec); err != nil {
		return nil, fmt.Errorf("%w of %s: %w", errRecord, key, err)
	}
	if at := r.Spec.When.At; r.Spec.Occurrence != nil && at != 0 && h.due == 0 {
		r.DueAt = at // it was late
	}
	return r, nil
}

// proceed applies the progress to the job.
func (r *record) proceed(h progressHead) error {
	if h.err != nil {
		return fmt.Errorf("%w of %s: %w", errRecord, r.Key, h.err)
	}
	r.State, r.CancelRequested = job.State(h.n[fieldState]), h.n[fieldCancel] == 1
	r.Attempts, r.Snoozes, r.ExpiredLeases = int(h.n[fieldAttempts]), int(h.n[fieldSnoozes]), int(h.n[fieldExpiredLeases])
	r.Token, r.Version = uint64(h.n[fieldToken]), uint64(h.n[fieldVersion])
	if h.n[fieldNext] != 0 || r.State.Final() {
		r.NextAt = h.instant(fieldNext)
	}
	r.EndedAt, r.UpdatedAt = h.instant(fieldEnded), max(r.CreatedAt, h.instant(fieldUpdated))
	r.Counted, r.Fired = h.n[fieldCount]/2, h.n[fieldCount]%2 == 1
	r.nonce, r.mark, r.logs = h.nonce, h.mark, int(h.n[fieldLogs])
	// An unfinished job's is of its last settlement, for a repetition of that.
	if r.State.Final() {
		r.Reason = h.reason
	}
	return nil
}

// attempts decodes the log.
func (r *record) attempts() ([]job.Attempt, error) {
	log, all := r.log, []job.Attempt{}
	for len(log) > 0 {
		end := bytes.IndexByte(log, '\n')
		if end < 0 {
			return nil, fmt.Errorf("%w of %s: log cut short", errRecord, r.Key)
		}
		var next, size int64
		if _, err := fmt.Sscanf(string(log[:end]), "%d %d", &next, &size); err != nil {
			return nil, fmt.Errorf("%w of %s: %w", errRecord, r.Key, err)
		}
		log = log[end+1:]
		if size < 0 || int64(len(log)) < size {
			return nil, fmt.Errorf("%w of %s: log cut short", errRecord, r.Key)
		}
		var a job.Attempt
		if err := encoding.DecodeAttempt(log[:size], &a); err != nil {
			return nil, fmt.Errorf("%w of %s: %w", errRecord, r.Key, err)
		}
		a.NextAt = job.Instant(next)
		all = append(all, a)
		log = log[size:]
	}
	return all, nil
}

// whole is the job with its last attempt filled in.
func (r *record) whole() (job.Job, error) {
	j := r.Job
	if r.logs == 0 {
		return j, nil
	}
	all, err := r.attempts()
	if err != nil {
		return j, err
	}
	if len(all) > 0 {
		j.LastAttempt = &all[len(all)-1]
	}
	return j, nil
}

// inFlightShift puts jobs in flight below zero in a bucket; BASE
// in lua/lib/base.lua.
const inFlightShift = 10_000_000_000_000

// decodeScore decodes a score of a bucket, as lua/lib/base.lua does.
func decodeScore(score float64) (job.State, job.Instant) {
	ms := math.Floor(score)
	state := job.State((score - ms) * 4)
	switch {
	case ms < 0:
		ms += inFlightShift
	case ms >= parked:
		ms -= parked
	}
	return state, job.Instant(ms)
}

// refine sets the state of an unfinished job by its score: only the bucket knows that a job
// was carried.
func (r *record) refine(score float64) {
	if state, _ := decodeScore(score); state == job.Ready {
		r.State = job.Ready
	}
}

func millis(d time.Duration) int64 { return d.Milliseconds() }
