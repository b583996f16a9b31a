package recent

import (
	"slices"
	"time"

	"github.com/duehook/duehook/internal/job"
)

// The reported time, by minutes.
const (
	Minutes = 60
	Step    = time.Minute
)

// bounds are the upper bounds of lateness classes, in ms. One more class is above the last.
var bounds = [...]int64{5, 10, 25, 50, 100, 250, 500, 1_000, 2_000, 5_000, 10_000, 30_000, 60_000, 300_000, 1_800_000}

// Bounds returns the bounds of Activity.Late, in ms.
func Bounds() []int64 { return bounds[:] }

// newAll returns the series of all jobs. Each minute of its hour also counts the attempts by their
// lateness, behind the other kinds.
func newAll() *series {
	all := newSeries()
	all[0] = newRing(Minutes, kinds+len(bounds)+1)
	return all
}

// addLateness counts an attempt in a series of newAll by its lateness.
func (all *series) addLateness(started, due job.Instant) {
	if c := all[0].at(minuteOf(started)); c != nil {
		late, _ := slices.BinarySearch(bounds[:], int64(started-due))
		c[kinds+late]++
	}
}

func minuteOf(at job.Instant) int64 { return int64(at) / Step.Milliseconds() }

// Activity is the attempts of all nodes in each minute of the last hour, including the
// current one.
type Activity struct {
	From      job.Instant // the beginning of the first minute
	Delivered []int64
	Failed    []int64
	// Late counts attempts by their lateness: for each minute, by Bounds.
	Late [][]int64
}

func newActivity(now job.Instant) Activity {
	first := minuteOf(now) - Minutes + 1
	a := Activity{
		From: job.Instant(first * Step.Milliseconds()), Delivered: make([]int64, Minutes), Failed: make([]int64, Minutes),
		Late: make([][]int64, Minutes),
	}
	for i := range a.Late {
		a.Late[i] = make([]int64, len(bounds)+1)
	}
	return a
}

func (a *Activity) add(hour *sheet) {
	hour.each(minuteOf(a.From), Minutes, func(kind, minute int, n int64) {
		switch {
		case kind == countDelivered:
			a.Delivered[minute] += n
		case kind == countFailed:
			a.Failed[minute] += n
		case kind >= kinds && kind <= kinds+len(bounds):
			a.Late[minute][kind-kinds] += n
		}
	})
}

// SuccessRate returns the share of delivered attempts; false: there were no attempts.
func (a *Activity) SuccessRate() (float64, bool) {
	delivered, failed := sum(a.Delivered), sum(a.Failed)
	if delivered+failed == 0 {
		return 0, false
	}
	return float64(delivered) / float64(delivered+failed), true
}

// LateBy returns the bound, in ms, that a share of all attempts did not exceed, at most the
// last bound; false: there were no attempts.
func (a *Activity) LateBy(share float64) (int64, bool) {
	var all int64
	for _, late := range a.Late {
		all += sum(late)
	}
	if all == 0 {
		return 0, false
	}
	var below int64
	for b, bound := range bounds {
		for _, late := range a.Late {
			below += late[b]
		}
		if float64(below) >= share*float64(all) {
			return bound, true
		}
	}
	return bounds[len(bounds)-1], true
}

func sum(counts []int64) (n int64) {
	for _, c := range counts {
		n += c
	}
	return n
}
