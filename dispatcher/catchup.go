package dispatcher

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/kit/batch"
	"github.com/duehook/duehook/internal/kit/loops"
	"github.com/duehook/duehook/retrypolicy"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/listing"
)

const (
	// catchUpPause is the time between two batches of one endpoint's jobs.
	catchUpPause = 250 * time.Millisecond
	// catchUpPages bounds the pages that one batch searches.
	catchUpPages = 4
	// outageSlack allows for the difference of two clocks.
	outageSlack = time.Second
)

// catchUp advances retries after an outage of their endpoint: at a set rate, in order of
// their next attempts, and only while the endpoint works. Without it, an outage of minutes
// could cost a job that is late on its ladder hours.
type catchUp struct {
	store   Store
	clock   job.Clock
	log     *slog.Logger
	policy  retrypolicy.Policy
	rate    int // jobs per second and endpoint
	fails   func(endpoint string) bool
	outage  *loops.Outage
	brought prometheus.Counter
	fresh   *loops.Mailbox[time.Time] // the beginning of an outage that is over
}

// recovery is an endpoint whose retries are being advanced.
type recovery struct {
	since  time.Time // the beginning of the outage
	cursor string    // of the listing of its jobs
	total  int       // jobs advanced
	owed   float64   // jobs that the rate allows now
}

func newCatchUp(o Options, fails func(endpoint string) bool, brought prometheus.Counter) *catchUp {
	return &catchUp{
		store: o.Store, clock: o.Clock, log: o.Logger, policy: o.Policy, rate: o.CatchUpRate,
		fails: fails, brought: brought,
		outage: loops.NewOutage("bringing retries forward", o.Clock, o.Logger, o.Random),
		fresh:  loops.NewMailbox[time.Time](),
	}
}

// recovered notes that an endpoint works again that had failed since a time. It does not
// block.
func (c *catchUp) recovered(endpoint string, since time.Time) {
	if c.rate >= 0 {
		c.fresh.Put(endpoint, since)
	}
}

// run works until ctx ends.
func (c *catchUp) run(ctx context.Context) {
	active := map[string]*recovery{}
	for {
		if len(active) == 0 {
			select {
			case <-ctx.Done():
				return
			case <-c.fresh.Wake:
			}
		} else if job.Sleep(ctx, c.clock, catchUpPause) != nil {
			return
		}
		for endpoint, since := range c.fresh.Take() { // a second outage starts over
			active[endpoint] = &recovery{since: since}
		}
		for _, endpoint := range slices.Sorted(maps.Keys(active)) {
			r := active[endpoint]
			if c.fails(endpoint) {
				delete(active, endpoint) // the jobs left keep their schedule
				continue
			}
			done, err := c.serve(ctx, endpoint, r)
			if err != nil {
				c.outage.Rest(ctx, err)
				break
			}
			c.outage.Worked()
			if done {
				delete(active, endpoint)
				if r.total > 0 {
					c.log.Info("brought retries forward after an outage", "endpoint", endpoint,
						"jobs", r.total, "outage_began", r.since)
				}
			}
		}
		if len(active) == 0 {
			c.fresh.Done()
		}
	}
}

// serve advances one batch of an endpoint's jobs, and reports whether it was the last.
func (c *catchUp) serve(ctx context.Context, endpoint string, r *recovery) (done bool, err error) {
	r.owed = min(r.owed+float64(c.rate)*catchUpPause.Seconds(), float64(max(c.rate, 1)))
	for range catchUpPages {
		if r.owed < 1 {
			return false, nil
		}
		page, err := listing.List(ctx, c.store, store.Query{
			States: []job.State{job.Retrying}, Endpoint: endpoint, Limit: min(int(r.owed), 1_000), Cursor: r.cursor,
		})
		if err != nil {
			return false, err
		}
		n, err := c.bring(ctx, page.Jobs, r.since)
		r.total += n
		r.owed -= float64(n)
		c.brought.Add(float64(n))
		if err != nil {
			return false, err // repeats the page: advanced jobs refuse
		}
		if r.cursor = page.Next; r.cursor == "" {
			return true, nil
		}
	}
	return false, nil
}

// bring advances the jobs that the outage delayed, and counts them.
func (c *catchUp) bring(ctx context.Context, jobs []job.Job, since time.Time) (n int, err error) {
	changed, err := batch.Gather(ctx, len(jobs), func(ctx context.Context, i int) (bool, error) { return c.bringOne(ctx, jobs[i].Key, since) })
	for _, did := range changed {
		if did {
			n++
		}
	}
	return n, err
}

func (c *catchUp) bringOne(ctx context.Context, key job.Key, since time.Time) (bool, error) {
	lasted := c.clock.Now().Sub(since) + outageSlack
	_, err := c.store.Update(ctx, key, func(j *job.Job, now job.Instant) error {
		policy := c.policy.For(j.Spec.Retry)
		return j.BringForward(now.Add(-lasted), now, policy.FirstStep(), policy.LeastWait(j.Attempts))
	})
	switch {
	case err == nil:
		return true, nil
	case errors.Is(err, job.ErrKeepsSchedule), errors.Is(err, store.ErrNotFound), errors.Is(err, store.ErrConflict):
		return false, nil
	}
	return false, err
}
