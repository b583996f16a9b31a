package redisstore

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/vmihailenco/msgpack/v5"

	"github.com/duehook/duehook/job"
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
	uidLen     = 16
	headFields = 18
	none       = -1 // of a time in the head
)

// newRecord prepares a job that no record exists of.
func newRecord(j job.Job, log []job.Attempt) (*record, error) {
	r := &record{Job: j, nonce: "-", mark: "-"}
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
	spec, err := encodeSpec(&r.Spec)
	if err != nil {
		return nil, err
	}
	uid, err := encodeUID(r.UID)
	if err != nil {
		return nil, err
	}
	b := make([]byte, 0, 96+len(uid)+len(spec)+len(r.log))
	field := func(n int64) { b = append(strconv.AppendInt(b, n, 10), ' ') }
	field(int64(r.State))
	if r.CancelRequested {
		field(1)
	} else {
		field(0)
	}
	field(int64(r.Attempts))
	field(int64(r.Snoozes))
	field(int64(r.Lapses))
	field(int64(r.Token))
	field(int64(r.Version))
	field(int64(r.CreatedAt))
	field(r.since(r.DueAt))
	field(r.since(r.NextAt))
	field(r.since(r.ExpiresAt))
	field(r.since(r.EndedAt))
	field(r.Spec.Timeout.Milliseconds())
	field(int64(len(spec)))
	field(int64(r.logs))
	b = append(b, r.nonce...)
	b = append(b, ' ')
	if r.Reason == "" {
		b = append(b, '-')
	} else {
		b = append(b, r.Reason...)
	}
	b = append(b, ' ')
	b = append(b, r.mark...)
	b = append(b, '\n')
	b = append(b, uid...)
	b = append(b, spec...)
	return append(b, r.log...), nil
}

// since is a time as the head keeps it.
func (r *record) since(t job.Instant) int64 {
	if t == 0 {
		return none
	}
	return int64(t - r.CreatedAt)
}

var errRecord = errors.New("redisstore: unreadable record")

// decodeRecord is the reverse of encode. The log may be missing at the end.
func decodeRecord(key job.Key, raw string) (*record, error) {
	data := []byte(raw)
	end := bytes.IndexByte(data, '\n')
	if end < 0 {
		return nil, fmt.Errorf("%w of %s: no head", errRecord, key)
	}
	fields := bytes.Split(data[:end], []byte{' '})
	if len(fields) != headFields {
		return nil, fmt.Errorf("%w of %s: %d fields in its head", errRecord, key, len(fields))
	}
	var n [headFields - 3]int64
	for i := range n {
		v, err := strconv.ParseInt(string(fields[i]), 10, 64)
		if err != nil {
			return nil, fmt.Errorf("%w of %s: %w", errRecord, key, err)
		}
		n[i] = v
	}
	rest := data[end+1:]
	if n[13] < 0 || n[13] > int64(len(rest)-uidLen) {
		return nil, fmt.Errorf("%w of %s: cut short", errRecord, key)
	}
	specEnd := uidLen + int(n[13])
	created := job.Instant(n[7])
	at := func(delta int64) job.Instant {
		if delta == none {
			return 0
		}
		return created + job.Instant(delta)
	}
	r := &record{
		Job: job.Job{
			Key: key, UID: ulid.ULID(rest[:uidLen]).String(),
			State: job.State(n[0]), CancelRequested: n[1] == 1,
			Attempts: int(n[2]), Snoozes: int(n[3]), Lapses: int(n[4]),
			Token: uint64(n[5]), Version: uint64(n[6]),
			CreatedAt: created, DueAt: at(n[8]), NextAt: at(n[9]), ExpiresAt: at(n[10]), EndedAt: at(n[11]),
		},
		uid:   rest[:uidLen],
		nonce: string(fields[15]),
		mark:  string(fields[17]),
		logs:  int(n[14]),
		log:   rest[specEnd:],
	}
	// An unfinished job's is of its last settlement, for a repetition of that.
	if reason := string(fields[16]); reason != "-" && r.State.Final() {
		r.Reason = reason
	}
	if err := msgpack.Unmarshal(rest[uidLen:specEnd], &r.Spec); err != nil {
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

func encodeSpec(s *job.Spec) ([]byte, error) {
	b, err := msgpack.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("redisstore: encode spec: %w", err)
	}
	return b, nil
}

// encodeAttempt leaves NextAt out: the settling script writes it before the
// entry, because only it knows the time.
func encodeAttempt(a *job.Attempt) ([]byte, error) {
	c := *a
	c.NextAt = 0
	var b bytes.Buffer
	e := msgpack.GetEncoder()
	defer msgpack.PutEncoder(e)
	e.Reset(&b)
	e.UseCompactInts(true) // or each duration takes eight bytes
	if err := e.Encode(&c); err != nil {
		return nil, fmt.Errorf("redisstore: encode attempt: %w", err)
	}
	return b.Bytes(), nil
}

func encodeUID(uid string) ([]byte, error) {
	id, err := ulid.ParseStrict(uid)
	if err != nil {
		return nil, fmt.Errorf("%w %q: %w", errUID, uid, err)
	}
	return id[:], nil
}

var errUID = errors.New("redisstore: unusable uid")

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
