package v1

import (
	"context"
	"net/http"
	"net/url"
	"slices"

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
	if err := errs.merge(err); err != nil {
		return scheduler.FanOut{}, s.explainTooLarge(err)
	}
	return f, nil
}

// fanOutView is the answer to a registration for a group.
type fanOutView struct {
	Group   string           `json:"group"`
	GroupID string           `json:"group_id"`
	Jobs    []registeredView `json:"jobs"`
	// Failed are jobs that were not registered. If there are any, the answer is an error.
	Failed []failedJobView `json:"failed,omitempty"`

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
	view := fanOutView{Group: f.Group, GroupID: f.ID, Jobs: make([]registeredView, 0, len(registered)), isNew: len(registered) == 0}
	for i := range f.Refused {
		view.fail(f.Refused[i].Job.ID, conflictOf(&f.Refused[i]))
	}
	for i := range registered {
		one := &registered[i]
		if err := conflictOf(one); err != nil {
			view.fail(f.Jobs[i].Key().ID, err)
			continue
		}
		view.isNew = view.isNew || one.Outcome == store.Created
		view.Jobs = append(view.Jobs, registeredView{s.viewJob(&one.Job), scheduler.OutcomeNames[one.Outcome]})
	}
	return view
}

func (v *fanOutView) fail(id string, err error) {
	e := httpapi.AsError(err)
	if v.failed == nil {
		v.failed = e
	}
	v.Failed = append(v.Failed, failedJobView{id, e.Code.Status, e.Code.Name, e.Detail})
}

func (v *fanOutView) appendJSON(b []byte) ([]byte, error) {
	b = slices.Grow(b, len(v.Jobs)*typicalResult)
	b, err := v.appendMembers(append(b, '{'))
	return append(b, '}'), err
}

// appendMembers writes the members of the object.
func (v *fanOutView) appendMembers(b []byte) ([]byte, error) {
	w := jobWriter{b: b}
	w.text(`"group":`, v.Group)
	w.text(`,"group_id":`, v.GroupID)
	w.name(`,"jobs":`)
	w.keep(appendList(w.b, v.Jobs))
	if len(v.Failed) > 0 {
		w.name(`,"failed":`)
		w.any(v.Failed)
	}
	return w.b, w.err
}

// fanOutItem shows a fan-out as an item of a batch.
func (s *API) fanOutItem(f *scheduler.FanOut, registered []store.Registered) itemView {
	view := s.viewFanOut(f, registered)
	switch {
	case view.failed != nil:
		item := failedItem(view.failed)
		item.fanOutView = &view
		return item
	case view.isNew:
		return itemView{Status: http.StatusCreated, fanOutView: &view}
	}
	return itemView{Status: http.StatusOK, fanOutView: &view}
}
