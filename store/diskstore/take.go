package diskstore

import (
	"context"
	"strings"
	"time"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/records"
	"github.com/duehook/duehook/store/rules"
)

const (
	// shareLook is how long a call waits while jobs wait for workers: the caller asks again
	// with those that it has then.
	shareLook = 5 * time.Millisecond
	// finishTime bounds how long a call that has claimed jobs waits for the disk.
	finishTime = 5 * time.Second
)

// Take claims due jobs.
func (s *Store) Take(ctx context.Context, _ int, o store.TakeOptions) (store.Taken, error) {
	end := s.clock.Now().Add(o.Wait)
	for {
		c, err := s.takeNow(ctx, &o)
		if err != nil {
			return store.Taken{}, err
		}
		if len(c.records) > 0 {
			return c.finish(ctx)
		}
		rest := min(end.Sub(s.clock.Now()), o.Wait) // the clock may go back
		if c.sharing {
			rest = min(rest, shareLook)
		}
		last := true
		switch {
		case rest <= 0:
			return store.Taken{Wait: c.wait}, nil
		case c.wait == 0:
			continue // others had their turn in between
		case c.wait > 0 && c.wait < rest:
			rest, last = c.wait, false
		}
		over, err := s.sleep(ctx, rest, c.woken)
		switch {
		case err != nil:
			return store.Taken{}, err
		case c.sharing:
			return store.Taken{}, nil
		case over && last:
			return store.Taken{Wait: c.after(rest)}, nil
		}
	}
}

// after is the wait that is left after d.
func (c *taking) after(d time.Duration) time.Duration {
	if c.wait < 0 {
		return c.wait
	}
	return max(0, c.wait-d)
}

// sleep waits until a time is over, or until the store has something new for takers.
func (s *Store) sleep(ctx context.Context, d time.Duration, woken <-chan struct{}) (over bool, err error) {
	timer := s.clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C():
		return true, nil
	case <-woken:
		return false, nil
	case <-ctx.Done():
		return false, ctx.Err()
	case <-s.done:
		return false, errClosed
	}
}

// wakeTakers ends the sleep of all calls of Take.
func (s *Store) wakeTakers() {
	if s.woken != nil {
		close(s.woken)
		s.woken = nil
	}
}

// taking is one look of a call of Take for due jobs. They are decoded without the lock.
type taking struct {
	*txn
	o                *store.TakeOptions
	shares           *rules.Shares // of the caller's workers; nil: not shared
	room             int           // jobs that may still be claimed
	bytes            int           // of jobs to claim
	picked           []pick
	served, unserved []waiting           // lanes to visit again for a free place
	met              map[string]struct{} // topics whose lanes were visited

	claims  []store.Claimed
	records []*record
	changed job.Instant   // when the last of the jobs was changed before
	writing *syncing      // the call that did so, or a later one
	wait    time.Duration // Taken.Wait
	sharing bool          // jobs wait for workers
	woken   <-chan struct{}
}

// takeNow claims the jobs that may go now.
func (s *Store) takeNow(ctx context.Context, o *store.TakeOptions) (*taking, error) {
	c := &taking{o: o, room: min(o.Max, maxTake), met: map[string]struct{}{}}
	err := s.change(ctx, false, func(t *txn) {
		c.txn = t
		if s.wentBack {
			t.afterStep(o.Limits.Longest)
		}
		switch {
		case o.Pull != nil:
			c.pull()
		case o.Workers != nil:
			c.shares = rules.SharesOf(o.Workers, s.weightOf)
			c.pick()
		default:
			c.pick()
		}
		c.claim()
		if s.earlier {
			s.wakeTakers()
			s.earlier = false
		}
		if len(c.records) > 0 {
			if int64(c.changed) >= s.synced.Load() {
				c.writing = s.syncing
			}
			return
		}
		if s.woken == nil {
			s.woken = make(chan struct{})
		}
		c.woken = s.woken
	})
	return c, err
}

// weightOf is the weight of a topic; zero: the default.
func (s *Store) weightOf(topic string) int {
	if l, ok := s.limits[topic]; ok {
		return l.Weight
	}
	return 0
}

// claim claims the jobs that were picked.
func (c *taking) claim() {
	c.fetchRecords()
	c.claims, c.records = make([]store.Claimed, 0, len(c.picked)), make([]*record, 0, len(c.picked))
	for _, p := range c.picked {
		rec := c.loadInFlight(p.key)
		if rec == nil {
			continue
		}
		if !c.turns().IsHead(rec.order, rec.ID) {
			if rec.State != job.Running { // a lease that expired ends as late as another one
				c.park(rec)
			}
			continue
		}
		c.changed = max(c.changed, rec.UpdatedAt)
		c.lease(rec, p)
		f := *p.flight
		rec.flight = &f
		c.claims = append(c.claims, store.Claimed{Now: c.now, From: p.from, Earlier: f.claim.prior})
		c.records = append(c.records, rec)
	}
}

// lease has the head of its order key run.
func (c *taking) lease(rec *record, p pick) {
	c.turns().Take(rec.order)
	_, prior := records.Claim(&rec.Job, c.now)
	c.extend(p.flight, c.now.Add(c.o.LeaseOf(rec.timeout)))
	p.claimed, p.claim = true, claim{at: c.now, from: p.from, prior: prior, by: strings.Clone(c.o.By)}
	p.remember(rec)
	c.hold(p.flight, rec)
	c.writeClaim(p.flight)
	c.look(p.lane)
}

// fetchRecords reads the records of picked jobs, but large ones.
func (c *taking) fetchRecords() {
	keys := make([][]byte, 0, len(c.picked))
	for _, p := range c.picked {
		if p.record == nil && p.entry.size <= store.SmallRecord {
			keys = append(keys, p.entry.place.key())
		}
	}
	c.note(c.rows.fetch(keys))
}

// finish returns the claims when what is known of their jobs is on the disk: what a kill of the process
// takes back must not have been sent. A client registers the job again with another uid, and an
// attempt after an outcome gets its number again.
func (c *taking) finish(ctx context.Context) (store.Taken, error) {
	if c.writing != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), finishTime)
		defer cancel()
		if err := c.s.await(ctx, c.writing); err != nil {
			return store.Taken{}, err
		}
	}
	var err error
	for i, rec := range c.records {
		if c.claims[i].Job, err = rec.job(); err != nil {
			return store.Taken{}, err
		}
	}
	return store.Taken{Claims: c.claims, Wait: c.wait}, nil
}
