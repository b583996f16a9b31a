package v1

import (
	"context"
	"net/http"
	"strings"

	"github.com/duehook/duehook/httpapi/decode"
	"github.com/duehook/duehook/internal/app/operations"
	"github.com/duehook/duehook/internal/documents"
	"github.com/duehook/duehook/internal/kit/jsonio"
	"github.com/duehook/duehook/internal/services/access"
)

// Operations is what the API needs of the changes of many jobs. An
// *operations.Manager is one.
type Operations interface {
	Create(ctx context.Context, d operations.Draft) (operations.Operation, error)
	Preview(ctx context.Context, d operations.Draft) (operations.Preview, error)
	List(ctx context.Context, limit int, cursor string) (operations.Page, error)
	Get(ctx context.Context, id string) (operations.Operation, error)
	Stop(ctx context.Context, id string, allow ...documents.Allow) (operations.Operation, error)
	Resume(ctx context.Context, id string, allow ...documents.Allow) (operations.Operation, error)
}

var operationFields = decode.NewFieldSet(map[string]func(*operations.Draft, decode.Field){
	"action": func(d *operations.Draft, f decode.Field) { decode.SetText(&d.Action, f) },
	"filter": func(d *operations.Draft, f decode.Field) { filterFields.Into(&d.Filter, f) },
	"all":    func(d *operations.Draft, f decode.Field) { d.All = f.Boolean() },
	"rate":   func(d *operations.Draft, f decode.Field) { d.Rate = f.Integer() },
	"set":    func(d *operations.Draft, f decode.Field) { d.Set = draftFields.New(f) },
	"delay":  func(d *operations.Draft, f decode.Field) { d.Delay = f.Duration() },
	"at":     func(d *operations.Draft, f decode.Field) { d.At = *f.Instant() },
})

// createOperation answers POST /v1/operations. A dry run changes nothing: the scope
// to read is enough for it.
func (s *API) createOperation(r *request) (jsonio.View, error) {
	draft, errs, err := read(r, maxSmall, operationFields)
	if err != nil {
		return nil, err
	}
	if !r.query.dryRun {
		if err := r.Allow(access.Write); err != nil {
			return nil, err
		}
	}
	if err := errs.Err(); err != nil {
		return nil, err
	}
	if err := r.ownFilter(draft.Filter.Topic, &draft.Filter.Only); err != nil {
		return nil, err
	}
	if r.query.dryRun {
		r.Target = "dry run"
		p, err := s.Operations.Preview(r.Context(), *draft)
		return jsonio.Shown(writePreview, &p), err
	}
	if draft.Key, err = idempotencyKey(r); err != nil {
		return nil, err
	}
	draft.By = callerName(r)
	o, err := s.Operations.Create(r.Context(), *draft)
	if err != nil {
		return nil, err
	}
	return accepted(r, &o), nil
}

// callerName is the name of the caller's API key, or empty without keys.
func callerName(r *request) string {
	caller, _ := r.Caller()
	return caller.KeyName
}

// accepted is the answer to a call that begins an operation.
func accepted(r *request, o *operations.Operation) jsonio.View {
	r.Target, r.status = o.ID, http.StatusAccepted
	r.SetLocation("/v1/operations/" + o.ID)
	r.setVersion(operationVersion(o))
	return jsonio.Shown(writeOperation, o)
}

// listOperations answers GET /v1/operations.
func (s *API) listOperations(r *request) (jsonio.View, error) {
	own := func(o *operations.Operation) bool { return o.Within(r.Topics()) }
	all, next, err := ownPage(r, own, func(limit int, cursor string) ([]operations.Operation, string, error) {
		page, err := s.Operations.List(r.Context(), limit, cursor)
		return page.Operations, page.Next, err
	})
	return pageOf(all, writeOperation, next), err
}

// getOperation answers GET /v1/operations/{id}.
func (s *API) getOperation(r *request) (jsonio.View, error) {
	o, err := s.Operations.Get(r.Context(), r.Param("id"))
	return showOperation(r, &o, err)
}

// stopOperation answers POST /v1/operations/{id}/stop.
func (s *API) stopOperation(r *request) (jsonio.View, error) {
	o, err := s.Operations.Stop(r.Context(), r.Param("id"), r.allow()...)
	return showOperation(r, &o, err)
}

// resumeOperation answers POST /v1/operations/{id}/resume.
func (s *API) resumeOperation(r *request) (jsonio.View, error) {
	o, err := s.Operations.Resume(r.Context(), r.Param("id"), r.allow()...)
	return showOperation(r, &o, err)
}

func operationVersion(o *operations.Operation) uint64 { return o.VersionOf(o.Version) }

// showOperation answers with an operation, or with the error.
func showOperation(r *request, o *operations.Operation, err error) (jsonio.View, error) {
	if err != nil {
		return nil, err
	}
	r.setVersion(operationVersion(o))
	return jsonio.Shown(writeOperation, o), nil
}

func writeOperation(w *jsonio.Writer, o *operations.Operation) {
	w.Text("id", o.ID)
	w.Text("action", string(o.Action))
	jsonio.Part(w, "filter", &o.Filter, writeFilter)
	w.Instant("reschedule_to", o.To)
	if o.Set == nil {
		w.Null("set")
	} else {
		w.Member("set", o.Set.Changes()) // the names of the fields: values may be secret
	}
	w.Integer("rate", o.Rate)
	w.Text("state", string(o.State))
	w.TextOrNull("by", o.By)
	w.TextOrNull("worker", o.Owner)
	w.TextOrNull("reason", o.Why)
	jsonio.Nullable(w, "estimate", o.Estimate, w.Number)
	w.Number("matched", o.Matched)
	w.Number("changed", o.Changed)
	w.Number("skipped", o.Skipped)
	w.Number("failed", o.Failed)
	jsonio.List(w, "errors", o.Errors, func(w *jsonio.Writer, e *operations.JobError) {
		topic, id, _ := strings.Cut(e.Job, "/") // which no topic has
		w.Text("topic", topic)
		w.Text("id", id)
		w.Text("message", e.Message)
	})
	w.Instant("created_at", o.StartedAt)
	w.Instant("updated_at", o.UpdatedAt)
	w.Instant("ended_at", o.EndedAt)
	w.Number("version", int64(operationVersion(o)))
}

// writePreview writes the answer to a dry run.
func writePreview(w *jsonio.Writer, p *operations.Preview) {
	o := &p.Operation
	w.Boolean("dry_run", true)
	w.Text("action", string(o.Action))
	jsonio.Part(w, "filter", &o.Filter, writeFilter)
	w.Integer("rate", o.Rate)
	w.Number("matched", p.Matched)
	w.Boolean("complete", p.Complete)
}
