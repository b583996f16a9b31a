package v1

import (
	"github.com/duehook/duehook/internal/services/herds"
	"github.com/duehook/duehook/internal/services/recent"
	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/scheduler"
	"github.com/duehook/duehook/store"
)

// overview answers GET /v1/overview.
func (s *API) overview(r *request) (any, error) {
	o, err := s.Scheduler.Overview(r.Context())
	if err != nil {
		return nil, err
	}
	states := o.Depth.States
	view := overviewView{
		AsOf: instant(o.Depth.Now), AgeMS: o.Age.Milliseconds(), States: viewStates(states),
		DueNow: o.DueNow, DueWithin1h: o.DueWithinHour, InFlight: states[job.Running], Dead: states[job.Dead],
		OpenCircuits: o.Depth.OpenCircuits, Topics: viewBusiest(o.Busiest), Recent: viewActivity(&o.Activity), Herds: each(o.Herds, viewHerd),
		Due: dueView{
			From: instant(o.DueFrom), StepMS: scheduler.DueStep.Milliseconds(), Counts: o.Due, Later: o.DueLater,
			PartialFrom: instant(o.DuePartialFrom),
		},
	}
	if rate, known := o.Activity.SuccessRate(); known {
		view.SuccessRate = &rate
	}
	if ms, known := o.Activity.LateBy(0.99); known {
		view.LatenessP99MS = &ms
	}
	return view, nil
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
	Herds         []herdView       `json:"herds"`
}

// herdView is a minute with many jobs; Topic is null for all topics.
type herdView struct {
	At    instant `json:"at"`
	Topic *string `json:"topic"`
	Jobs  int64   `json:"jobs"`
	Limit int64   `json:"limit"`
}

func viewHerd(h *herds.Herd) herdView {
	return herdView{At: instant(h.At), Topic: orNull(&h.Topic), Jobs: h.Jobs, Limit: h.Limit}
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

func viewBusiest(topics []store.TopicStats) []busyTopicView {
	busy := make([]busyTopicView, len(topics))
	for i, t := range topics {
		busy[i] = busyTopicView{Topic: t.Topic, Unfinished: t.Unfinished()}
	}
	return busy
}
