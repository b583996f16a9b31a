package ledger_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/duehook/duehook/internal/testing/testenv"
	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
)

// outageLimit bounds the waits of a test for something that comes soon.
const outageLimit = time.Minute

// workerPause keeps the rows of an outage within what a node keeps of them.
const workerPause = 20 * time.Millisecond

// worker registers and delivers jobs on one node, and counts what it did.
type worker struct {
	r                            *rig
	registered, refused, settled atomic.Int64
}

func (w *worker) run(ctx context.Context, n int) {
	random := rand.New(rand.NewPCG(uint64(n), 0))
	for i := 0; ctx.Err() == nil; {
		g := reg(fmt.Sprintf("w%d-%d", n, i), 0)
		g.UID = uid(random)
		_, err := w.r.Register(ctx, []store.Registration{g})
		switch {
		case err == nil:
			w.registered.Add(1)
			i++
		case errors.Is(err, store.ErrUnavailable):
			w.refused.Add(1) // as a client, it comes again with the same id
		case ctx.Err() == nil:
			w.r.T.Errorf("Register: %v", err)
		}
		w.deliver(ctx, random)
		_ = job.Sleep(ctx, job.SystemClock(), workerPause)
	}
}

// deliver takes a few jobs; some fail, so that there are always some to do.
func (w *worker) deliver(ctx context.Context, random *rand.Rand) {
	ctx = context.WithoutCancel(ctx)
	var settlements []job.Settlement
	for _, c := range w.r.takeAny(ctx) {
		kind := job.OutcomeFailed
		if random.IntN(20) == 0 {
			kind = job.OutcomeDelivered
		}
		settlements = append(settlements, settlement(c, kind, 5*workerPause))
	}
	if _, err := w.r.Settle(ctx, settlements); err != nil {
		w.r.T.Errorf("Settle: %v", err)
	}
	w.settled.Add(int64(len(settlements)))
}

// more waits until a count has grown by n.
func more(t *testing.T, what string, count *atomic.Int64, n int64) {
	t.Helper()
	from := count.Load()
	testenv.Eventually(t, outageLimit, func() bool { return count.Load() >= from+n }, what)
}

// While the ledger's server is away, registrations are refused, and deliveries go on. When
// it is back, the ledger catches up.
func TestRaceServerIsKilled(t *testing.T) {
	t.Parallel()
	redis := testenv.StartRedis(t)
	for _, b := range servers {
		t.Run(b.Name, func(t *testing.T) {
			server, err := b.Start(true)
			noError(t, "start the server", err)
			defer func() { noError(t, "Close", server.Close()) }()
			url, namespace := b.FreshOn(t, server), newName()
			var workers []*worker
			ctx, stop := context.WithCancel(t.Context())
			var wg sync.WaitGroup
			for n := range 2 {
				w := &worker{r: node(t, b, redis.URL(), namespace, url)}
				makeWhole(t, w.r.o.Store)
				workers = append(workers, w)
				for c := range 2 {
					wg.Go(func() { w.run(ctx, 2*n+c) })
				}
			}
			for range 2 {
				for _, w := range workers {
					more(t, "registrations", &w.registered, 20)
				}
				noError(t, "Kill", server.Kill())
				for _, w := range workers {
					more(t, "refusals", &w.refused, 2)
					more(t, "deliveries without the server", &w.settled, 20)
				}
				noError(t, "Start", server.Start())
			}
			for _, w := range workers {
				more(t, "registrations", &w.registered, 20)
			}
			stop()
			wg.Wait()
			for _, w := range workers {
				noError(t, "Flush", w.r.Flush())
			}
			equal(t, "jobs of which the ledger lacks something", workers[0].r.catchUp(), 0)
			// A commit without an answer may leave the times of a registration as
			// they were guessed before the store gave them.
			workers[0].r.agree(cmpopts.IgnoreFields(ledgered{}, "Created", "Due"))
			for _, w := range workers {
				noError(t, "Close", w.r.Close())
			}
		})
	}
}
