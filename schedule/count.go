package schedule

import (
	"iter"
	"slices"
	"time"
)

// MaxCount is up to how many occurrences Count is exact.
const MaxCount = 1_000_000

// Count counts the occurrences T with after < T <= until. It is exact up to MaxCount
// and may stop there. It multiplies instead of walking where the clock does not change.
func (t *Timetable) Count(after, until time.Time) int64 {
	begin, end := t.window(after, until)
	if begin > end {
		return 0
	}
	if t.HasEvery && len(t.except)+len(t.former) == 0 {
		every, anchor := int64(t.Every/time.Second), t.Anchor.Unix()
		return floorDiv(end-anchor, every) - floorDiv(begin-1-anchor, every)
	}
	if t.HasEvery || len(t.former) > 0 {
		return t.walk(begin, end, 0)
	}
	return t.countCron(begin, end)
}

// walk counts occurrences one by one, with those that are counted already.
func (t *Timetable) walk(from, to, counted int64) int64 {
	for p := range t.points(time.Unix(from, 0)) {
		if p.at > to || counted >= MaxCount {
			break
		}
		if p.omitted == "" {
			counted++
		}
	}
	return counted
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

// countCron counts whole plain days by their number, and walks the others.
func (t *Timetable) countCron(begin, end int64) (n int64) {
	perDay := int64(len(t.expr.hours) * len(t.expr.minutes) * len(t.expr.seconds))
	from := begin // all before it is counted
	for day := floorDiv(begin, daySeconds) - 1; day*daySeconds-daySeconds <= end && n < MaxCount; day++ {
		offset, plain := t.offsetOf(day)
		first, last := day*daySeconds-offset, (day+1)*daySeconds-offset-1
		if !plain || first < from || last > end {
			continue
		}
		if first > from {
			n = t.walk(from, first-1, n)
		}
		if t.expr.matches(dateOf(day)) && t.excepts(day) == nil {
			n += perDay
		}
		from = last + 1
	}
	if from <= end {
		n = t.walk(from, end, n)
	}
	return n
}

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
		if begin, end := t.window(after, until); begin > end {
			return
		}
		for o := range t.From(time.Unix(floor(after)+1, 0)) {
			if o.Time.After(until) || !yield(o.Time.UTC()) {
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

// Densest is about how many occurrences fit into a span, which is at most a day long.
func (t *Timetable) Densest(span time.Duration) int {
	if t.HasEvery {
		return int(span / t.Every)
	}
	var list []int64 // of two days
	most, first := 0, 0
	for day := range int64(2) {
		list = slices.AppendSeq(list, t.expr.times(day))
	}
	for i, at := range list {
		for at-list[first] > int64(span/time.Second) {
			first++
		}
		most = max(most, i-first)
	}
	return most
}

// Has reports whether there is an occurrence at a time.
func (t *Timetable) Has(at time.Time) bool {
	for range t.Between(at.Add(-time.Second), at) {
		return true
	}
	return false
}
