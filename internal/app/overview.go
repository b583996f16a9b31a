package app

import (
	"context"
	"slices"
	"time"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/services/recent"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/listing"
)

const (
	// DueStep is the width of the bars of Overview.Due. They cover a day, from a
	// full quarter of an hour in every time zone.
	DueStep  = 15 * time.Minute
	dueSteps = int(24 * time.Hour / DueStep)
	// busiestTopics is how many topics an overview names.
	busiestTopics = 10
)

// Overview is everything at a glance.
type Overview struct {
	Depth store.Depth
	Age   time.Duration // of these figures
	// DueNow and DueWithinHour count unfinished jobs; ready ones are due.
	DueNow, DueWithinHour int64
	// Due counts waiting jobs by when they are due, in steps from DueFrom on;
	// DueLater are those after the last step. DuePartialFrom is as in store.DueCounts.
	DueFrom, DuePartialFrom job.Instant
	Due                     []int64
	DueLater                int64
	Busiest                 []store.TopicStats
	Activity                recent.Activity
}

// overviews keeps the last overview for a while: however many clients watch,
// counting takes the store a twentieth of its time at most.
type overviews struct {
	counting chan struct{} // holds a token while a caller counts; guards the rest
	last     *Overview
	counted  time.Time
	until    time.Time
}

// How long an overview is shown.
const (
	overviewLeast = 250 * time.Millisecond // less than what a watcher of events gathers before it asks
	overviewMost  = time.Minute
	overviewShare = 20 // times as long as counting took
)

func newOverviews() *overviews { return &overviews{counting: make(chan struct{}, 1)} }

// get returns the last overview, or a new one by count.
func (o *overviews) get(ctx context.Context, clock job.Clock, count func(context.Context) (*Overview, error)) (Overview, error) {
	select {
	case o.counting <- struct{}{}:
	case <-ctx.Done():
		return Overview{}, ctx.Err()
	}
	defer func() { <-o.counting }()
	now := clock.Now()
	if o.last == nil || !now.Before(o.until) {
		counted, err := count(ctx)
		if err != nil {
			return Overview{}, err
		}
		o.last, o.counted = counted, clock.Now()
		o.until = o.counted.Add(min(max(overviewShare*o.counted.Sub(now), overviewLeast), overviewMost))
	}
	view := *o.last
	view.Age = max(0, clock.Now().Sub(o.counted))
	return view, nil
}

// Overview returns the figures of the store and of recent attempts, which may be up
// to a minute old.
func (s *App) Overview(ctx context.Context) (Overview, error) {
	return s.overviews.get(ctx, s.o.Pace, s.countOverview)
}

func (s *App) countOverview(ctx context.Context) (*Overview, error) {
	var o Overview
	var err error
	if o.Depth, err = listing.Depth(ctx, s.o.Store); err != nil {
		return nil, err
	}
	busiest, err := listing.Topics(ctx, s.o.Store, store.TopicQuery{Busiest: true, Limit: busiestTopics})
	if err != nil {
		return nil, err
	}
	o.Busiest = busiest.Topics
	agenda := newAgenda(o.Depth.Now)
	counts, err := listing.DueCounts(ctx, s.o.Store, store.DueOf{}, agenda.bounds)
	if err != nil {
		return nil, err
	}
	if o.Activity, err = s.o.Recent.Activity(ctx, o.Depth.Now); err != nil {
		return nil, err
	}
	agenda.fill(&o, counts)
	o.DueNow += o.Depth.States[job.Ready]
	o.DueWithinHour += o.Depth.States[job.Ready]
	return &o, nil
}

// agenda is the ranges by which waiting jobs are counted: due ones; the quarters of
// an hour of the next day, the first of which has begun; and one more bound at the
// end of the next hour.
type agenda struct {
	from, hour job.Instant
	bounds     []job.Instant
}

func newAgenda(now job.Instant) agenda {
	a := agenda{from: now - now%job.Instant(DueStep.Milliseconds()), hour: now.Add(time.Hour) + 1}
	a.bounds = []job.Instant{now + 1, a.hour}
	for n := range dueSteps {
		a.bounds = append(a.bounds, a.from.Add(time.Duration(n+1)*DueStep))
	}
	slices.Sort(a.bounds)
	return a
}

func (a *agenda) fill(o *Overview, due store.DueCounts) {
	counts := due.Counts
	o.DueFrom, o.DuePartialFrom, o.Due, o.DueLater = a.from, due.PartialFrom, make([]int64, dueSteps), counts[len(a.bounds)]
	o.DueNow = counts[0]
	for n, bound := range a.bounds {
		if bound <= a.hour {
			o.DueWithinHour += counts[n]
		}
		if n > 0 {
			o.Due[int64(bound-1-a.from)/DueStep.Milliseconds()] += counts[n]
		}
	}
}
