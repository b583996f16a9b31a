package redisstore

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/vmihailenco/msgpack/v5"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
)

// record is a job as Redis keeps it: one string, "<head>\n<uid><spec><log>".
// lua/prelude.lua reads and writes the same head, and says more of it.
type record struct {
	job.Job
	uid   []byte // as stored
	nonce string
	log   []byte // encoded
	logs  int    // entries in log
	mark  string // of the update that wrote it: tells two equal changes apart
}

const (
	uidLen = 16
	none   = -1 // of a time in the head
)

// The fields of a head, in their order. A head of the first two only is that of
// a job to which nothing has happened yet.
const (
	fieldCreated = iota
	fieldDue
	fieldExpires
	fieldTimeout
	fieldState
	fieldCancel
	fieldAttempts
	fieldSnoozes
	fieldLapses
	fieldToken
	fieldVersion
	fieldNext
	fieldEnded
	fieldSpec
	fieldLogs
	fieldNonce
	fieldReason
	fieldMark
	headFields
)

// absent is what a field means that is empty, where that is not 0. An empty
// fieldNext is as fieldDue, an empty fieldSpec is up to the end.
var absent = [fieldNonce]int64{fieldExpires: none, fieldVersion: 1, fieldEnded: none, fieldSpec: none}

// newRecord prepares a job that no record exists of.
func newRecord(j job.Job, log []job.Attempt) (*record, error) {
	r := &record{Job: j}
	for i := range log {
		entry, err := encodeAttempt(&log[i])
		if err != nil {
			return nil, err
		}
		next := int64(log[i].NextAt)
		r.log = strconv.AppendInt(r.log, next, 10)
		r.log = append(r.log, ' ')
		r.log = strconv.AppendInt(r.log, int64(len(entry)), 10)
		r.log = append(r.log, '\n')
		r.log = append(r.log, entry...)
		r.logs++
	}
	return r, nil
}

// encode is the record as a string.
func (r *record) encode() ([]byte, error) {
	due, expires := r.since(r.DueAt), r.since(r.ExpiresAt)
	body, err := encodeBody(r.UID, &r.Spec, due, expires)
	if err != nil {
		return nil, err
	}
	n := [fieldNonce]int64{
		fieldCreated: int64(r.CreatedAt), fieldDue: due, fieldExpires: expires, fieldTimeout: millis(r.Spec.Timeout),
		fieldState: int64(r.State), fieldAttempts: int64(r.Attempts), fieldSnoozes: int64(r.Snoozes),
		fieldLapses: int64(r.Lapses), fieldToken: int64(r.Token), fieldVersion: int64(r.Version),
		fieldNext: r.since(r.NextAt), fieldEnded: r.since(r.EndedAt), fieldSpec: none, fieldLogs: int64(r.logs),
	}
	if r.CancelRequested {
		n[fieldCancel] = 1
	}
	if len(r.log) > 0 {
		n[fieldSpec] = int64(len(body) - uidLen)
	}
	b := make([]byte, 0, 96+len(body)+len(r.log))
	for i, v := range n {
		if i > 0 {
			b = append(b, ' ')
		}
		empty := absent[i]
		if i == fieldNext {
			empty = due
		}
		if v != empty || i <= fieldDue {
			b = strconv.AppendInt(b, v, 10)
		}
	}
	for _, text := range []string{r.nonce, r.Reason, r.mark} {
		b = append(append(b, ' '), text...)
	}
	if fresh := bytes.TrimRight(b, " "); bytes.Count(fresh, []byte{' '}) == fieldDue {
		b = fresh
	}
	b = append(b, '\n')
	b = append(b, body...)
	return append(b, r.log...), nil
}

// since is a time as the head keeps it. A job may be due before it was created,
// by its date; the millisecond before stands for none, so it becomes the next.
func (r *record) since(t job.Instant) int64 {
	since := int64(t - r.CreatedAt)
	switch {
	case t == 0:
		return none
	case since == none:
		return 0
	}
	return since
}

var errRecord = fmt.Errorf("redisstore: unreadable record: %w", store.ErrUnreadable)

// head is a head taken apart.
type head struct {
	n                   [fieldNonce]int64
	nonce, reason, mark string
}

func decodeHead(text string) (head, error) {
	h := head{n: absent}
	fields := 0
	for more := true; more; fields++ {
		var field string
		field, text, more = strings.Cut(text, " ")
		switch {
		case fields == fieldNonce:
			h.nonce = field
		case fields == fieldReason:
			h.reason = field
		case fields == fieldMark:
			h.mark = field
		case fields >= headFields:
			return h, errors.New("too many fields in its head")
		case field == "" && fields == fieldNext:
			h.n[fieldNext] = h.n[fieldDue]
		case field != "" || fields <= fieldDue:
			v, err := strconv.ParseInt(field, 10, 64)
			if err != nil {
				return h, err
			}
			h.n[fields] = v
		}
	}
	switch fields {
	case fieldDue + 1:
		h.n[fieldNext] = h.n[fieldDue]
	case headFields:
	default:
		return h, fmt.Errorf("%d fields in its head", fields)
	}
	return h, nil
}

// instant is the time in a field.
func (h *head) instant(field int) job.Instant {
	if h.n[field] == none {
		return 0
	}
	return job.Instant(h.n[fieldCreated] + h.n[field])
}

// decodeRecord is the reverse of encode. The log may be missing at the end.
func decodeRecord(key job.Key, raw string) (*record, error) {
	text, rest, ok := strings.Cut(raw, "\n")
	if !ok {
		return nil, fmt.Errorf("%w of %s: no head", errRecord, key)
	}
	h, err := decodeHead(text)
	if err != nil {
		return nil, fmt.Errorf("%w of %s: %w", errRecord, key, err)
	}
	size := h.n[fieldSpec]
	if size == none {
		size = int64(len(rest) - uidLen)
	}
	if size < 0 || size > int64(len(rest)-uidLen) {
		return nil, fmt.Errorf("%w of %s: cut short", errRecord, key)
	}
	specEnd := uidLen + int(size)
	uid := []byte(rest[:uidLen])
	r := &record{
		Job: job.Job{
			Key: key, UID: ulid.ULID(uid).String(),
			State: job.State(h.n[fieldState]), CancelRequested: h.n[fieldCancel] == 1,
			Attempts: int(h.n[fieldAttempts]), Snoozes: int(h.n[fieldSnoozes]), Lapses: int(h.n[fieldLapses]),
			Token: uint64(h.n[fieldToken]), Version: uint64(h.n[fieldVersion]),
			CreatedAt: job.Instant(h.n[fieldCreated]), DueAt: h.instant(fieldDue), NextAt: h.instant(fieldNext),
			ExpiresAt: h.instant(fieldExpires), EndedAt: h.instant(fieldEnded),
		},
		uid:   uid,
		nonce: h.nonce,
		mark:  h.mark,
		logs:  int(h.n[fieldLogs]),
		log:   []byte(rest[specEnd:]),
	}
	// An unfinished job's is of its last settlement, for a repetition of that.
	if r.State.Final() {
		r.Reason = h.reason
	}
	if err := decodeSpec(rest[uidLen:specEnd], &h, &r.Spec); err != nil {
		return nil, fmt.Errorf("%w of %s: %w", errRecord, key, err)
	}
	return r, nil
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
		if err := msgpack.Unmarshal(log[:size], &a); err != nil {
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

// encodeAttempt leaves NextAt out: the settling script writes it before the
// entry, because only it knows the time.
func encodeAttempt(a *job.Attempt) ([]byte, error) {
	c := *a
	c.NextAt = 0
	b, err := pack(&c)
	if err != nil {
		return nil, fmt.Errorf("redisstore: encode attempt: %w", err)
	}
	return b, nil
}

// outShift sets bucket entries that are out (ready, running) below zero; BASE
// in lua/prelude.lua.
const outShift = 10_000_000_000_000

// place takes a bucket's score apart, as in lua/prelude.lua.
func place(score float64) (job.State, job.Instant) {
	ms := math.Floor(score)
	state := job.State((score - ms) * 4)
	if ms < 0 {
		ms += outShift
	}
	return state, job.Instant(ms)
}

// refine gives an unfinished job the state that its bucket knows: only there
// stands that it was carried.
func (r *record) refine(score float64) {
	if state, _ := place(score); state == job.Ready {
		r.State = job.Ready
	}
}

func millis(d time.Duration) int64 { return d.Milliseconds() }
