package ledger

import (
	"context"
	"errors"
	"slices"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
)

// Restore puts jobs back into the journal and the store.
func (s *Store) Restore(ctx context.Context, jobs []store.RestoredJob) (int, error) {
	return inPages(jobs, func(page []store.RestoredJob) (int, error) { return s.putBack(ctx, page) })
}

// inPages does the work on so many jobs at a time as one transaction may have,
// and adds up what it counts.
func inPages(jobs []store.RestoredJob, work func(page []store.RestoredJob) (int, error)) (int, error) {
	total := 0
	for page := range slices.Chunk(jobs, restorePage) {
		n, err := work(page)
		total += n
		if err != nil {
			return total, err
		}
	}
	return total, nil
}

// beginPage begins a call that writes jobs with their logs, in so many rows.
func (s *Store) beginPage(ctx context.Context, page []store.RestoredJob) (c *call, rows int, err error) {
	keys := make([]job.Key, len(page))
	for i := range page {
		keys[i] = page[i].Job.Key
		rows += 2 + len(page[i].Log) // message, payload, flow
	}
	c, err = s.begin(ctx, rows, keys...)
	return c, rows, err
}

// lacking are jobs that the store has not, with their rows.
type lacking struct {
	jobs     []store.RestoredJob
	messages []message
	logs     [][]flowRow
}

func (s *Store) putBack(ctx context.Context, jobs []store.RestoredJob) (int, error) {
	c, rows, err := s.beginPage(ctx, jobs)
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
		l.add(r, now)
	}
	return l, nil
}

func (l *lacking) add(r store.RestoredJob, now job.Instant) {
	if !r.Job.State.Final() {
		r.Job.State = r.Job.Pending()
	}
	l.jobs, l.messages = append(l.jobs, r), append(l.messages, newMessage(r.Job, now))
	l.logs = append(l.logs, logRows(r.Log, r.Job.State))
}
