package schedules

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
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

// run decides the occurrences whose tick has come, as far as their jobs can be registered.
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
	err := w.complete(ctx)
	if err == nil {
		err = w.take(ctx, &d)
	}
	if refused, ok := errors.AsType[*refusedError](err); ok {
		r.waits(&LastError{At: w.now, Reason: refused.reason, Message: refused.message})
		return nil
	}
	if err == nil && len(d.Steps) > 0 {
		r.LastError, w.more = nil, d.More
	}
	if err != nil && !store.Unreachable(err) {
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
		r.open(r.opened(r.key(name, t)))
	}
}

// complete registers the missing jobs of fan-outs that another node, or a call that failed, may have begun. Unless
// overlap is allowed, these occurrences count as unfinished and are not registered again.
func (w *work) complete(ctx context.Context) error {
	r := &w.rec
	if !w.unsure || r.Def.Job.Group == nil || w.rules.Overlap == schedule.Allow {
		return nil
	}
	for _, key := range r.Open {
		id, _ := strings.CutSuffix(key.ID, job.MemberID("", ""))
		at, err := time.Parse(schedule.IDLayout, strings.TrimPrefix(id, w.name+"@"))
		if err != nil || !w.rules.Pending(r.progress(), at) {
			continue // a run by hand, or decided
		}
		begun, err := w.m.o.Jobs.HasGroupJob(ctx, key.Topic, id, false)
		if err != nil || !begun {
			if err != nil {
				return err
			}
			continue
		}
		regs, err := w.registrations(ctx, job.InstantOf(at), false)
		if errors.Is(err, app.ErrNoMembers) || wrongTemplate(err) || err == nil && len(regs) == 0 {
			continue
		}
		if err != nil {
			return err
		}
		got, err := w.m.o.Jobs.RegisterOwn(ctx, regs)
		if err != nil {
			return fmt.Errorf("register the occurrences of %s: %w", w.name, err)
		}
		for i := range got {
			if refused := refusals[got[i].Outcome]; refused != nil {
				return refused
			}
		}
	}
	return nil
}

// leftWith reports with which form that the schedule has left a node registered an occurrence; nil: with none.
func (w *work) leftWith(ctx context.Context, at, due job.Instant) (*left, error) {
	key := w.rec.key(w.name, at.Time())
	for i := range w.rec.Left {
		l := &w.rec.Left[i]
		if due > l.Until {
			continue
		}
		var found bool
		var err error
		if l.Group != "" {
			found, err = w.m.o.Jobs.HasGroupJob(ctx, l.Topic, key.ID, false)
		} else {
			_, err = w.m.o.Jobs.Get(ctx, job.Key{Topic: l.Topic, ID: key.ID})
			if found = err == nil; errors.Is(err, store.ErrNotFound) {
				err = nil
			}
		}
		if found || err != nil {
			return l, err
		}
	}
	return nil, nil
}

// registrations makes the registrations of an occurrence. None: a fan-out was made before, in a form that the
// schedule has left.
func (w *work) registrations(ctx context.Context, at job.Instant, late bool) ([]store.Registration, error) {
	r, due := &w.rec, job.InstantOf(schedule.Due(w.name, at.Time(), w.rec.Def.spread()))
	of := job.Occurrence{Schedule: w.name, Time: at, Kind: job.ByTimetable}
	if late {
		of.Kind = job.ByMisfire
	}
	key := r.key(w.name, at.Time())
	switch l, err := w.leftWith(ctx, at, due); {
	case err != nil:
		return nil, err
	case l == nil:
	case l.Group != "" || r.Def.Job.Group != nil:
		return nil, nil
	default:
		key.Topic = l.Topic
	}
	uid := func(key job.Key) string { return uidOf(r.UID, at, key) }
	return w.m.o.Jobs.Occurrence(ctx, &r.Def.Job, app.Occurrence{Key: key, UID: uid, Now: w.now, Due: due, Of: of})
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
		if w.rec.Def.Job.Group != nil {
			n = min(n, 1) // a fan-out may be large
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
	w.rec.Done = tickOf(s.Tick)
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
	ends := make([]int, len(steps)) // of the registrations of each
	reasons := make([]string, len(steps))
	for i := range steps {
		more, err := w.registrations(ctx, job.InstantOf(steps[i].Time), steps[i].Late)
		switch {
		case errors.Is(err, app.ErrNoMembers):
			reasons[i] = ReasonNoMembers
		case wrongTemplate(err): // the settings of the server no longer allow the template
			reasons[i] = ReasonTemplate
		case err != nil:
			return err
		}
		regs = append(regs, more...)
		ends[i] = len(regs)
	}
	var got []store.Registered
	if len(regs) > 0 {
		var err error
		if got, err = w.m.o.Jobs.RegisterOwn(ctx, regs); err != nil {
			return fmt.Errorf("register the occurrences of %s: %w", w.name, err)
		}
	}
	begin := 0
	for i := range steps {
		at := job.InstantOf(steps[i].Time)
		if reasons[i] != "" {
			w.failed(at, reasons[i])
		} else if err := w.registered(at, regs[begin:ends[i]], got[begin:ends[i]]); err != nil {
			return err
		}
		w.passed(&steps[i])
		begin = ends[i]
	}
	return nil
}

func wrongTemplate(err error) bool {
	var wrong *job.ValidationError
	return errors.As(err, &wrong) || errors.Is(err, job.ErrBodyTooLarge)
}

// registered takes the results of the registrations of an occurrence, which fires once. A job that is there already
// counts: the node that registered it did not write that.
func (w *work) registered(at job.Instant, regs []store.Registration, got []store.Registered) error {
	taken := 0
	for i := range regs {
		reg := &regs[i]
		if refused := refusals[got[i].Outcome]; refused != nil {
			return refused
		}
		switch {
		case got[i].Outcome == store.StoreFull:
			return store.ErrFull
		case got[i].Job.UID != reg.UID && !reg.Spec.Occurrence.Is(got[i].Job.Spec.Occurrence):
			taken++
		}
	}
	if taken > 0 && taken == len(regs) {
		w.failed(at, ReasonIDTaken)
		return nil
	}
	r, key := &w.rec, w.rec.key(w.name, at.Time())
	last := &Last{Time: at, DueAt: job.InstantOf(schedule.Due(w.name, at.Time(), r.Def.spread())), Outcome: schedule.Fired, Key: key}
	if r.Def.Job.Group == nil && len(regs) > 0 {
		last.Key, last.UID = regs[0].Key, regs[0].UID
	}
	r.Fired++
	w.m.metrics.outcomes.WithLabelValues(string(schedule.Fired)).Inc()
	r.Last = last
	r.open(r.opened(last.Key))
	return nil
}

// clockBack is how far the clock may go back unnoticed.
const clockBack = time.Minute

// ahead reports whether the clock went back behind what is decided.
func (r *record) ahead(now job.Instant) bool { return r.Done.At.Sub(now) > clockBack }
