package v1

import "github.com/duehook/duehook/job"

// countJob answers POST /v1/jobs/{topic}/{id}/count.
func (s *API) countJob(r *request) (any, error) {
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
	return addedView{added.Count, j.Spec.Count.Target, added.Fired, added.Late}, nil
}

// addedView is the answer to a count.
type addedView struct {
	Count  int64 `json:"count"`
	Target int64 `json:"target"`
	Fired  bool  `json:"fired"`
	// Late is left out unless the job had ended, and nothing was added.
	Late bool `json:"late,omitempty"`
}

// countView is the count of a job.
type countView struct {
	Count int64 `json:"count"`
	countTermsView
	Fired bool `json:"fired"`
}

// countTermsView are the terms of a count, as registrations write them.
type countTermsView struct {
	Target     int64  `json:"target"`
	AtDeadline string `json:"at_deadline"`
}

// viewCount is nil for a job without a count.
func viewCount(j *job.Job) *countView {
	c := j.Spec.Count
	if c == nil {
		return nil
	}
	return &countView{j.Counted, countTermsView{c.Target, string(c.AtDeadline)}, j.ShowsFired()}
}
