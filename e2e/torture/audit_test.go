package torture

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"time"

	"github.com/duehook/duehook/e2e/receiver"
	"github.com/duehook/duehook/e2e/rig"
	"github.com/duehook/duehook/internal/job"
)

// result is what a run came to.
type result struct {
	row          *row
	seed         uint64
	acknowledged int
	lost         int
	inFlight     int // repetitions of attempts that were in flight at the fault
	otherwise    int // other repetitions
	recover      time.Duration
	stall        time.Duration // the worst of the machine
	wrong        []string
	excusable    int // of these, what a busy machine explains
}

// void: the run has findings, on a machine too busy to be judged by, and only
// such as that explains.
func (r *result) void() bool {
	return !r.ok() && r.stall > stallLimit && r.excusable == len(r.wrong)
}

func (r *result) ok() bool { return r.lost == 0 && r.otherwise == 0 && len(r.wrong) == 0 }

// audit compares the answers to clients with what the store holds and what
// the receivers got.
type audit struct {
	*run
	quiet  bool
	stored map[job.Key]jobView
	// timetables are the schedules, by name.
	timetables map[string]scheduleView

	result
}

func (a *audit) fail(format string, args ...any) {
	a.wrong = append(a.wrong, fmt.Sprintf(format, args...))
}

// excuse is fail for what a receiver that seems slow can lead to.
func (a *audit) excuse(format string, args ...any) {
	a.excusable++
	a.fail(format, args...)
}

func (a *audit) lose(o *told, format string, args ...any) {
	a.lost++
	a.fail("LOST %s (%s): %s", o.key(), o.kind, fmt.Sprintf(format, args...))
}

// store reads all jobs, and holds the counts by topic against them.
func (a *audit) store(ctx context.Context) {
	a.stored = map[job.Key]jobView{}
	counts, err := a.topics(ctx)
	if err != nil {
		a.fail("counts: %v", err)
	}
	listed := map[string]map[string]int{}
	for cursor := ""; ; {
		var page struct {
			Data []jobView `json:"data"`
			Next *string   `json:"next_cursor"`
		}
		answer, err := rig.Call(ctx, "GET", a.nodes[0].Base()+"/v1/jobs?limit=500"+cursor, nil, nil)
		if err == nil {
			err = answer.Decode(&page)
		}
		if err != nil {
			a.fail("list: %v", err)
			return
		}
		for _, j := range page.Data {
			a.stored[job.Key{Topic: j.Topic, ID: j.ID}] = j
			if listed[j.Topic] == nil {
				listed[j.Topic] = map[string]int{}
			}
			listed[j.Topic][j.State]++
		}
		if page.Next == nil {
			break
		}
		cursor = "&cursor=" + url.QueryEscape(*page.Next)
	}
	for topic, states := range counts {
		for state, n := range states {
			if listed[topic][state] != n {
				a.fail("%s counts %d jobs as %s, and lists %d", topic, n, state, listed[topic][state])
			}
		}
	}
}

// conclude judges each job, once nothing can arrive any more.
func (a *audit) conclude() result {
	a.result.row, a.result.seed = a.run.row, a.run.seed
	if !a.quiet {
		a.fail("not quiet after %v", quietLimit)
	}
	arrived := a.endpoints.deliveries()
	a.judgeTurns(arrived)
	for _, o := range a.clients.jobs {
		a.wrong = append(a.wrong, o.problems...)
		if o.uid == "" {
			continue
		}
		a.acknowledged++
		deliveries := arrived[o.key()]
		slices.SortStableFunc(deliveries, func(x, y receiver.Delivery) int { return x.Arrived.Compare(y.Arrived) })
		a.judgeEnd(o, deliveries)
		a.judgeDeliveries(o, deliveries)
		delete(arrived, o.key())
	}
	if a.acknowledged != jobsPerRun {
		a.fail("%d of %d jobs were acknowledged", a.acknowledged, jobsPerRun)
	}
	a.judgeSchedules(arrived)
	a.judgeFlows(arrived)
	a.judgeCallbacks(arrived)
	for key := range arrived {
		a.fail("%s arrived, but was never acknowledged", key)
	}
	for _, r := range a.endpoints.all {
		a.wrong = append(a.wrong, r.Problems()...)
	}
	return a.result
}

// ends are the states that the job may be in now.
func (o *told) ends() []string {
	switch {
	case o.then == cancel && o.done.result == "cancelled":
		return []string{"cancelled"}
	case o.then == cancel && o.done.result == "in_flight", o.then == cancel && o.done.inDoubt:
		return []string{o.end, "cancelled"}
	case o.then == patch, o.then == runNow, o.then == replay:
		return []string{"delivered"}
	}
	return []string{o.end}
}

// judgeEnd: the job is where it should be, and what the store says is true.
func (a *audit) judgeEnd(o *told, deliveries []receiver.Delivery) {
	j, found := a.stored[o.key()]
	switch {
	case !found:
		a.lose(o, "the store does not have it")
		return
	case j.UID != o.uid:
		a.lose(o, "acknowledged as %s, the store has %s", o.uid, j.UID)
		return
	case !o.finished:
		return // the client's problem has been told
	case !slices.Contains(o.ends(), j.State):
		story := fmt.Sprintf("it is %s (%s), version %d; what its client did was answered %d %s after %d tries, %s–%s; deliveries: %s; cuts: %s",
			j.State, j.Reason, j.Version, o.done.status, o.done.result, o.done.tries, rig.ClockTime(o.done.began), rig.ClockTime(o.done.ended),
			rig.Describe(deliveries), &a.cuts)
		if (j.State == "dead" || j.State == "expired") && len(deliveries) > 0 && !slices.ContainsFunc(deliveries, acceptedInTime) {
			a.excuse("%s (%s) ended without a receiver that accepted it in time: %s", o.key(), o.kind, story)
			return
		}
		a.lose(o, "%s", story)
		return
	}
	if j.State == "delivered" && !slices.ContainsFunc(deliveries, accepted) {
		a.lose(o, "no receiver accepted it")
	}
	want := o.attempts
	switch {
	case j.State == "cancelled", want < 0:
		return
	case o.then == patch, o.then == runNow, o.then == replay:
		want = 1
	}
	if j.Attempts != want {
		a.excuse("%s (%s) is %s and was charged %d attempts instead of %d", o.key(), o.kind, j.State, j.Attempts, want)
	}
}

// judgeTurns: the receivers never had requests of two jobs of an order key at a time.
func (a *audit) judgeTurns(arrived map[job.Key][]receiver.Delivery) {
	byKey := map[string][]receiver.Delivery{}
	for _, o := range a.clients.jobs {
		if o.OrderKey != "" {
			byKey[o.Topic+"/"+o.OrderKey] = append(byKey[o.Topic+"/"+o.OrderKey], arrived[o.key()]...)
		}
	}
	for key, all := range byKey {
		for i, d := range all {
			for _, other := range all[i+1:] {
				if d.UID != other.UID && d.Arrived.Before(other.Answered) && other.Arrived.Before(d.Answered) {
					a.fail("two jobs of the order key %s were in flight at %s and %s", key, rig.ClockTime(d.Arrived), rig.ClockTime(other.Arrived))
				}
			}
		}
	}
}

func accepted(d receiver.Delivery) bool { return !d.Answered.IsZero() && d.Status/100 == 2 }

// acceptedInTime: the node was certainly still waiting for the answer.
func acceptedInTime(d receiver.Delivery) bool {
	return accepted(d) && d.Answered.Sub(d.Arrived) < timeout-stallLimit
}

// judgeDeliveries: nothing came early, after a cancel, in an old form, with a
// number that no failed attempt led to, or again without a cause.
func (a *audit) judgeDeliveries(o *told, deliveries []receiver.Delivery) {
	afterCancel := 0
	for i, d := range deliveries {
		switch {
		case d.UID != o.uid:
			a.fail("%s came as %s, was acknowledged as %s", o.key(), d.UID, o.uid)
		case !a.run.row.skewed && d.Arrived.Before(d.Due):
			a.fail("%s came %v early", o.key(), d.Due.Sub(d.Arrived))
		case o.then == patch && o.done.status == 200 && d.Body != string(behaviour{Patched: true}.bytes()):
			a.fail("%s came as it was before it was changed", o.key())
		}
		if o.then == cancel && o.done.result != "" && d.Arrived.After(o.done.ended) {
			afterCancel++
		}
		before := deliveries[:i]
		if o.then == replay && d.Arrived.After(o.done.began) {
			before = slices.DeleteFunc(slices.Clone(before), func(d receiver.Delivery) bool { return d.Arrived.Before(o.done.began) })
		}
		if o.Body.Reschedule && !a.run.row.skewed && d.Attempt == 2 && !slices.ContainsFunc(before, func(p receiver.Delivery) bool { return d.Due.Equal(rescheduledTo(p)) }) {
			a.fail("%s was due at %s, which no answer asked for; before: %s", o.key(), rig.ClockTime(d.Due), rig.Describe(before))
		}
		a.judgeNumber(o, d, before)
		a.judgeRepetition(o, d, before)
		a.measure(d)
	}
	switch {
	case afterCancel > 0 && o.done.result == "cancelled":
		a.fail("%s came %d times after its cancel was answered", o.key(), afterCancel)
	case afterCancel > 1:
		a.fail("%s came %d times after a cancel that met an attempt in flight", o.key(), afterCancel)
	}
}

// judgeNumber: attempts are charged only where the receiver failed.
func (a *audit) judgeNumber(o *told, d receiver.Delivery, before []receiver.Delivery) {
	if d.Attempt == 1 {
		return
	}
	failed := slices.ContainsFunc(before, func(p receiver.Delivery) bool { return p.Attempt == d.Attempt-1 && !accepted(p) })
	if !failed || d.Attempt-1 > o.Body.Fail {
		a.excuse("%s (%s) came as attempt %d at %s, which no failure led to; before: %s", o.key(), o.kind, d.Attempt, rig.ClockTime(d.Arrived), rig.Describe(before))
	}
}

// replayedTwice: the first call may have gone through, and the client repeated it.
func (o *told) replayedTwice() bool { return o.then == replay && o.done.inDoubt }

// judgeRepetition: the same attempt comes again only if it was in flight at a
// fault, or if the receiver asked for it.
func (a *audit) judgeRepetition(o *told, d receiver.Delivery, before []receiver.Delivery) {
	var same []receiver.Delivery
	for _, p := range before {
		if p.Attempt == d.Attempt || accepted(p) {
			same = append(same, p)
		}
	}
	snoozed := o.Body.Snooze && len(same) == 1 && !accepted(same[0])
	if len(same) == 0 || snoozed || o.replayedTwice() {
		return
	}
	if slices.ContainsFunc(same, func(p receiver.Delivery) bool { yes, _ := a.cuts.InFlight(p); return yes }) {
		a.inFlight++
		return
	}
	a.otherwise++
	last := same[len(same)-1]
	a.excuse("%s (%s) came again as attempt %d at %s without having been in flight: it came as attempt %d at %s and was answered %d at %s; cuts: %s",
		o.key(), o.kind, d.Attempt, rig.ClockTime(d.Arrived), last.Attempt, rig.ClockTime(last.Arrived), last.Status, rig.ClockTime(last.Answered), &a.cuts)
}

// measure notes how long after the end of a fault the last attempt came that
// was due before.
func (a *audit) measure(d receiver.Delivery) {
	if a.run.row.skewed {
		return // it is not known when it was due
	}
	for _, c := range a.cuts.All() {
		if !d.Due.After(c.To) && d.Arrived.After(c.To) {
			a.recover = max(a.recover, d.Arrived.Sub(c.To))
		}
	}
}
