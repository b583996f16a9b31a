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

// rowsPerCount is how many rows a count writes beside those of its keys: message, tally
// and flow.
const rowsPerCount = 3

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

// tally is the part of a count that the ledger keeps beside the message.
type tally struct {
	count int64
	fired bool
	keys  []string
}

// tallyOf is the tally of a job that is written as a whole; nil without a count.
func tallyOf(j *job.Job, keys []string) *tally {
	if j.Spec.Count == nil || j.Counted == 0 && !j.Fired {
		return nil
	}
	return &tally{count: j.Counted, fired: j.Fired, keys: keys}
}

// with is t and u; both may be nil. Counts only grow.
func (t *tally) with(u *tally) *tally {
	switch {
	case t == nil:
		return u
	case u == nil:
		return t
	}
	return &tally{count: max(t.count, u.count), fired: t.fired || u.fired, keys: append(t.keys, u.keys...)}
}

// counted writes the count of a job.
func (g *group) counted(done *store.Counted, keys []string) {
	j := &done.Job
	c := g.shows(&message{job: *j, at: done.Now}, false)
	c.tally = c.tally.with(&tally{count: j.Counted, fired: j.Fired, keys: keys})
	if done.Tally.Due {
		g.flows = append(g.flows, flowRow{of: c, fact: reasonCounted + versionFact(j.Version), at: done.Now, from: int64(j.State), to: j.State, reason: reasonCounted})
	}
}

// counts are the tallies that a group writes.
func (c *change) counts() *tally {
	t := c.tally
	if c.job != nil {
		t = t.with(tallyOf(&c.job.job, c.countKeys))
	}
	return t
}

// writeTallies writes counts and their keys, once for each message.
func (w *writing) writeTallies() error {
	all := map[int64]*tally{}
	var seqs []int64
	for _, c := range w.changes {
		t := c.counts()
		if t == nil || c.seq == 0 {
			continue
		}
		if all[c.seq] == nil {
			seqs = append(seqs, c.seq)
		}
		all[c.seq] = all[c.seq].with(t)
	}
	var tallies, keys []any
	for _, seq := range seqs {
		t := all[seq]
		tallies = append(tallies, seq, t.count, flag(t.fired))
		for _, key := range t.keys {
			keys = append(keys, seq, key)
		}
	}
	if err := w.st.tally.exec(w.ctx, w.tx, tallies); err != nil {
		return fmt.Errorf("write counts: %w", err)
	}
	if err := w.st.tallyKey.exec(w.ctx, w.tx, keys); err != nil {
		return fmt.Errorf("write the keys of counts: %w", err)
	}
	return nil
}

// readTallies reads the counts of messages, by seq.
func readTallies(ctx context.Context, from querier, seqs []int64) (map[int64]*tally, error) {
	if len(seqs) == 0 {
		return nil, nil
	}
	all := map[int64]*tally{}
	err := each(ctx, from, "SELECT seq, counted, fired FROM tally WHERE seq"+in(seqs), nil, func(rows *sql.Rows) error {
		var seq int64
		t := &tally{}
		err := rows.Scan(&seq, &t.count, &t.fired)
		all[seq] = t
		return err
	})
	if err != nil {
		return nil, err
	}
	return all, each(ctx, from, "SELECT seq, name FROM tally_key WHERE seq"+in(seqs), nil, func(rows *sql.Rows) error {
		var seq int64
		var name string
		err := rows.Scan(&seq, &name)
		if t := all[seq]; t != nil {
			t.keys = append(t.keys, name)
		}
		return err
	})
}
