package v1

import (
	"cmp"
	"context"
	"encoding/json"
	"net/url"

	"github.com/duehook/duehook/httpapi"
	"github.com/duehook/duehook/httpapi/decode"
	"github.com/duehook/duehook/internal/app"
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/kit/jsonio"
	"github.com/duehook/duehook/store"
)

// registerGroup answers a POST /v1/jobs that names a group. Without a job for each of its
// members, the answer is an error.
func (s *API) registerGroup(r *request, draft *job.Draft, errs *decode.Errors, from app.Origin) (jsonio.View, error) {
	f, err := s.prepareGroup(r.Context(), draft, errs, from)
	if err != nil {
		s.App.Refuse(1, clientsFault(err))
		return nil, err
	}
	r.Target = job.Key{Topic: f.Topic, ID: f.ID}.String()
	register := s.App.RegisterGroup
	if r.query.dryRun {
		register = func(_ context.Context, f *app.FanOut) ([]store.Registered, error) {
			return s.registerAll(r, f.Jobs...)
		}
	}
	registered, err := register(r.Context(), f)
	if err != nil {
		return nil, err
	}
	return s.showFanOut(r, f, registered)
}

// showFanOut answers with what became of a fan-out.
func (s *API) showFanOut(r *request, f *app.FanOut, registered []store.Registered) (jsonio.View, error) {
	fan := fannedOut(f, registered)
	if fan.err != nil {
		e := *httpapi.AsError(fan.err)
		e.More = json.RawMessage(jsonio.AppendObject(nil, jsonio.Shown(s.writeFanOut, &fan)))
		return nil, &e
	}
	if r.query.dryRun {
		return func(w *jsonio.Writer) {
			s.writeFanOut(w, &fan)
			w.Boolean("dry_run", true)
		}, nil
	}
	if fan.isNew {
		r.SetLocation("/v1/jobs?" + url.Values{"topic": {f.Topic}, "group_id": {f.ID}}.Encode())
	}
	r.created(fan.isNew)
	return jsonio.Shown(s.writeFanOut, &fan), nil
}

func (s *API) prepareGroup(ctx context.Context, draft *job.Draft, errs *decode.Errors, from app.Origin) (*app.FanOut, error) {
	f, err := s.App.PrepareGroup(ctx, draft, from)
	return f, errs.Merge(err)
}

// fanOut is what became of a registration for a group.
type fanOut struct {
	*app.FanOut
	registered []*store.Registered
	failures   []failure
	err        error // the first failure
	isNew      bool  // a job was registered, or there is none to register
}

// failure is why a job was not registered.
type failure struct {
	id  string
	err error
}

func fannedOut(f *app.FanOut, registered []store.Registered) fanOut {
	fan := fanOut{FanOut: f, isNew: len(registered) == 0}
	for i := range f.Refused {
		fan.fail(f.Refused[i].Job.ID, app.Refusal(&f.Refused[i]))
	}
	for i := range registered {
		one := &registered[i]
		if app.Withdrawn(one) {
			continue
		}
		if err := app.Refusal(one); err != nil {
			fan.fail(f.Jobs[i].Key().ID, err)
			continue
		}
		fan.isNew = fan.isNew || one.Outcome == store.Created
		fan.registered = append(fan.registered, one)
	}
	return fan
}

func (f *fanOut) fail(id string, err error) {
	f.err = cmp.Or(f.err, err)
	f.failures = append(f.failures, failure{id, err})
}

func (s *API) writeFanOut(w *jsonio.Writer, f *fanOut) {
	w.Text("group", f.Group)
	w.Text("group_id", f.ID)
	jsonio.List(w, "jobs", f.registered, func(w *jsonio.Writer, r **store.Registered) { s.writeRegistered(w, *r) })
	if len(f.failures) > 0 {
		jsonio.List(w, "failed", f.failures, writeFailure)
	}
}

func writeFailure(w *jsonio.Writer, f *failure) {
	e := httpapi.AsError(f.err)
	w.Text("id", f.id)
	w.Integer("status", e.Code.Status)
	w.Text("code", e.Code.Name)
	w.Text("detail", e.Detail)
}
