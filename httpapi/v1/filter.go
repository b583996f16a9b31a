package v1

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/oklog/ulid/v2"

	"github.com/duehook/duehook/httpapi"
	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
)

// filterPart is a part of a filter of jobs, as a parameter of a query and as a member of a
// JSON object.
type filterPart struct {
	many   bool // it takes several values
	param  func(q *store.Query, e *fieldErrors, at string, values []string)
	member func(q *store.Query, f field)
}

// filterParts are the filters of jobs. Listings, operations and the stream of events share
// them, under one name each.
var filterParts = map[string]filterPart{
	"topic":        textPart(func(q *store.Query, e *fieldErrors, at, v string) { q.Topic = e.name(at, v) }),
	"id":           textPart(func(q *store.Query, e *fieldErrors, at, v string) { q.IDPrefix = e.name(at, v) }),
	"uid":          textPart(func(q *store.Query, e *fieldErrors, at, v string) { q.UID = e.uid(at, v) }),
	"order_key":    textPart(func(q *store.Query, e *fieldErrors, at, v string) { q.OrderKey = e.name(at, v) }),
	"biz_key":      textPart(func(q *store.Query, e *fieldErrors, at, v string) { q.BizKey = e.name(at, v) }),
	"endpoint":     textPart(func(q *store.Query, e *fieldErrors, at, v string) { q.Endpoint = e.endpoint(at, v) }),
	"group_id":     textPart(func(q *store.Query, e *fieldErrors, at, v string) { q.GroupID = e.name(at, v) }),
	"schedule":     textPart(func(q *store.Query, e *fieldErrors, at, v string) { q.Schedule = e.name(at, v) }),
	"reason":       textPart(func(q *store.Query, e *fieldErrors, at, v string) { q.Reason = e.reason(at, v) }),
	"due_from":     timePart(func(q *store.Query) *job.Instant { return &q.DueFrom }),
	"due_to":       timePart(func(q *store.Query) *job.Instant { return &q.DueTo }),
	"created_from": timePart(func(q *store.Query) *job.Instant { return &q.CreatedFrom }),
	"created_to":   timePart(func(q *store.Query) *job.Instant { return &q.CreatedTo }),
	"state":        {many: true, param: statesParam, member: statesMember},
	"labels":       {many: true, param: labelsParam, member: labelsMember},
	"priority":     {param: priorityParam, member: priorityMember},
}

// filterNames are the names of all parts, in the order of the documents.
var filterNames = []string{
	"topic", "state", "id", "uid", "order_key", "biz_key", "endpoint", "group_id", "schedule", "labels", "priority", "reason",
	"due_from", "due_to", "created_from", "created_to",
}

// filterFields are the members of a filter in a JSON object.
var filterFields = newFieldSet(func() map[string]func(*store.Query, field) {
	setters := map[string]func(*store.Query, field){}
	for name, part := range filterParts {
		setters[name] = part.member
	}
	return setters
}())

// filterParam is a part of a filter as a parameter.
func filterParam(name string) parameter {
	part := filterParts[name]
	return parameter{name, part.many, func(q *params, e *fieldErrors, at string, values []string) { part.param(&q.Query, e, at, values) }}
}

// filterParams are some parts of a filter as parameters, and more parameters.
func filterParams(names []string, more ...parameter) []parameter {
	var list []parameter
	for _, name := range names {
		list = append(list, filterParam(name))
	}
	return append(list, more...)
}

func textPart(set func(q *store.Query, e *fieldErrors, at, v string)) filterPart {
	return filterPart{
		param:  func(q *store.Query, e *fieldErrors, at string, values []string) { set(q, e, at, values[0]) },
		member: ofText(set),
	}
}

func timePart(of func(q *store.Query) *job.Instant) filterPart {
	return filterPart{
		param:  func(q *store.Query, e *fieldErrors, at string, values []string) { *of(q) = e.instant(at, values[0]) },
		member: func(q *store.Query, f field) { *of(q) = *f.instant() },
	}
}

func statesParam(q *store.Query, e *fieldErrors, at string, values []string) {
	for _, v := range values {
		if s := e.state(at, v); !slices.Contains(q.States, s) {
			q.States = append(q.States, s)
		}
	}
}

// statesMember takes one state, or several in an array.
func statesMember(q *store.Query, f field) {
	list := []field{f}
	if f.raw[0] == '[' {
		list = f.elements()
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

func labelsParam(q *store.Query, e *fieldErrors, at string, values []string) {
	if len(values) > job.MaxLabels {
		e.add(at, "must have at most "+strconv.Itoa(job.MaxLabels)+" labels")
		return
	}
	for _, v := range values {
		l, err := job.ParseLabel(v)
		if err != nil {
			e.add(at, err.Error())
		}
		q.Labels = append(q.Labels, l)
	}
}

func labelsMember(q *store.Query, f field) {
	labels, err := job.ParseLabels("", f.texts())
	if wrong, ok := errors.AsType[*job.ValidationError](err); ok {
		for _, w := range httpapi.Pointers(f.pointer(), wrong.Fields) {
			f.errs.add(w.Pointer, w.Message)
		}
	}
	q.Labels = labels
}

func priorityParam(q *store.Query, e *fieldErrors, at string, values []string) {
	n, err := strconv.Atoi(values[0])
	if err != nil {
		n = -1
	}
	q.Priority = e.priority(at, n)
}

func priorityMember(q *store.Query, f field) {
	if n := f.integer(); n != nil {
		q.Priority = f.errs.priority(f.pointer(), *n)
	}
}

// writeFilter writes the parts of a filter that were given, and the states.
func writeFilter(w *writer, f *store.Query) {
	states := make([]string, len(f.States))
	for i, s := range f.States {
		states[i] = s.String()
	}
	w.textIfAny("topic", f.Topic)
	w.member("state", states)
	if len(f.Only) > 0 {
		w.member("topics", f.Only)
	}
	w.textIfAny("id", f.IDPrefix)
	w.textIfAny("uid", f.UID)
	w.textIfAny("biz_key", f.BizKey)
	w.textIfAny("order_key", f.OrderKey)
	w.textIfAny("endpoint", f.Endpoint)
	w.textIfAny("schedule", f.Schedule)
	w.textIfAny("group_id", f.GroupID)
	if len(f.Labels) > 0 {
		w.labels("labels", f.Labels)
	}
	w.numberIfAny("priority", f.Priority)
	w.textIfAny("reason", f.Reason)
	w.instantIfAny("due_from", f.DueFrom)
	w.instantIfAny("due_to", f.DueTo)
	w.instantIfAny("created_from", f.CreatedFrom)
	w.instantIfAny("created_to", f.CreatedTo)
}

// The following methods decode a value of a filter, and record what is wrong with it.

func (e *fieldErrors) name(pointer, value string) string {
	if err := job.CheckName(value); err != nil {
		e.add(pointer, err.Error())
	}
	return value
}

func (e *fieldErrors) uid(pointer, value string) string {
	uid := strings.ToUpper(value)
	if _, err := ulid.ParseStrict(uid); err != nil {
		e.add(pointer, "must be the uid of a job, which receivers get as webhook-id: a ULID of 26 characters")
	}
	return uid
}

func (e *fieldErrors) state(pointer, value string) job.State {
	state, ok := job.ParseState(value)
	if !ok {
		e.add(pointer, "must be one of waiting, ready, running, retrying, delivered, dead, cancelled, expired")
	}
	return state
}

// endpoint takes any URL of the endpoint.
func (e *fieldErrors) endpoint(pointer, value string) string {
	endpoint, err := "", job.Destination(value).Check()
	if err == nil {
		endpoint, err = job.Destination(value).Endpoint()
	}
	if err != nil {
		e.add(pointer, err.Error())
	}
	return endpoint
}

func (e *fieldErrors) reason(pointer, value string) string {
	const chars = "abcdefghijklmnopqrstuvwxyz_"
	if value == "" || len(value) > job.MaxName || strings.Trim(value, chars) != "" {
		e.add(pointer, "must be the reason of a job that has ended, such as retry_limit")
	}
	return value
}

func (e *fieldErrors) priority(pointer string, n int) int {
	if n < job.MinPriority || n > job.MaxPriority {
		e.add(pointer, fmt.Sprintf("must be a whole number from %d to %d", job.MinPriority, job.MaxPriority))
	}
	return n
}

// instant is never zero, which would mean that none is given.
func (e *fieldErrors) instant(pointer, value string) job.Instant {
	return job.NonZero(*e.moment(pointer, value))
}
