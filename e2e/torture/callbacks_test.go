package torture

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"

	"github.com/duehook/duehook/e2e/receiver"
	"github.com/duehook/duehook/e2e/rig"
	"github.com/duehook/duehook/internal/job"
)

// callbackShare: one job in so many has callbacks.
const callbackShare = 3

// callbacks are those of a registration, for all events.
type callbacks struct {
	Delivered     *target `json:"delivered"`
	Dead          *target `json:"dead"`
	Expired       *target `json:"expired"`
	Cancelled     *target `json:"cancelled"`
	AttemptFailed *target `json:"attempt_failed"`
	Retry         *retry  `json:"retry"`
}

type target struct {
	URL string `json:"url"`
}

// someCallbacks returns callbacks for a share of the jobs, and nil for the others.
func someCallbacks(rnd *rand.Rand, urls []string) *callbacks {
	if rnd.IntN(callbackShare) > 0 {
		return nil
	}
	to := &target{URL: urls[rnd.IntN(len(urls))]}
	return &callbacks{
		Delivered: to, Dead: to, Expired: to, Cancelled: to, AttemptFailed: to,
		Retry: &retry{Steps: []string{"200ms"}, Limit: 20},
	}
}

// eventReport is the body of a callback, as far as the audit looks at it.
type eventReport struct {
	Event string  `json:"event"`
	Job   jobView `json:"job"`
}

// judgeCallbacks: each outcome of a job with callbacks came as one message, and no other
// callback came. It takes the deliveries of callbacks out of arrived.
func (a *audit) judgeCallbacks(arrived map[job.Key][]receiver.Delivery) {
	came := map[job.Key][]receiver.Delivery{}
	for key, deliveries := range arrived {
		if _, ok := job.CallbackOf(key.ID); ok {
			came[key] = deliveries
			delete(arrived, key)
		}
	}
	for _, o := range a.clients.jobs {
		if o.uid == "" || o.Callbacks == nil || !o.finished {
			maps.DeleteFunc(came, func(key job.Key, _ []receiver.Delivery) bool { return !o.finished && o.mayReport(key) })
			continue
		}
		again := func(key job.Key) bool { return o.mayReport(key) && strings.HasSuffix(key.ID, secondRound) }
		wasReplayed := o.then == replay && (o.done.status == http.StatusOK || slices.ContainsFunc(slices.Collect(maps.Keys(came)), again))
		ids := o.callbackIDs(a.stored[o.key()], wasReplayed)
		for _, id := range ids {
			key := job.Key{Topic: o.Topic, ID: id}
			if !slices.ContainsFunc(came[key], accepted) && !a.mayLack(id, ids) {
				a.lose(o, "no receiver accepted its callback %s: %s; cuts: %s", id, rig.Describe(came[key]), &a.cuts)
			}
			a.judgeCallback(o, key, came[key])
			delete(came, key)
		}
		// An outcome that the store took back, or that a second replay followed, was reported, too.
		maps.DeleteFunc(came, func(key job.Key, _ []receiver.Delivery) bool {
			return (a.takesBack(o) || o.replayedTwice()) && o.mayReport(key)
		})
	}
	for key, deliveries := range came {
		a.fail("the callback %s came, and reports no outcome: %s; cuts: %s", key, rig.Describe(deliveries), &a.cuts)
	}
}

// mayLack: of the callbacks of a job, that of a failed attempt may give way to a newer one, and a
// full Redis leaves it out.
func (a *audit) mayLack(id string, ids []string) bool {
	failed := func(id string) bool { return strings.Contains(id, "."+string(job.CallbackAttemptFailed)+".") }
	newer := slices.ContainsFunc(ids[slices.Index(ids, id)+1:], failed)
	return failed(id) && (newer || a.run.row.name == redisIsFull)
}

// mayReport: the key is that of a callback of the job.
func (o *told) mayReport(key job.Key) bool {
	uid, _ := job.CallbackOf(key.ID)
	return uid == o.uid && key.Topic == o.Topic && o.Callbacks != nil
}

// takesBack: the store may lose the last outcomes, and the job may then take another course. An
// outcome that was lost with its callback is repeated with the same id by all other jobs.
func (a *audit) takesBack(o *told) bool {
	return a.run.row.nodes == 0 && (o.then == cancel || o.attempts < 0)
}

// secondRound ends the ids of callbacks after a replay.
const secondRound = ".2"

// callbackIDs are the ids of the callbacks of a job that is in a state in the end. A replay that was in doubt and met
// a conflict need not have been: the store may have taken back the death that the client saw, and gone on.
func (o *told) callbackIDs(j jobView, wasReplayed bool) (ids []string) {
	round := ""
	add := func(event string) { ids = append(ids, o.uid+"."+event+round) }
	failed := func(n int) {
		for attempt := 1; attempt <= n; attempt++ {
			add(fmt.Sprint("attempt_failed.", attempt))
		}
	}
	if wasReplayed {
		failed(o.attempts)
		add("dead")
		round = secondRound
	}
	switch j.State {
	case "delivered":
		failed(j.Attempts - 1)
	case "dead", "expired", "cancelled":
		failed(j.Attempts)
	default:
		return ids
	}
	add(j.State)
	return ids
}

// judgeCallback: the callback reports its event, and came again only if it was in flight at a
// fault.
func (a *audit) judgeCallback(o *told, key job.Key, deliveries []receiver.Delivery) {
	slices.SortStableFunc(deliveries, func(x, y receiver.Delivery) int { return x.Arrived.Compare(y.Arrived) })
	for i, d := range deliveries {
		var r eventReport
		err := json.Unmarshal([]byte(d.Body), &r)
		if err != nil || d.UID != strings.ReplaceAll(key.ID, ".", "_") || r.Job.UID != o.uid || !strings.HasPrefix(key.ID, o.uid+"."+r.Event) {
			a.fail("the callback %s came as %s and reports %+v (%v)", key, d.UID, r, err)
		}
		if i == 0 {
			continue
		}
		if yes, _ := a.cuts.InFlight(deliveries[i-1]); yes {
			a.inFlight++
			continue
		}
		a.otherwise++
		a.excuse("the callback %s came again without having been in flight: %s; cuts: %s", key, rig.Describe(deliveries), &a.cuts)
	}
}
