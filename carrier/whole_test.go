package carrier_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/duehook/duehook/carrier"
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/testing/testenv"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/diskstore"
)

// TestEveryJobIsClaimedOnce runs carriers on a whole store, one of them
// stopping half-way, with a dispatcher that loses hints as a cut connection does.
func TestEveryJobIsClaimedOnce(t *testing.T) {
	for _, carriers := range []int{1, 3} {
		t.Run(fmt.Sprint(carriers), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { claimAll(t, carriers) })
		})
	}
}

func claimAll(t *testing.T, carriers int) {
	const (
		jobs       = 3000
		visibility = 15 * time.Second
		lag        = 40 * time.Millisecond // carrier.Options' default
	)
	s := testenv.Store(t, diskstore.Options{Retention: time.Hour})
	first := run(t, s, visibility)
	synctest.Wait()
	for range carriers - 1 {
		run(t, s, visibility)
	}

	claimed := make(map[job.Key]int)
	d := &dispatcher{store: s, lost: make(map[job.Key]bool)}
	d.claimed = func(c store.Claimed) {
		claimed[c.Job.Key]++
		late, allowed := c.Now.Sub(c.Job.DueAt), lag
		if d.lost[c.Job.Key] {
			allowed += visibility + lag
		}
		if late < 0 || late > allowed {
			t.Errorf("%v was claimed %v after it was due, allowed %v", c.Job.Key, late, allowed)
		}
	}
	stop := d.start(t)

	for i := range jobs {
		registerJob(t, s, i)
		if i%100 == 0 {
			_ = job.Sleep(t.Context(), job.SystemClock(), 100*time.Millisecond)
		}
		if i == jobs/2 && carriers > 1 {
			first()
		}
	}
	_ = job.Sleep(t.Context(), job.SystemClock(), 2*time.Minute)
	stop()
	if len(claimed) != jobs {
		t.Errorf("%d of %d jobs were claimed", len(claimed), jobs)
	}
	for key, n := range claimed {
		if n != 1 {
			t.Errorf("%v was claimed %d times", key, n)
		}
	}
	if len(d.lost) == 0 {
		t.Error("no hint was lost: the test shows nothing")
	}
}

// run runs a carrier; the function returned stops it.
func run(t *testing.T, s store.Store, visibility time.Duration) func() {
	t.Helper()
	c, err := carrier.New(carrier.Options{Store: s, CarryOptions: store.CarryOptions{Visibility: visibility, Cap: 5000}})
	if err != nil {
		t.Fatal(err)
	}
	return inBackground(t, func(ctx context.Context) {
		if err := c.Run(ctx); err != nil {
			t.Error(err)
		}
	})
}

// inBackground runs f; the function returned, which is called at the test's
// end too, ends its context and waits for it.
func inBackground(t *testing.T, f func(context.Context)) func() {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		f(ctx)
	}()
	stop := sync.OnceFunc(func() {
		cancel()
		<-done
	})
	t.Cleanup(stop)
	return stop
}

// dispatcher claims and settles every job, and loses one hint in ten.
type dispatcher struct {
	store   store.Store
	lost    map[job.Key]bool
	claimed func(store.Claimed)
}

func (d *dispatcher) start(t *testing.T) func() {
	return inBackground(t, func(ctx context.Context) {
		for n := 0; ctx.Err() == nil; n++ {
			hints, err := d.store.Pop(ctx, 0, 100, time.Second)
			if err != nil && ctx.Err() == nil {
				t.Error(err)
			}
			if err := d.deliver(ctx, hints, fmt.Sprint(n)); err != nil && ctx.Err() == nil {
				t.Error(err)
			}
		}
	})
}

func (d *dispatcher) deliver(ctx context.Context, hints []store.Hint, nonce string) error {
	var kept []store.Hint
	for _, h := range hints {
		if !d.lost[h.Key()] && rand.IntN(10) == 0 {
			d.lost[h.Key()] = true
			continue
		}
		kept = append(kept, h)
	}
	claims, err := d.store.Claim(ctx, 0, kept, store.ClaimOptions{Nonce: nonce, Lease: 20 * time.Second})
	if err != nil {
		return err
	}
	var settlements []job.Settlement
	for _, c := range claims {
		d.claimed(c)
		settlements = append(settlements, job.Settle(&c.Job, job.Outcome{Kind: job.OutcomeDelivered}, nil))
	}
	_, err = d.store.Settle(ctx, settlements)
	return err
}

func registerJob(t *testing.T, s store.Store, i int) {
	t.Helper()
	_, err := s.Register(t.Context(), []store.Registration{{
		Key: job.Key{Topic: "orders", ID: fmt.Sprint(i)},
		UID: fmt.Sprintf("%026d", i),
		Spec: job.Spec{
			Destination: job.Destination(fmt.Sprintf("https://shop-%d.example/hook", i%20)),
			When:        job.When{Delay: time.Duration(rand.IntN(10_000)) * time.Millisecond},
		},
	}})
	if err != nil {
		t.Fatal(err)
	}
}
