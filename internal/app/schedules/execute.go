package schedules

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/duehook/duehook/internal/app"
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/schedule"
	"github.com/duehook/duehook/internal/services/events"
	"github.com/duehook/duehook/store"
)

// work decides and registers the occurrences of one schedule. It writes nothing.
type work struct {
	m     *Manager
	name  string
	now   job.Instant
	rules *schedule.Rules
	// unsure: another node, or a call that failed, may have registered an occurrence that the
	// record does not have.
	unsure bool
	rec    record
	events []events.Event
	more   bool // look again at once
	broken bool // some registrations were not answered
}

// uidOf is the uid of the job of an occurrence, whose id has its time. It follows from its arguments:
// repeated registrations are one job, with one webhook-id, whatever the schedule has become meanwhile.
func uidOf(own string, at job.Instant, key job.Key) string {
	sum := sha256.Sum256([]byte(own + " " + key.ID))
	var id ulid.ULID
	_ = id.SetTime(uint64(max(at, 0))) // no time of a timetable is too late
	_ = id.SetEntropy(sum[:10])
	return store.BindUID(id.String(), key)
}

// run decides the occurrences whose turn has come, as far as their jobs can be registered.
func (w *work) run(ctx context.Context) error {
	r := &w.rec
	if r.wake(w.now) {
		w.events = append(w.events, events.Event{Type: events.ScheduleResumed, At: w.now, Topic: r.Def.Topic(), Schedule: w.name})
	}
	if r.ahead(w.now) {
		return nil
	}
	if w.unsure {
		r.suspect(w.name, w.rules, w.now)
	}
	if r.Left != nil {
		r.Left = slices.DeleteFunc(slices.Clone(r.Left), func(l left) bool { return r.Done.At > l.Until })
	}
	busy := false
	if w.rules.Overlap != schedule.Allow {
		var err error
		if busy, err = w.m.busy(ctx, r); err != nil {
			return err
		}
	}
	d := w.rules.Decide(r.progress(), schedule.Facts{Now: w.now.Time(), Busy: busy})
	err := w.take(ctx, &d)
	if refused, ok := errors.AsType[*refusedError](err); ok {
		r.waits(&LastError{At: w.now, Reason: refused.reason, Message: refused.message})
		return nil
	}
	if err == nil && len(d.Steps) > 0 {
		r.LastError, w.more = nil, d.More
	}
	if err != nil && alone(err) {
		r.waits(unreadable(w.now, err))
	}
	return err
}

// waits notes why occurrences stay undecided.
func (r *record) waits(e *LastError) {
	if r.LastError == nil || r.LastError.Reason != e.Reason {
		r.LastError = e
	}
}

const (
	// maxSuspects bounds the latest occurrences whose jobs are looked up.
	maxSuspects = 100
	// maxOpen bounds the jobs that a schedule counts as unfinished; the latest stay.
	maxOpen = 1000
)

// open counts a job as unfinished.
func (r *record) open(key job.Key) {
	if r.Def.Overlap != schedule.Allow && !slices.Contains(r.Open, key) {
		r.Open = append(slices.Clip(r.Open), key)
		r.Open = r.Open[max(0, len(r.Open)-maxOpen):]
	}
}

// suspect counts jobs as unfinished that the record may lack: another node, or a call that failed, may have
// registered the first undecided occurrence, and the latest.
func (r *record) suspect(name string, rules *schedule.Rules, at job.Instant) {
	if rules.Overlap == schedule.Allow {
		return
	}
	after, now := r.Done.At.Time().Add(-r.Def.spread()-2*lookTimeout), at.Time()
	times := rules.Table.Latest(after, now, maxSuspects)
	for first := range rules.Table.Between(after, now) {
		times = append(times, first)
		break
	}
	for _, t := range times {
		r.open(r.key(name, t))
	}
}

// keyOf is the key of the job of an occurrence: in a topic that the schedule has left, if the job is there.
func (w *work) keyOf(ctx context.Context, at, due job.Instant) (job.Key, error) {
	key := w.rec.key(w.name, at.Time())
	for _, l := range w.rec.Left {
		before := job.Key{Topic: l.Topic, ID: key.ID}
		if due > l.Until {
			continue
		}
		switch _, err := w.m.o.Jobs.Get(ctx, before); {
		case err == nil:
			return before, nil
		case !errors.Is(err, store.ErrNotFound):
			return key, err
		}
	}
	return key, nil
}

// registration makes the registration of an occurrence.
func (w *work) registration(ctx context.Context, at job.Instant, late bool) (store.Registration, error) {
	r, due := &w.rec, job.InstantOf(schedule.Due(w.name, at.Time(), w.rec.Def.spread()))
	of := job.Occurrence{Schedule: w.name, Time: at, Kind: job.ByTimetable}
	if late {
		of.Kind = job.ByMisfire
	}
	key, err := w.keyOf(ctx, at, due)
	if err != nil {
		return store.Registration{}, err
	}
	return w.m.o.Jobs.Occurrence(&r.Def.Job, app.Occurrence{Key: key, UID: uidOf(r.UID, at, key), Now: w.now, Due: due, Of: of})
}

// refusedError says that an occurrence cannot be registered now.
type refusedError struct{ reason, message string }

func (e *refusedError) Error() string { return e.message }

var refusals = map[store.RegisterOutcome]*refusedError{
	store.TopicFull:     {ReasonTopicFull, "The topic of the job has as many unfinished jobs as its capacity allows."},
	store.TopicDraining: {ReasonTopicDraining, "The topic of the job is draining: it takes no jobs."},
}

// take takes the steps of a decision, until a job is refused.
func (w *work) take(ctx context.Context, d *schedule.Decision) error {
	for steps := d.Steps; len(steps) > 0; {
		n := 0
		for n < len(steps) && steps[n].Outcome == schedule.Fired {
			n++
		}
		if n == 0 {
			w.count(&steps[0])
			n = 1
		} else if err := w.fire(ctx, steps[:n]); err != nil {
			return err
		}
		steps = steps[n:]
	}
	return nil
}

// count takes a step that registers nothing.
func (w *work) count(s *schedule.Step) {
	r, at := &w.rec, job.InstantOf(s.Time)
	w.passed(s)
	switch s.Outcome {
	case schedule.Missed:
		r.Missed += s.Count
		w.outcome(at, schedule.Missed, "", events.OccurrenceMissed, s.Count)
	case schedule.Skipped:
		reason := ReasonOverlap
		if s.ByHand {
			reason = ReasonByHand
			progress := r.progress()
			r.Skips = slices.DeleteFunc(slices.Clone(r.Skips), func(t job.Instant) bool { return !w.rules.Pending(progress, t.Time()) })
		}
		r.Skipped += s.Count
		w.outcome(at, schedule.Skipped, reason, events.OccurrenceSkipped, s.Count)
	case schedule.Fired, schedule.Failed:
	}
}

// passed notes that the occurrences up to a step are decided.
func (w *work) passed(s *schedule.Step) {
	w.rec.Done = turnOf(s.Turn)
	if !s.Since.IsZero() {
		w.rec.Since = job.InstantOf(s.Since)
	}
}

func (w *work) outcome(at job.Instant, o schedule.Outcome, reason string, event events.Type, n int64) {
	w.rec.Last = &Last{Time: at, DueAt: job.InstantOf(schedule.Due(w.name, at.Time(), w.rec.Def.spread())), Outcome: o, Reason: reason}
	w.m.metrics.outcomes.WithLabelValues(string(o)).Add(float64(n))
	w.events = append(w.events, events.Event{Type: event, At: w.now, Topic: w.rec.Def.Topic(), Schedule: w.name, Reason: reason, NextAt: at})
}

func (w *work) failed(at job.Instant, reason string) {
	w.rec.Failed++
	w.outcome(at, schedule.Failed, reason, events.OccurrenceFailed, 1)
}

// fire registers the jobs of steps in one call, and takes the steps until one is refused.
func (w *work) fire(ctx context.Context, steps []schedule.Step) error {
	var regs []store.Registration
	var of []*schedule.Step // the step of each
	for i := range steps {
		reg, err := w.registration(ctx, job.InstantOf(steps[i].Time), steps[i].Late)
		if err != nil && !wrongTemplate(err) {
			return err
		}
		if err == nil {
			regs, of = append(regs, reg), append(of, &steps[i])
		}
	}
	if len(regs) == 0 { // the settings of the server no longer allow the template
		for i := range steps {
			w.failed(job.InstantOf(steps[i].Time), ReasonTemplate)
			w.passed(&steps[i])
		}
		return nil
	}
	got, err := w.m.o.Jobs.RegisterOwn(ctx, regs)
	if err != nil {
		return fmt.Errorf("register the occurrences of %s: %w", w.name, err)
	}
	for i, step := range of {
		if err := w.registered(&regs[i], &got[i]); err != nil {
			return err
		}
		w.passed(step)
	}
	return nil
}

func wrongTemplate(err error) bool {
	var wrong *job.ValidationError
	return errors.As(err, &wrong) || errors.Is(err, job.ErrBodyTooLarge)
}

// registered takes the result of a registration. A job that is there already counts: the node that
// registered it did not write that.
func (w *work) registered(reg *store.Registration, got *store.Registered) error {
	if refused := refusals[got.Outcome]; refused != nil {
		return refused
	}
	switch {
	case got.Outcome == store.StoreFull:
		return store.ErrFull
	case got.Job.UID == reg.UID || reg.Spec.Occurrence.Is(got.Job.Spec.Occurrence):
		w.fired(reg)
	default:
		w.failed(reg.Spec.Occurrence.Time, ReasonIDTaken)
	}
	return nil
}

// fired notes the job of an occurrence.
func (w *work) fired(reg *store.Registration) {
	r := &w.rec
	r.Fired++
	w.m.metrics.outcomes.WithLabelValues(string(schedule.Fired)).Inc()
	r.Last = &Last{Time: reg.Spec.Occurrence.Time, DueAt: reg.Spec.When.At, Outcome: schedule.Fired, Key: reg.Key, UID: reg.UID}
	r.open(reg.Key)
}

// clockBack is how far the clock may go back unnoticed.
const clockBack = time.Minute

// ahead reports whether the clock went back behind what is decided.
func (r *record) ahead(now job.Instant) bool { return r.Done.At.Sub(now) > clockBack }
