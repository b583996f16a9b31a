package schedules

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/schedule"
	"github.com/duehook/duehook/internal/services/access"
	"github.com/duehook/duehook/store"
)

// State is the state of a schedule.
type State string

// The states.
const (
	Active    State = "active"
	Paused    State = "paused"
	Completed State = "completed" // nothing is to come
)

// States are all of them.
var States = []State{Active, Paused, Completed}

// failing counts schedules that wait because they cannot be executed, whatever their state.
const failing State = "failing"

var countedStates = append(States[:len(States):len(States)], failing)

// Schedule is the present form of a schedule: its document, and the values computed from
// it.
type Schedule struct {
	record
	Name      string
	State     State
	Rules     *schedule.Rules // their jitter includes the spread of the job
	Remaining *int64          // nil: there is no bound
	Now       job.Instant
}

func view(ctx context.Context, d *document, now job.Instant) (Schedule, error) {
	r := &d.Value
	r.wake(now)
	rules, err := r.rules(d.Name)
	if err != nil {
		return Schedule{}, err
	}
	sight := access.SightOf(ctx)
	sight.Draft(&r.Def.Job)
	if e := r.LastError; e != nil {
		r.LastError = &LastError{e.At, e.Reason, sight.Text(e.Message)}
	}
	s := Schedule{record: *r, Name: d.Name, State: Active, Rules: rules, Now: now}
	if r.Pause == nil && r.ahead(now) {
		s.LastError = &LastError{At: r.Done.At, Reason: ReasonClock, Message: "The clock of the store went back. The schedule waits for it; resume lets it go on from now."}
	}
	if rules.Max > 0 {
		left := rules.Remaining(s.Fired)
		s.Remaining = &left
	}
	switch {
	case r.Pause != nil:
		s.State = Paused
	case !s.more():
		s.State = Completed
	}
	return s, nil
}

// more reports whether an occurrence is to come, or to be decided.
func (s *Schedule) more() bool {
	if s.Remaining != nil && *s.Remaining == 0 {
		return false
	}
	_, undecided := s.Rules.Next(s.progress())
	return undecided || len(s.Next(1)) > 0
}

// Next lists future occurrences.
func (s *Schedule) Next(n int) []schedule.Occurrence {
	if s.Remaining != nil {
		n = int(min(int64(n), *s.Remaining))
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
	now, err := store.Now(ctx, m.o.Store)
	if err != nil {
		return Schedule{}, err
	}
	return view(ctx, &d, now)
}

// Query selects schedules. Empty fields select all.
type Query struct {
	States   []State // any of them
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
	now, err := store.Now(ctx, m.o.Store)
	if err != nil {
		return Page{}, err
	}
	var page Page
	err = access.Paged(ctx, q.Cursor, func(cursor string) (_ *string, err error) {
		q.Cursor = cursor
		page, err = m.list(ctx, &q, now)
		return &page.Next, err
	})
	return page, err
}

func (m *Manager) list(ctx context.Context, q *Query, now job.Instant) (page Page, err error) {
	for raw, err := range m.docs.From(ctx, q.Cursor, listAtOnce) {
		if err != nil {
			return Page{}, err
		}
		d := m.docs.Decode(raw)
		if d.Err != nil || !d.Value.exists() || !q.selects(&d.Value) {
			continue
		}
		s, err := view(ctx, &d, now)
		if err != nil && !errors.Is(err, store.ErrNewer) {
			return Page{}, err
		}
		if err != nil || len(q.States) > 0 && !slices.Contains(q.States, s.State) {
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

// How many occurrences clients may ask for.
const (
	DefaultOccurrences = 10
	MaxOccurrences     = 1000
)

// Part is the part of a timetable that a client asks for.
type Part struct {
	From  *time.Time // nil: now
	After *time.Time // nil: any; otherwise occurrences behind it only
	Limit *int       // nil: DefaultOccurrences
}

// Timetable is a part of the timetable of a schedule or draft.
type Timetable struct {
	Rules *schedule.Rules
	schedule.Preview
	More bool // an occurrence follows the last one
}

func (p *Part) check(f *job.Findings) {
	checkYear(f, "from", p.From)
	checkYear(f, "cursor", p.After)
	if p.Limit != nil && (*p.Limit < 1 || *p.Limit > MaxOccurrences) {
		f.Add("limit", fmt.Sprintf("must be a whole number from 1 to %d", MaxOccurrences))
	}
}

// checkYear refuses times that the preview of a timetable cannot begin at.
func checkYear(f *job.Findings, field job.Field, at *time.Time) {
	if at == nil {
		return
	}
	if year := at.UTC().Year(); year < 1970 || year > 9999 {
		f.Add(field, "must be in the years 1970 to 9999")
	}
}

func (p *Part) of(r *schedule.Rules, now job.Instant) Timetable {
	from, count := now.Time(), DefaultOccurrences
	if p.From != nil {
		from = *p.From
	}
	if p.After != nil && !p.After.Before(from) {
		from = p.After.Add(time.Nanosecond)
	}
	if p.Limit != nil {
		count = *p.Limit
	}
	t := Timetable{Rules: r, Preview: r.Table.Preview(from, count)}
	if n := len(t.Occurrences); n == count {
		_, t.More = r.Table.Next(t.Occurrences[n-1].Time)
	}
	return t
}

// Occurrences returns a part of the timetable of a schedule.
func (m *Manager) Occurrences(ctx context.Context, name string, p Part) (Timetable, error) {
	var f job.Findings
	if p.check(&f); f.Err() != nil {
		return Timetable{}, f.Err()
	}
	s, err := m.Get(ctx, name)
	if err != nil {
		return Timetable{}, err
	}
	return p.of(s.Rules, s.Now), nil
}

// Preview checks a draft, whose job may be missing, and returns a part of its timetable.
func (m *Manager) Preview(ctx context.Context, name string, d *Draft, p Part) (Timetable, error) {
	var f job.Findings
	p.check(&f)
	_, rules, err := m.check(name, d, true)
	if err := f.Take("", err); err != nil {
		return Timetable{}, err
	}
	if err := f.Err(); err != nil {
		return Timetable{}, err
	}
	now, err := store.Now(ctx, m.o.Store)
	if err != nil {
		return Timetable{}, err
	}
	return p.of(rules, now), nil
}
