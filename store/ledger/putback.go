package ledger

import (
	"context"
	"errors"
	"fmt"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
)

// Restore puts jobs back into the journal and the store.
func (s *Store) Restore(ctx context.Context, jobs []store.RestoredJob) (int, error) {
	total := 0
	for len(jobs) > 0 {
		n := min(len(jobs), restorePage)
		restored, err := s.putBack(ctx, jobs[:n])
		total += restored
		if err != nil {
			return total, err
		}
		jobs = jobs[n:]
	}
	return total, nil
}

// lacking are jobs that the store has not, with their rows.
type lacking struct {
	jobs     []store.RestoredJob
	messages []message
	logs     [][]flowRow
}

func (s *Store) putBack(ctx context.Context, jobs []store.RestoredJob) (int, error) {
	keys, rows := make([]job.Key, len(jobs)), 0
	for i := range jobs {
		keys[i] = jobs[i].Job.Key
		rows += 2 + len(jobs[i].Log) // message, payload, flow
	}
	c, err := s.begin(ctx, rows, keys...)
	if err != nil {
		return 0, err
	}
	defer c.end()
	l, err := s.lacking(ctx, jobs)
	if err != nil || len(l.jobs) == 0 {
		return 0, err
	}
	err = s.committer.commit(&entry{rows: c.take(rows), add: func(g *group) {
		for i := range l.messages {
			g.restored(&l.messages[i], l.logs[i])
		}
	}})
	if err != nil {
		return 0, err
	}
	return s.inner.Restore(context.WithoutCancel(ctx), l.jobs)
}

// lacking picks the jobs that the store lacks or that are to be replaced, each
// key once.
func (s *Store) lacking(ctx context.Context, jobs []store.RestoredJob) (*lacking, error) {
	now := job.InstantOf(s.o.Clock.Now())
	seen := make(map[job.Key]struct{}, len(jobs))
	l := &lacking{}
	for _, r := range jobs {
		if _, twice := seen[r.Job.Key]; twice {
			continue
		}
		seen[r.Job.Key] = struct{}{}
		old, err := s.inner.Get(ctx, r.Job.Key)
		switch {
		case err == nil && (r.Over == nil || !r.Over.Of(&old)):
			continue
		case err != nil && !errors.Is(err, store.ErrNotFound):
			return nil, err
		}
		if err := l.add(r, now); err != nil {
			return nil, fmt.Errorf("restore %s: %w", r.Job.Key, err)
		}
	}
	return l, nil
}

func (l *lacking) add(r store.RestoredJob, now job.Instant) error {
	if !r.Job.State.Final() {
		r.Job.State = r.Job.Pending()
	}
	m, err := newMessage(r.Job, now)
	if err != nil {
		return err
	}
	log, err := logRows(r.Log, r.Job.State)
	if err != nil {
		return err
	}
	l.jobs, l.messages, l.logs = append(l.jobs, r), append(l.messages, m), append(l.logs, log)
	return nil
}
