package schedule

import (
	"iter"
	"time"
)

const (
	// Ahead is how long before its turn an occurrence may be decided, with Allow.
	Ahead = 2 * time.Second
	// lookAhead is how long before a turn the next look is.
	lookAhead = 1500 * time.Millisecond
	// MaxPending is how many occurrences the jitter of a schedule may span. Each look examines
	// that many.
	MaxPending = 1000
)

// Turn is the place of an occurrence in the order of decisions.
type Turn struct {
	At   time.Time // when its job is due; unless overlap is allowed, after those before it
	Time time.Time // T
}

// Compare orders turns.
func (t Turn) Compare(u Turn) int {
	if c := t.At.Compare(u.At); c != 0 {
		return c
	}
	return t.Time.Compare(u.Time)
}

// UpTo is the turn after which the turns after an instant begin.
func UpTo(at time.Time) Turn { return Turn{At: at, Time: at} }

// occurrence is an occurrence with its turn.
type occurrence struct {
	Turn
	due time.Time // D
}

func (r *Rules) due(at time.Time) time.Time { return Due(r.Name, at, r.Jitter) }

// horizon is up to which time turns may be decided now.
func (r *Rules) horizon(now time.Time) time.Time {
	if r.Overlap == Allow {
		return now.Add(Ahead)
	}
	return now
}

// turns yields the occurrences with after < T <= until, in the order of T. Turns follow from
// the timetable, so no occurrence has a state while it waits for its jitter.
func (r *Rules) turns(since, after, until time.Time) iter.Seq[occurrence] {
	return func(yield func(occurrence) bool) {
		var last time.Time // turn of the occurrences so far
		for at := range r.Table.Between(later(since, after.Add(-r.Jitter)), until) {
			o := occurrence{Turn{Time: at}, r.due(at)}
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

// undecided yields the undecided occurrences whose turn comes up to the horizon, in the
// order of T.
func (r *Rules) undecided(s State, horizon time.Time) iter.Seq[occurrence] {
	return func(yield func(occurrence) bool) {
		for o := range r.turns(s.Since, r.first(s), horizon) {
			if o.Compare(s.Done) > 0 && !o.At.After(horizon) && !yield(o) {
				return
			}
		}
	}
}

// first is a time that all undecided occurrences come after.
func (r *Rules) first(s State) time.Time {
	return later(s.Since, s.Done.At.Add(-r.Jitter-time.Second))
}

// NextTurn returns the turn of the next undecided occurrence; false if none is to come.
func (r *Rules) NextTurn(s State) (next Turn, ok bool) {
	if r.Remaining(s.Fired) == 0 {
		return Turn{}, false
	}
	for o := range r.turns(s.Since, r.first(s), lastInstant) {
		if ok && !o.Time.Before(next.At) {
			break
		}
		if o.Compare(s.Done) > 0 && (!ok || o.Compare(next) < 0) {
			next, ok = o.Turn, true
		}
	}
	return next, ok
}

// Pending reports whether the occurrence at a time is to be decided yet.
func (r *Rules) Pending(s State, at time.Time) bool {
	for o := range r.turns(s.Since, at.Add(-time.Second), at) {
		return o.Time.Equal(at) && o.Compare(s.Done) > 0
	}
	return false
}

// Next returns when to look again after a decision, without regard to a queued
// occurrence; false if there is nothing to come.
func (r *Rules) Next(s State) (time.Time, bool) {
	next, ok := r.NextTurn(s)
	if ok && r.Overlap == Allow {
		next.At = next.At.Add(-lookAhead)
	}
	return next.At, ok
}

// Undecided counts the undecided occurrences T <= until.
func (r *Rules) Undecided(s State, until time.Time) (n int64) {
	from := later(s.Since, s.Done.At)
	for o := range r.turns(s.Since, r.first(s), earlier(from, until)) {
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

// Registered yields the decided occurrences whose turn comes after an instant.
func (r *Rules) Registered(s State, after time.Time) iter.Seq[Turn] {
	return func(yield func(Turn) bool) {
		for o := range r.turns(s.Since, after.Add(-r.Jitter-time.Second), s.Done.At) {
			if o.At.After(after) && o.Compare(s.Done) <= 0 && !yield(o.Turn) {
				return
			}
		}
	}
}
