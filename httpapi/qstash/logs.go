package qstash

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/duehook/duehook/httpapi"
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
)

// The states of events.
const (
	stateCreated   = "CREATED"
	stateActive    = "ACTIVE"
	stateDelivered = "DELIVERED"
	stateError     = "ERROR"
	stateRetry     = "RETRY"
	stateFailed    = "FAILED"
	stateRequested = "CANCEL_REQUESTED"
	stateCanceled  = "CANCELED"
)

// event is a line of the logs. shared has texts under other names than a message.
type event struct {
	Time             int64               `json:"time"`
	State            string              `json:"state"`
	MessageID        string              `json:"messageId"`
	URL              string              `json:"url"`
	Method           string              `json:"method"`
	Header           map[string][]string `json:"header"`
	Body             []byte              `json:"body"`
	MaxRetries       int                 `json:"maxRetries"`
	Timeout          int64               `json:"timeout,omitempty"`
	NextDeliveryTime int64               `json:"nextDeliveryTime,omitempty"`
	Error            string              `json:"error,omitempty"`
	ResponseStatus   int                 `json:"responseStatus,omitempty"`
	ResponseBody     []byte              `json:"responseBody,omitempty"`
	ResponseHeaders  map[string][]string `json:"responseHeaders,omitempty"`
	ResponseHeader   map[string][]string `json:"responseHeader,omitempty"`
	RetryDelayExpr   string              `json:"retryDelayExpr,omitempty"`
	CallbackHeaders  map[string][]string `json:"callbackHeaders,omitempty"`
	FailureHeaders   map[string][]string `json:"failureCallbackHeaders,omitempty"`
	shared

	step int // among the events of a message
	size int // about, in an answer
}

// eventsOf are the events of a message, derived from its attempts, oldest first.
func eventsOf(j *job.Job, log []job.Attempt) []event {
	v := viewOf(j)
	base := event{
		MessageID: v.MessageID, URL: v.URL, Method: v.Method, Header: v.Header, Body: append([]byte(v.Body), v.BodyBase64...), MaxRetries: v.MaxRetries,
		Timeout: j.Spec.Timeout.Milliseconds(), RetryDelayExpr: v.RetryDelayExpression,
		CallbackHeaders: v.CallbackHeader, FailureHeaders: v.FailureCallbackHeader, shared: v.shared, size: 1<<10 + store.SizeOf(j)*4/3,
	}
	base.CallbackHeader, base.FailureCallbackHeader = nil, nil
	var all []event
	add := func(at job.Instant, state string, change ...func(*event)) {
		e := base
		e.Time, e.State, e.step = int64(at), state, len(all)
		for _, c := range change {
			c(&e)
		}
		all = append(all, e)
	}
	next := func(at job.Instant) func(*event) {
		return func(e *event) {
			if at > j.CreatedAt {
				e.NextDeliveryTime = int64(at)
			}
		}
	}
	add(j.CreatedAt, stateCreated, next(j.DueAt))
	for i := range log {
		a, last := &log[i], i == len(log)-1
		ended := a.StartedAt.Add(a.Duration)
		add(a.StartedAt, stateActive)
		if a.Reason == job.ReasonDelivered {
			add(ended, stateDelivered)
			continue
		}
		add(ended, stateError, failed(a))
		switch {
		case !last || j.State == job.Retrying:
			add(ended, stateRetry, next(a.NextAt))
		case j.State == job.Dead || j.Reason == job.ReasonDiscarded:
			add(ended, stateFailed)
		}
	}
	switch {
	case j.State == job.Cancelled && j.Reason != job.ReasonDiscarded:
		add(j.EndedAt, stateRequested)
		add(j.EndedAt, stateCanceled)
	case j.State == job.Expired:
		add(j.EndedAt, stateFailed)
	}
	return all
}

// failed adds the answer of an attempt to its event.
func failed(a *job.Attempt) func(*event) {
	return func(e *event) {
		e.Error = a.Error
		if a.Status != 0 {
			e.Error = "status " + strconv.Itoa(a.Status)
		}
		e.ResponseStatus, e.ResponseBody = a.Status, []byte(a.ResponseBody)
		e.ResponseHeader = headers(a.ResponseHeaders, "")
		e.ResponseHeaders = e.ResponseHeader
	}
}

// inProgress is a filter for several states.
var inProgress = []string{stateActive, stateRetry, stateError}

const (
	maxEvents      = 1000
	defaultEvents  = 100
	eventJobs      = 50 // whose events make a page
	maxRounds      = 20 // of so many jobs until one has an event that is wanted
	cursorDivision = "~"
)

// events answers with the events of messages. A page has those of some messages, sorted by time;
// there is no order of the events of all messages.
func (a *api) events(c *httpapi.Call) error {
	q := c.Query()
	f, err := filterOf(q)
	if err != nil {
		return err
	}
	most, err := count(q, defaultEvents, maxEvents)
	if err != nil {
		return err
	}
	from, to := f.from, f.to
	f.from, f.to = 0, 0 // the dates are of the events
	states := list(q, "state")
	if slices.Contains(states, "IN_PROGRESS") {
		states = append(states, inProgress...)
	}
	cursor, skipped, _ := strings.Cut(q.Get("cursor"), cursorDivision)
	skip, err := strconv.Atoi(cmp.Or(skipped, "0"))
	if err != nil || skip < 0 {
		return refused("cursor must be that of the page before")
	}
	var found []event
	var next string
	for round := 1; ; round++ {
		var jobs []job.Job
		if jobs, next, err = a.someJobs(c.Context(), &f, cursor); err != nil {
			return err
		}
		for i := range jobs {
			log, err := a.App.Attempts(c.Context(), jobs[i].Key)
			if err != nil && !errors.Is(err, store.ErrNotFound) {
				return err
			}
			found = append(found, eventsOf(&jobs[i], log)...)
		}
		found = slices.DeleteFunc(found, func(e event) bool {
			state := e.State
			return e.Time < int64(from) || to != 0 && e.Time > int64(to) ||
				len(states) > 0 && !slices.ContainsFunc(states, func(s string) bool { return strings.Replace(s, "CANCELLED", stateCanceled, 1) == state })
		})
		if len(found) > skip || next == "" || round == maxRounds { // the client asks on with the cursor
			break
		}
		cursor, skip, found = next, 0, nil
	}
	sort.SliceStable(found, func(i, j int) bool {
		x, y := &found[i], &found[j]
		return cmp.Or(cmp.Compare(y.Time, x.Time), strings.Compare(y.MessageID, x.MessageID), cmp.Compare(y.step, x.step)) < 0
	})
	if q.Get("order") == "earliestFirst" {
		slices.Reverse(found)
	}
	found = found[min(skip, len(found)):]
	if n := fitting(found[:min(len(found), most)]); len(found) > n {
		found, next = found[:n], cursor+cursorDivision+strconv.Itoa(skip+n)
	}
	answer := map[string]any{"events": append([]event{}, found...)}
	if next != "" {
		answer["cursor"] = next
	}
	if strings.HasSuffix(c.Request.URL.Path, "logs") {
		answer["logs"] = answer["events"]
	}
	return c.WriteJSON(http.StatusOK, answer)
}

// fitting is how many events an answer holds: each repeats the body of its message.
func fitting(events []event) int {
	room := store.PageBytes
	for i := range events {
		if room -= events[i].size; room < 0 {
			return max(i, 1)
		}
	}
	return len(events)
}

// someJobs are the next messages that a filter selects, and the cursor behind them.
func (a *api) someJobs(ctx context.Context, f *filter, cursor string) (jobs []job.Job, next string, err error) {
	if wanted := f.parts["messageId"]; len(wanted) > 0 {
		if len(wanted) > maxIDs {
			return nil, "", refused("messageIds must have at most %d ids", maxIDs)
		}
		room := maxNamed
		for _, id := range wanted {
			switch j, err := a.byID(ctx, messagePrefix, id); {
			case err == nil && f.matches(&j):
				if room -= store.SizeOf(&j); room < 0 {
					return nil, "", tooMuchNamed("messageIds")
				}
				jobs = append(jobs, j)
			case err != nil && !errors.Is(err, store.ErrNotFound):
				return nil, "", err
			}
		}
		return jobs, "", nil
	}
	next, err = a.each(ctx, f.query(), amount{eventJobs, store.PageBytes}, cursor, func(j *job.Job) (bool, error) {
		if f.matches(j) {
			jobs = append(jobs, *j)
			return true, nil
		}
		return false, nil
	})
	return jobs, next, err
}
