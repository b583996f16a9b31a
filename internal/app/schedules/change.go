package schedules

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/duehook/duehook/internal/documents"
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/schedule"
	"github.com/duehook/duehook/internal/services/events"
	"github.com/duehook/duehook/store"
)

// alteration is a change of a schedule by a client. It holds for every occurrence that is not
// registered yet.
type alteration struct {
	m       *Manager
	name    string
	now     job.Instant
	rec     *record
	events  []events.Event
	created bool
}

// Set makes or replaces a schedule. Errors of this and the following calls: a
// *job.ValidationError, a *app.BlockedError, ErrNotFound, ErrTooMany, ErrBusy,
// store.ErrNewer, the store's, and those of allow.
func (m *Manager) Set(ctx context.Context, name string, d *Draft, allow ...documents.Allow) (s Schedule, created bool, err error) {
	if err := d.Topics.Allow(d.Topic()); err != nil {
		return Schedule{}, false, err
	}
	if d.Job != nil && d.Job.Group != nil { // all topics share the groups
		if err := d.Topics.Allow(""); err != nil {
			return Schedule{}, false, err
		}
	}
	def, rules, err := m.check(name, d, false)
	if err != nil {
		return Schedule{}, false, err
	}
	if err := m.admit(ctx, name, &def, rules.Table); err != nil {
		return Schedule{}, false, err
	}
	a, err := m.change(ctx, m.docs.Update, name, allow, func(a *alteration) error {
		if !a.rec.exists() {
			return a.create(def, d)
		}
		if err := d.Topics.Allow(a.rec.Def.Topic()); err != nil {
			return err
		}
		if def.Job.Dialect == nil { // another dialect changes the schedule
			def.Job.Dialect = a.rec.Def.Job.Dialect
		}
		changes := !def.equal(&a.rec.Def)
		if changes {
			if err := a.replace(def, rules); err != nil {
				return err
			}
		}
		err := a.setPaused(d)
		if changes && errors.Is(err, documents.ErrKept) {
			return nil
		}
		return err
	})
	if err != nil {
		return Schedule{}, false, err
	}
	s, err = m.Get(ctx, name)
	return s, a.created, err
}

// setPaused makes the change of a pause that the draft asks for.
func (a *alteration) setPaused(d *Draft) error {
	switch {
	case d.Paused == nil:
		return documents.ErrKept
	case *d.Paused:
		p := job.Pause{}
		if d.Note != nil {
			p.Note = *d.Note
		} else if a.rec.Pause != nil {
			return documents.ErrKept
		}
		return a.pause(p)
	case a.rec.Pause == nil:
		return documents.ErrKept
	}
	return a.resume()
}

// create fills in the record of a new schedule.
func (a *alteration) create(def Definition, d *Draft) error {
	id, err := ulid.New(uint64(a.now), rand.Reader)
	if err != nil {
		return fmt.Errorf("make a uid: %w", err)
	}
	*a.rec = record{UID: id.String(), Version: 1, CreatedAt: a.now, UpdatedAt: a.now, Def: def, Since: a.now, Done: upTo(a.now)}
	if d.Paused != nil && *d.Paused {
		a.rec.Pause = &job.Pause{Since: a.now, Note: orZero(d.Note)}
	}
	a.created = true
	return nil
}

// replace gives the schedule another definition. Registered occurrences stay.
func (a *alteration) replace(def Definition, rules *schedule.Rules) error {
	r := a.rec
	old, err := r.rules(a.name)
	if err != nil {
		return err
	}
	if r.Pause == nil {
		a.suspect(old)
	}
	switch {
	case old.Overlap != schedule.Allow && rules.Overlap == schedule.Allow:
		r.Open = nil
	case old.Overlap == schedule.Allow && rules.Overlap != schedule.Allow:
		for _, t := range old.Table.Latest(r.Since.Time(), a.now.Time(), maxSuspects) {
			r.Open = append(r.Open, r.opened(r.key(a.name, t)))
		}
	}
	if r.Pause == nil && !def.sameTimes(&r.Def) {
		a.skip(old, ReasonChanged)
		r.Since = a.now
	}
	until := a.now.Add(lookTimeout)
	if next, ok := old.Next(r.progress()); ok && (def.Topic() != r.Def.Topic() || def.group() != r.Def.group()) && !next.At.After(until.Time()) {
		r.Left = append(slices.Clip(r.Left[max(0, len(r.Left)-maxLeft+1):]), left{r.Def.Topic(), until, r.Def.group()})
	}
	r.Def = def
	a.changed(events.ScheduleChanged)
	return nil
}

// suspect counts jobs as unfinished that the schedule may have before its change: a node that died, or
// one that looks at this moment, may have registered occurrences that the change passes over.
func (a *alteration) suspect(rules *schedule.Rules) {
	a.rec.suspect(a.name, rules, a.now.Add(lookTimeout))
}

// changed notes a change, and reports it if it has a type.
func (a *alteration) changed(t events.Type) {
	r := a.rec
	r.Version++
	r.UpdatedAt, r.LastError = a.now, nil
	if t != "" {
		a.emit(t)
	}
}

// skip counts the undecided occurrences so far, which the schedule no longer has.
func (a *alteration) skip(rules *schedule.Rules, reason string) {
	if n := rules.Undecided(a.rec.progress(), a.now.Time()); n > 0 && rules.Remaining(a.rec.Fired) > 0 {
		a.skipped(a.now, n, reason)
	}
}

func (a *alteration) skipped(at job.Instant, n int64, reason string) {
	a.rec.Skipped += n
	a.m.metrics.outcomes.WithLabelValues(string(schedule.Skipped)).Add(float64(n))
	a.events = append(a.events, events.Event{
		Type: events.OccurrenceSkipped, At: a.now, Topic: a.rec.Def.Topic(), Schedule: a.name, Reason: reason, NextAt: at,
	})
}

func (a *alteration) emit(t events.Type) {
	e := events.Event{Type: t, At: a.now, Topic: a.rec.Def.Topic(), Schedule: a.name}
	if p := a.rec.Pause; p != nil && t == events.SchedulePaused {
		e.Reason = p.Reason
	}
	a.events = append(a.events, e)
}

// Pause pauses a schedule, until a time if the pause has one. A repeated pause takes the place
// of the one before.
func (m *Manager) Pause(ctx context.Context, name string, p job.Pause) (Schedule, error) {
	return m.changed(ctx, name, nil, func(a *alteration) error {
		if err := p.Check(a.now); err != nil {
			return err
		}
		return a.pause(p)
	})
}

// Resume resumes a schedule. A schedule that waits for the clock continues from now.
func (m *Manager) Resume(ctx context.Context, name string) (Schedule, error) {
	return m.changed(ctx, name, nil, func(a *alteration) error {
		if a.rec.Pause == nil && !a.rec.ahead(a.now) {
			return documents.ErrKept
		}
		return a.resume()
	})
}

// changed is changeExisting, and returns the schedule.
func (m *Manager) changed(ctx context.Context, name string, allow []documents.Allow, alter func(a *alteration) error) (Schedule, error) {
	if err := m.changeExisting(ctx, name, allow, alter); err != nil {
		return Schedule{}, err
	}
	return m.Get(ctx, name)
}

func (a *alteration) pause(p job.Pause) error {
	r := a.rec
	if old := r.Pause; old != nil {
		if p.Since = old.Since; p == *old {
			return documents.ErrKept
		}
		r.Pause = &p
		a.changed("")
		return nil
	}
	rules, err := r.rules(a.name)
	if err != nil {
		return err
	}
	a.suspect(rules)
	a.skip(rules, ReasonPaused)
	p.Since = a.now
	r.Pause = &p
	a.changed(events.SchedulePaused)
	return nil
}

// stop pauses a schedule because of a run that ended. Runs of before the schedule got its present occurrences or receiver
// do not count.
func (m *Manager) stop(ctx context.Context, name, reason string, last *Run) error {
	err := m.changeExisting(ctx, name, nil, func(a *alteration) error {
		r, to := a.rec, a.rec.Def.Job.Destination
		if r.Pause != nil || last.Time <= r.Since || reason == job.PausedGone && (to == nil || *to != last.to) {
			return documents.ErrKept
		}
		note := fmt.Sprintf("The receiver of the job %s accepts no more.", last.Key)
		if reason == job.PausedDead {
			note = fmt.Sprintf("%d occurrences in a row became dead letters, %s last.", maxDead, last.Key)
		}
		return a.pause(job.Pause{Reason: reason, Note: note})
	})
	if errors.Is(err, ErrNotFound) || errors.Is(err, store.ErrNewer) {
		return nil
	}
	return err
}

func (a *alteration) resume() error {
	a.rec.resume(a.now)
	a.emit(events.ScheduleResumed)
	return nil
}

// Skip skips an occurrence that is to come and not registered: the next one, or with a time
// that one.
func (m *Manager) Skip(ctx context.Context, name string, at *time.Time, allow ...documents.Allow) (Schedule, error) {
	return m.changed(ctx, name, allow, func(a *alteration) error {
		rules, err := a.rec.rules(a.name)
		if err != nil {
			return err
		}
		t, err := a.toSkip(rules, at)
		if err != nil {
			return err
		}
		skips := a.pendingSkips(rules)
		if len(skips) == maxSkips {
			return job.Invalid("time", fmt.Sprintf("cannot be skipped: %d occurrences to come are skipped, the limit", maxSkips))
		}
		a.rec.Skips = append(skips, job.InstantOf(t))
		slices.Sort(a.rec.Skips)
		a.changed(events.ScheduleChanged)
		return nil
	})
}

// Unskip takes back that an occurrence is skipped, or with a nil time all that are to come.
func (m *Manager) Unskip(ctx context.Context, name string, at *time.Time, allow ...documents.Allow) (Schedule, error) {
	return m.changed(ctx, name, allow, func(a *alteration) error {
		rules, err := a.rec.rules(a.name)
		if err != nil {
			return err
		}
		skips := a.pendingSkips(rules)
		before := len(skips)
		skips = slices.DeleteFunc(skips, func(t job.Instant) bool { return at == nil || t.Time().Equal(*at) })
		if len(skips) == before {
			return documents.ErrKept
		}
		a.rec.Skips = skips
		a.changed(events.ScheduleChanged)
		return nil
	})
}

// pendingSkips are the skipped occurrences that are to come.
func (a *alteration) pendingSkips(rules *schedule.Rules) (left []job.Instant) {
	progress := a.rec.progress()
	for _, t := range a.rec.Skips {
		if rules.Pending(progress, t.Time()) {
			left = append(left, t)
		}
	}
	return left
}

// toSkip is the occurrence that a call means. Error: documents.ErrKept if it is skipped already.
func (a *alteration) toSkip(rules *schedule.Rules, at *time.Time) (t time.Time, err error) {
	after := a.now.Time()
	if at == nil {
		for t := range rules.Table.Between(after, after.AddDate(schedule.Horizon, 0, 0)) {
			if !rules.Skipped(t) && rules.Pending(a.rec.progress(), t) {
				return t, nil
			}
		}
		return t, job.Invalid("time", "is missing: no occurrence is to come that could be skipped")
	}
	switch {
	case rules.Skipped(*at):
		return t, documents.ErrKept
	case !rules.Table.Has(*at):
		return t, job.Invalid("time", "is not the time of an occurrence; GET …/occurrences lists them")
	case !rules.Pending(a.rec.progress(), *at) || !schedule.Due(a.name, *at, rules.Jitter).After(after):
		return t, job.Invalid("time", "is past, or its job is registered: cancel the job "+schedule.ID(a.name, *at))
	}
	return *at, nil
}

// Delete deletes a schedule, readable or not.
func (m *Manager) Delete(ctx context.Context, name string, allow ...documents.Allow) error {
	err := m.changeExisting(ctx, name, allow, func(a *alteration) error {
		a.emit(events.ScheduleDeleted)
		*a.rec = record{UID: a.rec.UID, Version: a.rec.Version + 1, DeletedAt: a.now}
		return nil
	})
	if errors.Is(err, store.ErrNewer) {
		err = m.docs.Remove(ctx, name, allow...)
		m.announce(ctx, name)
	}
	if err == nil {
		err = m.o.RunLog.forget(ctx, name)
	}
	return err
}

// changeExisting is change for a schedule that exists.
func (m *Manager) changeExisting(ctx context.Context, name string, allow []documents.Allow, alter func(a *alteration) error) error {
	_, err := m.change(ctx, m.docs.Change, name, allow, alter)
	return err
}

// changing is Change or Update of a collection.
type changing func(ctx context.Context, name string, change func(d *document) error, allow ...documents.Allow) (document, error)

// change changes a schedule: alter alters the present version, and may be called again.
func (m *Manager) change(ctx context.Context, by changing, name string, allow []documents.Allow, alter func(a *alteration) error) (a *alteration, err error) {
	var kept error
	_, err = by(ctx, name, func(d *document) error {
		now, err := store.Now(ctx, m.o.Store)
		if err != nil {
			return err
		}
		a = &alteration{m: m, name: name, now: now, rec: &d.Value}
		if d.Value.wake(now) {
			a.emit(events.ScheduleResumed)
		}
		if err := m.docs.Allowed(d, allow); err != nil { // of the schedule as it is now
			return err
		}
		if kept = alter(a); kept != nil {
			return kept
		}
		return m.o.fail("before change")
	})
	switch {
	case errors.Is(err, store.ErrConflict):
		return nil, ErrBusy
	case err != nil || kept != nil:
		return a, err
	}
	m.announce(ctx, name)
	m.o.Emit(a.events...)
	return a, nil
}
