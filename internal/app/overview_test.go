package app

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/testing/testenv"
	"github.com/duehook/duehook/store"
)

// Each job that waits is counted once, wherever in the quarter of an hour it is.
func TestAgenda(t *testing.T) {
	for _, now := range []job.Instant{0, 1, 899_999, 900_000, 900_001, 1_800_000_000_123} {
		a := newAgenda(now)
		counts := make([]int64, len(a.bounds)+1)
		for i := range counts {
			counts[i] = 1
		}
		var view Overview
		a.fill(&view, store.DueCounts{Counts: counts})
		total := view.DueNow + view.DueLater
		for _, n := range view.Due {
			if n == 0 {
				t.Errorf("at %d: a quarter is not counted", now)
			}
			total += n
		}
		if total != int64(len(counts)) || view.DueNow != 1 || view.DueLater != 1 || view.DueWithinHour < 5 || view.DueWithinHour > 7 {
			t.Errorf("at %d: %d of %d counted, %d now, %d within the hour", now, total, len(counts), view.DueNow, view.DueWithinHour)
		}
	}
}

// slowStore lets the clock go on while it counts.
type slowStore struct {
	Store
	clock *testenv.Clock
	takes time.Duration
	fail  error
	n     atomic.Int64
}

func (s *slowStore) Figures(ctx context.Context, q store.FigureQuery) (store.Figures, error) {
	if q.Depth {
		if s.fail != nil {
			return store.Figures{}, s.fail
		}
		s.n.Add(1)
		s.clock.Advance(s.takes)
	}
	return s.Store.Figures(ctx, q)
}

// However often clients ask, counting takes the store a part of its time.
func TestOverviewIsShownForAWhile(t *testing.T) {
	slow := &slowStore{}
	r := newRig(t, func(o *Options) {
		slow.Store, slow.clock = o.Store, o.Clock.(*testenv.Clock)
		o.Store = slow
	})
	ask := func(wantAge time.Duration, wantCounted int64) {
		t.Helper()
		if o, err := r.Overview(t.Context()); err != nil || o.Age != wantAge || slow.n.Load() != wantCounted {
			t.Errorf("an age of %v after %d counts, want %v after %d; %v", o.Age, slow.n.Load(), wantAge, wantCounted, err)
		}
	}
	ask(0, 1)
	r.clock.Advance(overviewLeast - 1)
	ask(overviewLeast-1, 1)
	slow.takes = time.Second
	r.clock.Advance(1)
	ask(0, 2)
	r.clock.Advance(19 * time.Second)
	ask(19*time.Second, 2)
	slow.takes = time.Hour
	r.clock.Advance(time.Second)
	ask(0, 3)
	r.clock.Advance(overviewMost)
	ask(0, 4)

	// A failed count is not kept, and a caller that is gone does not wait.
	r.clock.Advance(overviewMost)
	slow.fail = store.ErrUnavailable
	if _, err := r.Overview(t.Context()); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("error %v", err)
	}
	slow.fail = nil
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r.overviews.counting <- struct{}{}
	if _, err := r.Overview(ctx); err == nil {
		t.Error("a caller that is gone gets an overview")
	}
	<-r.overviews.counting
	ask(0, 5)
}
