package v1

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/oklog/ulid/v2"

	"github.com/duehook/duehook/httpapi"
	"github.com/duehook/duehook/httpapi/decode"
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/kit/jsonio"
	"github.com/duehook/duehook/store"
)

// filterPart is a part of a filter of jobs, as a parameter of a query and as a member of a
// JSON object.
type filterPart struct {
	many   bool // it takes several values
	param  func(q *store.Query, e *decode.Errors, at string, values []string)
	member func(q *store.Query, f decode.Field)
}

// filterParts are the filters of jobs. Listings, operations and the stream of events share
// them, under one name each.
var filterParts = map[string]filterPart{
	"topic":        textPart(func(q *store.Query, e *decode.Errors, at, v string) { q.Topic = asName(e, at, v) }),
	"id":           textPart(func(q *store.Query, e *decode.Errors, at, v string) { q.IDPrefix = asName(e, at, v) }),
	"uid":          textPart(func(q *store.Query, e *decode.Errors, at, v string) { q.UID = asUID(e, at, v) }),
	"order_key":    textPart(func(q *store.Query, e *decode.Errors, at, v string) { q.OrderKey = asName(e, at, v) }),
	"biz_key":      textPart(func(q *store.Query, e *decode.Errors, at, v string) { q.BizKey = asName(e, at, v) }),
	"endpoint":     textPart(func(q *store.Query, e *decode.Errors, at, v string) { q.Endpoint = asJobEndpoint(e, at, v) }),
	"group_id":     textPart(func(q *store.Query, e *decode.Errors, at, v string) { q.GroupID = asName(e, at, v) }),
	"schedule":     textPart(func(q *store.Query, e *decode.Errors, at, v string) { q.Schedule = asName(e, at, v) }),
	"dialect":      textPart(func(q *store.Query, e *decode.Errors, at, v string) { q.Dialect = asName(e, at, v) }),
	"reason":       textPart(func(q *store.Query, e *decode.Errors, at, v string) { q.Reason = asReason(e, at, v) }),
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
	"topic", "state", "id", "uid", "order_key", "biz_key", "endpoint", "group_id", "schedule", "labels", "priority", "dialect", "reason",
	"due_from", "due_to", "created_from", "created_to",
}

// filterFields are the members of a filter in a JSON object.
var filterFields = decode.NewFieldSet(func() map[string]func(*store.Query, decode.Field) {
	setters := map[string]func(*store.Query, decode.Field){}
	for name, part := range filterParts {
		setters[name] = part.member
	}
	return setters
}())

// filterParam is a part of a filter as a parameter.
func filterParam(name string) parameter {
	part := filterParts[name]
	return parameter{name, part.many, func(q *params, e *decode.Errors, at string, values []string) { part.param(&q.Query, e, at, values) }}
}

// filterParams are some parts of a filter as parameters, and more parameters.
func filterParams(names []string, more ...parameter) []parameter {
	var list []parameter
	for _, name := range names {
		list = append(list, filterParam(name))
	}
	return append(list, more...)
}

func textPart(set func(q *store.Query, e *decode.Errors, at, v string)) filterPart {
	return filterPart{
		param:  func(q *store.Query, e *decode.Errors, at string, values []string) { set(q, e, at, values[0]) },
		member: decode.OfText(set),
	}
}

func timePart(of func(q *store.Query) *job.Instant) filterPart {
	return filterPart{
		param: func(q *store.Query, e *decode.Errors, at string, values []string) {
			*of(q) = asInstant(e, at, values[0])
		},
		member: func(q *store.Query, f decode.Field) { *of(q) = *f.Instant() },
	}
}

func statesParam(q *store.Query, e *decode.Errors, at string, values []string) {
	for _, v := range values {
		if s := asState(e, at, v); !slices.Contains(q.States, s) {
			q.States = append(q.States, s)
		}
	}
}

// statesMember takes one state, or several in an array.
func statesMember(q *store.Query, f decode.Field) {
	list := []decode.Field{f}
	if f.Raw[0] == '[' {
		list = f.Elements()
	}
	if len(list) > len(job.States) {
		f.Fail("must have at most " + strconv.Itoa(len(job.States)) + " states")
		return
	}
	for _, one := range list {
		if s := one.Text(); s != nil {
			q.States = append(q.States, asState(f.Errs, one.Pointer(), *s))
		}
	}
}

func labelsParam(q *store.Query, e *decode.Errors, at string, values []string) {
	if len(values) > job.MaxLabels {
		e.Add(at, "must have at most "+strconv.Itoa(job.MaxLabels)+" labels")
		return
	}
	for _, v := range values {
		l, err := job.ParseLabel(v)
		if err != nil {
			e.Add(at, err.Error())
		}
		q.Labels = append(q.Labels, l)
	}
}

func labelsMember(q *store.Query, f decode.Field) {
	labels, err := job.ParseLabels("", f.Texts())
	if wrong, ok := errors.AsType[*job.ValidationError](err); ok {
		for _, w := range httpapi.Pointers(f.Pointer(), wrong.Fields) {
			f.Errs.Add(w.Pointer, w.Message)
		}
	}
	q.Labels = labels
}

func priorityParam(q *store.Query, e *decode.Errors, at string, values []string) {
	n, err := strconv.Atoi(values[0])
	if err != nil {
		n = -1
	}
	q.Priority = asPriority(e, at, n)
}

func priorityMember(q *store.Query, f decode.Field) {
	if n := f.Integer(); n != nil {
		q.Priority = asPriority(f.Errs, f.Pointer(), *n)
	}
}

// writeFilter writes the parts of a filter that were given, and the states.
func writeFilter(w *jsonio.Writer, f *store.Query) {
	states := make([]string, len(f.States))
	for i, s := range f.States {
		states[i] = s.String()
	}
	w.TextIfAny("topic", f.Topic)
	w.Member("state", states)
	if len(f.Only) > 0 {
		w.Member("topics", f.Only)
	}
	w.TextIfAny("id", f.IDPrefix)
	w.TextIfAny("uid", f.UID)
	w.TextIfAny("biz_key", f.BizKey)
	w.TextIfAny("order_key", f.OrderKey)
	w.TextIfAny("endpoint", f.Endpoint)
	w.TextIfAny("schedule", f.Schedule)
	w.TextIfAny("group_id", f.GroupID)
	if len(f.Labels) > 0 {
		w.Labels("labels", f.Labels)
	}
	w.NumberIfAny("priority", f.Priority)
	w.TextIfAny("dialect", f.Dialect)
	w.TextIfAny("reason", f.Reason)
	w.InstantIfAny("due_from", f.DueFrom)
	w.InstantIfAny("due_to", f.DueTo)
	w.InstantIfAny("created_from", f.CreatedFrom)
	w.InstantIfAny("created_to", f.CreatedTo)
}

// The following functions decode a value of a filter, and record what is wrong with it.

func asName(e *decode.Errors, pointer, value string) string {
	if err := job.CheckName(value); err != nil {
		e.Add(pointer, err.Error())
	}
	return value
}

func asUID(e *decode.Errors, pointer, value string) string {
	uid := strings.ToUpper(value)
	if _, err := ulid.ParseStrict(uid); err != nil {
		e.Add(pointer, "must be the uid of a job, which receivers get as webhook-id: a ULID of 26 characters")
	}
	return uid
}

func asState(e *decode.Errors, pointer, value string) job.State {
	state, ok := job.ParseState(value)
	if !ok {
		e.Add(pointer, "must be one of waiting, ready, running, retrying, delivered, dead, cancelled, expired")
	}
	return state
}

// asJobEndpoint takes any URL of the endpoint, or the name of pull queues.
func asJobEndpoint(e *decode.Errors, pointer, value string) string {
	if job.Destination(value).Pulled() {
		return value
	}
	return asEndpoint(e, pointer, value)
}

// asEndpoint takes any URL of the endpoint.
func asEndpoint(e *decode.Errors, pointer, value string) string {
	endpoint, err := "", job.Destination(value).Check()
	if err == nil {
		endpoint, err = job.Destination(value).Endpoint()
	}
	if err != nil {
		e.Add(pointer, err.Error())
	}
	return endpoint
}

func asReason(e *decode.Errors, pointer, value string) string {
	const chars = "abcdefghijklmnopqrstuvwxyz_"
	if value == "" || len(value) > job.MaxName || strings.Trim(value, chars) != "" {
		e.Add(pointer, "must be the reason of a job that has ended, such as retry_limit")
	}
	return value
}

func asPriority(e *decode.Errors, pointer string, n int) int {
	if n < job.MinPriority || n > job.MaxPriority {
		e.Add(pointer, fmt.Sprintf("must be a whole number from %d to %d", job.MinPriority, job.MaxPriority))
	}
	return n
}

// instant is never zero, which would mean that none is given.
func asInstant(e *decode.Errors, pointer, value string) job.Instant {
	return job.NonZero(*asMoment(e, pointer, value))
}
