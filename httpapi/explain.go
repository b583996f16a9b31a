package httpapi

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/retrypolicy"
	"github.com/duehook/duehook/scheduler/explain"
)

// explainJob answers GET /v1/jobs/{topic}/{id}/explain.
func (s *Server) explainJob(c echo.Context) error {
	key, err := pathKey(c)
	if err != nil {
		return err
	}
	e, err := s.opts.Scheduler.Explain(c.Request().Context(), key)
	if err != nil {
		return err
	}
	view := explanationView{
		Now:        instant(e.Now),
		Job:        s.viewJob(&e.Job),
		Reasons:    make([]reasonView, len(e.Reasons)),
		ExpectedAt: instant(e.Expected),
		Ladder:     viewLadder(&e.Forecast, e.Expires),
	}
	for i := range e.Reasons {
		view.Reasons[i] = viewReason(&e.Reasons[i])
	}
	return writeJSON(c, http.StatusOK, view)
}

// planJob answers POST /v1/jobs/plan: what would come of a registration.
func (s *Server) planJob(c echo.Context) error {
	reg, err := s.readRegistration(c)
	if err != nil {
		return err
	}
	plan, err := s.opts.Scheduler.Plan(c.Request().Context(), reg)
	if err != nil {
		return err
	}
	return writeJSON(c, http.StatusOK, planView{
		Now: instant(plan.Now), DueAt: instant(plan.Due), MaxAttempts: plan.MaxAttempts, Ladder: viewLadder(&plan.Forecast, plan.Expires),
	})
}

// explanationView is why a job has not run, and what follows.
type explanationView struct {
	Now        instant      `json:"now"`
	Reasons    []reasonView `json:"reasons"`
	ExpectedAt instant      `json:"expected_at"`
	Ladder     ladderView   `json:"ladder"`
	Job        jobView      `json:"job"`
}

type reasonView struct {
	Code      string         `json:"code"`
	Detail    string         `json:"detail"`
	Sentences []sentenceView `json:"sentences"`
	Until     instant        `json:"until"`
	Node      *string        `json:"node"`
}

// sentenceView is a sentence of a reason's detail, for those who word it in
// another language.
type sentenceView struct {
	Code   string         `json:"code"`
	Params explain.Params `json:"params"`
}

func viewReason(r *explain.Reason) reasonView {
	v := reasonView{Code: r.Code, Detail: r.Detail(), Until: instant(r.Until), Node: orNull(&r.Node)}
	for _, s := range r.Sentences {
		params := s.Params
		if params == nil {
			params = explain.Params{}
		}
		v.Sentences = append(v.Sentences, sentenceView{s.Code, params})
	}
	return v
}

type planView struct {
	Now         instant    `json:"now"`
	DueAt       instant    `json:"due_at"`
	MaxAttempts int        `json:"max_attempts"`
	Ladder      ladderView `json:"ladder"`
}

// ladderView is what comes of a job whose attempts all fail.
type ladderView struct {
	Attempts  []plannedView `json:"attempts"`
	DeadAt    *windowView   `json:"dead_at"`
	ExpiresAt instant       `json:"expires_at"`
}

type windowView struct {
	EarliestAt instant `json:"earliest_at"`
	LatestAt   instant `json:"latest_at"`
}

type plannedView struct {
	Number int `json:"number"`
	windowView
}

func viewLadder(f *retrypolicy.Forecast, expires job.Instant) ladderView {
	v := ladderView{Attempts: make([]plannedView, len(f.Attempts)), ExpiresAt: instant(expires)}
	for i, a := range f.Attempts {
		v.Attempts[i] = plannedView{a.Number, viewWindow(a.Window)}
	}
	if f.Dead != nil {
		dead := viewWindow(*f.Dead)
		v.DeadAt = &dead
	}
	return v
}

func viewWindow(w retrypolicy.Window) windowView {
	return windowView{instant(w.Earliest), instant(w.Latest)}
}
