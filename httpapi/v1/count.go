package v1

import (
	"github.com/duehook/duehook/internal/kit/jsonio"
)

// countJob answers POST /v1/jobs/{topic}/{id}/count.
func (s *API) countJob(r *request) (jsonio.View, error) {
	draft, errs, err := read(r, maxSmall, addFields)
	if err != nil {
		return nil, err
	}
	_, invalid := draft.Add()
	if err := errs.Merge(invalid); err != nil {
		return nil, err
	}
	j, added, err := s.App.Count(r.Context(), r.key(), draft)
	if err != nil {
		return nil, err
	}
	return func(w *jsonio.Writer) {
		w.Number("count", added.Count)
		w.Number("target", j.Spec.Count.Target)
		w.Boolean("fired", added.Fired)
		if added.Late { // the job had ended, and nothing was added
			w.Boolean("late", true)
		}
	}, nil
}
