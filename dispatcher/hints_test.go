package dispatcher

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
)

// narrow is a store that claims few large jobs at a time, and any number of others.
type narrow struct {
	*fakeStore
	large int
	takes time.Duration // for large ones
}

func (s *narrow) Claim(ctx context.Context, shard int, hints []store.Hint, o store.ClaimOptions) ([]store.Claimed, error) {
	var some, left []store.Hint
	large := 0
	for _, h := range hints {
		if strings.HasPrefix(h.ID, "large") {
			large++
		}
		if large > s.large && strings.HasPrefix(h.ID, "large") {
			left = append(left, h)
		} else {
			some = append(some, h)
		}
	}
	if large > 0 && s.takes > 0 {
		if err := job.Sleep(ctx, job.SystemClock(), s.takes); err != nil {
			return nil, err
		}
	}
	claimed, err := s.fakeStore.Claim(ctx, shard, some, o)
	if err == nil && len(left) > 0 {
		o.Left(left)
	}
	return claimed, err
}

func TestJobsThatAClaimLeftAreClaimedNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &narrow{fakeStore: newFakeStore(), large: 2}
		const n = 101
		for i := range n {
			s.add(newJob(fmt.Sprint("large", i), anyURL))
		}
		began := time.Now()
		launch(t, withTransport(t, Options{Store: s}, always(200)))
		for range n {
			if got := next(t, s.settled, "settlement"); got.To != job.Delivered || got.Token != 1 {
				t.Errorf("%+v", got)
			}
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("took %v", took)
		}
	})
}

func TestLargeJobsDoNotKeepOthersWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &narrow{fakeStore: newFakeStore(), large: 1, takes: time.Second}
		for i := range 200 {
			s.add(newJob(fmt.Sprint("large", i), anyURL))
		}
		launch(t, withTransport(t, Options{Store: s}, always(200)))
		pass(t, 10*time.Second+time.Millisecond)
		for range len(s.settled) {
			<-s.settled
		}
		added := time.Now()
		s.add(newJob("small", anyURL))
		for next(t, s.settled, "settlement").Key.ID != "small" {
		}
		if took := time.Since(added); took > 2*time.Second {
			t.Errorf("a small job waited %v for 190 large ones", took)
		}
	})
}

func TestClaimThatTimesOutIsHalved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFakeStore()
		const n, most = 200, 10
		slow := fmt.Errorf("%w: %w", store.ErrUnavailable, os.ErrDeadlineExceeded)
		s.claimHook = func(_ context.Context, _ int, hints []store.Hint) (before, after error) {
			if len(hints) > most {
				return nil, slow // they were claimed
			}
			return nil, nil
		}
		for i := range n {
			s.add(newJob(fmt.Sprint(i), anyURL))
		}
		launch(t, withTransport(t, Options{Store: s}, always(200)))
		for range n {
			if got := next(t, s.settled, "settlement"); got.To != job.Delivered || got.Token != 1 {
				t.Errorf("%+v; the job must have been claimed once", got)
			}
		}
		first := next(t, s.claims, "claim")
		for range len(s.claims) {
			c := <-s.claims
			if len(c.hints) >= len(first.hints) || c.o.Nonce != first.o.Nonce {
				t.Errorf("then %d jobs under the nonce %q, first %d under %q", len(c.hints), c.o.Nonce, len(first.hints), first.o.Nonce)
			}
		}
		s.add(newJob("later", anyURL))
		next(t, s.settled, "settlement")
	})
}
