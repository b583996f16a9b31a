package journal

import (
	"context"
	"errors"
	"slices"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
)

// Restore puts jobs back into the journal and the store.
func (s *Store) Restore(ctx context.Context, jobs []store.RestoredJob) (int, error) {
	return s.PutBack(ctx, s.Inner, jobs)
}

// PutBack puts back the jobs that a store lacks or that are to be replaced, and writes
// them to the journal first. It returns how many the store took.
func (j *Journal) PutBack(ctx context.Context, into store.Store, jobs []store.RestoredJob) (int, error) {
	return InPages(jobs, func(page []store.RestoredJob) (int, error) { return j.putBack(ctx, into, page) })
}

// InPages does the work on so many jobs at a time as one transaction may have, and
// returns the sum of its results.
func InPages(jobs []store.RestoredJob, work func(page []store.RestoredJob) (int, error)) (int, error) {
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

// BeginPage begins a call that writes jobs with their logs, in rows rows.
func (j *Journal) BeginPage(ctx context.Context, page []store.RestoredJob) (c *Call, rows int, err error) {
	keys := make([]job.Key, len(page))
	for i := range page {
		keys[i] = page[i].Job.Key
		rows += 2 + len(page[i].Log) // message, payload, flow
	}
	c, err = j.Begin(ctx, rows, keys...)
	return c, rows, err
}

func (j *Journal) putBack(ctx context.Context, into store.Store, jobs []store.RestoredJob) (int, error) {
	c, rows, err := j.BeginPage(ctx, jobs)
	if err != nil {
		return 0, err
	}
	defer c.End()
	l, err := lackingIn(ctx, into, jobs)
	if err != nil || len(l) == 0 {
		return 0, err
	}
	now := job.InstantOf(j.o.Clock.Now())
	messages, logs := make([]Message, len(l)), make([][]FlowRow, len(l))
	for i := range l {
		messages[i], logs[i] = NewMessage(l[i].Job, now), LogRows(l[i].Log, l[i].Job.State)
	}
	err = c.Commit(Write{Rows: rows, Add: func(g *Group) {
		for i := range messages {
			g.Restored(&messages[i], logs[i])
		}
	}})
	if err != nil {
		return 0, err
	}
	return into.Restore(context.WithoutCancel(ctx), l)
}

// lackingIn picks the jobs that the store lacks or that are to be replaced, each key
// once.
func lackingIn(ctx context.Context, s store.Store, jobs []store.RestoredJob) ([]store.RestoredJob, error) {
	seen := make(map[job.Key]struct{}, len(jobs))
	var lacking []store.RestoredJob
	for _, r := range jobs {
		if _, twice := seen[r.Job.Key]; twice {
			continue
		}
		seen[r.Job.Key] = struct{}{}
		old, err := s.Get(ctx, r.Job.Key)
		switch {
		case err == nil && (r.Over == nil || !r.Over.Of(&old)):
			continue
		case err != nil && !errors.Is(err, store.ErrNotFound):
			return nil, err
		}
		if !r.Job.State.Final() {
			r.Job.State = r.Job.Pending()
		}
		lacking = append(lacking, r)
	}
	return lacking, nil
}
