package v1

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"

	"github.com/oklog/ulid/v2"

	"github.com/duehook/duehook/httpapi"
	"github.com/duehook/duehook/internal/services/events"
	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/scheduler/schedules"
	"github.com/duehook/duehook/store"
)

// params are the query parameters of a listing, as they are read.
type params struct {
	store.Query
	part     string // of a topic's name
	circuits []store.CircuitState
	types    []events.Type

	scheduleState schedules.State
	timetable     schedules.Part
}

// parameter is a query parameter. read gets the given values, at least one, and
// notes what is wrong with them at the pointer.
type parameter struct {
	name string
	read func(q *params, e *fieldErrors, at string, values []string)
}

// single is a parameter with one value. An empty value is more likely a mistake
// than a wish for everything.
func single(name string, read func(q *params, e *fieldErrors, at, value string)) parameter {
	return parameter{name, func(q *params, e *fieldErrors, at string, values []string) { read(q, e, at, values[0]) }}
}

// repeatable are the parameters that may be given several times.
var repeatable = []string{"state", "label"}

// filterTexts are the parts of a filter that are texts, in the query of a listing and in
// the filter of an operation.
var filterTexts = map[string]func(q *store.Query, e *fieldErrors, at, v string){
	"topic":     func(q *store.Query, e *fieldErrors, at, v string) { q.Topic = e.name(at, v) },
	"order_key": func(q *store.Query, e *fieldErrors, at, v string) { q.OrderKey = e.name(at, v) },
	"biz_key":   func(q *store.Query, e *fieldErrors, at, v string) { q.BizKey = e.name(at, v) },
	"endpoint":  func(q *store.Query, e *fieldErrors, at, v string) { q.Endpoint = e.endpoint(at, v) },
	"group_id":  func(q *store.Query, e *fieldErrors, at, v string) { q.GroupID = e.name(at, v) },
	"schedule":  func(q *store.Query, e *fieldErrors, at, v string) { q.Schedule = e.name(at, v) },
	"reason":    func(q *store.Query, e *fieldErrors, at, v string) { q.Reason = e.reason(at, v) },
	"due_from":  func(q *store.Query, e *fieldErrors, at, v string) { q.DueFrom = e.time(at, v) },
	"due_to":    func(q *store.Query, e *fieldErrors, at, v string) { q.DueTo = e.time(at, v) },
}

// filterParam is a parameter for a part of filterTexts.
func filterParam(name string) parameter {
	return single(name, func(q *params, e *fieldErrors, at, v string) { filterTexts[name](&q.Query, e, at, v) })
}

// The parameters that several listings have.
var (
	topicParam    = filterParam("topic")
	endpointParam = filterParam("endpoint")
	limitParam    = single("limit", func(q *params, e *fieldErrors, at, v string) { q.Limit = e.limit(at, v) })
	cursorParam   = single("cursor", func(q *params, e *fieldErrors, at, v string) { q.Cursor = e.cursor(at, v) })
	afterParam    = single("cursor", func(q *params, e *fieldErrors, at, v string) { q.Cursor = e.name(at, v) }) // a name
)

// The parameters of each listing.
var (
	jobQuery = []parameter{
		topicParam,
		{"state", func(q *params, e *fieldErrors, at string, values []string) {
			for _, v := range values {
				q.States = append(q.States, e.state(at, v))
			}
		}},
		filterParam("order_key"),
		filterParam("biz_key"),
		single("id", func(q *params, e *fieldErrors, at, v string) { q.IDPrefix = e.name(at, v) }),
		single("uid", func(q *params, e *fieldErrors, at, v string) { q.UID = e.uid(at, v) }),
		endpointParam,
		filterParam("group_id"),
		filterParam("schedule"),
		{"label", func(q *params, e *fieldErrors, at string, values []string) { q.Labels = e.labels(at, values) }},
		single("priority", func(q *params, e *fieldErrors, at, v string) {
			n, err := strconv.Atoi(v)
			if err != nil {
				n = -1
			}
			q.Priority = e.priority(at, n)
		}),
		filterParam("reason"),
		filterParam("due_from"),
		filterParam("due_to"),
		single("created_from", func(q *params, e *fieldErrors, at, v string) { q.CreatedFrom = e.time(at, v) }),
		single("created_to", func(q *params, e *fieldErrors, at, v string) { q.CreatedTo = e.time(at, v) }),
		single("order", func(q *params, e *fieldErrors, at, v string) {
			if q.Order = store.Order(v); v == "" {
				e.add(at, httpapi.BadOrder.Message)
			}
		}),
		limitParam, cursorParam,
	}
	deadQuery      = []parameter{topicParam, limitParam, cursorParam}
	groupQuery     = []parameter{limitParam, afterParam}
	operationQuery = []parameter{limitParam, afterParam}
	topicQuery     = []parameter{
		single("q", func(q *params, e *fieldErrors, at, v string) { q.part = e.name(at, v) }),
		limitParam, cursorParam,
	}
	endpointQuery = []parameter{
		{"state", func(q *params, e *fieldErrors, at string, values []string) {
			for _, v := range values {
				state, ok := store.ParseCircuitState(v)
				if !ok {
					e.add(at, "must be one of closed, open, half_open")
				}
				q.circuits = append(q.circuits, state)
			}
		}},
		endpointParam, limitParam, cursorParam,
	}
	scheduleQuery = []parameter{
		single("state", func(q *params, e *fieldErrors, at, v string) {
			if q.scheduleState = schedules.State(v); !slices.Contains(schedules.States, q.scheduleState) {
				e.add(at, "must be one of active, paused, completed")
			}
		}),
		topicParam, endpointParam, limitParam, afterParam,
	}
	occurrenceQuery = []parameter{
		single("from", func(q *params, e *fieldErrors, at, v string) {
			q.timetable.From = e.exact(at, v)
		}),
		limitParam,
		single("cursor", func(q *params, e *fieldErrors, at, v string) { q.timetable.After = e.exact(at, v) }),
	}
	eventQuery = []parameter{
		single("type", func(q *params, e *fieldErrors, at, v string) { q.types = e.eventTypes(at, v) }),
		topicParam, endpointParam,
	}
)

func parameterNames(list []parameter) iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, p := range list {
			if !yield(p.name) {
				return
			}
		}
	}
}

// inQuery points to query parameters where an error names fields of a filter.
func inQuery(err error) error {
	wrong, ok := errors.AsType[*job.ValidationError](err)
	if !ok {
		return err
	}
	var errs fieldErrors
	for _, f := range wrong.Fields {
		errs.add("?"+string(f.Field), f.Message)
	}
	return errs.err()
}

// The following methods note what is wrong with a value, and return it as a
// filter has it.

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

func (e *fieldErrors) labels(pointer string, values []string) []job.Label {
	if len(values) > job.MaxLabels {
		e.add(pointer, "must be given at most "+strconv.Itoa(job.MaxLabels)+" times")
		return nil
	}
	var list []job.Label
	for _, v := range values {
		l, err := job.ParseLabel(v)
		if err != nil {
			e.add(pointer, err.Error())
		}
		list = append(list, l)
	}
	return list
}

func (e *fieldErrors) priority(pointer string, n int) int {
	if n < job.MinPriority || n > job.MaxPriority {
		e.add(pointer, fmt.Sprintf("must be a whole number from %d to %d", job.MinPriority, job.MaxPriority))
	}
	return n
}

func (e *fieldErrors) time(pointer, value string) job.Instant {
	at, err := job.ParseTime(value)
	if err != nil {
		e.add(pointer, err.Error())
	}
	return at
}

func (e *fieldErrors) limit(pointer, value string) int {
	limit, err := strconv.Atoi(value)
	if err != nil || limit < 1 || limit > maxPage {
		e.add(pointer, "must be a whole number from 1 to "+strconv.Itoa(maxPage))
	}
	return limit
}

func (e *fieldErrors) cursor(pointer, value string) string {
	if value == "" {
		e.add(pointer, "must not be empty; leave it out for the first page")
	}
	return value
}

func (e *fieldErrors) eventTypes(pointer, value string) []events.Type {
	var types []events.Type
	for t := range strings.SplitSeq(value, ",") {
		if !slices.Contains(events.Types, events.Type(t)) {
			e.add(pointer, fmt.Sprintf("must be some of %s, with commas between them", eventTypes()))
			break
		}
		types = append(types, events.Type(t))
	}
	return types
}

func eventTypes() string {
	names := make([]string, len(events.Types))
	for i, t := range events.Types {
		names[i] = string(t)
	}
	return strings.Join(names, ", ")
}
