package explain

import (
	"strings"

	"github.com/duehook/duehook/internal/job"
)

// note returns the sentences about one subject, none if it does not concern the job.
type note func(v *view) []Sentence

// notes are all of them: where the job comes from, why it is due when it is, and which jobs
// it makes.
var notes = []note{fromSchedule, fromGroup, fromJob, spread, counted, callbacks}

// madeBy are the sentences for the kinds of occurrences.
var madeBy = map[job.OccurrenceKind]string{
	job.ByTimetable: "schedule_timetable",
	job.ByMisfire:   "schedule_misfire",
	job.ByHand:      "schedule_manual",
}

func fromSchedule(v *view) []Sentence {
	o := v.Job.Spec.Occurrence
	if o == nil {
		return nil
	}
	return []Sentence{says(madeBy[o.Kind], Params{"schedule": o.Schedule, "at": o.Time.RFC3339()})}
}

func fromGroup(v *view) []Sentence {
	g, id := v.Job.Spec.Group, v.Job.GroupID()
	if g == nil {
		return nil
	}
	member := strings.TrimPrefix(v.Job.ID, job.MemberID(id, ""))
	return []Sentence{says("group_member", Params{"member": member, "group": g.Group, "group_id": id, "count": g.Size})}
}

func fromJob(v *view) []Sentence {
	uid, is := job.CallbackOf(v.Job.ID)
	if !is || v.Job.Spec.Reports == "" {
		return nil
	}
	return []Sentence{says("callback_of", Params{"event": string(v.Job.Spec.Reports), "uid": uid})}
}

func spread(v *view) []Sentence {
	whole := v.Job.Spec.When.Spread
	if whole == 0 {
		return nil
	}
	share := job.Share(v.Job.Key.String(), whole)
	return []Sentence{says("spread", Params{"spread": job.FormatDuration(whole), "share": job.FormatDuration(share)})}
}

// counted is for jobs that have fired: before, their count is a reason. A job does not store
// what came first: its deadline, its target or a client's run or replay. So a count that has
// reached the target may not be why the job fired.
func counted(v *view) []Sentence {
	j := &v.Job
	if j.Spec.Count == nil || !j.HasFired(v.Now) {
		return nil
	}
	code := "fired_at_deadline"
	switch {
	case j.Counted >= j.Spec.Count.Target:
		code = "fired_count_reached"
	case j.Fired: // by a client, or at a target that was lower
		code = "fired_below_target"
	}
	return []Sentence{says(code, Params{"counted": j.Counted, "target": j.Spec.Count.Target})}
}

func callbacks(v *view) (all []Sentence) {
	if made := v.Job.CallbackKeys(); len(made) > 0 {
		all = append(all, says("callbacks_made", Params{"count": len(made), "job": made[len(made)-1].ID}))
	}
	var events []string
	for _, e := range job.CallbackEvents {
		if v.Job.Spec.Callbacks.On(e) != nil && !v.Job.State.Final() {
			events = append(events, string(e))
		}
	}
	if len(events) > 0 {
		all = append(all, says("callbacks_follow", Params{"events": strings.Join(events, ", ")}))
	}
	return all
}
