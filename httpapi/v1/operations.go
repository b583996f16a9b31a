package v1

import (
	"context"
	"errors"
	"net/http"
	"strconv"

	"github.com/duehook/duehook/httpapi"
	"github.com/duehook/duehook/internal/services/access"
	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/scheduler/operations"
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
func (s *API) createOperation(r *request) (any, error) {
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
		return viewPreview(&p), err
	}
	o, err := s.Operations.Create(r.Context(), draft.Draft)
	if err != nil {
		return nil, err
	}
	return accepted(r, &o), nil
}

// accepted is the answer to a call that begins an operation.
func accepted(r *request, o *operations.Operation) any {
	r.Target = o.ID
	r.Header().Set("Location", "/v1/operations/"+o.ID)
	return answer{http.StatusAccepted, viewOperation(o)}
}

// listOperations answers GET /v1/operations.
func (s *API) listOperations(r *request) (any, error) {
	page, err := s.Operations.List(r.Context(), r.query.Limit, r.query.Cursor)
	return pageOf(page.Operations, viewOperation, page.Next), err
}

// getOperation answers GET /v1/operations/{id}.
func (s *API) getOperation(r *request) (any, error) {
	o, err := s.Operations.Get(r.Context(), r.id)
	return viewOperation(&o), err
}

// stopOperation answers POST /v1/operations/{id}/stop.
func (s *API) stopOperation(r *request) (any, error) {
	o, err := s.Operations.Stop(r.Context(), r.id)
	return viewOperation(&o), err
}

// resumeOperation answers POST /v1/operations/{id}/resume.
func (s *API) resumeOperation(r *request) (any, error) {
	o, err := s.Operations.Resume(r.Context(), r.id)
	return viewOperation(&o), err
}

// operationView is an operation as the API shows it.
type operationView struct {
	ID           string         `json:"id"`
	Action       string         `json:"action"`
	Filter       filterView     `json:"filter"`
	RescheduleTo instant        `json:"reschedule_to"`
	Set          []job.Field    `json:"set"` // the names of the fields: values may be secret
	Span         *spanView      `json:"span"`
	Rate         int            `json:"rate"`
	State        string         `json:"state"`
	Worker       *string        `json:"worker"`
	Reason       *string        `json:"reason"`
	Estimate     *int64         `json:"estimate"`
	Matched      int64          `json:"matched"`
	Changed      int64          `json:"changed"`
	Skipped      int64          `json:"skipped"`
	Failed       int64          `json:"failed"`
	Errors       []jobErrorView `json:"errors"`
	StartedAt    instant        `json:"started_at"`
	UpdatedAt    instant        `json:"updated_at"`
	EndedAt      instant        `json:"ended_at"`
}

// spanView is the time whose occurrences a backfill registers.
type spanView struct {
	From moment `json:"from"`
	To   moment `json:"to"`
}

type jobErrorView struct {
	Job     string `json:"job"`
	Message string `json:"message"`
}

// filterView has the parts of a filter that were given, and the states.
type filterView struct {
	Topic    string            `json:"topic,omitempty"`
	State    []string          `json:"state"`
	BizKey   string            `json:"biz_key,omitempty"`
	OrderKey string            `json:"order_key,omitempty"`
	Endpoint string            `json:"endpoint,omitempty"`
	Schedule string            `json:"schedule,omitempty"`
	GroupID  string            `json:"group_id,omitempty"`
	Label    map[string]string `json:"label,omitempty"`
	Priority int               `json:"priority,omitempty"`
	Reason   string            `json:"reason,omitempty"`
	DueFrom  *instant          `json:"due_from,omitempty"`
	DueTo    *instant          `json:"due_to,omitempty"`
}

// previewView is the answer to a dry run.
type previewView struct {
	DryRun   bool       `json:"dry_run"`
	Action   string     `json:"action"`
	Filter   filterView `json:"filter"`
	Rate     int        `json:"rate"`
	Matched  int64      `json:"matched"`
	Complete bool       `json:"complete"`
}

func viewOperation(o *operations.Operation) operationView {
	v := operationView{
		ID: o.ID, Action: string(o.Action), Filter: viewFilter(&o.Filter), RescheduleTo: instant(o.To), Rate: o.Rate,
		State: string(o.State), Worker: orNull(&o.Owner), Reason: orNull(&o.Why), Estimate: o.Estimate,
		Matched: o.Matched, Changed: o.Changed, Skipped: o.Skipped, Failed: o.Failed,
		Errors:    make([]jobErrorView, len(o.Errors)),
		StartedAt: instant(o.StartedAt), UpdatedAt: instant(o.UpdatedAt), EndedAt: instant(o.EndedAt),
	}
	if b := o.Backfill; b != nil {
		v.Span = &spanView{moment(b.From.Time()), moment(b.To.Time())}
	}
	if o.Set != nil {
		v.Set = o.Set.Changes()
	}
	for i, e := range o.Errors {
		v.Errors[i] = jobErrorView(e)
	}
	return v
}

func viewFilter(f *store.Query) filterView {
	v := filterView{
		Topic: f.Topic, State: make([]string, len(f.States)), BizKey: f.BizKey, OrderKey: f.OrderKey, Endpoint: f.Endpoint, Schedule: f.Schedule, GroupID: f.GroupID,
		Label: viewLabels(f.Labels), Priority: f.Priority, Reason: f.Reason,
	}
	for i, s := range f.States {
		v.State[i] = s.String()
	}
	if f.DueFrom != 0 {
		v.DueFrom = (*instant)(&f.DueFrom)
	}
	if f.DueTo != 0 {
		v.DueTo = (*instant)(&f.DueTo)
	}
	return v
}

func viewPreview(p *operations.Preview) previewView {
	o := &p.Operation
	return previewView{
		DryRun: true, Action: string(o.Action), Filter: viewFilter(&o.Filter), Rate: o.Rate,
		Matched: p.Matched, Complete: p.Complete,
	}
}
