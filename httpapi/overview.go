package httpapi

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/duehook/duehook/internal/services/recent"
	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
)

// Recent is what the API needs of what was attempted lately. A *recent.Recorder is
// one.
type Recent interface {
	Activity(ctx context.Context, now job.Instant) (recent.Activity, error)
	Health(ctx context.Context) (map[string]recent.Health, error)
}

// The histogram of due jobs: a day by quarter hours. They begin with those of the
// clock, in every time zone.
const (
	dueStep  = 15 * time.Minute
	dueSteps = int(24 * time.Hour / dueStep)
)

// busiestTopics is how many topics an overview names.
const busiestTopics = 10

// overviews keeps the last overview for a while: however many watch, counting
// takes the store a twentieth of its time at most.
type overviews struct {
	counting chan struct{} // holds a token while somebody counts, and guards the rest
	last     *overviewView
	counted  time.Time
	until    time.Time
}

// How long an overview is shown.
const (
	overviewLeast = 250 * time.Millisecond // less than what a watcher of events gathers before it asks
	overviewMost  = time.Minute
	overviewShare = 20 // times as long as it took to count
)

func newOverviews() *overviews { return &overviews{counting: make(chan struct{}, 1)} }

// get gives the last overview, or a new one by count.
func (o *overviews) get(ctx context.Context, clock job.Clock, count func(context.Context) (*overviewView, error)) (overviewView, error) {
	select {
	case o.counting <- struct{}{}:
	case <-ctx.Done():
		return overviewView{}, ctx.Err()
	}
	defer func() { <-o.counting }()
	now := clock.Now()
	if o.last == nil || !now.Before(o.until) {
		view, err := count(ctx)
		if err != nil {
			return overviewView{}, err
		}
		o.last, o.counted = view, clock.Now()
		o.until = o.counted.Add(min(max(overviewShare*o.counted.Sub(now), overviewLeast), overviewMost))
	}
	view := *o.last
	view.AgeMS = max(0, clock.Now().Sub(o.counted).Milliseconds())
	return view, nil
}

// overview answers GET /v1/overview.
func (s *Server) overview(c echo.Context) error {
	view, err := s.overviews.get(c.Request().Context(), s.opts.Clock, s.countOverview)
	if err != nil {
		return err
	}
	return writeJSON(c, http.StatusOK, view)
}

func (s *Server) countOverview(ctx context.Context) (*overviewView, error) {
	depth, err := s.opts.Store.Depth(ctx)
	if err != nil {
		return nil, err
	}
	topics, err := s.opts.Store.Busiest(ctx, busiestTopics)
	if err != nil {
		return nil, err
	}
	agenda := newAgenda(depth.Now)
	counts, err := s.opts.Store.DueCounts(ctx, agenda.bounds)
	if err != nil {
		return nil, err
	}
	activity, err := s.opts.Recent.Activity(ctx, depth.Now)
	if err != nil {
		return nil, err
	}
	view := &overviewView{
		AsOf: instant(depth.Now), States: viewStates(depth.States), InFlight: depth.States[job.Running],
		Dead: depth.States[job.Dead], OpenCircuits: depth.Held, Topics: viewBusiest(topics), Recent: viewActivity(&activity),
	}
	agenda.fill(view, counts)
	view.DueNow += depth.States[job.Ready] // carried, so no longer where jobs wait
	view.DueWithin1h += depth.States[job.Ready]
	if rate, known := activity.SuccessRate(); known {
		view.SuccessRate = &rate
	}
	if ms, known := activity.LateBy(0.99); known {
		view.LatenessP99MS = &ms
	}
	return view, nil
}

// agenda is the ranges by which jobs that wait are counted: those that are due;
// the quarters of an hour of the next day, the first of which has begun; and one
// bound more, at the end of the next hour.
type agenda struct {
	from, hour job.Instant
	bounds     []job.Instant
}

func newAgenda(now job.Instant) agenda {
	a := agenda{from: now - now%job.Instant(dueStep.Milliseconds()), hour: now.Add(time.Hour) + 1}
	a.bounds = []job.Instant{now + 1, a.hour}
	for n := range dueSteps {
		a.bounds = append(a.bounds, a.from.Add(time.Duration(n+1)*dueStep))
	}
	slices.Sort(a.bounds)
	return a
}

func (a *agenda) fill(view *overviewView, due store.DueCounts) {
	counts := due.Counts
	view.Due = dueView{
		From: instant(a.from), StepMS: dueStep.Milliseconds(), Counts: make([]int64, dueSteps), Later: counts[len(a.bounds)],
		PartialFrom: instant(due.PartialFrom),
	}
	view.DueNow = counts[0]
	for n, bound := range a.bounds {
		if bound <= a.hour {
			view.DueWithin1h += counts[n]
		}
		if n > 0 {
			view.Due.Counts[int64(bound-1-a.from)/dueStep.Milliseconds()] += counts[n]
		}
	}
}

// overviewView is everything at a glance.
type overviewView struct {
	AsOf          instant          `json:"as_of"`
	AgeMS         int64            `json:"age_ms"`
	States        map[string]int64 `json:"states"`
	DueNow        int64            `json:"due_now"`
	DueWithin1h   int64            `json:"due_within_1h"`
	InFlight      int64            `json:"in_flight"`
	Dead          int64            `json:"dead"`
	OpenCircuits  int64            `json:"open_circuits"`
	SuccessRate   *float64         `json:"success_rate"`
	LatenessP99MS *int64           `json:"lateness_p99_ms"`
	Due           dueView          `json:"due"`
	Recent        recentView       `json:"recent"`
	Topics        []busyTopicView  `json:"topics"`
}

type dueView struct {
	From        instant `json:"from"`
	StepMS      int64   `json:"step_ms"`
	Counts      []int64 `json:"counts"`
	Later       int64   `json:"later"`
	PartialFrom instant `json:"partial_from"`
}

type recentView struct {
	From      instant      `json:"from"`
	StepMS    int64        `json:"step_ms"`
	Delivered []int64      `json:"delivered"`
	Failed    []int64      `json:"failed"`
	Lateness  latenessView `json:"lateness"`
}

type latenessView struct {
	BoundsMS []int64   `json:"bounds_ms"`
	Counts   [][]int64 `json:"counts"`
}

type busyTopicView struct {
	Topic      string `json:"topic"`
	Unfinished int64  `json:"unfinished"`
}

func viewActivity(a *recent.Activity) recentView {
	return recentView{
		From: instant(a.From), StepMS: recent.Step.Milliseconds(), Delivered: a.Delivered, Failed: a.Failed,
		Lateness: latenessView{BoundsMS: recent.Bounds(), Counts: a.Late},
	}
}

func viewBusiest(topics []store.BusyTopic) []busyTopicView {
	busy := make([]busyTopicView, len(topics))
	for i, t := range topics {
		busy[i] = busyTopicView(t)
	}
	return busy
}
