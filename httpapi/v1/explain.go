package v1

import (
	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/retrypolicy"
	"github.com/duehook/duehook/scheduler/explain"
)

// explainJob answers GET /v1/jobs/{topic}/{id}/explain.
func (s *API) explainJob(r *request) (any, error) {
	e, err := s.Scheduler.Explain(r.Context(), r.key())
	if err != nil {
		return nil, err
	}
	return explanationView{
		Now: instant(e.Now), Job: s.viewJob(&e.Job), Reasons: each(e.Reasons, viewReason), Notes: each(e.Notes, viewNote),
		ExpectedAt: instant(e.Expected), Ladder: viewLadder(&e.Forecast, e.Expires),
	}, nil
}

// planJob answers POST /v1/jobs/plan: what would come of a registration.
func (s *API) planJob(r *request) (any, error) {
	draft, errs, from, err := s.readDraft(r)
	if err != nil {
		return nil, err
	}
	reg, err := s.prepare(draft, errs, from)
	if err != nil {
		return nil, err
	}
	plan, err := s.Scheduler.Plan(r.Context(), reg)
	if err != nil {
		return nil, err
	}
	return planView{
		OthersDue: othersDueView{plan.SameSecond, plan.SameMinute},
		Now:       instant(plan.Now), DueAt: instant(plan.Due), MaxAttempts: plan.MaxAttempts, Ladder: viewLadder(&plan.Forecast, plan.Expires),
	}, nil
}

// explanationView is why a job has not run, and what follows.
type explanationView struct {
	Now        instant      `json:"now"`
	Reasons    []reasonView `json:"reasons"`
	Notes      []noteView   `json:"notes"`
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

// noteView is a sentence about the job with its text.
type noteView struct {
	sentenceView
	Detail string `json:"detail"`
}

func viewReason(r *explain.Reason) reasonView {
	return reasonView{
		Code: r.Code, Detail: r.Detail(), Sentences: each(r.Sentences, viewSentence), Until: instant(r.Until), Node: orNull(&r.Node),
	}
}

func viewSentence(s *explain.Sentence) sentenceView {
	params := s.Params
	if params == nil {
		params = explain.Params{}
	}
	return sentenceView{s.Code, params}
}

func viewNote(s *explain.Sentence) noteView { return noteView{viewSentence(s), s.String()} }

type planView struct {
	Now         instant    `json:"now"`
	DueAt       instant    `json:"due_at"`
	MaxAttempts int        `json:"max_attempts"`
	Ladder      ladderView `json:"ladder"`
	// OthersDue are jobs for the same endpoint.
	OthersDue othersDueView `json:"others_due"`
}

type othersDueView struct {
	SameSecond int64 `json:"same_second"`
	SameMinute int64 `json:"same_minute"`
}

// ladderView is the forecast of a job whose attempts all fail.
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
