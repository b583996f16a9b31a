package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
)

// reasonCounted is the reason in the flow of a job that is due because its count has
// reached the target.
const reasonCounted = "count_reached"

// rowsPerCount is how many rows a count writes beside those of its keys: message and
// flow.
const rowsPerCount = 2

// Count adds to the count of a job in the store, and answers once that is committed to the
// ledger. A key that is repeated is written again: its first commit may have failed.
func (s *Store) Count(ctx context.Context, c store.Count) (store.Counted, error) {
	if err := s.begin(ctx, true); err != nil {
		return store.Counted{}, err
	}
	defer s.leave()
	if err := s.owing(); err != nil {
		return store.Counted{}, err
	}
	done, err := s.count(ctx, c)
	if err != nil || done.Job.State.Final() {
		return done, err
	}
	var keys []string
	var bytes int64
	for i, a := range c.Adds {
		if a.Key != "" && done.Tally.Added[i].Err == nil {
			keys = append(keys, a.Key)
			bytes += int64(len(a.Key))
		}
	}
	err = s.commit(ctx, write{rows: rowsPerCount + len(keys), bytes: bytes, owed: true, add: func(g *group) { g.counted(&done, keys) }})
	if err != nil {
		return store.Counted{}, err
	}
	return done, nil
}

// count counts in the store, which must not have an older version of the job than the ledger: the count
// would be lost.
func (s *Store) count(ctx context.Context, c store.Count) (done store.Counted, err error) {
	for range maxTries {
		l := &look{key: c.Key}
		if err := s.lookFirst(ctx, l); err != nil {
			return store.Counted{}, err
		}
		c.Least = l.old.Version
		done, err = s.inner.Count(ctx, c)
		wentBack := errors.Is(err, store.ErrConflict) || l.old.Exists() && errors.Is(err, store.ErrNotFound)
		if !wentBack {
			break
		}
	}
	return done, err
}

// countOf is the count of a job as the ledger has it.
func countOf(j *job.Job) int64 { return 2*j.Counted + flag(j.Fired) }

// counted writes the count of a job.
func (g *group) counted(done *store.Counted, keys []string) {
	j := &done.Job
	c := g.shows(&message{job: *j, at: done.Now}, false)
	c.counted, c.countKeys = max(c.counted, countOf(j)), append(c.countKeys, keys...)
	if done.Tally.Due {
		g.flows = append(g.flows, flowRow{of: c, fact: reasonCounted + versionFact(j.Version, j.State), at: done.Now, from: int64(j.State), to: j.State, reason: reasonCounted})
	}
}

// writeCounts writes the keys of counts, and counts in versions that the ledger has passed: what passed them may not
// have them.
func (w *writing) writeCounts() error {
	var keys []any
	for _, c := range w.changes {
		if c.seq == 0 {
			continue
		}
		if c.counted > 0 && !c.writes {
			if err := w.exec(sqlCounted, c.counted, c.seq); err != nil {
				return fmt.Errorf("write a count: %w", err)
			}
		}
		for _, key := range c.countKeys {
			keys = append(keys, c.seq, key)
		}
	}
	if err := w.st.countKey.exec(w.ctx, w.tx, keys); err != nil {
		return fmt.Errorf("write the keys of counts: %w", err)
	}
	return nil
}

// readCountKeys reads the keys that were counted, by the seq of the message.
func readCountKeys(ctx context.Context, from querier, seqs []int64) (map[int64][]string, error) {
	if len(seqs) == 0 {
		return nil, nil
	}
	keys := map[int64][]string{}
	return keys, each(ctx, from, "SELECT seq, name FROM count_key WHERE seq"+in(seqs), nil, func(rows *sql.Rows) error {
		var seq int64
		var name string
		err := rows.Scan(&seq, &name)
		keys[seq] = append(keys[seq], name)
		return err
	})
}
