package calendars

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/kit/documents"
	"github.com/duehook/duehook/internal/schedule"
	"github.com/duehook/duehook/store"
)

// Bounds of calendars.
const (
	MaxCalendars = 1000
	MaxDates     = 1000 // of one calendar: dates and ranges
	// MaxAllBytes bounds the stored JSON of all calendars together.
	MaxAllBytes = 8 << 20
	// MaxUsers bounds the schedules that an InUseError names.
	MaxUsers = 20
	// keepRemoved is how long a date that was taken out is remembered: as long as occurrences
	// may be late.
	keepRemoved = 367 * 24 * time.Hour
)

// Errors on which callers decide.
var (
	// ErrNotFound: no calendar has this name.
	ErrNotFound = errors.New("calendar not found")
	// ErrTooMany: there are MaxCalendars, or they take MaxAllBytes.
	ErrTooMany = errors.New("too many calendars")
)

// InUseError says that schedules use a calendar, which therefore stays.
type InUseError struct {
	Calendar  string
	Schedules []string // MaxUsers at most
	More      bool     // there are others
}

func (e *InUseError) Error() string {
	more := ""
	if e.More {
		more = " and others"
	}
	return "schedules use the calendar: " + strings.Join(e.Schedules, ", ") + more
}

// Calendar is a calendar and its dates, in the order of the client.
type Calendar struct {
	Name string `json:"-"`
	documents.Stamp
	Dates []schedule.Dates `json:"dates"`
	// Removed are dates that were taken out.
	Removed []Removed `json:"removed,omitempty"`
}

// Removed is a range of dates that a calendar had. Occurrences up to At stay excepted.
type Removed struct {
	Dates schedule.Dates `json:"dates"`
	At    job.Instant    `json:"at"`
}

// Exceptions are what the calendar means to a schedule.
func (c *Calendar) Exceptions() []schedule.Exception {
	all := make([]schedule.Exception, 0, len(c.Dates)+len(c.Removed))
	for _, d := range c.Dates {
		all = append(all, schedule.Exception{Dates: d, Calendar: c.Name})
	}
	for _, r := range c.Removed {
		all = append(all, schedule.Exception{Dates: r.Dates, Calendar: c.Name, Until: r.At.Time()})
	}
	return all
}

// replace gives the calendar other dates, and remembers those that go.
func (c *Calendar) replace(dates []schedule.Dates, now job.Instant) {
	kept := slices.DeleteFunc(slices.Clone(c.Removed), func(r Removed) bool {
		return r.At < now.Add(-keepRemoved) || slices.Contains(dates, r.Dates)
	})
	for _, d := range c.Dates {
		if !slices.Contains(dates, d) {
			kept = append(kept, Removed{d, now})
		}
	}
	c.Dates, c.Removed = dates, kept[max(0, len(kept)-MaxDates):]
}

// Draft is a calendar as a client asks for it. Dates is nil if it was not given.
type Draft struct{ Dates []string }

// ReadDates checks dates and ranges of dates.
func ReadDates(f *job.Findings, field job.Field, texts []string, most int) []schedule.Dates {
	if len(texts) > most {
		f.Add(field, fmt.Sprintf("must have at most %d dates and ranges, not %d", most, len(texts)))
		return nil
	}
	var list []schedule.Dates
	for i, text := range texts {
		d, err := schedule.ParseDates(text)
		if at := field.In(strconv.Itoa(i)); f.Check(at, err) && slices.Contains(list, d) {
			f.Add(at, "is given twice")
		}
		list = append(list, d)
	}
	return list
}

// Calendar validates the draft. The error is a *job.ValidationError.
func (d *Draft) Calendar(name string) (Calendar, error) {
	var f job.Findings
	f.Check("calendar", job.CheckName(name))
	if d.Dates == nil {
		f.Add("dates", "is required; [] is a calendar without dates")
	}
	c := Calendar{Name: name, Dates: ReadDates(&f, "dates", d.Dates, MaxDates)}
	if c.Dates == nil {
		c.Dates = []schedule.Dates{}
	}
	return c, f.Err()
}

// Store is what calendars need of a store. Every store.Store is one.
type Store interface {
	store.Figuring
	store.Documents
}

// Schedules are the schedules that use calendars.
type Schedules interface {
	// Using returns up to n names of schedules that use a calendar.
	Using(ctx context.Context, calendar string, n int) ([]string, error)
	// Replan makes all nodes plan the schedules again.
	Replan(ctx context.Context)
}

// Manager keeps calendars. Its methods are safe for concurrent use.
type Manager struct {
	store Store
	docs  *documents.Collection[Calendar]
	users Schedules
}

// New makes a Manager of the calendars in a store. The clock stamps changes; nil: the
// machine's.
func New(s Store, clock job.Clock) *Manager {
	return &Manager{store: s, docs: documents.New(documents.Options[Calendar]{
		Store: s, Kind: "calendar", Missing: ErrNotFound, New: func(name string) Calendar { return Calendar{Name: name} },
		Strict: true, // a date may have conditions that only a newer version knows
		Max:    MaxCalendars, MaxBytes: MaxAllBytes, Full: ErrTooMany,
		Clock: clock, Stamp: func(c *Calendar) *documents.Stamp { return &c.Stamp },
	})}
}

// For sets the schedules that use the calendars, before the first change.
func (m *Manager) For(s Schedules) { m.users = s }

// Get reads a calendar from the store. Errors of this and the following calls: ErrNotFound,
// store.ErrNewer, and the store's.
func (m *Manager) Get(ctx context.Context, name string) (Calendar, error) {
	d, err := m.docs.Get(ctx, name)
	return d.Value, err
}

// Put creates or replaces a calendar that Draft.Calendar made. Equal dates change nothing.
// Errors: ErrTooMany, and allow's.
func (m *Manager) Put(ctx context.Context, c Calendar, allow ...documents.Allow) (stored Calendar, created bool, err error) {
	now, err := store.Now(ctx, m.store)
	if err != nil {
		return Calendar{}, false, err
	}
	d, err := m.docs.Update(ctx, c.Name, func(d *documents.Document[Calendar]) error {
		if created = d.Version == 0; !created && slices.Equal(c.Dates, d.Value.Dates) {
			return documents.ErrKept
		}
		d.Value.replace(c.Dates, now)
		return nil
	}, allow...)
	if err == nil {
		m.users.Replan(ctx)
	}
	return d.Value, created, err
}

// Delete deletes a calendar that no schedule uses. The error is an *InUseError otherwise.
func (m *Manager) Delete(ctx context.Context, name string, allow ...documents.Allow) error {
	return m.docs.Remove(ctx, name, append(allow, func(bool, uint64) error {
		users, err := m.users.Using(ctx, name, MaxUsers+1)
		if err != nil || len(users) == 0 {
			return err
		}
		return &InUseError{Calendar: name, Schedules: users[:min(len(users), MaxUsers)], More: len(users) > MaxUsers}
	})...)
}

// List returns up to limit calendars behind the name after, and the name of the last if
// others follow. It ends early at store.PageBytes, and leaves out calendars that only a newer
// version can read.
func (m *Manager) List(ctx context.Context, after string, limit int) (page []Calendar, next string, err error) {
	return m.docs.Page(ctx, after, limit)
}
