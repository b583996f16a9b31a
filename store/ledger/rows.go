package ledger

import (
	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store/encoding"
)

// message is a job in the form of its rows, worked out by the caller so that
// the committer need not.
type message struct {
	job      job.Job
	at       job.Instant // when it was so
	endpoint string
	spec     []byte // the Spec without its body
	// unconfirmed: the store has not been asked yet.
	unconfirmed bool
	superseded  job.Instant // when another registration took the key, if it has
	gaveWay     job.Instant // the same, while the store may not have that one
}

func newMessage(j job.Job, at job.Instant) message {
	return message{job: j, at: at, endpoint: j.Lane().Endpoint, spec: encodeSpec(j.Spec)}
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
		int64(j.Attempts), int64(j.Snoozes), int64(j.Lapses), int64(j.Token), int64(j.Version), flag(j.CancelRequested),
		int64(j.NextAt), j.Reason, int64(j.EndedAt), m.doneAt(), int64(m.at), m.confirmed())
}

// size is what the message holds in memory, more or less.
func (m *message) size() int64 { return int64(len(m.job.Spec.Body) + len(m.spec)) }

func (m *message) doneAt() any {
	done := doneAt(m.job.State, m.job.EndedAt)
	if gone := max(m.superseded, m.gaveWay); done == nil && gone != 0 {
		return int64(gone)
	}
	return done
}

func (m *message) confirmed() int64 {
	switch {
	case m.superseded != 0:
		return superseded
	case m.unconfirmed:
		return unconfirmed
	}
	return confirmed
}

// payload is the parameters of the statement payload.
func (m *message) payload(args []any, seq int64) []any {
	var body any
	if len(m.job.Spec.Body) > 0 {
		body = m.job.Spec.Body
	}
	return append(args, seq, body, m.spec)
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

// progress is what claiming and settling change in a message.
type progress struct {
	state    job.State
	attempts int
	snoozes  int
	lapses   int
	token    uint64
	version  uint64 // zero: not known
	nextAt   job.Instant
	reason   string
	endedAt  job.Instant
	updated  job.Instant
}

func (p *progress) row(args []any, seq int64) []any {
	return append(args, seq, int64(p.state), int64(p.attempts), int64(p.snoozes), int64(p.lapses),
		int64(p.token), int64(p.version), int64(p.nextAt), p.reason, int64(p.endedAt),
		doneAt(p.state, p.endedAt), int64(p.updated))
}

// flowRow is one row of flow.
type flowRow struct {
	of      *target
	at      job.Instant
	from    any // an int64, or nil for a registration
	to      job.State
	attempt int
	actor   string
	reason  string
	log     any          // a []byte, or nil
	entry   *job.Attempt // what that says, in rows of logRows
}

func (f *flowRow) row(args []any, host string) []any {
	return append(args, f.of.seq, int64(f.at), f.from, int64(f.to), int64(f.attempt), f.actor, host, f.reason, f.log)
}

// logRows are the flow rows of an attempt log, of a job that now stands in
// state.
func logRows(log []job.Attempt, state job.State) []flowRow {
	rows := make([]flowRow, len(log))
	for i := range log {
		a := &log[i]
		rows[i] = flowRow{
			at: a.StartedAt.Add(a.Duration), from: int64(job.Running), to: job.Retrying,
			attempt: a.Number, reason: a.Reason, log: encodeAttempt(a), entry: a,
		}
	}
	if n := len(rows); n > 0 && state.Final() {
		rows[n-1].to = state
	}
	return rows
}
