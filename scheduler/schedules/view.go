package schedules

import (
	"context"
	"errors"
	"time"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/schedule"
	"github.com/duehook/duehook/store"
)

// State is where a schedule stands.
type State string

// The states.
const (
	Active    State = "active"
	Paused    State = "paused"
	Completed State = "completed" // nothing is to come
)

// States are all of them.
var States = []State{Active, Paused, Completed}

// Schedule is a schedule as it stands: its document, and what follows from it now.
type Schedule struct {
	record
	Name      string
	State     State
	Rules     *schedule.Rules // their jitter includes the spread of the job
	Remaining *int64          // nil: there is no bound
	Now       job.Instant
}

func (m *Manager) view(d *document, now job.Instant) (Schedule, error) {
	r := &d.Value
	rules, err := r.Def.rules(d.Name)
	if err != nil {
		return Schedule{}, err
	}
	s := Schedule{record: *r, Name: d.Name, State: Active, Rules: rules, Now: now}
	if r.waitsForClock() && !r.ahead(now) {
		s.LastError = nil // the clock came back; the next decision removes it
	}
	s.Backfilled = r.backfilled()
	if rules.Max > 0 {
		left := rules.Remaining(r.Fired)
		s.Remaining = &left
	}
	switch {
	case r.PausedAt != 0:
		s.State = Paused
	case r.Held == nil && r.Intent == nil && !s.more():
		s.State = Completed
	}
	return s, nil
}

// more reports whether an occurrence is to come, or to be decided.
func (s *Schedule) more() bool {
	if s.Remaining != nil && *s.Remaining == 0 {
		return false
	}
	_, undecided := s.Rules.Table.Next(seconds(s.Cursor))
	return undecided || len(s.Next(1)) > 0
}

// Next lists future occurrences, beginning with those registered ahead.
func (s *Schedule) Next(n int) []schedule.Occurrence {
	if s.Remaining != nil {
		ahead := s.Rules.Table.Count(s.Now.Time(), seconds(s.Cursor))
		n = int(min(int64(n), *s.Remaining+ahead))
	}
	if n <= 0 {
		return nil
	}
	return s.Rules.Table.Preview(s.Now.Time().Add(time.Nanosecond), n).Occurrences
}

// Get returns a schedule.
func (m *Manager) Get(ctx context.Context, name string) (Schedule, error) {
	d, err := m.docs.Get(ctx, name)
	if errors.Is(err, store.ErrNotFound) || err == nil && !d.Value.exists() {
		return Schedule{}, ErrNotFound
	}
	if err != nil {
		return Schedule{}, err
	}
	now, err := m.o.Store.Now(ctx)
	if err != nil {
		return Schedule{}, err
	}
	return m.view(&d, now)
}

// Query selects schedules. Empty fields select all.
type Query struct {
	State    State
	Topic    string
	Endpoint string
	Limit    int
	Cursor   string // a name: those behind it
}

// Page is a page of schedules, by name; Next is empty on the last.
type Page struct {
	Schedules []Schedule
	Next      string
}

// listAtOnce is how many schedules List reads at once.
const listAtOnce = 100

// List returns a page of schedules.
func (m *Manager) List(ctx context.Context, q Query) (Page, error) {
	now, err := m.o.Store.Now(ctx)
	if err != nil {
		return Page{}, err
	}
	var page Page
	for raw, err := range m.docs.From(ctx, q.Cursor, listAtOnce) {
		if err != nil {
			return Page{}, err
		}
		d := m.docs.Decode(raw)
		if d.Err != nil || !d.Value.exists() || !q.selects(&d.Value) {
			continue
		}
		s, err := m.view(&d, now)
		if err != nil || q.State != "" && q.State != s.State {
			continue
		}
		if len(page.Schedules) == q.Limit {
			page.Next = page.Schedules[q.Limit-1].Name
			break
		}
		page.Schedules = append(page.Schedules, s)
	}
	return page, nil
}

func (q *Query) selects(r *record) bool {
	if q.Topic != "" && q.Topic != r.Def.Topic() {
		return false
	}
	if q.Endpoint == "" {
		return true
	}
	if r.Def.Job.Destination == nil {
		return false
	}
	endpoint, err := r.Def.Job.Destination.Endpoint()
	return err == nil && endpoint == q.Endpoint
}

// Preview checks a draft, whose job may be missing, and compiles its timetable.
func (m *Manager) Preview(name string, d *Draft) (*schedule.Rules, error) {
	_, rules, err := m.check(name, d, true)
	if err != nil {
		return nil, err
	}
	return rules, nil
}

// Now is the store's time.
func (m *Manager) Now(ctx context.Context) (job.Instant, error) { return m.o.Store.Now(ctx) }
