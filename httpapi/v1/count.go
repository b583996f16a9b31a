package v1

import "github.com/duehook/duehook/job"

// countJob answers POST /v1/jobs/{topic}/{id}/count.
func (s *API) countJob(r *request) (view, error) {
	draft, errs, err := read(r, maxSmall, addFields)
	if err != nil {
		return nil, err
	}
	_, invalid := draft.Add()
	if err := errs.merge(invalid); err != nil {
		return nil, err
	}
	j, added, err := s.Scheduler.Count(r.Context(), r.key(), draft)
	if err != nil {
		return nil, err
	}
	return func(w *writer) {
		w.number("count", added.Count)
		w.number("target", j.Spec.Count.Target)
		w.boolean("fired", added.Fired)
		if added.Late { // the job had ended, and nothing was added
			w.boolean("late", true)
		}
	}, nil
}

// writeCount writes the count of a job.
func writeCount(w *writer, j *job.Job) {
	w.number("count", j.Counted)
	writeCountTerms(w, j.Spec.Count.Target, j.Spec.Count.AtDeadline)
	w.boolean("fired", j.ShowsFired())
}

// writeCountTerms writes the terms of a count, as registrations do.
func writeCountTerms[T ~string](w *writer, target int64, atDeadline T) {
	w.number("target", target)
	w.text("at_deadline", string(atDeadline))
}
