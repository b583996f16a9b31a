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

// restorePage is how many jobs are restored at a time, fewer if they are large.
const restorePage = 500

// Stored is a message with its payload and log.
type Stored struct {
	Seq int64
	store.RestoredJob
	size int   // of its body and spec
	bad  error // why it cannot be read
}

// RestoreAll restores the jobs that a store lacks: unfinished jobs, overdue ones included,
// dead letters, and jobs that ended within retention. It returns how many it restored and
// which cannot be read. Of several registrations of a key the open one comes first, and the
// store refuses the others.
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

// restoreFrom restores the messages of a query, page by page. It processes several pages at
// a time, while reading continues.
func (r *Reader) restoreFrom(ctx context.Context, into store.Restorable, bad *Unreadables, workers int, query string, args ...any) (int64, error) {
	pages := make(chan []Stored, workers)
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

func (r *Reader) readPages(ctx context.Context, pages chan<- []Stored, query string, args []any) error {
	send := func(page []Stored) error {
		select {
		case pages <- page:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	page, bytes := make([]Stored, 0, restorePage), 0
	err := each(ctx, r.pools.read, r.words.bind(query), args, func(rows *sql.Rows) error {
		var m Stored
		if err := m.scan(rows); err != nil {
			return err
		}
		bytes += m.size
		if page = append(page, m); len(page) < restorePage && bytes < store.BatchBytes {
			return nil
		}
		full := page
		page, bytes = make([]Stored, 0, restorePage), 0
		return send(full)
	})
	if err != nil || len(page) == 0 {
		return err
	}
	return send(page)
}

// scan reads the columns of sqlStored.
func (m *Stored) scan(rows *sql.Rows) error {
	j := &m.Job
	var state, token, version, cancel int64
	var body, spec []byte
	err := rows.Scan(&m.Seq, &j.Topic, &j.ID, &j.UID, &j.CreatedAt, &j.DueAt, &j.ExpiresAt, &state,
		&j.Attempts, &j.Snoozes, &j.ExpiredLeases, &token, &version, &cancel,
		&j.NextAt, &j.Reason, &j.EndedAt, &body, &spec)
	if err != nil {
		return err
	}
	m.size = len(body) + len(spec)
	m.bad = checkRow(state, token, version, int64(j.Attempts), int64(j.Snoozes), int64(j.ExpiredLeases))
	if m.bad == nil {
		j.State, j.Token, j.Version, j.CancelRequested = job.State(state), uint64(token), uint64(version), cancel != 0
		m.bad = decodeSpec(&j.Spec, spec)
		j.Spec.Body = body
	}
	return nil
}

func decodeSpec(s *job.Spec, text []byte) error {
	if text == nil {
		return errPayload
	}
	if err := encoding.DecodeSpec(text, s); err != nil {
		return fmt.Errorf("decode its spec: %w", err)
	}
	return nil
}

func (m *Stored) unreadable(err error) Unreadable {
	return Unreadable{Seq: m.Seq, Key: m.Job.Key, UID: m.Job.UID, State: m.Job.State, Err: err}
}

// decode makes jobs of messages. A job that was running when the process died had no
// outcome: the attempt is not charged, but its lease counts as expired, so that a job that
// crashes its process ends. It leaves out unreadable jobs and attempts.
func (r *Reader) decode(ctx context.Context, page []Stored) (jobs []Stored, bad []Unreadable, err error) {
	seqs, counted := make([]int64, len(page)), []int64(nil)
	for i := range page {
		seqs[i] = page[i].Seq
		if page[i].Job.Spec.Count != nil {
			counted = append(counted, page[i].Seq)
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
	now := job.InstantOf(r.clock.Now())
	for i := range page {
		m := &page[i]
		if m.bad != nil {
			bad = append(bad, m.unreadable(m.bad))
			continue
		}
		if err := broken[m.Seq]; err != nil {
			bad = append(bad, m.unreadable(err))
		}
		if m.Job.State == job.Running {
			m.Job.ExpireLease(now)
		}
		m.Log = logs[m.Seq]
		if n := len(m.Log); n > 0 {
			m.Job.LastAttempt = &m.Log[n-1]
		}
		if t := tallies[m.Seq]; t != nil {
			m.Job.Counted, m.Job.Fired, m.CountKeys = t.count, t.fired, t.keys
		}
	}
	return slices.DeleteFunc(page, func(m Stored) bool { return m.bad != nil }), bad, nil
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
		// A missing one may have been written late.
		slices.SortStableFunc(logs[seq], func(a, b job.Attempt) int { return cmp.Compare(a.StartedAt, b.StartedAt) })
	}
	return logs, broken, err
}
