package schedule

import (
	"math"
	"slices"
	"time"
)

// MisfirePolicy says what becomes of late occurrences.
type MisfirePolicy string

// The policies for late occurrences.
const (
	FireOnce MisfirePolicy = "fire_once" // only the latest fires
	SkipLate MisfirePolicy = "skip"
	FireAll  MisfirePolicy = "fire_all" // the latest Limit of them, in order
)

// Misfire is the rule for late occurrences.
type Misfire struct {
	Policy MisfirePolicy
	Grace  time.Duration // an occurrence is late when it is due longer ago
	Window time.Duration // late ones that are older never fire
	Limit  int           // of FireAll
}

// Overlap says what an occurrence does while an earlier job of the schedule has not ended.
type Overlap string

// The policies for overlaps.
const (
	Allow    Overlap = "allow"
	Skip     Overlap = "skip"
	QueueOne Overlap = "queue_one"
	Replace  Overlap = "replace"
)

// Rules are how the occurrences of one schedule are decided.
type Rules struct {
	Name    string
	Table   *Timetable
	Jitter  time.Duration
	Misfire Misfire
	Overlap Overlap
	Max     int64 // occurrences that fire in the schedule's life; 0: no bound
}

const (
	// Ahead is how long before its time an occurrence may be registered.
	Ahead = 55 * time.Second
	// LookAhead is how long before its time an occurrence is looked at, with Allow.
	LookAhead = 45 * time.Second
	// maxFires bounds the occurrences that one decision fires. The next decision continues.
	maxFires = 1000
)

// State is what has been decided so far.
type State struct {
	Cursor time.Time // all T <= Cursor are decided
	Fired  int64     // towards Rules.Max
	Queued bool      // an occurrence waits for the end of a job
}

// Facts are what a decision depends on besides the state.
type Facts struct {
	Now time.Time
	// Busy: a job of the schedule has not ended. It is not needed with Allow.
	Busy bool
	// Until decides all T <= Until now, those that wait for their due time included, and
	// no later ones. Zero: the rules say how far.
	Until time.Time
}

// Outcome is what becomes of an occurrence.
type Outcome string

// The outcomes. Queued is no outcome yet.
const (
	Fired   Outcome = "fired"
	Missed  Outcome = "missed"
	Skipped Outcome = "skipped"
	Failed  Outcome = "failed"
	Queued  Outcome = "queued"
)

// Step decides one occurrence, or several that are missed or skipped.
type Step struct {
	Time    time.Time // of the occurrence, or the last of several
	Outcome Outcome
	Late    bool  // it fires although it, or one that it stands for, is late
	Count   int64 // of Missed and Skipped
}

// Decision is what follows from a look.
type Decision struct {
	Steps []Step // in the order of their times
	// Release fires the queued occurrence, before the steps.
	Release bool
	// More: the decision was cut; look again at once.
	More bool
}

// Decide decides the occurrences that are undecided and can be decided now. It is a
// pure function.
func (r *Rules) Decide(s State, f Facts) Decision {
	d := decider{Rules: r, s: s, f: f, busy: f.Busy}
	if s.Queued && !f.Busy {
		d.out.Release, d.busy, d.s.Queued = true, true, false
	}
	if r.Remaining(s.Fired) == 0 {
		return d.out
	}
	d.decide()
	return d.out
}

// Remaining is how many occurrences may still fire.
func (r *Rules) Remaining(fired int64) int64 {
	if r.Max == 0 {
		return math.MaxInt64
	}
	return max(0, r.Max-fired)
}

// Next returns when to look again after a decision, without regard to a queued
// occurrence; false if there is nothing to come.
func (r *Rules) Next(s State) (time.Time, bool) {
	if r.Remaining(s.Fired) == 0 {
		return time.Time{}, false
	}
	at, ok := r.Table.Next(s.Cursor)
	if !ok {
		return time.Time{}, false
	}
	if r.Overlap == Allow {
		return at.Add(-LookAhead), true
	}
	return r.due(at), true
}

func (r *Rules) due(at time.Time) time.Time { return Due(r.Name, at, r.Jitter) }

// decider makes one decision.
type decider struct {
	*Rules
	s    State
	f    Facts
	busy bool
	out  Decision
}

// candidate is an undecided occurrence that is looked at one by one.
type candidate struct{ at, due time.Time }

func (d *decider) decide() {
	end := d.f.Now
	switch {
	case !d.f.Until.IsZero():
		end = d.f.Until
	case d.Overlap == Allow:
		end = d.f.Now.Add(Ahead)
	}
	// What lies so far back is late, whatever its jitter. It is counted, not walked.
	old := d.f.Now.Add(-d.Misfire.Grace - d.Jitter - time.Second)
	if !d.f.Until.IsZero() && d.f.Until.Before(old) {
		old = d.f.Until
	}
	from := d.s.Cursor
	var past int64
	if old.After(from) {
		past, from = d.Table.Count(from, old), old
	}
	recent := d.recent(from, end)
	if len(recent) == 0 && past == 0 {
		return
	}
	d.judge(past, old, recent)
}

// recent lists the undecided occurrences after from that can be decided: all of them
// up to the end with Allow, otherwise those before the first that is not due.
func (d *decider) recent(from, end time.Time) (list []candidate) {
	for at := range d.Table.Between(from, end) {
		c := candidate{at, d.due(at)}
		if d.f.Until.IsZero() && d.Overlap != Allow && c.due.After(d.f.Now) {
			break
		}
		list = append(list, c)
	}
	return list
}

func (d *decider) isDue(c candidate) bool { return !c.due.After(d.f.Now) }

func (d *decider) isLate(c candidate) bool { return d.f.Now.Sub(c.due) > d.Misfire.Grace }

func (d *decider) inWindow(at time.Time) bool { return d.f.Now.Sub(at) <= d.Misfire.Window }

// judge applies the rule for late occurrences: past ones, up to old, and recent ones.
func (d *decider) judge(past int64, old time.Time, recent []candidate) {
	late := past > 0 || slices.ContainsFunc(recent, d.isLate)
	fires := map[int64]bool{}
	if late {
		fires = d.chooseLate(past, old, recent)
	}
	d.past(past, old, fires)
	for _, c := range recent {
		switch {
		case d.full():
			return
		case fires[c.at.Unix()]:
			d.fire(c.at, true)
		case late && d.Misfire.Policy == FireOnce && d.isDue(c), d.isLate(c):
			d.count(Missed, c.at, 1)
		default:
			d.fire(c.at, false)
		}
	}
}

// chooseLate returns the times of the latest occurrences within the window that fire although
// some are late: as many late ones as the limit allows, or one that is due.
func (d *decider) chooseLate(past int64, old time.Time, recent []candidate) map[int64]bool {
	left, may := d.Misfire.Limit, d.isLate
	switch d.Misfire.Policy {
	case SkipLate:
		left = 0
	case FireOnce:
		left, may = 1, d.isDue
	case FireAll:
	}
	fires := map[int64]bool{}
	for _, c := range slices.Backward(recent) {
		if left > 0 && may(c) && d.inWindow(c.at) {
			fires[c.at.Unix()] = true
			left--
		}
	}
	if past == 0 {
		return fires
	}
	for _, at := range d.Table.Latest(d.s.Cursor, old, left) {
		if d.inWindow(at) {
			fires[at.Unix()] = true
		}
	}
	return fires
}

// past decides the occurrences up to old: all but the firing ones are missed.
func (d *decider) past(n int64, old time.Time, fires map[int64]bool) {
	if n == 0 {
		return
	}
	var list []time.Time
	for at := range fires {
		if t := time.Unix(at, 0).UTC(); !t.After(old) {
			list = append(list, t)
		}
	}
	slices.SortFunc(list, time.Time.Compare)
	if missed := n - int64(len(list)); missed > 0 {
		// Those that fire are the latest of them, so all others come before.
		end := old
		if len(list) > 0 {
			end = list[0].Add(-time.Second)
		}
		if last := d.Table.Latest(d.s.Cursor, end, 1); len(last) > 0 {
			d.count(Missed, last[0], missed)
		}
	}
	for _, at := range list {
		if d.full() {
			return
		}
		d.fire(at, true)
	}
}

// full reports whether the decision takes no more steps.
func (d *decider) full() bool {
	if d.out.More || d.Remaining(d.s.Fired) == 0 {
		return true
	}
	if len(d.out.Steps) >= maxFires {
		d.out.More = true
	}
	return d.out.More
}

// fire decides an occurrence that the rule for late ones let pass.
func (d *decider) fire(at time.Time, late bool) {
	step := Step{Time: at, Outcome: Fired, Late: late}
	switch {
	case d.Overlap == Allow || d.Overlap == Replace || !d.busy:
		d.busy = true
	case d.Overlap == QueueOne && !d.s.Queued:
		d.s.Queued, step.Outcome = true, Queued
	default:
		d.count(Skipped, at, 1)
		return
	}
	d.s.Fired++ // or will be
	d.out.Steps = append(d.out.Steps, step)
}

// count adds missed or skipped occurrences to the last step, if that is alike.
func (d *decider) count(o Outcome, at time.Time, n int64) {
	if k := len(d.out.Steps) - 1; k >= 0 && d.out.Steps[k].Outcome == o {
		d.out.Steps[k].Count += n
		d.out.Steps[k].Time = at
		return
	}
	d.out.Steps = append(d.out.Steps, Step{Time: at, Outcome: o, Count: n})
}
