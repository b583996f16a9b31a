package schedule

import "time"

// MaxCount is up to how many occurrences Count is exact.
const MaxCount = 1_000_000

// lookBehind are the spans in which Latest looks, one after the other.
var lookBehind = []time.Duration{time.Hour, 24 * time.Hour, 31 * 24 * time.Hour, 366 * 24 * time.Hour, 5 * 366 * 24 * time.Hour}

// Count counts the occurrences T with after < T <= until. It is exact up to MaxCount
// and may stop there. It multiplies instead of walking where the clock does not change.
func (t *Timetable) Count(after, until time.Time) int64 {
	begin, end := t.window(after, until)
	if begin > end {
		return 0
	}
	if t.HasEvery {
		every, anchor := int64(t.Every/time.Second), t.Anchor.Unix()
		return floorDiv(end-anchor, every) - floorDiv(begin-1-anchor, every)
	}
	return t.countCron(begin, end)
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
	walk := func(from, to int64) {
		for p := range t.cronPoints(from, func() int64 { return to }) {
			if p.at > to || n >= MaxCount {
				return
			}
			if p.omitted == "" {
				n++
			}
		}
	}
	from := begin // all before it is counted
	for day := floorDiv(begin, daySeconds) - 1; day*daySeconds-daySeconds <= end && n < MaxCount; day++ {
		offset, plain := t.offsetOf(day)
		first, last := day*daySeconds-offset, (day+1)*daySeconds-offset-1
		if !plain || first < from || last > end {
			continue
		}
		if first > from {
			walk(from, first-1)
		}
		if t.expr.matches(dateOf(day)) {
			n += perDay
		}
		from = last + 1
	}
	if from <= end {
		walk(from, end)
	}
	return n
}

// Latest returns the last n occurrences T with after < T <= until, in order.
func (t *Timetable) Latest(after, until time.Time, n int) []time.Time {
	if n <= 0 {
		return nil
	}
	_, end := t.window(after, until)
	var found []time.Time
	for i := 0; i <= len(lookBehind); i++ {
		from, whole := after, i == len(lookBehind)
		if !whole {
			from = time.Unix(end, 0).Add(-lookBehind[i])
			whole = !from.After(after)
			if whole {
				from = after
			}
		}
		found = t.last(from, time.Unix(end, 0), n)
		if len(found) == n || whole {
			break
		}
	}
	return found
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
func (t *Timetable) Between(after, until time.Time) func(yield func(time.Time) bool) {
	return func(yield func(time.Time) bool) {
		begin, end := t.window(after, until)
		if begin > end {
			return
		}
		for p := range t.points(time.Unix(begin, 0).UTC()) {
			if p.at > end {
				return
			}
			if p.omitted == "" && !yield(time.Unix(p.at, 0).UTC()) {
				return
			}
		}
	}
}

// Next returns the first occurrence after a time; false if none comes.
func (t *Timetable) Next(after time.Time) (time.Time, bool) {
	for o := range t.From(time.Unix(floor(after)+1, 0).UTC()) {
		return o.Time.UTC(), true
	}
	return time.Time{}, false
}
