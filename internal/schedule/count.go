package schedule

import (
	"iter"
	"time"
)

// MaxCount bounds what Count counts: a year of seconds is not walked.
const MaxCount = 1_000_000

// Count counts the occurrences T with after < T <= until, up to MaxCount.
func (t *Timetable) Count(after, until time.Time) (n int64) {
	for range t.Between(after, until) {
		if n++; n == MaxCount {
			break
		}
	}
	return n
}

// window is after < T <= until within the bounds of the timetable, in seconds.
func (t *Timetable) window(after, until time.Time) (begin, end int64) {
	begin, end = floor(after)+1, min(floor(until), lastInstant.Unix())
	if !t.Start.IsZero() {
		begin = max(begin, t.Start.Unix())
	}
	if !t.End.IsZero() {
		end = min(end, t.End.Unix()-1)
	}
	return begin, end
}

func floor(t time.Time) int64 { return t.Unix() } // Unix rounds down, before 1970, too

// Latest returns the last n occurrences T with after < T <= until, in order. It walks
// longer and longer spans before the end.
func (t *Timetable) Latest(after, until time.Time, n int) []time.Time {
	begin, end := t.window(after, until)
	for span := int64(3600); n > 0; span *= 24 {
		from := max(begin-1, end-span)
		found := t.last(time.Unix(from, 0), time.Unix(end, 0), n)
		if len(found) == n || from < begin {
			return found
		}
	}
	return nil
}

// last walks. It keeps the last n.
func (t *Timetable) last(after, until time.Time, n int) []time.Time {
	ring := make([]time.Time, 0, min(n, 1024))
	next := 0
	for at := range t.Between(after, until) {
		if len(ring) < n {
			ring = append(ring, at)
			continue
		}
		ring[next] = at
		next = (next + 1) % n
	}
	return append(ring[next:len(ring):len(ring)], ring[:next]...)
}

// Between yields the times of the occurrences with after < T <= until, in order.
func (t *Timetable) Between(after, until time.Time) iter.Seq[time.Time] {
	return func(yield func(time.Time) bool) {
		for p := range t.points(after, until) {
			if p.omitted == "" && !yield(time.Unix(p.at, 0).UTC()) {
				return
			}
		}
	}
}

// Next returns the first occurrence after a time; false if none comes.
func (t *Timetable) Next(after time.Time) (time.Time, bool) {
	for at := range t.Between(after, lastInstant) {
		return at, true
	}
	return time.Time{}, false
}

// Densest is about how many occurrences fit into a span, which is at most a day long: those of a day that follow one of its times
// within the span.
func (t *Timetable) Densest(span time.Duration) int {
	if t.HasEvery {
		return int(span / t.Every)
	}
	shown, width := t.expr.shown(), int64(span/time.Second)
	n, most := 0, 0
	for second := int64(1); second <= width; second++ {
		n += shown(second)
	}
	for first := range int64(daySeconds) {
		if shown(first) == 1 {
			most = max(most, n)
		}
		n += shown(first+1+width) - shown(first+1)
	}
	return most
}

// shown returns how many times are at a second of a day, or of the next one: one or none.
func (e *expression) shown() func(second int64) int {
	var hours [24]bool
	var minutes, seconds [60]bool
	for _, h := range e.hours {
		hours[h] = true
	}
	for _, m := range e.minutes {
		minutes[m] = true
	}
	for _, s := range e.seconds {
		seconds[s] = true
	}
	return func(second int64) int {
		if hours[second/3600%24] && minutes[second/60%60] && seconds[second%60] {
			return 1
		}
		return 0
	}
}

// Has reports whether there is an occurrence at a time.
func (t *Timetable) Has(at time.Time) bool {
	for range t.Between(at.Add(-time.Second), at) {
		return true
	}
	return false
}
