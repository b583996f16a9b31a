package ledger

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"

	"github.com/vmihailenco/msgpack/v5"
	"golang.org/x/sync/errgroup"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
)

// restorePage is how many jobs are put back at a time.
const restorePage = 500

// stored is a message as it is read.
type stored struct {
	seq  int64
	job  job.Job
	body []byte
	spec []byte
}

// restore puts back what the store lacks: unfinished jobs, overdue ones
// included, dead letters, and what ended recently. Of several registrations of
// a key the current one comes first, and the store refuses the others.
func (s *Store) restore(ctx context.Context) error {
	began := s.o.Clock.Now()
	n, err := s.restoreFrom(ctx, runtime.GOMAXPROCS(0), sqlOpen)
	if err != nil {
		return fmt.Errorf("restore unfinished jobs: %w", err)
	}
	if s.o.StoreRetention > 0 {
		since := job.InstantOf(began).Add(-s.o.StoreRetention)
		ended, err := s.restoreFrom(ctx, 1, sqlEnded, int64(since)) // in that order
		if err != nil {
			return fmt.Errorf("restore ended jobs: %w", err)
		}
		n += ended
	}
	if n > 0 {
		s.o.Logger.Info("jobs restored from the journal", "jobs", n, "took", s.o.Clock.Now().Sub(began))
	}
	return nil
}

// restoreFrom puts back the messages that a query gives, page by page. So many
// pages are worked on at a time, while reading goes on.
func (s *Store) restoreFrom(ctx context.Context, workers int, query string, args ...any) (int64, error) {
	pages := make(chan []stored, workers)
	var restored atomic.Int64
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		defer close(pages)
		return s.readPages(ctx, pages, query, args)
	})
	for range workers {
		group.Go(func() error {
			for page := range pages {
				jobs, err := s.decode(ctx, page)
				if err != nil {
					return err
				}
				n, err := s.inner.Restore(ctx, jobs)
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

func (s *Store) readPages(ctx context.Context, pages chan<- []stored, query string, args []any) error {
	rows, err := s.read.QueryContext(ctx, s.st.bind(query), args...)
	if err != nil {
		return err
	}
	defer rows.Close() //nolint:errcheck // rows.Err tells
	send := func(page []stored) error {
		select {
		case pages <- page:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	page := make([]stored, 0, restorePage)
	for rows.Next() {
		var m stored
		if err := m.scan(rows); err != nil {
			return err
		}
		if page = append(page, m); len(page) == restorePage {
			if err := send(page); err != nil {
				return err
			}
			page = make([]stored, 0, restorePage)
		}
	}
	if err := rows.Err(); err != nil {
		return err
	}
	if len(page) == 0 {
		return nil
	}
	return send(page)
}

// scan reads the columns of sqlOpen and sqlEnded.
func (m *stored) scan(rows *sql.Rows) error {
	j := &m.job
	return rows.Scan(&m.seq, &j.Topic, &j.ID, &j.UID, &j.CreatedAt, &j.DueAt, &j.ExpiresAt, &j.State,
		&j.Attempts, &j.Snoozes, &j.Lapses, &j.Token, &j.Version, &j.CancelRequested,
		&j.NextAt, &j.Reason, &j.EndedAt, &m.body, &m.spec)
}

// decode makes jobs of messages. What was running when the process died had no
// outcome: the attempt is not charged, but a job that kills its process time
// and again must end.
func (s *Store) decode(ctx context.Context, page []stored) ([]store.RestoredJob, error) {
	seqs := make([]int64, len(page))
	for i := range page {
		seqs[i] = page[i].seq
	}
	logs, err := readLogs(ctx, s.read, seqs)
	if err != nil {
		return nil, err
	}
	jobs := make([]store.RestoredJob, len(page))
	for i := range page {
		m := &page[i]
		if err := msgpack.Unmarshal(m.spec, &m.job.Spec); err != nil {
			return nil, fmt.Errorf("decode job %s: %w", m.job.Key, err)
		}
		m.job.Spec.Body = m.body
		if m.job.State == job.Running {
			m.job.State = m.job.Pending()
			m.job.Lapses++
		}
		log := logs[m.seq]
		if n := len(log); n > 0 {
			m.job.LastAttempt = &log[n-1]
		}
		jobs[i] = store.RestoredJob{Job: m.job, Log: log}
	}
	return jobs, nil
}

// querier is a pool, or a transaction.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// readLogs reads the attempt logs of messages.
func readLogs(ctx context.Context, from querier, seqs []int64) (map[int64][]job.Attempt, error) {
	rows, err := from.QueryContext(ctx, sqlLogs(seqs))
	if err != nil {
		return nil, err
	}
	defer rows.Close() //nolint:errcheck // rows.Err tells
	logs := map[int64][]job.Attempt{}
	for rows.Next() {
		var seq int64
		var text []byte
		if err := rows.Scan(&seq, &text); err != nil {
			return nil, err
		}
		var a job.Attempt
		if err := msgpack.Unmarshal(text, &a); err != nil {
			return nil, fmt.Errorf("decode an attempt: %w", err)
		}
		logs[seq] = append(logs[seq], a)
	}
	for seq := range logs {
		// One that was missing may have been written late.
		slices.SortStableFunc(logs[seq], func(a, b job.Attempt) int { return cmp.Compare(a.StartedAt, b.StartedAt) })
	}
	return logs, rows.Err()
}
