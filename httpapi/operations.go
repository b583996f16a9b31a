package httpapi

import (
	"context"
	"errors"
	"net/http"
	"strconv"

	"github.com/labstack/echo/v4"

	"github.com/duehook/duehook/internal/services/access"
	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/scheduler/operations"
)

// Operations is what the API needs of the changes of many jobs. An
// *operations.Manager is one.
type Operations interface {
	Create(ctx context.Context, d operations.Draft) (operations.Operation, error)
	Preview(ctx context.Context, d operations.Draft) (operations.Preview, error)
	List(ctx context.Context, limit int, cursor string) (operations.Page, error)
	Get(ctx context.Context, id string) (operations.Operation, error)
	Stop(ctx context.Context, id string) (operations.Operation, error)
	Resume(ctx context.Context, id string) (operations.Operation, error)
}

// maxOperationRequest bounds, in bytes, the request for an operation.
const maxOperationRequest = 64 << 10

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
		"delay": setDelay,
		"at": func(d *operationDraft, f field) {
			var err error
			if d.At, err = job.ParseAt(f.raw); err != nil {
				f.fail(err.Error())
			}
		},
	})
	filterFields = newFieldSet(map[string]func(*operations.Filter, field){
		"topic":    ofText(func(q *operations.Filter, e *fieldErrors, at, s string) { q.Topic = e.name(at, s) }),
		"biz_key":  ofText(func(q *operations.Filter, e *fieldErrors, at, s string) { q.BizKey = e.name(at, s) }),
		"endpoint": ofText(func(q *operations.Filter, e *fieldErrors, at, s string) { q.Endpoint = e.endpoint(at, s) }),
		"reason":   ofText(func(q *operations.Filter, e *fieldErrors, at, s string) { q.Reason = e.reason(at, s) }),
		"due_from": ofText(func(q *operations.Filter, e *fieldErrors, at, s string) { q.DueFrom = e.time(at, s) }),
		"due_to":   ofText(func(q *operations.Filter, e *fieldErrors, at, s string) { q.DueTo = e.time(at, s) }),
		"priority": setPriority,
		"state":    setStates,
		"label":    setLabels,
	})
)

// ofText sets a part of a filter that is written as a string.
func ofText(set func(q *operations.Filter, e *fieldErrors, at, s string)) func(*operations.Filter, field) {
	return func(q *operations.Filter, f field) {
		if s := f.text(); s != nil {
			set(q, f.errs, f.pointer(), *s)
		}
	}
}

// setStates takes one state, or several in an array.
func setStates(q *operations.Filter, f field) {
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

func setPriority(q *operations.Filter, f field) {
	if n := f.integer(); n != nil {
		q.Priority = f.errs.priority(f.pointer(), *n)
	}
}

func setLabels(q *operations.Filter, f field) {
	texts := f.texts()
	labels, err := job.ParseLabels("", texts)
	var wrong *job.ValidationError
	if errors.As(err, &wrong) {
		for _, w := range pointers(f.pointer(), wrong.Fields) {
			f.errs.add(w.Pointer, w.Message)
		}
	}
	q.Labels = labels
}

func setDelay(d *operationDraft, f field) {
	delay, err := job.ParseDelay(f.raw)
	if err != nil {
		f.fail(err.Error())
		delay = 0 // so that validation does not miss it
	}
	d.Delay = &delay
}

// createOperation answers POST /v1/operations. A dry run changes nothing, so
// that the scope to read is enough for it.
func (s *Server) createOperation(c echo.Context) error {
	body, err := readJSON(c, maxOperationRequest)
	if err != nil {
		return err
	}
	defer release(body)
	draft, errs := decodeObject(body.Bytes(), operationFields)
	if !draft.dryRun {
		if err := allow(c, access.Write); err != nil {
			return err
		}
	}
	if len(errs.fields) > 0 {
		return errs.err()
	}
	all, err := s.operations()
	if err != nil {
		return err
	}
	ctx := c.Request().Context()
	if draft.dryRun {
		c.Set(contextTarget, "dry run")
		p, err := all.Preview(ctx, draft.Draft)
		if err != nil {
			return err
		}
		return writeJSON(c, http.StatusOK, viewPreview(&p))
	}
	o, err := all.Create(ctx, draft.Draft)
	if err != nil {
		return err
	}
	c.Set(contextTarget, o.ID)
	c.Response().Header().Set(echo.HeaderLocation, "/v1/operations/"+o.ID)
	return writeJSON(c, http.StatusAccepted, viewOperation(&o))
}

// listOperations answers GET /v1/operations.
func (s *Server) listOperations(c echo.Context) error {
	limit, cursor := defaultPage, ""
	var errs fieldErrors
	if values, ok := c.QueryParams()["limit"]; ok {
		limit = errs.limit("?limit", values[0])
	}
	if values, ok := c.QueryParams()["cursor"]; ok {
		cursor = errs.name("?cursor", values[0])
	}
	if err := errs.err(); err != nil {
		return err
	}
	all, err := s.operations()
	if err != nil {
		return err
	}
	page, err := all.List(c.Request().Context(), limit, cursor)
	if err != nil {
		return err
	}
	return writeJSON(c, http.StatusOK, operationsView{each(page.Operations, viewOperation), orNull(&page.Next)})
}

// getOperation answers GET /v1/operations/{id}.
func (s *Server) getOperation(c echo.Context) error { return s.withOperation(c, Operations.Get) }

// stopOperation answers POST /v1/operations/{id}/stop.
func (s *Server) stopOperation(c echo.Context) error { return s.withOperation(c, Operations.Stop) }

// resumeOperation answers POST /v1/operations/{id}/resume.
func (s *Server) resumeOperation(c echo.Context) error { return s.withOperation(c, Operations.Resume) }

// withOperation does something with the operation that the path names.
func (s *Server) withOperation(c echo.Context, call func(all Operations, ctx context.Context, id string) (operations.Operation, error)) error {
	id, err := pathParam(c, "id")
	if err != nil {
		return err
	}
	all, err := s.operations()
	if err != nil {
		return err
	}
	o, err := call(all, c.Request().Context(), id)
	if err != nil {
		return err
	}
	return writeJSON(c, http.StatusOK, viewOperation(&o))
}

// operations are those of the server, if it has any.
func (s *Server) operations() (Operations, error) {
	if s.opts.Operations == nil {
		return nil, &apiError{code: codeNotFound, detail: "This server changes jobs one by one only."}
	}
	return s.opts.Operations, nil
}

// asOperationError is the part of asAPIError for operations. What it does not
// know is nil.
func asOperationError(err error) *apiError {
	switch {
	case errors.Is(err, operations.ErrNotFound):
		return &apiError{
			code: codeOperationNotFound, cause: err,
			detail: "No operation has this id, or it ended more than a day ago.",
		}
	case errors.Is(err, operations.ErrEnded):
		return &apiError{
			code: codeOperationEnded, cause: err,
			detail: "The operation has ended, so it can be neither stopped nor resumed. Begin another; what is done is not done twice.",
		}
	case errors.Is(err, operations.ErrTooMany):
		return &apiError{
			code: codeTooManyOperations, cause: err,
			detail: "There are " + strconv.Itoa(operations.MaxKept) + " operations that have not ended. Let some of them end first.",
		}
	}
	return nil
}

// operationView is an operation as the API shows it.
type operationView struct {
	ID           string         `json:"id"`
	Action       string         `json:"action"`
	Filter       filterView     `json:"filter"`
	RescheduleTo instant        `json:"reschedule_to"`
	Set          []string       `json:"set"` // the names of the fields: values may be secret
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

type jobErrorView struct {
	Job     string `json:"job"`
	Message string `json:"message"`
}

// filterView has the parts of a filter that were given, and the states.
type filterView struct {
	Topic    string            `json:"topic,omitempty"`
	State    []string          `json:"state"`
	BizKey   string            `json:"biz_key,omitempty"`
	Endpoint string            `json:"endpoint,omitempty"`
	Label    map[string]string `json:"label,omitempty"`
	Priority int               `json:"priority,omitempty"`
	Reason   string            `json:"reason,omitempty"`
	DueFrom  *instant          `json:"due_from,omitempty"`
	DueTo    *instant          `json:"due_to,omitempty"`
}

type operationsView struct {
	Data       []operationView `json:"data"`
	NextCursor *string         `json:"next_cursor"`
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
	if o.Set != nil {
		v.Set = o.Set.Changes()
	}
	for i, e := range o.Errors {
		v.Errors[i] = jobErrorView(e)
	}
	return v
}

func viewFilter(f *operations.Filter) filterView {
	v := filterView{
		Topic: f.Topic, State: make([]string, len(f.States)), BizKey: f.BizKey, Endpoint: f.Endpoint,
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
