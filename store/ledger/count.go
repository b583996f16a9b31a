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
	return putRightFirst(ctx, s, c.Key, func() (counted store.Counted, err error) {
		for range maxTries {
			// A conflict: the store went back while the ledger was read.
			if counted, err = s.count(ctx, c); !errors.Is(err, store.ErrConflict) {
				break
			}
		}
		return counted, err
	})
}

func (s *Store) count(ctx context.Context, c store.Count) (store.Counted, error) {
	call, err := s.begin(ctx, true, rowsPerCount+len(c.Adds), c.Key)
	if err != nil {
		return store.Counted{}, err
	}
	defer call.end()
	if err := s.owing(); err != nil {
		return store.Counted{}, err
	}
	if c.Least, err = s.leastVersion(ctx, c.Key); err != nil {
		return store.Counted{}, err
	}
	done, err := s.inner.Count(ctx, c)
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
	err = call.commit(write{rows: rowsPerCount + len(keys), bytes: bytes, owed: true, add: func(g *group) { g.counted(&done, keys) }})
	if err != nil {
		return store.Counted{}, err
	}
	return done, nil
}

// leastVersion returns the version of the store's job. It returns an error if the ledger has
// a later version, because the count would be lost.
func (s *Store) leastVersion(ctx context.Context, key job.Key) (version uint64, err error) {
	standings, err := s.inner.Standings(ctx, []job.Key{key})
	if err != nil || !standings[0].Exists() {
		return 0, err
	}
	is := &standings[0]
	return is.Version, s.current(ctx, &job.Job{Key: key, UID: is.UID, State: is.State, Version: is.Version, Token: is.Token, CreatedAt: is.CreatedAt})
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
	c := g.of(j.Key, j.UID)
	c.tally = c.tally.with(&tally{count: j.Counted, fired: j.Fired, keys: keys})
	if c.progress == nil || c.progress.version < j.Version {
		state := j.State
		if state == job.Ready { // only buckets know of it
			state = j.Pending()
		}
		c.progress = progressOf(j, state, done.Now)
	}
	if done.Tally.Due {
		g.flows = append(g.flows, flowRow{of: c.target, fact: reasonCounted + versionFact(j.Version), at: done.Now, from: int64(j.State), to: j.State, reason: reasonCounted})
	}
}

// counts are the tallies that a group writes.
func (c *change) counts() *tally {
	t := c.tally
	if c.put != nil {
		t = t.with(tallyOf(&c.put.job, c.countKeys))
	}
	if c.adopt != nil {
		t = t.with(tallyOf(c.adopt, c.countKeys))
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
