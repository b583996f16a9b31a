package ledger

import (
	"encoding/json"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store/encoding"
)

// message is a job in the form of its rows. The caller encodes it, to keep that
// work out of the committer.
type message struct {
	job       job.Job
	at        job.Instant // when it was so
	endpoint  string
	spec      []byte // the Spec without its body
	confirmed int64
	gone      job.Instant // when another registration took the key, if it has
}

// newMessage makes the message of a job at an instant.
func newMessage(j job.Job, at job.Instant) message {
	return message{job: j, at: at, endpoint: j.Lane().Endpoint, spec: encodeSpec(j.Spec), confirmed: confirmed}
}

// record is a job with its log, in the form of their rows.
type record struct {
	message
	log       []flowRow
	countKeys []string // that were counted
}

// newRecord makes the record of a job at an instant.
func newRecord(j job.Job, log []job.Attempt, at job.Instant) record {
	return record{message: newMessage(j, at), log: logRows(log, j.State)}
}

func encodeSpec(s job.Spec) []byte {
	s.Body = nil
	return encoding.AppendSpec(make([]byte, 0, 96+len(s.Destination)), &s)
}

func encodeAttempt(a *job.Attempt) []byte {
	return encoding.AppendAttempt(make([]byte, 0, 64+len(a.ResponseBody)), a)
}

// row is the parameters of the statement put.
func (m *message) row(args []any, seq int64) []any {
	j := &m.job
	state := j.State
	if state == job.Ready { // only buckets know of it
		state = j.Pending()
	}
	return append(args, seq, j.Topic, j.ID, j.UID, j.Spec.BizKey, m.endpoint,
		j.Spec.When.Delay.Milliseconds(), j.Spec.TTL.Milliseconds(),
		int64(j.CreatedAt), int64(j.DueAt), int64(j.ExpiresAt), int64(state),
		int64(j.Attempts), int64(j.Snoozes), int64(j.ExpiredLeases), int64(j.Token), int64(j.Version), flag(j.CancelRequested),
		int64(j.NextAt), j.Reason, int64(j.EndedAt), m.doneAt(), int64(m.at), m.confirmed)
}

// size is roughly the memory of the message, in bytes.
func (m *message) size() int64 { return int64(len(m.job.Spec.Body) + len(m.spec)) }

func (m *message) doneAt() any {
	done := doneAt(m.job.State, m.job.EndedAt)
	if done == nil && m.gone != 0 {
		return int64(m.gone)
	}
	return done
}

// payload is the parameters of the statement payload.
func (m *message) payload(args []any, seq int64) []any {
	var body any
	if len(m.job.Spec.Body) > 0 {
		body = m.job.Spec.Body
	}
	return append(args, seq, body, m.spec, dialectText(m.job.Spec.Dialect))
}

// dialectText is the dialect of a job and what it keeps of it, as JSON for the views; nil: duehook's
// own.
func dialectText(d *job.Dialect) any {
	if d == nil {
		return nil
	}
	kept := d.Data
	if !json.Valid([]byte(kept)) { // its form is the dialect's own
		kept = "null"
	}
	return []byte(`{"` + d.Name + `":` + kept + "}")
}

func flag(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// doneAt is from when a message's age counts: nil while it must be kept.
func doneAt(s job.State, ended job.Instant) any {
	if s.Final() && s != job.Dead {
		return int64(ended)
	}
	return nil
}

// progress has the columns of a message that claiming and settling change.
type progress struct {
	state         job.State
	attempts      int
	snoozes       int
	expiredLeases int
	token         uint64
	version       uint64 // zero: not known
	nextAt        job.Instant
	reason        string
	endedAt       job.Instant
	updated       job.Instant
}

// progressOf is the progress of an unfinished job in a state.
func progressOf(j *job.Job, s job.State, at job.Instant) *progress {
	return &progress{
		state: s, attempts: j.Attempts, snoozes: j.Snoozes, expiredLeases: j.ExpiredLeases,
		token: j.Token, version: j.Version, nextAt: j.NextAt, updated: at,
	}
}

func (p *progress) row(args []any, seq int64) []any {
	return append(args, seq, int64(p.state), int64(p.attempts), int64(p.snoozes), int64(p.expiredLeases),
		int64(p.token), int64(p.version), int64(p.nextAt), p.reason, int64(p.endedAt),
		doneAt(p.state, p.endedAt), int64(p.updated))
}
