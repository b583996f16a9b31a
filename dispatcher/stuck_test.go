package dispatcher

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
)

// unclaimable is a store whose claims do not come in time while it is slow.
type unclaimable struct {
	*fakeStore
	slow atomic.Bool
}

func (s *unclaimable) Claim(ctx context.Context, shard int, hints []store.Hint, o store.ClaimOptions) ([]store.Claimed, error) {
	if s.slow.Load() {
		return nil, fmt.Errorf("%w: i/o timeout", store.ErrUnavailable)
	}
	return s.fakeStore.Claim(ctx, shard, hints, o)
}

func TestStuckWhileClaimsFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &unclaimable{fakeStore: newFakeStore()}
		d := withTransport(t, Options{Store: s}, always(200))
		stuck := func(want, when string) {
			t.Helper()
			if got := d.Stuck(); got != want {
				t.Errorf("%s: %q, want %q", when, got, want)
			}
		}
		sleep := func(of time.Duration) { _ = job.Sleep(t.Context(), job.SystemClock(), of) }
		stuck("", "before it runs")
		launch(t, d)
		sleep(time.Minute)
		stuck("", "without jobs")
		s.slow.Store(true)
		s.add(newJob("a", anyURL))
		sleep(stuckAfter - time.Second)
		stuck("", "when claims have failed for less than the limit")
		sleep(2 * time.Second)
		stuck("taking jobs", "when they have for longer")
		s.slow.Store(false)
		next(t, s.settled, "settlement")
		stuck("", "after a success")
	})
}
