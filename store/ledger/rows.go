package ledger

import (
	"encoding/json"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store/encoding"
)

// message is a job in the form of its rows.
type message struct {
	job  job.Job
	at   job.Instant // when it was so
	spec []byte      // the Spec without its body; nil: it is encoded when it is written
	gone job.Instant // when another registration took the key, if it has
}

// newMessage makes the message of a job at an instant, for a change that writes its spec. The caller
// encodes that, to keep the work out of the committer.
func newMessage(j job.Job, at job.Instant) message {
	return message{job: j, at: at, spec: encodeSpec(j.Spec)}
}

// record is a job with its log, in the form of their rows.
type record struct {
	message
	log       []flowRow
	countKeys []string // that were counted
}

// newRecord makes the record of a job.
func newRecord(j job.Job, log []job.Attempt) record {
	return record{message: newMessage(j, j.UpdatedAt), log: logRows(&j, log)}
}

func encodeSpec(s job.Spec) []byte {
	s.Body = nil
	return encoding.AppendSpec(make([]byte, 0, 96+len(s.Destination)), &s)
}

func encodeAttempt(a *job.Attempt) []byte {
	return encoding.AppendAttempt(make([]byte, 0, 64+len(a.ResponseBody)), a)
}

// supersede marks the message as a replaced job's.
func (m *message) supersede(at job.Instant) {
	if !m.job.State.Final() {
		m.job.State, m.job.Reason, m.job.EndedAt = job.Cancelled, reasonReplaced, at
	}
	m.gone = at
}

// row is the parameters of the statements put and progress.
func (m *message) row(args []any, c *change) []any {
	j := &m.job
	return append(args, c.seq, j.Topic, j.ID, j.UID, j.Spec.BizKey, j.Lane().Endpoint,
		j.Spec.When.Delay.Milliseconds(), j.Spec.TTL.Milliseconds(),
		int64(j.CreatedAt), int64(j.DueAt), int64(j.ExpiresAt), m.state(),
		int64(j.Attempts), int64(j.Snoozes), int64(j.ExpiredLeases), int64(j.Token), int64(j.Version), flag(j.CancelRequested),
		int64(j.NextAt), j.Reason, int64(j.EndedAt), m.doneAt(), int64(m.at), int64(c.place.at), flag(m.gone != 0), max(c.counted, countOf(j)))
}

func (m *message) state() int64 {
	if m.job.State == job.Ready { // only buckets know of it
		return int64(m.job.Pending())
	}
	return int64(m.job.State)
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
	spec := m.spec
	if spec == nil {
		spec = encodeSpec(m.job.Spec)
	}
	return append(args, seq, body, spec, dialectText(m.job.Spec.Dialect))
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
