package ledger

import (
	"context"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
)

// Journal writes jobs as the store has them, with the logs of their attempts,
// if the journal does not know them or is behind: changes were made while it
// could not be written, by a node that died or had no room for them. It returns
// how many it wrote. Changes that are on their way to the journal must not be
// anticipated, or their flow is written twice; so a job should have stood for a
// while as it is.
func (s *Store) Journal(ctx context.Context, jobs []store.RestoredJob) (int, error) {
	return inPages(jobs, func(page []store.RestoredJob) (int, error) {
		c, _, err := s.beginPage(ctx, page)
		if err != nil {
			return 0, err
		}
		defer c.end()
		return c.journalBehind(page)
	})
}

// journalBehind is Journal for a call that holds the keys of jobs.
func (c *call) journalBehind(jobs []store.RestoredJob) (int, error) {
	messages, logs := make([]message, len(jobs)), make([][]flowRow, len(jobs))
	now := job.InstantOf(c.s.o.Clock.Now())
	var rows int
	var bytes int64
	for i := range jobs {
		messages[i], logs[i] = newMessage(jobs[i].Job, now), logRows(jobs[i].Log, jobs[i].Job.State)
		rows += 2 + len(logs[i])
		bytes += messages[i].size()
	}
	changes := make([]*change, len(jobs))
	err := c.s.committer.commit(&entry{rows: c.take(rows), bytes: bytes, add: func(g *group) {
		for i := range messages {
			changes[i] = g.caughtUp(&messages[i], logs[i])
		}
	}})
	if err != nil {
		return 0, err
	}
	written := 0
	for _, ch := range changes {
		if ch.put != nil {
			written++
		}
	}
	return written, nil
}
