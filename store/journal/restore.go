package journal

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/encoding"
)

// restorePage is how many jobs are put back at a time, fewer when they are large.
const restorePage = 500

// row is a message as it is read.
type row struct {
	seq  int64
	job  job.Job
	body []byte
	spec []byte
	bad  error // why the rest cannot be relied on
}

// RestoreAll puts back what a store lacks: unfinished jobs, overdue ones included,
// dead letters, and jobs that ended within retention. It returns how many it put back
// and which cannot be read. Of several registrations of a key the open one comes
// first, and the store refuses the others.
func (r *Reader) RestoreAll(ctx context.Context, into store.Restorable, retention time.Duration) (int64, []Unreadable, error) {
	var bad Unreadables
	since := job.InstantOf(r.clock.Now()).Add(-retention)
	n, err := r.restoreFrom(ctx, into, &bad, runtime.GOMAXPROCS(0), sqlOpen)
	if err != nil {
		return 0, nil, fmt.Errorf("restore unfinished jobs: %w", err)
	}
	if retention > 0 {
		ended, err := r.restoreFrom(ctx, into, &bad, 1, sqlEnded, int64(since)) // in that order
		if err != nil {
			return 0, nil, fmt.Errorf("restore ended jobs: %w", err)
		}
		n += ended
	}
	return n, bad.All(), nil
}

// restoreFrom puts back the messages that a query gives, page by page. So many
// pages are worked on at a time, while reading goes on.
func (r *Reader) restoreFrom(ctx context.Context, into store.Restorable, bad *Unreadables, workers int, query string, args ...any) (int64, error) {
	pages := make(chan []row, workers)
	var restored atomic.Int64
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		defer close(pages)
		return r.readPages(ctx, pages, query, args)
	})
	for range workers {
		group.Go(func() error {
			for page := range pages {
				messages, broken, err := r.decode(ctx, page)
				if err != nil {
					return err
				}
				bad.Add(broken...)
				jobs := make([]store.RestoredJob, len(messages))
				for i := range messages {
					jobs[i] = messages[i].RestoredJob
				}
				n, err := into.Restore(ctx, jobs)
				if err != nil {
					return err
				}
				restored.Add(int64(n))
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return 0, err
	}
	return restored.Load(), nil
}

func (r *Reader) readPages(ctx context.Context, pages chan<- []row, query string, args []any) error {
	send := func(page []row) error {
		select {
		case pages <- page:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	page, bytes := make([]row, 0, restorePage), 0
	err := each(ctx, r.pools.read, r.words.bind(query), args, func(rows *sql.Rows) error {
		var m row
		if err := m.scan(rows); err != nil {
			return err
		}
		bytes += len(m.body) + len(m.spec)
		if page = append(page, m); len(page) < restorePage && bytes < store.BatchBytes {
			return nil
		}
		full := page
		page, bytes = make([]row, 0, restorePage), 0
		return send(full)
	})
	if err != nil || len(page) == 0 {
		return err
	}
	return send(page)
}

// scan reads the columns of sqlOpen and sqlEnded.
func (m *row) scan(rows *sql.Rows) error {
	j := &m.job
	var state, token, version, cancel int64
	err := rows.Scan(&m.seq, &j.Topic, &j.ID, &j.UID, &j.CreatedAt, &j.DueAt, &j.ExpiresAt, &state,
		&j.Attempts, &j.Snoozes, &j.ExpiredLeases, &token, &version, &cancel,
		&j.NextAt, &j.Reason, &j.EndedAt, &m.body, &m.spec)
	if err != nil {
		return err
	}
	m.bad = checkRow(state, token, version, int64(j.Attempts), int64(j.Snoozes), int64(j.ExpiredLeases))
	if m.bad == nil {
		j.State, j.Token, j.Version, j.CancelRequested = job.State(state), uint64(token), uint64(version), cancel != 0
		m.bad = m.decodeSpec()
	}
	return nil
}

func (m *row) decodeSpec() error {
	if m.spec == nil {
		return errPayload
	}
	if err := encoding.DecodeSpec(m.spec, &m.job.Spec); err != nil {
		return fmt.Errorf("decode its spec: %w", err)
	}
	m.job.Spec.Body = m.body
	return nil
}

func (m *row) unreadable(err error) Unreadable {
	return Unreadable{Seq: m.seq, Key: m.job.Key, UID: m.job.UID, State: m.job.State, Err: err}
}

// Stored is a message with all that belongs to it, as it is restored.
type Stored struct {
	Seq int64
	store.RestoredJob
}

// decode makes jobs of messages. What was running when the process died had no
// outcome: the attempt is not charged, but a job that kills its process time
// and again must end. What cannot be read is left out; of a job whose log cannot
// be read, those attempts are.
func (r *Reader) decode(ctx context.Context, page []row) (jobs []Stored, bad []Unreadable, err error) {
	seqs, counted := make([]int64, len(page)), []int64(nil)
	for i := range page {
		seqs[i] = page[i].seq
		if page[i].job.Spec.Count != nil {
			counted = append(counted, page[i].seq)
		}
	}
	logs, broken, err := readLogs(ctx, r.pools.read, seqs)
	if err != nil {
		return nil, nil, err
	}
	tallies, err := readTallies(ctx, r.pools.read, counted)
	if err != nil {
		return nil, nil, err
	}
	jobs = make([]Stored, 0, len(page))
	now := job.InstantOf(r.clock.Now())
	for i := range page {
		m := &page[i]
		if m.bad != nil {
			bad = append(bad, m.unreadable(m.bad))
			continue
		}
		if err := broken[m.seq]; err != nil {
			bad = append(bad, m.unreadable(err))
		}
		if m.job.State == job.Running {
			m.job.ExpireLease(now)
		}
		log := logs[m.seq]
		if n := len(log); n > 0 {
			m.job.LastAttempt = &log[n-1]
		}
		stored := store.RestoredJob{Job: m.job, Log: log}
		if t := tallies[m.seq]; t != nil {
			stored.Job.Counted, stored.Job.Fired, stored.CountKeys = t.count, t.fired, t.keys
		}
		jobs = append(jobs, Stored{m.seq, stored})
	}
	return jobs, bad, nil
}

// readLogs reads the attempt logs of messages. Attempts that cannot be read are
// left out; broken has the errors by message.
func readLogs(ctx context.Context, from querier, seqs []int64) (logs map[int64][]job.Attempt, broken map[int64]error, err error) {
	if len(seqs) == 0 {
		return nil, nil, nil
	}
	logs, broken = map[int64][]job.Attempt{}, map[int64]error{}
	err = each(ctx, from, sqlLogs(seqs), nil, func(rows *sql.Rows) error {
		var seq int64
		var text []byte
		if err := rows.Scan(&seq, &text); err != nil {
			return err
		}
		var a job.Attempt
		if err := encoding.DecodeAttempt(text, &a); err != nil {
			broken[seq] = fmt.Errorf("decode an attempt of it: %w", err)
		} else {
			logs[seq] = append(logs[seq], a)
		}
		return nil
	})
	for seq := range logs {
		// One that was missing may have been written late.
		slices.SortStableFunc(logs[seq], func(a, b job.Attempt) int { return cmp.Compare(a.StartedAt, b.StartedAt) })
	}
	return logs, broken, err
}
