package dispatcher

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/kit/batch"
	"github.com/duehook/duehook/internal/kit/loops"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/successors"
)

const (
	// maxSettle is the most results of one settle call.
	maxSettle = 256
	// settleTime is how long results wait for others while many requests are in
	// progress.
	settleTime = 2 * time.Millisecond
	// settleTries bounds the tries of a result that the store refuses: less than a second.
	settleTries = 5
)

// settler stores results in batches, in the order of their arrival.
type settler struct {
	store   Store
	log     *slog.Logger
	metrics *metrics
	outage  *loops.Outage
	batches *batch.Batcher[*job.Settlement]
}

// newSettler makes a settler. busy reports that more results will arrive soon. When
// ctx ends, the settler gives up results that it cannot store at once: their jobs
// are due again when their leases expire.
func newSettler(ctx context.Context, d *Dispatcher, maxQueued int, busy func() bool) *settler {
	s := &settler{
		store: d.opts.Store, log: d.opts.Logger, metrics: d.metrics,
		outage: loops.NewOutage("settling jobs", d.opts.Clock, d.opts.Logger, d.opts.Random),
	}
	s.batches = batch.New(batch.Options[*job.Settlement]{
		Workers: 1, MaxCount: maxSettle, MaxQueued: maxQueued, Clock: d.opts.Clock,
		Linger: func(queued int) time.Duration {
			if queued < mostEnough && busy() {
				return settleTime
			}
			return 0
		},
	}, func(_ context.Context, results []*job.Settlement) { s.settle(ctx, results) })
	return s
}

// settle stores results. It repeats the call while the store is unavailable: the
// fencing tokens usually stay current even after the leases, because nobody can
// claim either. After other errors it settles each result alone and gives it up after
// a few tries, so that one refused result does not block the others.
func (s *settler) settle(ctx context.Context, results []*job.Settlement) {
	settlements := make([]job.Settlement, len(results))
	for i, r := range results {
		settlements[i] = *r
	}
	for try := 1; ; try++ {
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
		if !unavailable && try == settleTries || !s.outage.Rest(ctx, err) {
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
