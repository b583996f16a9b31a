package v1

import (
	"context"
	"net/http"
	"strings"

	"github.com/duehook/duehook/internal/services/access"
	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/scheduler/operations"
	"github.com/duehook/duehook/scheduler/schedules"
)

// Operations is what the API needs of the changes of many jobs. An
// *operations.Manager is one.
type Operations interface {
	Create(ctx context.Context, d operations.Draft) (operations.Operation, error)
	Backfill(ctx context.Context, d operations.BackfillDraft) (operations.Operation, error)
	Preview(ctx context.Context, d operations.Draft) (operations.Preview, error)
	List(ctx context.Context, limit int, cursor string) (operations.Page, error)
	Get(ctx context.Context, id string) (operations.Operation, error)
	Stop(ctx context.Context, id string, allow ...operations.Allow) (operations.Operation, error)
	Resume(ctx context.Context, id string, allow ...operations.Allow) (operations.Operation, error)
}

// operationDraft is the request for an operation, or for its dry run.
type operationDraft struct {
	operations.Draft
	dryRun bool
}

var operationFields = newFieldSet(map[string]func(*operationDraft, field){
	"action":  func(d *operationDraft, f field) { setText(&d.Action, f) },
	"filter":  func(d *operationDraft, f field) { filterFields.decode(f.raw, f.pointer(), &d.Filter, f.errs) },
	"all":     func(d *operationDraft, f field) { d.All = f.boolean() },
	"dry_run": func(d *operationDraft, f field) { d.dryRun = f.boolean() },
	"rate":    func(d *operationDraft, f field) { d.Rate = f.integer() },
	"set": func(d *operationDraft, f field) {
		d.Set = &job.Draft{}
		draftFields.decode(f.raw, f.pointer(), d.Set, f.errs)
	},
	"delay": func(d *operationDraft, f field) { d.Delay = f.duration() },
	"at":    func(d *operationDraft, f field) { d.At = *f.instant() },
})

// createOperation answers POST /v1/operations. A dry run changes nothing: the scope
// to read is enough for it.
func (s *API) createOperation(r *request) (view, error) {
	draft, errs, err := read(r, maxSmall, operationFields)
	if err != nil {
		return nil, err
	}
	if !draft.dryRun {
		if err := r.Allow(access.Write); err != nil {
			return nil, err
		}
	}
	if err := errs.err(); err != nil {
		return nil, err
	}
	if err := r.ownFilter(draft.Filter.Topic, &draft.Filter.Only); err != nil {
		return nil, err
	}
	if draft.dryRun {
		r.Target = "dry run"
		p, err := s.Operations.Preview(r.Context(), draft.Draft)
		return shown(writePreview, &p), err
	}
	draft.By = callerName(r)
	o, err := s.Operations.Create(r.Context(), draft.Draft)
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
func accepted(r *request, o *operations.Operation) view {
	r.Target, r.status = o.ID, http.StatusAccepted
	r.Header().Set("Location", "/v1/operations/"+o.ID)
	r.setVersion(o.Version)
	return shown(writeOperation, o)
}

// listOperations answers GET /v1/operations.
func (s *API) listOperations(r *request) (view, error) {
	own := func(o *operations.Operation) bool { return o.Within(r.Topics()) }
	all, next, err := ownPage(r, own, func(limit int, cursor string) ([]operations.Operation, string, error) {
		page, err := s.Operations.List(r.Context(), limit, cursor)
		return page.Operations, page.Next, err
	})
	return pageOf(all, writeOperation, next), err
}

// getOperation answers GET /v1/operations/{id}.
func (s *API) getOperation(r *request) (view, error) {
	o, err := s.Operations.Get(r.Context(), r.Param("id"))
	return showOperation(r, &o, err)
}

// stopOperation answers POST /v1/operations/{id}/stop.
func (s *API) stopOperation(r *request) (view, error) {
	o, err := s.Operations.Stop(r.Context(), r.Param("id"), allowing[operations.Allow](r, operationTag)...)
	return showOperation(r, &o, err)
}

// resumeOperation answers POST /v1/operations/{id}/resume.
func (s *API) resumeOperation(r *request) (view, error) {
	o, err := s.Operations.Resume(r.Context(), r.Param("id"), allowing[operations.Allow](r, operationTag)...)
	return showOperation(r, &o, err)
}

func operationTag(o operations.Operation) string { return tagOf(o.Version) }

// showOperation answers with an operation, or with the error.
func showOperation(r *request, o *operations.Operation, err error) (view, error) {
	if err != nil {
		return nil, err
	}
	r.setVersion(o.Version)
	return shown(writeOperation, o), nil
}

func writeOperation(w *writer, o *operations.Operation) {
	w.text("id", o.ID)
	w.text("action", string(o.Action))
	part(w, "filter", &o.Filter, writeFilter)
	w.instant("reschedule_to", o.To)
	if o.Set == nil {
		w.null("set")
	} else {
		w.member("set", o.Set.Changes()) // the names of the fields: values may be secret
	}
	part(w, "span", o.Backfill, func(w *writer, b *schedules.Backfill) {
		w.moment("from", b.From.Time())
		w.moment("to", b.To.Time())
	})
	w.integer("rate", o.Rate)
	w.text("state", string(o.State))
	w.textOrNull("by", o.By)
	w.textOrNull("worker", o.Owner)
	w.textOrNull("reason", o.Why)
	nullable(w, "estimate", o.Estimate, w.number)
	w.number("matched", o.Matched)
	w.number("changed", o.Changed)
	w.number("skipped", o.Skipped)
	w.number("failed", o.Failed)
	list(w, "errors", o.Errors, func(w *writer, e *operations.JobError) {
		topic, id, _ := strings.Cut(e.Job, "/") // which no topic has
		w.text("topic", topic)
		w.text("id", id)
		w.url("message", e.Message)
	})
	w.instant("created_at", o.StartedAt)
	w.instant("updated_at", o.UpdatedAt)
	w.instant("ended_at", o.EndedAt)
	w.number("version", int64(o.Version))
}

// writePreview writes the answer to a dry run.
func writePreview(w *writer, p *operations.Preview) {
	o := &p.Operation
	w.boolean("dry_run", true)
	w.text("action", string(o.Action))
	part(w, "filter", &o.Filter, writeFilter)
	w.integer("rate", o.Rate)
	w.number("matched", p.Matched)
	w.boolean("complete", p.Complete)
}
