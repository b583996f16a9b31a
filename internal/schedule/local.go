package schedule

import (
	"cmp"
	"iter"
	"math"
	"sort"
	"time"
)

// Reason says why a local time yields nothing.
type Reason string

// The reasons.
const (
	InGap    Reason = "gap"    // the clock leaps over it
	Repeated Reason = "repeat" // it is shown twice, and the other one fires
	Merged   Reason = "merged" // shifted onto a time that fires anyway
)

// point is an instant at which a local time fires or would have fired. All times
// are in seconds; local is counted as if the local time were UTC.
type point struct {
	at, local int64
	effect    Effect
	omitted   Reason // empty: it fires
}

// margin is how far from a change of the zone's clock a day has to be to count as
// plain. No change is longer than a day, so no time is shifted further.
const margin = 2 * daySeconds

// cronPoints walks local days. Days without a change of the clock nearby yield their times in order; days around a change
// go by the instants that they are shown at, see changingDays. Days and months that do not match are passed over, so rare
// dates cost little.
func (t *Timetable) cronPoints(begin int64, end func() int64) iter.Seq[point] {
	return func(yield func(point) bool) {
		day := floorDiv(begin, daySeconds) - margin/daySeconds - 1
		for day*daySeconds-margin <= end() {
			next := day + 1
			if d := dateOf(day); !t.expr.matches(d) {
				if t.expr.month&(1<<d.month) == 0 {
					next += int64(d.last - d.day)
				}
				day = next
				continue
			}
			if offset, plain := t.offsetOf(day); plain {
				if !t.plainDay(day, offset, begin, yield) {
					return
				}
			} else {
				for plain = false; !plain; next++ {
					_, plain = t.offsetOf(next)
				}
				next-- // the plain day
				if !t.changingDays(day, next, begin, yield) {
					return
				}
			}
			day = next
		}
	}
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

// offsetOf returns the zone's offset on a local day, and whether its clock does not
// change near that day.
func (t *Timetable) offsetOf(day int64) (offset int64, plain bool) {
	from, to := day*daySeconds-margin, (day+1)*daySeconds+margin
	offset, until := t.offsetAt(from)
	for until < to {
		var next int64
		if next, until = t.offsetAt(until); next != offset {
			return 0, false
		}
	}
	return offset, true
}

// offsetAt returns the offset at an instant and until when it holds at least.
func (t *Timetable) offsetAt(at int64) (offset, until int64) {
	local := time.Unix(at, 0).In(t.loc)
	_, seconds := local.Zone()
	_, end := local.ZoneBounds()
	until = end.Unix()
	switch {
	case end.IsZero():
		until = math.MaxInt64
	case until <= at: // ZoneBounds counts 365 days a year: on 31 December of a leap year it is wrong
		until = at + 3600
	}
	return int64(seconds), until
}

// plainDay yields the times of a day that matches and on which each local time is shown
// once.
func (t *Timetable) plainDay(day, offset, begin int64, yield func(point) bool) bool {
	if (day+1)*daySeconds-offset <= begin {
		return true
	}
	if t.excepts(day) {
		return yield(exceptedDay(day, max(begin, day*daySeconds-offset)))
	}
	for local := range t.expr.times(max(day*daySeconds, begin+offset), (day+1)*daySeconds) {
		if !yield(point{at: local - offset, local: local}) {
			return false
		}
	}
	return true
}

// times yields the local times of one day that match, from one second to before another. The day itself matches.
func (e *expression) times(from, to int64) iter.Seq[int64] {
	return func(yield func(int64) bool) {
		midnight := floorDiv(from, daySeconds) * daySeconds
		for _, h := range e.hours {
			if midnight+int64(h+1)*3600 <= from {
				continue
			}
			for _, m := range e.minutes {
				minute := midnight + int64(h)*3600 + int64(m)*60
				if minute+60 <= from {
					continue
				}
				for _, s := range e.seconds {
					local := minute + int64(s)
					if local >= to || local >= from && !yield(local) {
						return
					}
				}
			}
		}
	}
}

// Days around a change are cut into parts of this many seconds, the first ones smaller. Only the times of one part are held
// and sorted at a time: six days of seconds would be half a million.
const (
	firstPart = 64
	maxPart   = 3600
)

// changingDays yields the times of the days from first to before end, in the order of their instants. The clock changes
// near each of them.
func (t *Timetable) changingDays(first, end, begin int64, yield func(point) bool) bool {
	w := walk{Timetable: t, spans: t.spans(first, end), first: first * daySeconds, end: end * daySeconds}
	from, to := w.instants()
	from = max(from, begin)
	for width := int64(firstPart); from < to; width = min(2*width, maxPart) {
		for _, p := range settle(w.part(from, from+width)) {
			if !yield(p) {
				return false
			}
		}
		from += width
	}
	return true
}

// walk is a walk along days around a change of the clock.
type walk struct {
	*Timetable
	spans      []span
	first, end int64 // the local times of the days
	points     []point
	of         []point // one local time
}

// instants are bounds of what the days yield.
func (w *walk) instants() (from, to int64) {
	from, to = math.MaxInt64, math.MinInt64
	for _, s := range w.spans {
		from, to = min(from, w.first-s.offset), max(to, w.end-s.offset)
	}
	return from, to
}

// part returns the points of the days at instants from one to before another.
func (w *walk) part(from, to int64) []point {
	w.points = w.points[:0]
	for i, s := range w.spans {
		a, b := max(from, s.from), min(to, s.to)
		w.shown(a, b, s.offset, false)
		if i == 0 {
			continue
		}
		if before := w.spans[i-1].offset; before < s.offset { // a gap: its times come as long after the change as ever
			w.shown(a, min(to, s.from+s.offset-before), before, true)
		}
	}
	for day := w.first / daySeconds; day < w.end/daySeconds; day++ {
		if w.excepts(day) && w.expr.matches(dateOf(day)) {
			offset, _ := w.offsetAt(day*daySeconds - around)
			if at := day*daySeconds - offset; from <= at && at < to {
				w.points = append(w.points, exceptedDay(day, at))
			}
		}
	}
	return w.points
}

// shown adds the points at instants from one to before another, of local times that are an offset ahead; shifted: of those
// that the clock leaps over.
func (w *walk) shown(from, to, offset int64, shifted bool) {
	local, last := max(from+offset, w.first), min(to+offset, w.end)
	for local < last {
		day := floorDiv(local, daySeconds)
		next := min((day+1)*daySeconds, last)
		if !w.excepts(day) && w.expr.matches(dateOf(day)) {
			for at := range w.expr.times(local, next) {
				w.of = w.resolve(w.of[:0], w.spans, at)
				for _, p := range w.of {
					if p.at == at-offset && (p.effect == Shifted) == shifted {
						w.points = append(w.points, p)
					}
				}
			}
		}
		local = next
	}
}

// span is a time in which the zone has one offset.
type span struct{ from, to, offset int64 }

// around is how far from days the offsets count for them.
const around = 2 * margin

// spans lists the offsets around local days, from one to before another.
func (t *Timetable) spans(first, end int64) []span {
	from, to := first*daySeconds-around, end*daySeconds+around
	var list []span
	for at := from; at < to; {
		offset, until := t.offsetAt(at)
		next := min(until, to)
		if n := len(list); n > 0 && list[n-1].offset == offset {
			list[n-1].to = next
		} else {
			list = append(list, span{at, next, offset})
		}
		at = next
	}
	return list
}

// resolve appends the points of one local time.
func (t *Timetable) resolve(points []point, spans []span, local int64) []point {
	var shown []int64
	for _, s := range spans {
		if at := local - s.offset; s.from <= at && at < s.to {
			shown = append(shown, at)
		}
	}
	switch len(shown) {
	case 0:
		return append(points, t.inGap(spans, local))
	case 1:
		return append(points, point{at: shown[0], local: local})
	}
	first := point{at: shown[0], local: local, effect: FirstOfTwo}
	last := point{at: shown[len(shown)-1], local: local, effect: SecondOfTwo}
	switch t.Repeat {
	case First:
		last.omitted = Repeated
	case Last:
		first.omitted = Repeated
	case Both:
	}
	return append(points, first, last)
}

// inGap is the point of a local time that the clock leaps over.
func (t *Timetable) inGap(spans []span, local int64) point {
	p := point{local: local, effect: Shifted}
	for i, s := range spans[1:] {
		before := spans[i]
		if s.from+before.offset <= local && local < s.from+s.offset {
			p.at = local - before.offset
			break
		}
	}
	if t.Gap == SkipGap {
		p.omitted = InGap
	}
	return p
}

// settle sorts points and merges shifted ones with others of their instant.
func settle(points []point) []point {
	// A shifted one comes last, so that the time that exists is kept.
	sort.Slice(points, func(i, j int) bool {
		a, b := points[i], points[j]
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(rank(a), rank(b)), cmp.Compare(a.local, b.local)) < 0
	})
	var fired *point
	for i := range points {
		switch p := &points[i]; {
		case p.omitted != "":
		case fired != nil && fired.at == p.at:
			p.omitted = Merged
		default:
			fired = p
		}
	}
	// An omitted time precedes the occurrence of its instant, so a preview that ends
	// with that one includes it.
	sort.SliceStable(points, func(i, j int) bool {
		a, b := points[i], points[j]
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(b.omitted, a.omitted)) < 0
	})
	return points
}

func rank(p point) int {
	if p.effect == Shifted {
		return 1
	}
	return 0
}
