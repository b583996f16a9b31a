package operations

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/duehook/duehook/job"
)

// Limits of an operation's rate, in jobs per second.
const (
	DefaultRate = 500
	MaxRate     = 10_000
)

// Draft is an operation as somebody wishes it, its values checked one by one.
type Draft struct {
	Action string
	Filter Filter
	All    bool // the filter may be empty
	Rate   *int // nil: DefaultRate
	// Delay and At say when jobs are to be due that are rescheduled: one of them.
	Delay *time.Duration // from the beginning of the operation
	At    job.Instant
	// Set is what Replay is to change first; nil: nothing.
	Set *job.Draft
}

// unfinished are the states between which carriers and workers move jobs.
var unfinished = []job.State{job.Waiting, job.Ready, job.Running, job.Retrying}

// states are those in which an action can be done to a job. A replay is of dead
// letters unless the filter says otherwise: nobody means to send again what has
// been delivered.
var states = map[Action]struct{ may, normal []job.State }{
	Cancel:     {may: unfinished},
	Run:        {may: []job.State{job.Waiting, job.Ready, job.Retrying}},
	Reschedule: {may: []job.State{job.Waiting, job.Ready, job.Retrying}},
	Replay: {
		may:    []job.State{job.Dead, job.Delivered, job.Cancelled, job.Expired},
		normal: []job.State{job.Dead},
	},
	Discard: {may: []job.State{job.Dead}},
}

// sample stands for the jobs that a change is for, to judge it before any of them.
var sample = job.Job{Spec: job.Spec{Destination: "http://receiver.example/", BodyForm: job.BodyText, ContentType: job.BodyText.ContentType()}}

// operation is the operation that d asks for, beginning now. Its error is a
// *job.ValidationError.
func (d *Draft) operation(now job.Instant, l job.Limits) (Operation, error) {
	var wrong []job.FieldError
	refuse := func(field job.Field, message string) {
		wrong = append(wrong, job.FieldError{Field: field, Message: message})
	}
	o := Operation{
		Action: Action(d.Action), Filter: d.Filter, Rate: DefaultRate, State: Running, StartedAt: now, UpdatedAt: now,
	}
	known, ok := states[o.Action]
	if !ok {
		refuse("action", "must be one of cancel, run, replay, reschedule, discard")
	}
	if d.Filter.Empty() && !d.All {
		refuse("filter", `must not be empty, unless "all" is true`)
	}
	for _, s := range d.Filter.States {
		if ok && !slices.Contains(known.may, s) {
			refuse("filter.state", fmt.Sprintf("must be one of %s: %s is impossible for jobs in state %s", names(known.may), d.Action, s))
			break
		}
	}
	if len(o.Filter.States) == 0 {
		o.Filter.States = known.may
		if known.normal != nil {
			o.Filter.States = known.normal
		}
	}
	if d.Rate != nil {
		if o.Rate = *d.Rate; o.Rate < 1 || o.Rate > MaxRate {
			refuse("rate", fmt.Sprintf("must be from 1 to %d jobs per second", MaxRate))
		}
	}
	if field, message := d.due(&o); message != "" {
		refuse(field, message)
	}
	if d.Set != nil {
		o.Set = d.Set
		wrong = append(wrong, d.set(now, l)...)
	}
	if len(wrong) > 0 {
		return Operation{}, &job.ValidationError{Fields: wrong}
	}
	return o, nil
}

// due sets the time to reschedule to, or says what is wrong with it.
func (d *Draft) due(o *Operation) (field job.Field, wrong string) {
	given := d.Delay != nil || d.At != 0
	switch {
	case o.Action != Reschedule && d.Delay != nil:
		return "delay", "is for reschedule only"
	case o.Action != Reschedule && d.At != 0:
		return "at", "is for reschedule only"
	case o.Action != Reschedule:
		return "", ""
	case !given:
		return "delay", "is required for reschedule, unless at is given"
	case d.Delay != nil && d.At != 0:
		return "at", "must not be combined with delay"
	case d.Delay != nil:
		o.To = o.StartedAt.Add(*d.Delay)
	default:
		o.To = d.At
	}
	if o.To > o.StartedAt.Add(job.MaxDelay) {
		field = "at"
		if d.Delay != nil {
			field = "delay"
		}
		return field, "must be at most " + job.FormatDuration(job.MaxDelay) + " ahead"
	}
	return "", ""
}

// set says what is wrong with what is to be set. A body that is too large is, too.
func (d *Draft) set(now job.Instant, l job.Limits) []job.FieldError {
	if Action(d.Action) != Replay {
		return []job.FieldError{{Field: "set", Message: "is for replay only"}}
	}
	_, _, err := d.Set.Patch(&sample, l, now)
	var wrong *job.ValidationError
	switch {
	case err == nil:
		return nil
	case !errors.As(err, &wrong):
		return []job.FieldError{{Field: "set", Message: err.Error()}}
	}
	fields := slices.Clone(wrong.Fields)
	for i := range fields {
		fields[i].Field = fields[i].Field.Within("set")
	}
	return fields
}

func names(list []job.State) string {
	all := make([]string, len(list))
	for i, s := range list {
		all[i] = s.String()
	}
	return strings.Join(all, ", ")
}
