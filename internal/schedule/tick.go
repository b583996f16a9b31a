package schedule

import (
	"iter"
	"time"
)

// MaxPending is how many occurrences the jitter of a schedule may span. Each look examines
// that many.
const MaxPending = 1000

// Tick is the place of an occurrence in the order of decisions.
type Tick struct {
	At   time.Time // when its job is due; unless overlap is allowed, after those before it
	Time time.Time // T
}

// Compare orders ticks.
func (t Tick) Compare(u Tick) int {
	if c := t.At.Compare(u.At); c != 0 {
		return c
	}
	return t.Time.Compare(u.Time)
}

// UpTo is the tick after which the ticks after an instant begin.
func UpTo(at time.Time) Tick { return Tick{At: at, Time: at} }

// occurrence is an occurrence with its tick.
type occurrence struct {
	Tick
	due time.Time // D
}

func (r *Rules) due(at time.Time) time.Time { return Due(r.Name, at, r.Jitter) }

// ticks yields the occurrences with after < T <= until, in the order of T. Ticks follow from
// the timetable, so no occurrence has a state while it waits for its jitter.
func (r *Rules) ticks(since, after, until time.Time) iter.Seq[occurrence] {
	return func(yield func(occurrence) bool) {
		var last time.Time // tick of the occurrences so far
		for at := range r.Table.Between(later(since, after.Add(-r.Jitter)), until) {
			o := occurrence{Tick{Time: at}, r.due(at)}
			if o.At = o.due; r.Overlap != Allow {
				o.At = later(o.At, last)
			}
			last = o.At
			if at.After(after) && !yield(o) {
				return
			}
		}
	}
}

// undecided yields the undecided occurrences whose tick has come, in the order of T.
func (r *Rules) undecided(s Progress, now time.Time) iter.Seq[occurrence] {
	return func(yield func(occurrence) bool) {
		for o := range r.ticks(s.Since, r.first(s), now) {
			if o.Compare(s.Done) > 0 && !o.At.After(now) && !yield(o) {
				return
			}
		}
	}
}

// first is a time that all undecided occurrences come after.
func (r *Rules) first(s Progress) time.Time {
	return later(s.Since, s.Done.At.Add(-r.Jitter-time.Second))
}

// Next returns the tick of the next undecided occurrence; false if none is to come.
func (r *Rules) Next(s Progress) (next Tick, ok bool) {
	if r.Remaining(s.Fired) == 0 {
		return Tick{}, false
	}
	for o := range r.ticks(s.Since, r.first(s), lastInstant) {
		if ok && !o.Time.Before(next.At) {
			break
		}
		if o.Compare(s.Done) > 0 && (!ok || o.Compare(next) < 0) {
			next, ok = o.Tick, true
		}
	}
	return next, ok
}

// Pending reports whether the occurrence at a time is to be decided yet.
func (r *Rules) Pending(s Progress, at time.Time) bool {
	for o := range r.ticks(s.Since, at.Add(-time.Second), at) {
		return o.Time.Equal(at) && o.Compare(s.Done) > 0
	}
	return false
}

// Undecided counts the undecided occurrences T <= until.
func (r *Rules) Undecided(s Progress, until time.Time) (n int64) {
	from := later(s.Since, s.Done.At)
	for o := range r.ticks(s.Since, r.first(s), earlier(from, until)) {
		if o.Compare(s.Done) > 0 {
			n++
		}
	}
	return n + r.Table.Count(from, until)
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
