package schedules

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/duehook/duehook/internal/app/calendars"
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/schedule"
	"github.com/duehook/duehook/store"
)

// compiler makes the rules of a schedule, with its calendars as they are now. If a calendar cannot be read, they
// lack exceptions, and the error is store.ErrNewer.
type compiler func(ctx context.Context, name string, r *record) (*schedule.Rules, error)

// compiling returns a compiler that reads each calendar once. It is not safe for concurrent use.
func (m *Manager) compiling() compiler {
	read := m.reading()
	return func(ctx context.Context, name string, r *record) (*schedule.Rules, error) {
		_, dates, err := read(ctx, &r.Def)
		if err != nil && !errors.Is(err, store.ErrNewer) {
			return nil, err
		}
		rules, wrong := compiled(name, r, dates)
		return rules, cmp.Or(wrong, err)
	}
}

// compiled are the rules of a schedule with the exceptions of its calendars. The error is store.ErrNewer: another
// version of duehook accepted the definition.
func compiled(name string, r *record, dates []schedule.Exception) (*schedule.Rules, error) {
	rules, err := r.Def.rules(name, dates...)
	if err != nil {
		return nil, fmt.Errorf("%w: the schedule %s: %w", store.ErrNewer, name, err)
	}
	for _, at := range r.Skips {
		rules.Skips = append(rules.Skips, at.Time())
	}
	return rules, nil
}

// reader returns the exceptions of the calendars of a definition, and a text that changes with
// them.
type reader func(ctx context.Context, d *Definition) (versions string, all []schedule.Exception, err error)

// reading returns a reader that reads each calendar once, readable or not. A calendar that is missing,
// because it was deleted while a schedule began to use it, has no dates.
func (m *Manager) reading() reader {
	type answer struct {
		calendars.Calendar
		err error
	}
	known := map[string]answer{}
	return func(ctx context.Context, d *Definition) (versions string, all []schedule.Exception, err error) {
		for _, name := range d.Except.Calendars {
			c, ok := known[name]
			if !ok {
				c.Calendar, c.err = m.calendar(ctx, name)
				known[name] = c
			}
			if c.err != nil && !errors.Is(c.err, calendars.ErrNotFound) {
				return "", all, c.err
			}
			versions += " " + strconv.FormatUint(c.Version, 10)
			all = append(all, c.Exceptions()...)
		}
		return versions, all, nil
	}
}

func (m *Manager) calendar(ctx context.Context, name string) (calendars.Calendar, error) {
	if m.o.Calendars == nil {
		return calendars.Calendar{}, calendars.ErrNotFound
	}
	return m.o.Calendars.Get(ctx, name)
}

// checkCalendars adds the dates of the calendars of a draft to its rules.
func (m *Manager) checkCalendars(ctx context.Context, f *job.Findings, name string, d *Definition, rules *schedule.Rules) (*schedule.Rules, error) {
	const field = job.Field("except.calendars")
	names := d.Except.Calendars
	if len(names) > maxCalendars {
		f.Add(field, fmt.Sprintf("must have at most %d names, not %d", maxCalendars, len(names)))
		return rules, nil
	}
	for i, calendar := range names {
		at := field.In(strconv.Itoa(i))
		if !f.Check(at, job.CheckName(calendar)) {
			continue
		}
		switch _, err := m.calendar(ctx, calendar); {
		case slices.Contains(names[:i], calendar):
			f.Add(at, "is given twice")
		case errors.Is(err, calendars.ErrNotFound):
			f.Add(at, "does not exist; create it with PUT /v1/calendars/"+calendar)
		case err != nil:
			return nil, err
		}
	}
	if len(names) == 0 || rules == nil || f.Err() != nil {
		return rules, nil //nolint:nilerr // the caller reports the findings
	}
	return m.compiling()(ctx, name, &record{Def: *d})
}

// frozen are the dates of a definition and its calendars near a span, as they are now.
func (m *Manager) frozen(ctx context.Context, d *Definition, from, to job.Instant) (Except, error) {
	_, dates, err := m.reading()(ctx, d)
	var e Except
	for _, x := range d.exceptions(dates...) {
		if x.Until.IsZero() && x.Near(from.Time(), to.Time()) {
			e.Dates = append(e.Dates, x.Dates)
		}
	}
	return e, err
}

// Using returns up to n names of schedules that use a calendar.
func (m *Manager) Using(ctx context.Context, calendar string, n int) (names []string, err error) {
	for raw, err := range m.docs.From(ctx, "", listAtOnce) {
		if err != nil {
			return nil, err
		}
		d := m.docs.Decode(raw)
		if d.Value.exists() && slices.Contains(d.Value.Def.Except.Calendars, calendar) {
			if names = append(names, d.Name); len(names) == n {
				break
			}
		}
	}
	return names, nil
}

// Replan makes the leader of schedules plan all of them again, because a calendar changed.
func (m *Manager) Replan(ctx context.Context) { m.announce(ctx, "") }
