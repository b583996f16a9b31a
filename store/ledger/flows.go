package ledger

import (
	"database/sql"
	"fmt"
	"slices"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store/encoding"
)

// flowRow is one row of flow.
type flowRow struct {
	of      *target
	at      job.Instant
	from    any // an int64, or nil for a registration
	to      job.State
	attempt int
	actor   string
	reason  string
	log     []byte // nil: no attempt was made
}

func (f *flowRow) row(args []any, host string) []any {
	var log any
	if f.log != nil {
		log = f.log
	}
	return append(args, f.of.seq, int64(f.at), f.from, int64(f.to), int64(f.attempt), f.actor, host, f.reason, log)
}

// logRows are the flow rows of the attempt log of a job in state.
func logRows(log []job.Attempt, state job.State) []flowRow {
	rows := make([]flowRow, len(log))
	for i := range log {
		a := &log[i]
		rows[i] = flowRow{
			at: a.StartedAt.Add(a.Duration), from: int64(job.Running), to: job.Retrying,
			attempt: a.Number, reason: a.Reason, log: encodeAttempt(a),
		}
	}
	if n := len(rows); n > 0 && state.Final() {
		rows[n-1].to = state
	}
	return rows
}

// fact names what a row of a message reports. The outcome of an attempt may come from the
// worker and from the store's log, which differ in their times.
func (f *flowRow) fact() string {
	var a job.Attempt
	if f.log == nil || encoding.DecodeAttempt(f.log, &a) != nil {
		return fmt.Sprintf("%d %v %d %d %s %x", f.at, f.from, f.to, f.attempt, f.reason, f.log)
	}
	return fmt.Sprintf("%d %d", a.Number, a.StartedAt)
}

// sqlFlows reads rows of messages.
func sqlFlows(seqs []int64) string {
	return "SELECT message, at, from_state, to_state, attempt, reason, log FROM flow WHERE message" + in(seqs)
}

// dropKnownFlows leaves out rows that the ledger has: another node wrote the outcome from
// the store, or the reply to an earlier commit was lost.
func (w *writing) dropKnownFlows() error {
	if !w.doubtful {
		return nil
	}
	var seqs []int64
	for i := range w.flows {
		if seq := w.flows[i].of.seq; seq != 0 {
			seqs = append(seqs, seq)
		}
	}
	if len(seqs) == 0 {
		return nil
	}
	slices.Sort(seqs)
	known := map[int64]map[string]bool{}
	note := func(seq int64, f *flowRow) (is bool) {
		if known[seq] == nil {
			known[seq] = map[string]bool{}
		}
		fact := f.fact()
		is, known[seq][fact] = known[seq][fact], true
		return is
	}
	err := each(w.ctx, w.tx, sqlFlows(slices.Compact(seqs)), nil, func(rows *sql.Rows) error {
		var seq int64
		var f flowRow
		var from sql.NullInt64
		err := rows.Scan(&seq, &f.at, &from, &f.to, &f.attempt, &f.reason, &f.log)
		if from.Valid {
			f.from = from.Int64
		}
		note(seq, &f)
		return err
	})
	w.flows = slices.DeleteFunc(w.flows, func(f flowRow) bool { return f.of.seq != 0 && note(f.of.seq, &f) })
	return err
}
