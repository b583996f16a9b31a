package ledger

import (
	"context"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/journal"
)

// CatchUp writes jobs as the store has them, with the logs of their attempts,
// if the journal does not know them or is behind: changes were made while it
// could not be written, by a node that died or had no room for them. It returns
// how many it wrote. Changes that are on their way to the journal must not be
// anticipated, or their flow is written twice; so a job should have stood for a
// while as it is.
func (s *Store) CatchUp(ctx context.Context, jobs []store.RestoredJob) (int, error) {
	return journal.InPages(jobs, func(page []store.RestoredJob) (int, error) {
		c, _, err := s.BeginPage(ctx, page)
		if err != nil {
			return 0, err
		}
		defer c.End()
		return s.journalBehind(c, page)
	})
}

// journalBehind is CatchUp for a call that holds the keys of jobs.
func (s *Store) journalBehind(c *journal.Call, jobs []store.RestoredJob) (int, error) {
	messages, logs := make([]journal.Message, len(jobs)), make([][]journal.FlowRow, len(jobs))
	now := job.InstantOf(s.o.Clock.Now())
	var rows int
	var bytes int64
	for i := range jobs {
		messages[i], logs[i] = journal.NewMessage(jobs[i].Job, now), journal.LogRows(jobs[i].Log, jobs[i].Job.State)
		rows += 2 + len(logs[i])
		bytes += messages[i].Size()
	}
	changes := make([]*change, len(jobs))
	err := c.Commit(journal.Write{Rows: rows, Bytes: bytes, Add: adding(func(g *group) {
		for i := range messages {
			changes[i] = g.caughtUp(&messages[i], logs[i])
		}
	})})
	if err != nil {
		return 0, err
	}
	written := 0
	for _, ch := range changes {
		if ch.Put != nil {
			written++
		}
	}
	return written, nil
}
