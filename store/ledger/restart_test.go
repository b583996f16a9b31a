package ledger_test

import (
	"slices"
	"testing"
	"time"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
)

// TestRestoredJobs runs on servers what their rows of a job can break: their types of
// columns. The rules of restoring are Go's, and random calls test them on each server.
// `make test` runs it without the race detector, since its calls have one caller.
func TestRestoredJobs(t *testing.T) {
	rows := []string{"a waiting job keeps all its fields", "an attempt written before its phases were measured"}
	limit := 3
	everything := job.Spec{
		Destination: "https://b.example/x?y=z", Method: "PUT", BizKey: "biz", ContentType: "application/json",
		Headers: []job.Header{{Name: "a", Value: "1"}, {Name: "b", Value: "2"}},
		Body:    []byte("{\"\\u0000\": \xff}"), BodyForm: job.BodyBase64,
		When:  job.When{Delay: 1500 * time.Millisecond},
		Retry: &job.Retry{Steps: []time.Duration{time.Second, time.Minute}, Limit: &limit},
		TTL:   time.Hour, Timeout: 7 * time.Second, ExpectBody: "success", Traceparent: "00-a-b-01",
	}
	for name, test := range map[string]func(t *testing.T, r *rig){
		"a waiting job keeps all its fields": func(t *testing.T, r *rig) {
			g := reg("a", 0)
			g.Spec = everything
			want := r.Add(g)
			equal(t, "the job", r.Restart().Job("a"), want)
		},
		"a job at a given time and one without a body": func(t *testing.T, r *rig) {
			g := reg("a", 0)
			g.Spec.When = job.When{At: job.InstantOf(time.Now().Add(time.Hour))}
			bare := store.Registration{Key: key("b"), UID: "u", Spec: job.Spec{Destination: "http://b.example"}}
			want := r.RegisterAs(store.Created, g, bare)
			r = r.Restart()
			equal(t, "the jobs", []job.Job{r.Job("a"), r.Job("b")}, want)
		},
		"an overdue job is due": func(t *testing.T, r *rig) {
			r.Add(reg("a", time.Second))
			r.Pass(time.Hour)
			r = r.Restart()
			equal(t, "claimed", r.TakeOne().Job.ID, "a")
		},
		"a carried job is due again": func(t *testing.T, r *rig) {
			r.Add(reg("a", 0))
			_, err := r.Carry(t.Context(), 0, carryAll)
			noError(t, "Carry", err)
			r = r.Restart()
			equal(t, "state", r.Job("a").State, job.Waiting)
			equal(t, "expired leases of the claimed job", r.TakeOne().Job.ExpiredLeases, 0)
		},
		"a running job is due again, with an expired lease and no attempt charged": func(t *testing.T, r *rig) {
			r.Add(reg("a", 0))
			before := r.TakeOne().Job
			r = r.Restart()
			after := r.TakeOne().Job
			equal(t, "expired leases", after.ExpiredLeases, 1)
			equal(t, "attempts", after.Attempts, 0)
			if after.Token <= before.Token || after.Version <= before.Version {
				t.Errorf("token %d and version %d came after %d and %d", after.Token, after.Version, before.Token, before.Version)
			}
		},
		"a cancel in flight holds": func(t *testing.T, r *rig) {
			r.Add(reg("a", 0))
			r.TakeDue()
			r.Change("a", cancel)
			r = r.Restart()
			c := r.TakeOne()
			equal(t, "before the attempt", c.Job.Before(c.From, c.Earlier, c.Now), &job.Outcome{Kind: job.OutcomeCancelled})
		},
		"a retrying job keeps its ladder and its log": func(t *testing.T, r *rig) {
			r.Add(reg("a", 0))
			r.RunOne(job.OutcomeFailed, time.Minute)
			r.Pass(time.Minute)
			r.RunOne(job.OutcomeFailed, time.Hour)
			want, log := r.Job("a"), r.LogOf("a")
			equal(t, "length of the log", len(log), 2)
			r = r.Restart()
			equal(t, "the job", r.Job("a"), want)
			equal(t, "the log", r.LogOf("a"), log)
		},
		"an attempt written before its phases were measured": func(t *testing.T, r *rig) {
			r.Add(reg("a", 0))
			r.RunOne(job.OutcomeFailed, time.Hour)
			noError(t, "Flush", r.Flush())
			noError(t, "Exec", r.Exec(t.Context(), "UPDATE flow SET log = "+r.B.Hex(
				"88a16e01a173cf0000019b78c90a80a164ce052f83c0a163cd01f4a165a8687474705f353030a162a9747279206c61746572"+
					"a161cf0000019b78c9456fa172a66c6164646572")+" WHERE log IS NOT NULL"))
			equal(t, "the log", r.Restart().LogOf("a"), []job.Attempt{{
				Number: 1, StartedAt: 1_767_258_000_000, Duration: 87 * time.Millisecond, Status: 500, Error: "http_500",
				ResponseBody: "try later", NextAt: 1_767_258_015_087, Reason: job.ReasonLadder,
			}})
		},
		"dead letters stay, however old": func(t *testing.T, r *rig) {
			r.Add(reg("a", 0))
			r.RunOne(job.OutcomeFailed, -1)
			want := r.Job("a")
			r.Pass(1000 * time.Hour)
			_, err := r.Purge(t.Context(), 100)
			noError(t, "Purge", err)
			r = r.Restart()
			equal(t, "the job", r.Job("a"), want)
			r.Change("a", replay)
			r = r.Restart()
			r.RunOne(job.OutcomeDelivered, 0)
			equal(t, "length of the log", len(r.LogOf("a")), 2)
		},
		"a rescheduled and a respecified job": func(t *testing.T, r *rig) {
			r.Add(reg("a", time.Minute))
			r.Change("a", runAt(job.When{Delay: time.Hour}))
			want := r.Change("a", func(j *job.Job, _ job.Instant) error { return j.Respecify(everything) })
			equal(t, "the job", r.Restart().Job("a"), want)
		},
	} {
		on := onEach
		if slices.Contains(rows, name) {
			on = onServers
		}
		t.Run(name, on(func(t *testing.T, b *backend) { test(t, freshRig(t, b, retention)) }))
	}
}
