package journal

import (
	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store/encoding"
)

// Message is a job in the form of its rows. The caller encodes it, to keep that
// work out of the committer.
type Message struct {
	Job       job.Job
	At        job.Instant // when it was so
	endpoint  string
	spec      []byte // the Spec without its body
	Confirmed int64
	gone      job.Instant // when another registration took the key, if it has
}

// NewMessage makes the message of a job at an instant.
func NewMessage(j job.Job, at job.Instant) Message {
	return Message{Job: j, At: at, endpoint: j.Lane().Endpoint, spec: encodeSpec(j.Spec), Confirmed: Confirmed}
}

// Record is a job with its log, in the form of their rows.
type Record struct {
	Message
	Log       []FlowRow
	CountKeys []string // that were counted
}

// NewRecord makes the record of a job at an instant.
func NewRecord(j job.Job, log []job.Attempt, at job.Instant) Record {
	return Record{Message: NewMessage(j, at), Log: logRows(log, j.State)}
}

func encodeSpec(s job.Spec) []byte {
	s.Body = nil
	return encoding.AppendSpec(make([]byte, 0, 96+len(s.Destination)), &s)
}

func encodeAttempt(a *job.Attempt) []byte {
	return encoding.AppendAttempt(make([]byte, 0, 64+len(a.ResponseBody)), a)
}

// row is the parameters of the statement put.
func (m *Message) row(args []any, seq int64) []any {
	j := &m.Job
	state := j.State
	if state == job.Ready { // only buckets know of it
		state = j.Pending()
	}
	return append(args, seq, j.Topic, j.ID, j.UID, j.Spec.BizKey, m.endpoint,
		j.Spec.When.Delay.Milliseconds(), j.Spec.TTL.Milliseconds(),
		int64(j.CreatedAt), int64(j.DueAt), int64(j.ExpiresAt), int64(state),
		int64(j.Attempts), int64(j.Snoozes), int64(j.ExpiredLeases), int64(j.Token), int64(j.Version), flag(j.CancelRequested),
		int64(j.NextAt), j.Reason, int64(j.EndedAt), m.doneAt(), int64(m.At), m.Confirmed)
}

// Size is roughly the memory of the message, in bytes.
func (m *Message) Size() int64 { return int64(len(m.Job.Spec.Body) + len(m.spec)) }

func (m *Message) doneAt() any {
	done := DoneAt(m.Job.State, m.Job.EndedAt)
	if done == nil && m.gone != 0 {
		return int64(m.gone)
	}
	return done
}

// payload is the parameters of the statement payload.
func (m *Message) payload(args []any, seq int64) []any {
	var body any
	if len(m.Job.Spec.Body) > 0 {
		body = m.Job.Spec.Body
	}
	return append(args, seq, body, m.spec)
}

func flag(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// DoneAt is from when a message's age counts: nil while it must be kept.
func DoneAt(s job.State, ended job.Instant) any {
	if s.Final() && s != job.Dead {
		return int64(ended)
	}
	return nil
}

// Progress has the columns of a message that claiming and settling change.
type Progress struct {
	State         job.State
	attempts      int
	snoozes       int
	expiredLeases int
	token         uint64
	Version       uint64 // zero: not known
	nextAt        job.Instant
	reason        string
	EndedAt       job.Instant
	updated       job.Instant
}

// progressOf is the progress of an unfinished job in a state.
func progressOf(j *job.Job, s job.State, at job.Instant) *Progress {
	return &Progress{
		State: s, attempts: j.Attempts, snoozes: j.Snoozes, expiredLeases: j.ExpiredLeases,
		token: j.Token, Version: j.Version, nextAt: j.NextAt, updated: at,
	}
}

func (p *Progress) row(args []any, seq int64) []any {
	return append(args, seq, int64(p.State), int64(p.attempts), int64(p.snoozes), int64(p.expiredLeases),
		int64(p.token), int64(p.Version), int64(p.nextAt), p.reason, int64(p.EndedAt),
		DoneAt(p.State, p.EndedAt), int64(p.updated))
}
