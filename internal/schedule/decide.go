package schedule

import (
	"math"
	"slices"
	"sort"
	"time"
)

// MisfirePolicy says what becomes of late occurrences.
type MisfirePolicy string

// The policies for late occurrences.
const (
	FireOnce MisfirePolicy = "fire_once" // only the latest fires
	SkipLate MisfirePolicy = "skip"
	FireAll  MisfirePolicy = "fire_all" // the latest of them, in order
)

// Misfire is the rule for late occurrences.
type Misfire struct {
	Policy MisfirePolicy
	Grace  time.Duration // an occurrence is late when it is due longer ago
}

// Bounds of late occurrences that fire.
const (
	MostLate = 100                  // of FireAll; the latest fire
	Oldest   = 366 * 24 * time.Hour // none fires that is older
)

// Overlap says what an occurrence does while an earlier job of the schedule has not ended.
type Overlap string

// The policies for overlaps.
const (
	Allow Overlap = "allow"
	Skip  Overlap = "skip"
)

// Rules are how the occurrences of one schedule are decided.
type Rules struct {
	Name    string
	Table   *Timetable
	Jitter  time.Duration
	Misfire Misfire
	Overlap Overlap
	Max     int64       // occurrences that fire in the schedule's life; 0: no bound
	Skips   []time.Time // occurrences that a client asked to skip
}

// Skipped reports whether a client asked to skip the occurrence at a time.
func (r *Rules) Skipped(at time.Time) bool { return slices.ContainsFunc(r.Skips, at.Equal) }

// maxFires bounds the occurrences that one decision fires. The next decision continues.
const maxFires = 1000

// Progress is what has been decided so far.
type Progress struct {
	Since time.Time // the schedule has the occurrences T > Since
	Done  Tick      // those up to this tick are decided
	Fired int64     // towards Rules.Max
}

// Facts are what a decision depends on besides the state.
type Facts struct {
	Now time.Time
	// Busy: a job of the schedule has not ended. It is not needed with Allow.
	Busy bool
}

// Outcome is what becomes of an occurrence.
type Outcome string

// The outcomes.
const (
	Fired   Outcome = "fired"
	Missed  Outcome = "missed"
	Skipped Outcome = "skipped"
	Failed  Outcome = "failed"
)

// Step decides one occurrence, or several that are missed or skipped.
type Step struct {
	Tick    // of the occurrence, or the last of several
	Outcome Outcome
	Late    bool  // it fires although it, or one that it stands for, is late
	ByHand  bool  // it is skipped because a client asked for that
	Count   int64 // of Missed and Skipped
	// Since, if any, is a time up to which all is decided, whatever its tick.
	Since time.Time
}

// Decision is what follows from a look.
type Decision struct {
	Steps []Step // in the order of their ticks
	// More: the decision was cut; look again at once.
	More bool
}

// Decide decides the undecided occurrences whose tick has come. It is a pure function.
func (r *Rules) Decide(s Progress, f Facts) Decision {
	d := decider{Rules: r, s: s, f: f, busy: f.Busy}
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

// decider makes one decision.
type decider struct {
	*Rules
	s    Progress
	f    Facts
	busy bool
	out  Decision
}

// decide counts what surely is missed, and looks at the other occurrences one by one.
func (d *decider) decide() {
	d.past()
	list := slices.Collect(d.undecided(d.s, d.f.Now))
	late := len(d.out.Steps) > 0 || slices.ContainsFunc(list, d.isLate)
	fires := map[int64]bool{}
	if late {
		fires = d.chooseLate(list)
	}
	sort.Slice(list, func(i, j int) bool { return list[i].Tick.Compare(list[j].Tick) < 0 })
	for _, o := range list {
		if d.full() {
			return
		}
		d.judge(o, late, fires[o.Time.Unix()])
	}
}

// past counts the occurrences that are too late to fire, without looking at each.
func (d *decider) past() {
	end := d.tooLate()
	if !end.After(later(d.s.Since, d.s.Done.At)) {
		return
	}
	if n := d.Undecided(d.s, end); n > 0 {
		last := d.Table.Latest(d.first(d.s), end, 1)
		d.count(Step{Tick: Tick{At: end, Time: last[0]}, Outcome: Missed, Count: n, Since: end})
	}
	d.s.Since, d.s.Done = end, UpTo(end)
}

// tooLate is a time up to which no occurrence can fire: all are late, and there are enough
// later ones that may fire instead, or they are too old.
func (d *decider) tooLate() time.Time {
	old := d.f.Now.Add(-d.Misfire.Grace - d.Jitter - time.Second)
	n := d.mayFireLate()
	if n == 0 {
		return old
	}
	n += len(d.Skips) // they may be the latest
	never := earlier(old, d.f.Now.Add(-Oldest-time.Second))
	if last := d.Table.Latest(later(d.s.Since, d.s.Done.At), old, n); len(last) == n {
		return later(never, last[0].Add(-time.Second))
	}
	return never
}

// judge applies the rule for late occurrences to one of them.
func (d *decider) judge(o occurrence, late, chosen bool) {
	switch {
	case d.Skipped(o.Time):
		d.count(Step{Tick: o.Tick, Outcome: Skipped, ByHand: true, Count: 1})
	case chosen:
		d.fire(o.Tick, true)
	case late && d.Misfire.Policy == FireOnce, d.isLate(o):
		d.count(Step{Tick: o.Tick, Outcome: Missed, Count: 1})
	default:
		d.fire(o.Tick, false)
	}
}

func (d *decider) isLate(o occurrence) bool { return d.f.Now.Sub(o.due) > d.Misfire.Grace }

// mayFireLate is how many occurrences fire at most if some are late.
func (d *decider) mayFireLate() int {
	switch d.Misfire.Policy {
	case SkipLate:
		return 0
	case FireOnce:
		return 1
	case FireAll:
	}
	return MostLate
}

// chooseLate returns the times of the latest occurrences that fire although some are late: MostLate of the
// late ones, or the one latest of all.
func (d *decider) chooseLate(list []occurrence) map[int64]bool {
	left, fires := d.mayFireLate(), map[int64]bool{}
	for _, o := range slices.Backward(list) {
		if left > 0 && (d.isLate(o) || d.Misfire.Policy == FireOnce) && d.f.Now.Sub(o.Time) <= Oldest && !d.Skipped(o.Time) {
			fires[o.Time.Unix()] = true
			left--
		}
	}
	return fires
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
func (d *decider) fire(at Tick, late bool) {
	if d.Overlap == Skip && d.busy {
		d.count(Step{Tick: at, Outcome: Skipped, Count: 1})
		return
	}
	d.busy = true
	d.s.Fired++
	d.out.Steps = append(d.out.Steps, Step{Tick: at, Outcome: Fired, Late: late})
}

// count adds missed or skipped occurrences to the last step, if that is alike.
func (d *decider) count(s Step) {
	if k := len(d.out.Steps) - 1; k >= 0 && d.out.Steps[k].Outcome == s.Outcome && d.out.Steps[k].ByHand == s.ByHand {
		s.Count, s.Since = s.Count+d.out.Steps[k].Count, later(s.Since, d.out.Steps[k].Since)
		d.out.Steps = d.out.Steps[:k]
	}
	d.out.Steps = append(d.out.Steps, s)
}
