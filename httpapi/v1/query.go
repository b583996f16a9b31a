package v1

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/duehook/duehook/httpapi"
	"github.com/duehook/duehook/httpapi/decode"
	"github.com/duehook/duehook/internal/app/schedules"
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/services/events"
	"github.com/duehook/duehook/store"
)

// params are the query parameters of a listing, as they are read.
type params struct {
	store.Query
	part     string // of a topic's name or a member
	busiest  bool   // topics with the most unfinished jobs first
	dryRun   bool
	circuits []store.CircuitState
	types    []events.Type
	window   int // of recent.Windows

	rowsThatWait   bool // of an inbox
	scheduleStates []schedules.State
	timetable      schedules.Part
}

// parameter is a query parameter. read gets the given values, at least one, and
// notes what is wrong with them at the pointer.
type parameter struct {
	name string
	many bool // several values: with commas between them, or in several parameters
	read func(q *params, e *decode.Errors, at string, values []string)
}

// values are the values that were given in parameters of one name.
func (p *parameter) values(given []string) []string {
	if !p.many {
		return given
	}
	var all []string
	for _, text := range given {
		all = append(all, splitValues(text)...)
	}
	return all
}

// splitValues splits a text at its commas. A backslash before a comma or a backslash makes it
// a part of the value.
func splitValues(text string) []string {
	var all []string
	var one strings.Builder
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\' && i+1 < len(text) && (text[i+1] == ',' || text[i+1] == '\\'):
			i++
			one.WriteByte(text[i])
		case c == ',':
			all = append(all, one.String())
			one.Reset()
		default:
			one.WriteByte(c)
		}
	}
	return append(all, one.String())
}

// single is a parameter with one value. An empty value is more likely a mistake
// than a wish for everything.
func single(name string, read func(q *params, e *decode.Errors, at, value string)) parameter {
	return parameter{name, false, func(q *params, e *decode.Errors, at string, values []string) { read(q, e, at, values[0]) }}
}

// stateParam is the parameter of the states of a listing.
func stateParam[S ~string](known []S, of func(*params) *[]S) parameter {
	return parameter{"state", true, func(q *params, e *decode.Errors, at string, values []string) {
		for _, v := range values {
			if !slices.Contains(known, S(v)) {
				e.Add(at, "must be one of "+joinNames(known))
			}
			*of(q) = append(*of(q), S(v))
		}
	}}
}

// The parameters that several listings have.
var (
	topicParam    = filterParam("topic")
	endpointParam = filterParam("endpoint")
	limitParam    = single("limit", func(q *params, e *decode.Errors, at, v string) { q.Limit = asLimit(e, at, v) })
	cursorParam   = single("cursor", func(q *params, e *decode.Errors, at, v string) { q.Cursor = asCursor(e, at, v) })
)

// dryRunQuery are the parameters of calls that can only be tried.
var dryRunQuery = []parameter{single("dry_run", func(q *params, e *decode.Errors, at, v string) {
	if q.dryRun = v == "true"; !q.dryRun && v != "false" {
		e.Add(at, "must be true or false")
	}
})}

// The parameters of each listing.
var (
	jobQuery = filterParams(filterNames,
		single("order", func(q *params, e *decode.Errors, at, v string) {
			if q.Order = store.Order(v); v == "" {
				e.Add(at, httpapi.BadOrder.Message)
			}
		}),
		limitParam, cursorParam,
	)
	deadQuery      = []parameter{topicParam, limitParam, cursorParam}
	groupQuery     = []parameter{limitParam, cursorParam}
	operationQuery = []parameter{limitParam, cursorParam}
	topicQuery     = []parameter{
		single("q", func(q *params, e *decode.Errors, at, v string) { q.part = asName(e, at, v) }),
		single("order", func(q *params, e *decode.Errors, at, v string) {
			if q.busiest = v == "-unfinished"; !q.busiest {
				e.Add(at, "must be -unfinished, or absent for the order of names")
			}
		}),
		limitParam, cursorParam,
	}
	rowsQuery = []parameter{
		single("state", func(q *params, e *decode.Errors, at, v string) {
			if q.rowsThatWait = v == "waiting"; !q.rowsThatWait && v != "failed" {
				e.Add(at, "must be failed or waiting")
			}
		}),
		limitParam, cursorParam,
	}
	endpointQuery = []parameter{
		{"state", true, func(q *params, e *decode.Errors, at string, values []string) {
			for _, v := range values {
				state, ok := store.ParseCircuitState(v)
				if !ok {
					e.Add(at, "must be one of closed, open, half_open")
				}
				q.circuits = append(q.circuits, state)
			}
		}},
		endpointParam, limitParam, cursorParam,
	}
	scheduleQuery = []parameter{
		stateParam(schedules.States, func(q *params) *[]schedules.State { return &q.scheduleStates }),
		topicParam, endpointParam, limitParam, cursorParam,
	}
	memberQuery = []parameter{
		single("q", func(q *params, e *decode.Errors, at, v string) {
			if q.part = v; v == "" || len(v) > job.MaxURL {
				e.Add(at, fmt.Sprintf("must have 1 to %d bytes", job.MaxURL))
			}
		}),
		limitParam, cursorParam,
	}
	occurrenceQuery = []parameter{
		single("from", func(q *params, e *decode.Errors, at, v string) {
			q.timetable.From = asMoment(e, at, v)
		}),
		limitParam,
		single("cursor", func(q *params, e *decode.Errors, at, v string) { q.timetable.After = asMoment(e, at, v) }),
	}
	// Events have types instead of states, and are not due.
	eventQuery = append([]parameter{
		{"type", true, func(q *params, e *decode.Errors, at string, values []string) { q.types = asEventTypes(e, at, values) }},
	}, filterParams(slices.DeleteFunc(slices.Clone(filterNames), func(name string) bool {
		return name == "state" || name == "due_from" || name == "due_to"
	}))...)
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
	var errs decode.Errors
	for _, f := range wrong.Fields {
		errs.Add("?"+string(f.Field), f.Message)
	}
	return errs.Err()
}

// The following functions note what is wrong with a value, and return it.

func asMoment(e *decode.Errors, pointer, value string) *time.Time {
	at, err := job.ParseWritten(value)
	if err != nil {
		e.Add(pointer, err.Error())
	}
	return &at
}

func asLimit(e *decode.Errors, pointer, value string) int {
	limit, err := strconv.Atoi(value)
	if err != nil || limit < 1 || limit > maxPage {
		e.Add(pointer, "must be a whole number from 1 to "+strconv.Itoa(maxPage))
	}
	return limit
}

func asCursor(e *decode.Errors, pointer, value string) string {
	if value == "" {
		e.Add(pointer, "must not be empty; leave it out for the first page")
	}
	return value
}

func asEventTypes(e *decode.Errors, pointer string, values []string) []events.Type {
	var types []events.Type
	for _, v := range values {
		if !slices.Contains(events.Types, events.Type(v)) {
			e.Add(pointer, "must be one or some of "+joinNames(events.Types))
			break
		}
		types = append(types, events.Type(v))
	}
	return types
}

// joinNames lists names in a sentence.
func joinNames[S ~string](all []S) string {
	names := make([]string, len(all))
	for i, one := range all {
		names[i] = string(one)
	}
	return strings.Join(names, ", ")
}
