package recent

import (
	"slices"
	"time"

	"github.com/duehook/duehook/job"
)

// The span of time that is known, by minutes.
const (
	Minutes = 60
	Step    = time.Minute
)

// bounds are those of lateness, in ms: a count is of what is above the bound
// before and not above its own, and there is one more for what is above the last.
var bounds = [...]int64{5, 10, 25, 50, 100, 250, 500, 1_000, 2_000, 5_000, 10_000, 30_000, 60_000, 300_000, 1_800_000}

// Bounds are those of Activity.Late, in ms.
func Bounds() []int64 { return bounds[:] }

type lateness [len(bounds) + 1]int64

// row is what was attempted in one minute.
type row struct {
	Minute    int64    `json:"m"` // since 1970
	Delivered int64    `json:"d"`
	Failed    int64    `json:"f"`
	Late      lateness `json:"l"`
}

func minuteOf(at job.Instant) int64 { return int64(at) / Step.Milliseconds() }

// rows are those of the last hour, in no order: that of a minute takes the place
// of the one an hour before.
type rows [Minutes]row

// at is the row of a minute; nil when it is older than what has its place.
func (r *rows) at(minute int64) *row {
	place := &r[minute%Minutes]
	switch {
	case place.Minute > minute:
		return nil
	case place.Minute < minute:
		*place = row{Minute: minute}
	}
	return place
}

// add counts a settled attempt.
func (r *rows) add(s *job.Settlement) {
	at := r.at(minuteOf(s.Attempt.StartedAt))
	if at == nil {
		return
	}
	switch {
	case s.To == job.Delivered:
		at.Delivered++
	case s.Reason != job.ReasonSnoozed:
		at.Failed++
	}
	late, _ := slices.BinarySearch(bounds[:], int64(s.Attempt.StartedAt-s.Due))
	at.Late[late]++
}

// known are the rows in which there is something.
func (r *rows) known() []row {
	return slices.DeleteFunc(slices.Clone(r[:]), func(one row) bool { return one.Late == lateness{} })
}

// Activity is what was attempted in each minute of the last hour, the current one
// included, on all nodes.
type Activity struct {
	From      job.Instant // the beginning of the first minute
	Delivered []int64
	Failed    []int64
	// Late are the attempts by how long after they were due they began: for each
	// minute, by Bounds.
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

func (a *Activity) add(known []row) {
	first := minuteOf(a.From)
	for i := range known {
		r := &known[i]
		n := r.Minute - first
		if n < 0 || n >= Minutes {
			continue
		}
		a.Delivered[n] += r.Delivered
		a.Failed[n] += r.Failed
		for b, count := range r.Late {
			a.Late[n][b] += count
		}
	}
}

// SuccessRate is the share of attempts that delivered; false when there was none.
func (a *Activity) SuccessRate() (float64, bool) {
	delivered, failed := sum(a.Delivered), sum(a.Failed)
	if delivered+failed == 0 {
		return 0, false
	}
	return float64(delivered) / float64(delivered+failed), true
}

// LateBy is the bound, in ms, that the share of all attempts did not exceed; the
// last one, when they exceeded that. It is false when there was no attempt.
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
