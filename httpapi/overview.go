package httpapi

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/duehook/duehook/internal/services/recent"
	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/scheduler"
	"github.com/duehook/duehook/store"
)

// overview answers GET /v1/overview.
func (s *Server) overview(c echo.Context) error {
	o, err := s.opts.Scheduler.Overview(c.Request().Context())
	if err != nil {
		return err
	}
	states := o.Depth.States
	view := overviewView{
		AsOf: instant(o.Depth.Now), AgeMS: o.Age.Milliseconds(), States: viewStates(states),
		DueNow: o.DueNow, DueWithin1h: o.DueWithinHour, InFlight: states[job.Running], Dead: states[job.Dead],
		OpenCircuits: o.Depth.Held, Topics: viewBusiest(o.Busiest), Recent: viewActivity(&o.Activity),
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
	return writeJSON(c, http.StatusOK, view)
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
