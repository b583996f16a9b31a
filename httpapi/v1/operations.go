package v1

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"

	"github.com/duehook/duehook/httpapi"
	"github.com/duehook/duehook/internal/services/access"
	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/scheduler/operations"
	"github.com/duehook/duehook/scheduler/schedules"
	"github.com/duehook/duehook/store"
)

// Operations is what the API needs of the changes of many jobs. An
// *operations.Manager is one.
type Operations interface {
	Create(ctx context.Context, d operations.Draft) (operations.Operation, error)
	Backfill(ctx context.Context, d operations.BackfillDraft) (operations.Operation, error)
	Preview(ctx context.Context, d operations.Draft) (operations.Preview, error)
	List(ctx context.Context, limit int, cursor string) (operations.Page, error)
	Get(ctx context.Context, id string) (operations.Operation, error)
	Stop(ctx context.Context, id string) (operations.Operation, error)
	Resume(ctx context.Context, id string) (operations.Operation, error)
}

// operationDraft is the request for an operation, or for its dry run.
type operationDraft struct {
	operations.Draft
	dryRun bool
}

var (
	operationFields = newFieldSet(map[string]func(*operationDraft, field){
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
	filterFields = newFieldSet(withFilterTexts(map[string]func(*store.Query, field){
		"priority": setPriority,
		"state":    setStates,
		"label":    setLabels,
	}))
)

// withFilterTexts adds the parts of a filter that are texts.
func withFilterTexts(fields map[string]func(*store.Query, field)) map[string]func(*store.Query, field) {
	for name, set := range filterTexts {
		fields[name] = ofText(set)
	}
	return fields
}

// setStates takes one state, or several in an array.
func setStates(q *store.Query, f field) {
	list := []field{f}
	if f.raw[0] == '[' {
		list = nil
		for i, raw := range f.list() {
			list = append(list, field{raw: raw, parent: f.pointer(), name: strconv.Itoa(i), errs: f.errs})
		}
	}
	if len(list) > len(job.States) {
		f.fail("must have at most " + strconv.Itoa(len(job.States)) + " states")
		return
	}
	for _, one := range list {
		if s := one.text(); s != nil {
			q.States = append(q.States, f.errs.state(one.pointer(), *s))
		}
	}
}

func setPriority(q *store.Query, f field) {
	if n := f.integer(); n != nil {
		q.Priority = f.errs.priority(f.pointer(), *n)
	}
}

func setLabels(q *store.Query, f field) {
	texts := f.texts()
	labels, err := job.ParseLabels("", texts)
	if wrong, ok := errors.AsType[*job.ValidationError](err); ok {
		for _, w := range httpapi.Pointers(f.pointer(), wrong.Fields) {
			f.errs.add(w.Pointer, w.Message)
		}
	}
	q.Labels = labels
}

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
	if draft.dryRun {
		r.Target = "dry run"
		p, err := s.Operations.Preview(r.Context(), draft.Draft)
		return shown(writePreview, &p), err
	}
	o, err := s.Operations.Create(r.Context(), draft.Draft)
	if err != nil {
		return nil, err
	}
	return accepted(r, &o), nil
}

// accepted is the answer to a call that begins an operation.
func accepted(r *request, o *operations.Operation) view {
	r.Target, r.status = o.ID, http.StatusAccepted
	r.Header().Set("Location", "/v1/operations/"+o.ID)
	return shown(writeOperation, o)
}

// listOperations answers GET /v1/operations.
func (s *API) listOperations(r *request) (view, error) {
	page, err := s.Operations.List(r.Context(), r.query.Limit, r.query.Cursor)
	return pageOf(page.Operations, writeOperation, page.Next), err
}

// getOperation answers GET /v1/operations/{id}.
func (s *API) getOperation(r *request) (view, error) {
	o, err := s.Operations.Get(r.Context(), r.Param("id"))
	return shown(writeOperation, &o), err
}

// stopOperation answers POST /v1/operations/{id}/stop.
func (s *API) stopOperation(r *request) (view, error) {
	o, err := s.Operations.Stop(r.Context(), r.Param("id"))
	return shown(writeOperation, &o), err
}

// resumeOperation answers POST /v1/operations/{id}/resume.
func (s *API) resumeOperation(r *request) (view, error) {
	o, err := s.Operations.Resume(r.Context(), r.Param("id"))
	return shown(writeOperation, &o), err
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
	w.instant("started_at", o.StartedAt)
	w.instant("updated_at", o.UpdatedAt)
	w.instant("ended_at", o.EndedAt)
}

// writeFilter writes the parts of a filter that were given, and the states.
func writeFilter(w *writer, f *store.Query) {
	states := make([]string, len(f.States))
	for i, s := range f.States {
		states[i] = s.String()
	}
	w.textIfAny("topic", f.Topic)
	w.member("state", states)
	w.textIfAny("biz_key", f.BizKey)
	w.textIfAny("order_key", f.OrderKey)
	w.textIfAny("endpoint", f.Endpoint)
	w.textIfAny("schedule", f.Schedule)
	w.textIfAny("group_id", f.GroupID)
	if len(f.Labels) > 0 {
		w.labels("label", f.Labels)
	}
	w.numberIfAny("priority", f.Priority)
	w.textIfAny("reason", f.Reason)
	if f.DueFrom != 0 {
		w.instant("due_from", f.DueFrom)
	}
	if f.DueTo != 0 {
		w.instant("due_to", f.DueTo)
	}
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
