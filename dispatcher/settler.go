package dispatcher

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/duehook/duehook/internal/kit/outage"
	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
)

// maxSettle is how many results are settled at a time.
const maxSettle = 256

// result is what a worker hands to the settler.
type result struct {
	settlement job.Settlement
	leaseEnd   time.Time // by our clock; the store's lease ends no earlier
}

// settleTime is how long results may wait for others while many requests are
// under way.
const settleTime = 2 * time.Millisecond

// settler writes results down. While one batch is under way the next gathers,
// so that batches grow with the load, and while many requests are under way it
// gathers for a little longer.
type settler struct {
	store   Store
	clock   job.Clock
	log     *slog.Logger
	metrics *metrics
	results <-chan result
	busy    func() bool // many requests are under way
	outage  *outage.Outage
}

func newSettler(d *Dispatcher, results <-chan result, busy func() bool) *settler {
	return &settler{
		store: d.opts.Store, clock: d.opts.Clock, log: d.opts.Logger, metrics: d.metrics,
		results: results, busy: busy, outage: outage.New("settling jobs", d.opts.Clock, d.opts.Logger, d.opts.Random),
	}
}

// run settles until results is closed. When ctx ends, what cannot be settled
// at once is given up: those jobs come due again when their leases lapse.
func (s *settler) run(ctx context.Context) {
	batch := make([]result, 0, maxSettle)
	for first := range s.results {
		batch = s.gather(append(batch[:0], first))
		if len(batch) < mostEnough && s.busy() {
			job.Sleep(ctx, s.clock, settleTime) //nolint:errcheck // an early end is one, too
			batch = s.gather(batch)
		}
		s.settle(ctx, batch)
	}
}

// gather adds what is there already.
func (s *settler) gather(batch []result) []result {
	for len(batch) < cap(batch) {
		select {
		case r, ok := <-s.results:
			if !ok {
				return batch
			}
			batch = append(batch, r)
		default:
			return batch
		}
	}
	return batch
}

// settle writes a batch down, trying on while the store is unavailable: even
// past the lease the token mostly is still current, for nobody could claim
// either. Other errors are tried until the leases end, each result by itself,
// so that one that the store cannot take does not hold up the rest.
func (s *settler) settle(ctx context.Context, batch []result) {
	settlements := make([]job.Settlement, len(batch))
	for i, r := range batch {
		settlements[i] = r.settlement
	}
	for {
		settled, err := s.store.Settle(ctx, settlements)
		if err == nil {
			s.outage.Worked()
			s.account(settlements, settled)
			return
		}
		unavailable := errors.Is(err, store.ErrUnavailable)
		if !unavailable && len(batch) > 1 {
			for i := range batch {
				s.settle(ctx, batch[i:i+1])
			}
			return
		}
		lapsed := !s.clock.Now().Before(batch[0].leaseEnd)
		if !unavailable && lapsed || !s.outage.Rest(ctx, err) {
			s.drop(settlements, err)
			return
		}
	}
}

func (s *settler) drop(settlements []job.Settlement, err error) {
	s.metrics.dropped.Add(float64(len(settlements)))
	s.log.Error("outcomes could not be settled; the jobs will be delivered again",
		"jobs", len(settlements), "first", settlements[0].Key.String(), "error", err)
}

// account notes what became of settlements.
func (s *settler) account(settlements []job.Settlement, settled []store.Settled) {
	for i, r := range settled {
		key := settlements[i].Key
		switch {
		case r.Status == store.Stale:
			s.metrics.stale.Inc()
			s.log.Warn("an outcome came too late: the job's lease had lapsed", "topic", key.Topic, "id", key.ID)
		case r.Status == store.Missing:
			s.log.Warn("an outcome was for a job that is gone", "topic", key.Topic, "id", key.ID)
		case r.To == job.Dead && !r.Repeated:
			s.log.Warn("a job is dead", "topic", key.Topic, "id", key.ID,
				"reason", r.Reason, "attempts", settlements[i].Attempts)
		}
	}
}
