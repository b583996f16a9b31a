package operations

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/oklog/ulid/v2"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/kit/jsonio"
	"github.com/duehook/duehook/store"
)

// Limits of an operation's rate, in jobs per second.
const (
	DefaultRate = 500
	MaxRate     = 10_000
)

// Draft is an operation as a client asks for it. Fronts have checked each value alone.
type Draft struct {
	Action string
	Filter store.Query
	All    bool // the filter may be empty
	Rate   *int // nil: DefaultRate
	// Delay or At is when rescheduled jobs are due.
	Delay *time.Duration // from the beginning of the operation
	At    job.Instant
	// Set is the change that Replay makes first; nil: none.
	Set *job.Draft
	By  string // the name of the client's API key; empty without keys
	// Key is the Idempotency-Key, or empty. It belongs to the client's API key.
	Key string
}

// selectsAll reports whether a filter selects every job, of the topics to which the caller is
// restricted.
func selectsAll(q store.Query) bool {
	q.Only = nil
	return reflect.ValueOf(q).IsZero()
}

// unfinished are the states between which carriers and workers move jobs.
var unfinished = []job.State{job.Waiting, job.Ready, job.Running, job.Retrying}

// states are the states that an action needs. Without states in its filter, a replay sends
// dead letters only: hardly any client wants to repeat delivered jobs.
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

// sample is a job with which a change is validated in advance.
var sample = job.Job{Spec: job.Spec{Destination: "http://receiver.example/", BodyForm: job.BodyText, ContentType: job.BodyText.ContentType()}}

// operation is the operation that d asks for, beginning now. Its error is a
// *job.ValidationError.
func (d *Draft) operation(now job.Instant, l job.Bounds) (Operation, error) {
	var f job.Findings
	o := Operation{
		Action: Action(d.Action), Filter: d.Filter, Rate: DefaultRate, By: d.By, State: Running, StartedAt: now, UpdatedAt: now,
	}
	known, ok := states[o.Action]
	if !ok {
		f.Add("action", "must be one of cancel, run, replay, reschedule, discard")
	}
	if selectsAll(d.Filter) && !d.All {
		f.Add("filter", `must not be empty, unless "all" is true`)
	}
	for _, s := range d.Filter.States {
		if ok && !slices.Contains(known.may, s) {
			f.Add("filter.state", fmt.Sprintf("must be one of %s: %s is impossible for jobs in state %s", names(known.may), d.Action, s))
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
			f.Add("rate", fmt.Sprintf("must be from 1 to %d jobs per second", MaxRate))
		}
	}
	if field, message := d.due(&o); message != "" {
		f.Add(field, message)
	}
	if d.Set != nil {
		o.Set = d.Set
		d.checkSet(&f, now, l)
	}
	return o, f.Err()
}

// due sets the time to which jobs are rescheduled, or returns its error.
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

// checkSet checks the fields to set. A body that is too large is an error of set.
func (d *Draft) checkSet(f *job.Findings, now job.Instant, l job.Bounds) {
	if Action(d.Action) != Replay {
		f.Add("set", "is for replay only")
		return
	}
	_, _, err := d.Set.Patch(&sample, l, now)
	f.Check("set", f.Take("set", err))
}

func names(list []job.State) string {
	all := make([]string, len(list))
	for i, s := range list {
		all[i] = s.String()
	}
	return strings.Join(all, ", ")
}

// name gives o the id that the Idempotency-Key names, and the fingerprint of the request.
func (d *Draft) name(o *Operation) error {
	own := *d
	own.By, own.Key, own.Filter.Only = "", "", nil // the caller's
	if own.Set != nil && own.Set.Body != nil && own.Set.Body.Form == job.BodyJSON {
		set := *own.Set
		set.Body = &job.Body{Form: job.BodyJSON, Content: jsonio.AppendSorted(nil, set.Body.Content)}
		own.Set = &set
	}
	text, err := json.Marshal(own)
	if err != nil {
		return fmt.Errorf("encode an operation: %w", err)
	}
	o.Content = job.Fingerprint(xxhash.Sum64(text))
	sum := sha256.Sum256([]byte(d.By + "\n" + d.Key)) // which no name holds
	o.ID = ulid.ULID(sum[:16]).String()
	return nil
}

// age orders operations by age.
func (o *Operation) age() string { return fmt.Sprintf("%016d.%s", o.StartedAt, o.ID) }
