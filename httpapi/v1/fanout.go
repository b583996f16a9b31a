package v1

import (
	"context"
	"net/http"
	"net/url"

	"github.com/duehook/duehook/httpapi"
	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/scheduler"
	"github.com/duehook/duehook/store"
)

// registerGroup answers a POST /v1/jobs that names a group. Without a job for each of its
// members, the answer is an error.
func (s *API) registerGroup(r *request, draft *job.Draft, errs *fieldErrors, from scheduler.Origin) (any, error) {
	f, err := s.prepareGroup(r.Context(), draft, errs, from)
	if err != nil {
		s.Scheduler.Refuse(1, clientsFault(err))
		return nil, err
	}
	r.Target = job.Key{Topic: f.Topic, ID: f.ID}.String()
	registered, err := s.Scheduler.RegisterGroup(r.Context(), &f)
	if err != nil {
		return nil, err
	}
	view := s.viewFanOut(&f, registered)
	if view.failed != nil {
		view.failed.More = &view
		return nil, view.failed
	}
	if view.isNew {
		r.Header().Set("Location", "/v1/jobs?"+url.Values{"topic": {f.Topic}, "group_id": {f.ID}}.Encode())
	}
	return created(&view, view.isNew), nil
}

func (s *API) prepareGroup(ctx context.Context, draft *job.Draft, errs *fieldErrors, from scheduler.Origin) (scheduler.FanOut, error) {
	f, err := s.Scheduler.PrepareGroup(ctx, draft, from)
	return f, errs.merge(err)
}

// fanOutView is the answer to a registration for a group.
type fanOutView struct {
	group, id string
	jobs      []registeredView
	// failures are jobs that were not registered. If there are any, the answer is an error.
	failures []failedJobView

	isNew  bool           // a job was registered, or there is none to register
	failed *httpapi.Error // the first one
}

// failedJobView is why a job was not registered.
type failedJobView struct {
	ID     string `json:"id"`
	Status int    `json:"status"`
	Code   string `json:"code"`
	Detail string `json:"detail"`
}

// viewFanOut shows what became of the registrations of a fan-out.
func (s *API) viewFanOut(f *scheduler.FanOut, registered []store.Registered) fanOutView {
	view := fanOutView{group: f.Group, id: f.ID, jobs: make([]registeredView, 0, len(registered)), isNew: len(registered) == 0}
	for i := range f.Refused {
		view.fail(f.Refused[i].Job.ID, scheduler.Refusal(&f.Refused[i]))
	}
	for i := range registered {
		one := &registered[i]
		if err := scheduler.Refusal(one); err != nil {
			view.fail(f.Jobs[i].Key().ID, err)
			continue
		}
		view.isNew = view.isNew || one.Outcome == store.Created
		view.jobs = append(view.jobs, registeredView{s.viewJob(&one.Job), scheduler.OutcomeNames[one.Outcome]})
	}
	return view
}

func (v *fanOutView) fail(id string, err error) {
	e := httpapi.AsError(err)
	if v.failed == nil {
		v.failed = e
	}
	v.failures = append(v.failures, failedJobView{id, e.Code.Status, e.Code.Name, e.Detail})
}

// MarshalJSON is for errors that show a fan-out.
func (v *fanOutView) MarshalJSON() ([]byte, error) { return appendView(nil, v), nil }

func (v *fanOutView) members(w *writer) {
	w.text("group", v.group)
	w.text("group_id", v.id)
	list(w, "jobs", v.jobs)
	if len(v.failures) > 0 {
		w.member("failed", v.failures)
	}
}

// fanOutItem shows a fan-out as an item of a batch.
func (s *API) fanOutItem(f *scheduler.FanOut, registered []store.Registered) itemView {
	view := s.viewFanOut(f, registered)
	switch {
	case view.failed != nil:
		item := failedItem(view.failed)
		item.fanOut = &view
		return item
	case view.isNew:
		return itemView{status: http.StatusCreated, fanOut: &view}
	}
	return itemView{status: http.StatusOK, fanOut: &view}
}
