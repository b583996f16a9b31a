package v1

import (
	"github.com/duehook/duehook/internal/app/explain"
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/kit/jsonio"
	"github.com/duehook/duehook/retrypolicy"
)

// explainJob answers GET /v1/jobs/{topic}/{id}/explain.
func (s *API) explainJob(r *request) (jsonio.View, error) {
	e, err := s.App.Explain(r.Context(), r.key())
	return func(w *jsonio.Writer) {
		w.Instant("now", e.Now)
		jsonio.List(w, "reasons", e.Reasons, writeReason)
		jsonio.List(w, "notes", e.Notes, writeNote)
		w.Instant("expected_at", e.Expected)
		writeLadder(w, &e.Forecast, e.Expires)
		jsonio.Part(w, "job", &e.Job, s.writeDetails)
	}, err
}

// planJob answers POST /v1/jobs/plan: what would come of a registration.
func (s *API) planJob(r *request) (jsonio.View, error) {
	draft, errs, from, err := s.readDraft(r)
	if err != nil {
		return nil, err
	}
	reg, err := s.prepare(draft, errs, from)
	if err != nil {
		return nil, err
	}
	plan, err := s.App.Plan(r.Context(), reg)
	return func(w *jsonio.Writer) {
		w.Instant("now", plan.Now)
		w.Instant("due_at", plan.Due)
		w.Integer("max_attempts", plan.MaxAttempts)
		writeLadder(w, &plan.Forecast, plan.Expires)
		w.In("others_due", func() { // jobs for the same endpoint
			w.Number("same_second", plan.SameSecond)
			w.Number("same_minute", plan.SameMinute)
		})
	}, err
}

func writeReason(w *jsonio.Writer, r *explain.Reason) {
	w.Text("code", r.Code)
	w.Text("detail", r.Detail())
	jsonio.List(w, "sentences", r.Sentences, writeSentence)
	w.Instant("until", r.Until)
	w.TextOrNull("node", r.Node)
}

// writeSentence writes a sentence of a detail, for those who word it in another language.
func writeSentence(w *jsonio.Writer, s *explain.Sentence) {
	params := s.Params
	if params == nil {
		params = explain.Params{}
	}
	w.Text("code", s.Code)
	w.Member("params", params)
}

// writeNote writes a sentence about the job with its text.
func writeNote(w *jsonio.Writer, s *explain.Sentence) {
	writeSentence(w, s)
	w.Text("detail", s.String())
}

// writeLadder writes the forecast of a job whose attempts all fail.
func writeLadder(w *jsonio.Writer, f *retrypolicy.Forecast, expires job.Instant) {
	w.In("ladder", func() {
		jsonio.List(w, "attempts", f.Attempts, func(w *jsonio.Writer, a *retrypolicy.Planned) {
			w.Integer("number", a.Number)
			writeWindow(w, &a.Window)
		})
		jsonio.Part(w, "dead_at", f.Dead, writeWindow)
		w.Instant("expires_at", expires)
	})
}

func writeWindow(w *jsonio.Writer, of *retrypolicy.Window) {
	w.Instant("earliest_at", of.Earliest)
	w.Instant("latest_at", of.Latest)
}
