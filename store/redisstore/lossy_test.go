package redisstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/testing/testenv"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/storetest"
)

// TestRaceLostReplies cuts the connection in place of one reply in five, so that
// no caller knows what was carried out: scripts are sent again, hints that
// were popped are gone. Every job must still fail once and then be delivered
// once, by the book.
func TestRaceLostReplies(t *testing.T) {
	const jobs = 200
	r := testenv.StartRedis(t)
	p := testenv.StartProxy(t, r.Addr())
	sure := open(t, r.URL(), storetest.Options{Retention: time.Hour})
	defer sure.Close()
	lossy, err := prepare(Options{
		URL: "redis://" + p.Addr(), Namespace: fmt.Sprintf("test%d", namespaces.Load()), Retention: time.Hour,
	}, true)
	ok(t, "prepare", err)
	defer lossy.Close()
	// At random: every fifth once met the pop of the last hint in each of 200 rounds of
	// five requests.
	p.DropReplies(func(request []byte) bool {
		worth := bytes.Contains(request, []byte("evalsha")) || bytes.Contains(request, []byte("pop"))
		return worth && rand.IntN(5) == 0
	})

	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for i := range jobs {
		reg := store.Registration{
			Key: job.Key{Topic: "t", ID: fmt.Sprint(i)}, UID: ulid.Make().String(),
			Spec: job.Spec{Destination: job.Destination(fmt.Sprintf("http://host%d.example/", i%3)), BizKey: "b"},
		}
		insist(ctx, t, func() error {
			out, err := lossy.Register(ctx, []store.Registration{reg})
			if err == nil && out[0].Outcome != store.Created {
				t.Errorf("%s: outcome %d", reg.Key, out[0].Outcome)
			}
			return err
		})
	}

	var applied sync.Map // "key attempt" -> true
	var delivered atomic.Int64
	done, finish := context.WithCancel(ctx)
	defer finish()
	var wg sync.WaitGroup
	wg.Go(func() {
		for done.Err() == nil {
			_, _ = lossy.Carry(done, 0, store.CarryOptions{Cap: 50, Visibility: 300 * time.Millisecond, FlightLimits: store.FlightLimits{EndpointLimit: 40, HalfOpenLimit: 1}})
		}
	})
	for range 3 {
		wg.Go(func() {
			for done.Err() == nil {
				hints, err := lossy.Pop(done, 0, 10, 100*time.Millisecond)
				if err != nil || len(hints) == 0 {
					continue
				}
				o := store.ClaimOptions{Nonce: ulid.Make().String(), Lease: 20 * time.Second, LeaseMargin: time.Second}
				var claims []store.Claimed
				insist(ctx, t, func() (err error) {
					claims, err = lossy.Claim(ctx, 0, hints, o)
					return err
				})
				for i := range claims {
					c := &claims[i].Job
					number := c.Attempts + 1
					out := job.Outcome{Kind: job.OutcomeFailed, Attempt: &job.Attempt{Number: number}}
					if number == 2 {
						out.Kind = job.OutcomeDelivered
					}
					s := job.Settle(c, out, func(int) (time.Duration, bool) { return time.Millisecond, true })
					insist(ctx, t, func() error {
						settled, err := lossy.Settle(ctx, []job.Settlement{s})
						// Stale: it was applied, and before it was sent again the retry was claimed.
						outrun := err == nil && number == 1 && settled[0].Status == store.Stale
						if err == nil && settled[0].Status != store.Applied && !outrun {
							t.Errorf("%s: settling attempt %d: status %d", c.Key, number, settled[0].Status)
						}
						return err
					})
					if _, again := applied.LoadOrStore(fmt.Sprint(c.Key, number), true); again {
						t.Errorf("%s: attempt %d was settled twice", c.Key, number)
					}
					if number == 2 && delivered.Add(1) == jobs {
						finish()
					}
				}
			}
		})
	}
	wg.Wait()
	if p.Dropped() < 50 {
		t.Errorf("only %d replies were dropped", p.Dropped())
	}

	for i := range jobs {
		key := job.Key{Topic: "t", ID: fmt.Sprint(i)}
		j, err := sure.Get(t.Context(), key)
		ok(t, "Get", err)
		log, err := store.Attempts(t.Context(), sure, key)
		ok(t, "Attempts", err)
		if j.State != job.Delivered || j.Attempts != 2 || j.ExpiredLeases != 0 || len(log) != 2 {
			t.Errorf("%s is %s after %d attempts, %d expired leases, %d in its log", key, j.State, j.Attempts, j.ExpiredLeases, len(log))
		}
	}
	stats := topicStats(t, sure)
	if len(stats.States) != 1 || stats.States[job.Delivered] != jobs {
		t.Errorf("counts: %v", stats.States)
	}
}

// insist calls again while the store says that trying again is right.
func insist(ctx context.Context, t *testing.T, call func() error) {
	t.Helper()
	for {
		err := call()
		if err == nil {
			return
		}
		if !errors.Is(err, store.ErrUnavailable) || ctx.Err() != nil {
			t.Error(err)
			return
		}
	}
}
