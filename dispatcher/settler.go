package dispatcher

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/duehook/duehook/internal/kit/batch"
	"github.com/duehook/duehook/internal/kit/outage"
	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/successors"
)

const (
	// maxSettle is the most results of one settle call.
	maxSettle = 256
	// settleTime is how long results wait for others while many requests are in
	// progress.
	settleTime = 2 * time.Millisecond
)

// result is the result of a worker, for the settler.
type result struct {
	settlement job.Settlement
	leaseEnd   time.Time // by this node's clock; the store's lease ends no earlier
}

// settler stores results in batches, in the order of their arrival.
type settler struct {
	store   Store
	clock   job.Clock
	log     *slog.Logger
	metrics *metrics
	outage  *outage.Outage
	batches *batch.Batcher[*result]
}

// newSettler makes a settler. busy reports that more results will arrive soon. When
// ctx ends, the settler gives up results that it cannot store at once: their jobs
// are due again when their leases expire.
func newSettler(ctx context.Context, d *Dispatcher, maxQueued int, busy func() bool) *settler {
	s := &settler{
		store: d.opts.Store, clock: d.opts.Clock, log: d.opts.Logger, metrics: d.metrics,
		outage: outage.New("settling jobs", d.opts.Clock, d.opts.Logger, d.opts.Random),
	}
	s.batches = batch.New(batch.Options[*result]{
		Workers: 1, MaxCount: maxSettle, MaxQueued: maxQueued, Clock: d.opts.Clock,
		Linger: func(queued int) time.Duration {
			if queued < mostEnough && busy() {
				return settleTime
			}
			return 0
		},
	}, func(_ context.Context, results []*result) { s.settle(ctx, results) })
	return s
}

// settle stores results. It repeats the call while the store is unavailable: the
// fencing tokens usually stay current even after the leases, because nobody can
// claim either. After other errors it settles each result alone until its lease
// expires, so that one refused result does not block the others.
func (s *settler) settle(ctx context.Context, results []*result) {
	settlements := make([]job.Settlement, len(results))
	for i, r := range results {
		settlements[i] = r.settlement
	}
	for {
		settled, err := successors.Settle(ctx, s.store, settlements)
		if err == nil {
			s.outage.Worked()
			s.account(settlements, settled)
			return
		}
		unavailable := errors.Is(err, store.ErrUnavailable)
		if !unavailable && len(results) > 1 {
			for i := range results {
				s.settle(ctx, results[i:i+1])
			}
			return
		}
		expired := !s.clock.Now().Before(results[0].leaseEnd)
		if !unavailable && expired || !s.outage.Rest(ctx, err) {
			s.drop(settlements, err)
			return
		}
	}
}

func (s *settler) drop(settlements []job.Settlement, err error) {
	s.metrics.dropped.Add(float64(len(settlements)))
	s.log.Error("cannot settle outcomes; the jobs will be delivered again",
		"jobs", len(settlements), "first", settlements[0].Key.String(), "error", err)
}

// account counts and logs the store's answers.
func (s *settler) account(settlements []job.Settlement, settled []store.Settled) {
	for i, r := range settled {
		key := settlements[i].Key
		if r.Shed != job.ShedNothing && !r.Repeated {
			s.metrics.shed[r.Shed].Inc()
			s.log.Warn("left out callbacks or parts of them: there is no room", "topic", key.Topic, "id", key.ID,
				"reason", shedReasons[r.Shed], "attempts", settlements[i].Attempts)
		}
		switch {
		case r.Status == store.Stale:
			s.metrics.stale.Inc()
			s.log.Warn("rejected a late outcome: the job's lease had expired", "topic", key.Topic, "id", key.ID)
		case r.Status == store.Missing:
			s.log.Warn("rejected an outcome: the job no longer exists", "topic", key.Topic, "id", key.ID)
		case r.To == job.Dead && !r.Repeated:
			s.log.Warn("a job is dead", "topic", key.Topic, "id", key.ID,
				"reason", r.Reason, "attempts", settlements[i].Attempts)
		}
	}
}
