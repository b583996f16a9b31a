package journal

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store/encoding"
)

// FlowEntry is one change of a job's state, as the journal has it.
type FlowEntry struct {
	// UID identifies the registration: a key can be registered several times.
	UID     string
	At      job.Instant
	From    *job.State // nil: the registration
	To      job.State
	Attempt int    // its number, zero when there was none
	Actor   string // the carrier or worker that moved the job
	Host    string
	Reason  string
	Log     *job.Attempt // of an attempt that was made
}

// Flow returns the changes of state of all jobs with a key that the journal keeps, oldest
// first.
func (j *Journal) Flow(ctx context.Context, key job.Key) ([]FlowEntry, error) {
	if err := j.Enter(); err != nil {
		return nil, err
	}
	defer j.Leave()
	if err := j.Flush(); err != nil {
		return nil, err
	}
	host := j.o.Host
	if j.shared() {
		host = "" // that of some node
	}
	var flow []FlowEntry
	args := []any{key.Topic, key.ID, host, key.Topic, key.ID}
	err := each(ctx, j.pools.read, j.st.bind(sqlFlow), args, func(rows *sql.Rows) error {
		var e FlowEntry
		var log []byte
		err := rows.Scan(&e.UID, &e.At, &e.From, &e.To, &e.Attempt, &e.Actor, &e.Host, &e.Reason, &log)
		if err == nil && log != nil {
			e.Log = &job.Attempt{}
			err = encoding.DecodeAttempt(log, e.Log)
		}
		flow = append(flow, e)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read the flow of %s: %w", key, unavailable(err))
	}
	chain(flow)
	return flow, nil
}

// chain orders entries of one registration that are less than a second apart: each
// begins with the state in which the previous one ended, if possible. Their calls ran
// concurrently.
func chain(flow []FlowEntry) {
	for i := 1; i < len(flow); i++ {
		for k := i; k < len(flow) && flow[k].UID == flow[i-1].UID && flow[k].At < flow[i].At.Add(time.Second); k++ {
			if from := flow[k].From; from != nil && *from == flow[i-1].To {
				next := flow[k]
				copy(flow[i+1:k+1], flow[i:k])
				flow[i] = next
				break
			}
		}
	}
}
