package explain

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/retrypolicy"
	"github.com/duehook/duehook/store"
)

func TestNotes(t *testing.T) {
	const uid = "01KDXJ6Z400000000000000000"
	at := now.Add(-time.Hour)
	occurrence := func(kind job.OccurrenceKind) *job.Occurrence {
		return &job.Occurrence{Schedule: "nightly", Time: at, Kind: kind}
	}
	both := &job.Callbacks{By: map[job.CallbackEvent]*job.Callback{job.CallbackDelivered: {}, job.CallbackAttemptFailed: {}}}
	target := &job.Count{Target: 3, AtDeadline: job.DeadlineFires}
	tests := []struct {
		name string
		job  job.Job
		want []string
	}{
		{"a plain job", job.Job{}, nil},
		{"of a timetable", job.Job{Spec: job.Spec{Occurrence: occurrence(job.ByTimetable)}}, []string{"The schedule nightly made it for the occurrence at 2026-01-01T08:00:00.000Z."}},
		{"late", job.Job{Spec: job.Spec{Occurrence: occurrence(job.ByMisfire)}}, []string{"The schedule nightly made it late, by its misfire policy, for the occurrence at 2026-01-01T08:00:00.000Z."}},
		{"run by hand", job.Job{Spec: job.Spec{Occurrence: occurrence(job.ByHand)}}, []string{"A client ran the schedule nightly at 2026-01-01T08:00:00.000Z."}},
		{
			"of a group",
			job.Job{Key: job.Key{ID: "paid-7:billing"}, Spec: job.Spec{Group: &job.Membership{Group: "partners", Size: 12}}},
			[]string{"It is for the member billing of the group partners. The registration paid-7 made 12 jobs."},
		},
		{
			"of a group of one",
			job.Job{Key: job.Key{ID: "a:b:billing"}, Spec: job.Spec{Group: &job.Membership{Group: "partners", Size: 1}}},
			[]string{"It is for the member billing of the group partners. The registration a:b made this job only."},
		},
		{
			"a callback",
			job.Job{Key: job.Key{ID: uid + ".dead"}, Spec: job.Spec{Reports: job.CallbackDead}},
			[]string{"It is a callback: it reports the event dead of the job with the uid " + uid + "."},
		},
		{"a job with the id of one", job.Job{Key: job.Key{ID: uid + ".dead"}}, nil},
		{
			"spread",
			job.Job{Key: job.Key{Topic: "t", ID: "1"}, Spec: job.Spec{When: job.When{Spread: time.Minute}}},
			[]string{"It is due " + job.FormatDuration(job.Share("t/1", time.Minute)) + " after its registered time: its share of the spread of 1m."},
		},
		{"counting", job.Job{DueAt: in(time.Hour), Counted: 2, Spec: job.Spec{Count: target}}, nil},
		{"at its count", job.Job{DueAt: in(time.Hour), Counted: 3, Fired: true, Spec: job.Spec{Count: target}}, []string{"It has fired. Its count, 3, has reached the target of 3."}},
		{"run", job.Job{DueAt: now, Counted: 2, Fired: true, Spec: job.Spec{Count: target}}, []string{"It fired without reaching its target count: it has 2 of 3."}},
		{"counted on after its deadline", job.Job{DueAt: at, Counted: 3, Attempts: 1, Fired: true, Spec: job.Spec{Count: target}}, []string{"It has fired. Its count, 3, has reached the target of 3."}},
		{"at its deadline", job.Job{DueAt: at, Counted: 2, Spec: job.Spec{Count: target}}, []string{"It fired at its deadline without reaching its target count: it has 2 of 3."}},
		{"callbacks to come", job.Job{UID: uid, Spec: job.Spec{Callbacks: both}}, []string{"A callback follows each of these events: delivered, attempt_failed."}},
		{"one made", job.Job{UID: uid, State: job.Retrying, Attempts: 1, Spec: job.Spec{Callbacks: both}}, []string{
			"It has made 1 callback in this round: " + uid + ".attempt_failed.1.", "A callback follows each of these events: delivered, attempt_failed.",
		}},
		{"all made", job.Job{UID: uid, State: job.Delivered, Attempts: 2, Spec: job.Spec{Callbacks: both}}, []string{
			"It has made 2 callbacks in this round; the last one is " + uid + ".delivered.",
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var got []string
			for _, s := range Job(&store.Outlook{Now: now, Job: test.job, Shards: 1}, nil, retrypolicy.Policy{}, store.CarryOptions{}).Notes {
				got = append(got, s.String())
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("notes (-want +got):\n%s", diff)
			}
		})
	}
}
