package job_test

import (
	"slices"
	"testing"
	"time"

	"github.com/duehook/duehook/job"
)

// Each job of a group has the callback for the whole registration at its first end, however it
// ends, and no other job has it.
func TestAllEndedFollowsFromTheFirstEnd(t *testing.T) {
	c := &job.Callbacks{IncludeRequest: true}
	c.Set(job.CallbackAllEnded, &job.Callback{Destination: "https://a.example"})
	member := func() job.Job {
		return job.Job{Key: job.Key{Topic: "t", ID: "g:m"}, UID: "01KDWCJ2M00000000000000001", Spec: job.Spec{
			Callbacks: c, Group: &job.Membership{Group: "g", Size: 2}, Body: []byte("large"),
		}}
	}
	settled := func(j *job.Job, o job.Outcome) (ids []string) {
		o.Attempt = &job.Attempt{Number: 1}
		s := job.Settle(j, o, func(int) (time.Duration, bool) { return time.Minute, true })
		for _, n := range s.Successors(s.Change(false), 2, job.ShedNothing) {
			if n.Passing || len(n.Report.Job.Spec.Body) > 0 || n.Report.Response != nil {
				t.Errorf("%+v", n)
			}
			ids = append(ids, n.Key.ID)
		}
		return ids
	}
	const id = "01KDWCJ2M00000000000000001.all_ended"
	for kind, want := range map[job.OutcomeKind][]string{
		job.OutcomeDelivered: {id}, job.OutcomeRefused: {id}, job.OutcomeExpired: {id}, job.OutcomeCancelled: {id}, job.OutcomeFailed: nil,
	} {
		j := member()
		if got := settled(&j, job.Outcome{Kind: kind}); !slices.Equal(got, want) {
			t.Errorf("outcome %d: %v", kind, got)
		}
	}
	plain := member()
	plain.Spec.Group = nil
	if got := settled(&plain, job.Outcome{Kind: job.OutcomeDelivered}); got != nil {
		t.Errorf("of no group: %v", got)
	}
	for name, again := range map[string]func(j *job.Job) error{
		"replay":  func(j *job.Job) error { return j.Replay(9) },
		"discard": func(j *job.Job) error { return j.Discard(9) },
	} {
		j := member()
		j.State, j.EndedAt = job.Dead, 5
		if err := again(&j); err != nil {
			t.Fatal(err)
		}
		if at, ended := j.FirstEnd(); at != 5 || !ended || c.Ended != 0 {
			t.Errorf("%s: the first end was at %d, %v", name, at, ended)
		}
		if got := settled(&j, job.Outcome{Kind: job.OutcomeDelivered}); got != nil {
			t.Errorf("after a %s: %v", name, got)
		}
	}
	j := member()
	if _, err := j.Cancel(3); err != nil {
		t.Fatal(err)
	}
	if next := j.Ended(job.Waiting, job.ShedNothing); len(next) != 1 || next[0].Key.ID != id || !slices.Equal(j.CallbackKeys(), []job.Key{next[0].Key}) {
		t.Errorf("after a cancel: %+v", next)
	}
}
