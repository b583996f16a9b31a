package schedule

import (
	"cmp"
	"fmt"
	"iter"
	"math"
	"time"

	"github.com/duehook/duehook/internal/job"
)

// Gap says what a local time becomes that the clock leaps over.
type Gap string

// The rules for gaps.
const (
	Shift   Gap = "shift" // as long after the time before as ever: 02:30 comes at 03:30
	SkipGap Gap = "skip"  // nothing
)

// Repeat says at which of its instants a local time fires that the clock shows twice.
type Repeat string

// The rules for repeats.
const (
	First Repeat = "first"
	Last  Repeat = "last"
	Both  Repeat = "both"
)

// Limits of a Spec.
const (
	MinEvery  = time.Second
	MaxEvery  = 366 * 24 * time.Hour
	MaxJitter = job.MaxSpread
	// Horizon is how far apart two occurrences may be, and how far the first one may be from
	// the time from which they are asked for. What comes later never comes.
	Horizon = 100 // years
)

const daySeconds = 24 * 60 * 60

// lastInstant ends all timetables: later times have no RFC 3339 form.
var lastInstant = time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)

// Spec is a timetable as a client describes it. Exactly one of Cron and Every is
// set. Empty fields mean the defaults.
type Spec struct {
	Cron     string        `json:",omitzero"`
	Every    time.Duration `json:",omitzero"` // elapsed time, whole seconds
	HasEvery bool          `json:",omitzero"` // distinguishes an interval of zero from none
	Anchor   time.Time     `json:",omitzero"` // with Every: an occurrence; Start or 1970-01-01 by default
	Zone     string        `json:",omitzero"` // IANA name; UTC by default
	Gap      Gap           `json:",omitzero"` // with Cron
	Repeat   Repeat        `json:",omitzero"` // with Cron
	Start    time.Time     `json:",omitzero"` // Start <= T
	End      time.Time     `json:",omitzero"` // T < End
}

// Timetable is a checked Spec. It is immutable.
type Timetable struct {
	Spec // with the defaults filled in

	loc    *time.Location
	expr   *expression // nil with Every
	except []Dates     // in order, without overlaps
}

// New checks a Spec. The error is a *job.ValidationError with every wrong field.
func New(s Spec) (*Timetable, error) {
	var f job.Findings
	if s.Zone == "" {
		s.Zone = "UTC"
	}
	t := &Timetable{}
	var ok bool
	if t.loc, ok = Zone(s.Zone); !ok {
		f.Add("timezone", fmt.Sprintf("%q is not a name of the IANA time zone database %s: write one such as Europe/Berlin", s.Zone, TZData()))
	}
	switch {
	case s.Cron != "" && s.HasEvery:
		f.Add("every", "must not be combined with cron: write one of them")
	case !s.HasEvery:
		if !s.Anchor.IsZero() {
			f.Add("anchor", "belongs to every: leave it out")
		}
		expr, err := parseExpression(s.Cron)
		if f.Check("cron", err) {
			t.expr = expr
			s.fillRules(&f, expr)
		}
	case s.Gap != "" || s.Repeat != "":
		f.Add("dst", "belongs to cron: an interval ignores zones")
	case s.Every < MinEvery || s.Every > MaxEvery || s.Every%time.Second != 0:
		f.Add("every", "must be whole seconds, from 1s to 366d")
	}
	checkTime(&f, "start_at", s.Start)
	checkTime(&f, "end_at", s.End)
	checkTime(&f, "anchor", s.Anchor)
	if !s.End.IsZero() && !s.Start.IsZero() && !s.End.After(s.Start) {
		f.Add("end_at", "must be after start_at")
	}
	if s.HasEvery && s.Anchor.IsZero() {
		if s.Anchor = s.Start; s.Anchor.IsZero() {
			s.Anchor = time.Unix(0, 0).UTC()
		}
	}
	if err := f.Err(); err != nil {
		return nil, err
	}
	t.Spec = s
	return t, nil
}

func checkTime(f *job.Findings, field job.Field, at time.Time) {
	if at.Nanosecond() != 0 {
		f.Add(field, "must be a whole second")
	}
	if year := at.UTC().Year(); year < 0 || year > lastInstant.Year() {
		f.Add(field, "must be in the years 0 to 9999 of UTC")
	}
}

// fillRules sets the rules for daylight saving time that are not given. The defaults
// follow from the form of the expression: what follows the clock keeps its pace, and a
// fixed time comes once, whatever the clock does.
func (s *Spec) fillRules(f *job.Findings, e *expression) {
	gap, repeat := Shift, First
	switch {
	case e.everyHour:
		gap, repeat = SkipGap, Both
	case e.open:
		repeat = Both
	}
	s.Gap, s.Repeat = cmp.Or(s.Gap, gap), cmp.Or(s.Repeat, repeat)
	if s.Gap != Shift && s.Gap != SkipGap {
		f.Add("dst.gap", fmt.Sprintf("%q is not a rule: write shift or skip", s.Gap))
	}
	if s.Repeat != First && s.Repeat != Last && s.Repeat != Both {
		f.Add("dst.repeat", fmt.Sprintf("%q is not a rule: write first, last or both", s.Repeat))
	}
}

// Effect names what daylight saving time did to an occurrence.
type Effect string

// The effects; empty: it did nothing.
const (
	Shifted     Effect = "shifted"
	FirstOfTwo  Effect = "first_of_two"
	SecondOfTwo Effect = "second_of_two"
)

// Occurrence is one instant of a timetable.
type Occurrence struct {
	Time   time.Time // in the zone of the timetable
	Effect Effect
	Wanted string // of a shifted one: the local time that does not exist
}

// wantedLayout is how a local time is written that no instant has.
const wantedLayout = "2006-01-02T15:04:05"

func (t *Timetable) occurrence(p point) Occurrence {
	o := Occurrence{Time: time.Unix(p.at, 0).In(t.loc), Effect: p.effect}
	if p.effect == Shifted {
		o.Wanted = time.Unix(p.local, 0).UTC().Format(wantedLayout)
	}
	return o
}

// points yields occurrences and omitted local times with after < T <= until, within the
// bounds of the timetable.
func (t *Timetable) points(after, until time.Time) iter.Seq[point] {
	return func(yield func(point) bool) {
		begin, end := t.window(after, until)
		horizon := time.Unix(floor(after)+1, 0).UTC().AddDate(Horizon, 0, 0).Unix()
		source := t.cronPoints
		if t.HasEvery {
			source = t.everyPoints
		}
		for p := range source(begin, func() int64 { return min(end, horizon) }) {
			if p.at > min(end, horizon) {
				return
			}
			if !yield(p) {
				return
			}
			if p.omitted == "" {
				horizon = time.Unix(p.at, 0).UTC().AddDate(Horizon, 0, 0).Unix()
			}
		}
	}
}

// everyPoints yields anchor + k × every. It passes over excepted days.
func (t *Timetable) everyPoints(begin int64, _ func() int64) iter.Seq[point] {
	return func(yield func(point) bool) {
		offset, until, told := int64(0), int64(math.MinInt64), int64(math.MinInt64)
		for at := t.atOrAfter(begin); ; {
			if at >= until {
				offset, until = t.offsetAt(at)
			}
			day := floorDiv(at+offset, daySeconds)
			switch {
			case !t.excepts(day):
				if !yield(point{at: at, local: at + offset}) {
					return
				}
				at += int64(t.Every / time.Second)
				continue
			case told != day && !yield(exceptedDay(day, at)):
				return
			}
			told = day
			at = max(at+int64(t.Every/time.Second), t.atOrAfter(min((day+1)*daySeconds-offset, until)))
		}
	}
}

// atOrAfter is the first anchor + k × every that is not before an instant.
func (t *Timetable) atOrAfter(begin int64) int64 {
	every, anchor := int64(t.Every/time.Second), t.Anchor.Unix()
	return anchor - floorDiv(anchor-begin, every)*every
}
