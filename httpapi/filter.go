package httpapi

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"
	"github.com/oklog/ulid/v2"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/listing"
)

// jobQuery are the query parameters of the listing of jobs, repeatable those of
// them that may be given several times.
var (
	jobQuery = []string{
		"topic", "state", "biz_key", "id", "uid", "endpoint", "label", "priority", "reason",
		"due_from", "due_to", "created_from", "created_to", "order", "limit", "cursor",
	}
	repeatable = []string{"state", "label"}
)

// What is wrong with an order. A store decides which it has.
const badOrder = "must be one of due, -due, created and -created, with ?topic= and one ?state="

var tooManyToSort = fmt.Sprintf("is sorted for every page, of at most %d jobs (those of the topic that have not ended, "+
	"its dead letters, or its other ended jobs) for %d endpoints; narrow it with ?endpoint= or ?priority=, or leave it out. "+
	"Any number of waiting or retrying jobs for these endpoints can be listed by due or -due", listing.MaxSorted, listing.MaxSortedGroups)

// readQuery reads the filters of a listing. One that is given has a value: an
// empty one is more likely a mistake than a wish for everything.
func readQuery(c echo.Context) (store.Query, error) {
	q := store.Query{Limit: defaultPage}
	var errs fieldErrors
	for pointer, values := range parameters(c, jobQuery) {
		readParameter(&q, pointer, values, &errs)
	}
	return q, errs.err()
}

// inQuery points to query parameters where an error names fields of a filter.
func inQuery(err error) error {
	var wrong *job.ValidationError
	if !errors.As(err, &wrong) {
		return err
	}
	var errs fieldErrors
	for _, f := range wrong.Fields {
		errs.add("?"+string(f.Field), f.Message)
	}
	return errs.err()
}

func readParameter(q *store.Query, pointer string, values []string, errs *fieldErrors) {
	value := values[0]
	switch pointer {
	case "?topic":
		q.Topic = errs.name(pointer, value)
	case "?biz_key":
		q.BizKey = errs.name(pointer, value)
	case "?state":
		for _, v := range values {
			q.States = append(q.States, errs.state(pointer, v))
		}
	case "?endpoint":
		q.Endpoint = errs.endpoint(pointer, value)
	case "?reason":
		q.Reason = errs.reason(pointer, value)
	case "?label":
		q.Labels = errs.labels(pointer, values)
	case "?priority":
		n, err := strconv.Atoi(value)
		if err != nil {
			n = -1
		}
		q.Priority = errs.priority(pointer, n)
	case "?due_from":
		q.DueFrom = errs.time(pointer, value)
	case "?due_to":
		q.DueTo = errs.time(pointer, value)
	case "?created_from":
		q.CreatedFrom = errs.time(pointer, value)
	case "?created_to":
		q.CreatedTo = errs.time(pointer, value)
	case "?id":
		q.IDPrefix = errs.name(pointer, value)
	case "?uid":
		q.UID = errs.uid(pointer, value)
	case "?order":
		if q.Order = store.Order(value); value == "" {
			errs.add(pointer, badOrder)
		}
	case "?limit":
		q.Limit = errs.limit(pointer, value)
	case "?cursor":
		q.Cursor = errs.cursor(pointer, value)
	}
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

// repeats reports whether a query parameter is given more often than it may be.
func repeats(query url.Values, name string) bool {
	return len(query[name]) > 1 && !slices.Contains(repeatable, name)
}
