package v1

import (
	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/retrypolicy"
	"github.com/duehook/duehook/scheduler/explain"
)

// explainJob answers GET /v1/jobs/{topic}/{id}/explain.
func (s *API) explainJob(r *request) (view, error) {
	e, err := s.Scheduler.Explain(r.Context(), r.key())
	return func(w *writer) {
		w.instant("now", e.Now)
		list(w, "reasons", e.Reasons, writeReason)
		list(w, "notes", e.Notes, writeNote)
		w.instant("expected_at", e.Expected)
		writeLadder(w, &e.Forecast, e.Expires)
		part(w, "job", &e.Job, s.writeJob)
	}, err
}

// planJob answers POST /v1/jobs/plan: what would come of a registration.
func (s *API) planJob(r *request) (view, error) {
	draft, errs, from, err := s.readDraft(r)
	if err != nil {
		return nil, err
	}
	reg, err := s.prepare(draft, errs, from)
	if err != nil {
		return nil, err
	}
	plan, err := s.Scheduler.Plan(r.Context(), reg)
	return func(w *writer) {
		w.instant("now", plan.Now)
		w.instant("due_at", plan.Due)
		w.integer("max_attempts", plan.MaxAttempts)
		writeLadder(w, &plan.Forecast, plan.Expires)
		w.in("others_due", func() { // jobs for the same endpoint
			w.number("same_second", plan.SameSecond)
			w.number("same_minute", plan.SameMinute)
		})
	}, err
}

func writeReason(w *writer, r *explain.Reason) {
	w.text("code", r.Code)
	w.text("detail", r.Detail())
	list(w, "sentences", r.Sentences, writeSentence)
	w.instant("until", r.Until)
	w.textOrNull("node", r.Node)
}

// writeSentence writes a sentence of a detail, for those who word it in another language.
func writeSentence(w *writer, s *explain.Sentence) {
	params := s.Params
	if params == nil {
		params = explain.Params{}
	}
	w.text("code", s.Code)
	w.member("params", params)
}

// writeNote writes a sentence about the job with its text.
func writeNote(w *writer, s *explain.Sentence) {
	writeSentence(w, s)
	w.text("detail", s.String())
}

// writeLadder writes the forecast of a job whose attempts all fail.
func writeLadder(w *writer, f *retrypolicy.Forecast, expires job.Instant) {
	w.in("ladder", func() {
		list(w, "attempts", f.Attempts, func(w *writer, a *retrypolicy.Planned) {
			w.integer("number", a.Number)
			writeWindow(w, &a.Window)
		})
		part(w, "dead_at", f.Dead, writeWindow)
		w.instant("expires_at", expires)
	})
}

func writeWindow(w *writer, of *retrypolicy.Window) {
	w.instant("earliest_at", of.Earliest)
	w.instant("latest_at", of.Latest)
}
