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
	calendar  string // of an excepted day
}

// margin is how far from a change of the zone's clock a day has to be to count as
// plain. No change is longer than a day, so no time is shifted further.
const margin = 2 * daySeconds

// cronPoints walks local days. Days without a change of the clock nearby yield
// their times in order; days around a change are gathered and sorted first. Days and
// months that do not match are passed over, so rare dates cost little.
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
			var points []point
			if offset, plain := t.offsetOf(day); plain {
				if !t.plainDay(day, offset, begin, yield) {
					return
				}
			} else {
				for plain = false; !plain; next++ {
					points = t.collect(points, next-1)
					_, plain = t.offsetOf(next)
				}
				next-- // the plain day
			}
			for _, p := range settle(points) {
				if p.at >= begin && !yield(p) {
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
	if x := t.excepts(day); x != nil {
		return yield(exceptedDay(day, max(begin, day*daySeconds-offset), x))
	}
	for local := range t.expr.times(day) {
		if at := local - offset; at >= begin && !yield(point{at: at, local: local}) {
			return false
		}
	}
	return true
}

// times yields the local times of a day that matches.
func (e *expression) times(day int64) iter.Seq[int64] {
	return func(yield func(int64) bool) {
		for _, h := range e.hours {
			for _, m := range e.minutes {
				for _, s := range e.seconds {
					if !yield(day*daySeconds + int64(h)*3600 + int64(m)*60 + int64(s)) {
						return
					}
				}
			}
		}
	}
}

// collect appends the points of a day near a change of the clock.
func (t *Timetable) collect(points []point, day int64) []point {
	if !t.expr.matches(dateOf(day)) {
		return points
	}
	spans := t.spans(day)
	if x := t.excepts(day); x != nil {
		return append(points, exceptedDay(day, day*daySeconds-spans[0].offset, x))
	}
	for local := range t.expr.times(day) {
		points = t.resolve(points, spans, local)
	}
	return points
}

// span is a time in which the zone has one offset.
type span struct{ from, to, offset int64 }

// spans lists the offsets around a local day.
func (t *Timetable) spans(day int64) []span {
	const around = 2 * margin
	from, to := day*daySeconds-around, (day+1)*daySeconds+around
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
