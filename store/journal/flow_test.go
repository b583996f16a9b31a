package journal_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/journal"
)

// show is a flow in a form to compare: from>to attempt actor reason status.
func show(flow []journal.FlowEntry) []string {
	var lines []string
	for _, e := range flow {
		from, status := "", 0
		if e.From != nil {
			from = e.From.String()
		}
		if e.Log != nil {
			status = e.Log.Status
		}
		lines = append(lines, fmt.Sprintf("%s>%s %d %s %s %d", from, e.To, e.Attempt, e.Actor, e.Reason, status))
	}
	return lines
}

func TestFlow(t *testing.T) {
	onEach(func(t *testing.T, b *backend) {
		r := freshRig(t, b, retention)
		began := job.InstantOf(time.Now())
		first := r.Add(reg("a", time.Second))
		r.Pass(time.Second)
		r.RunOne(job.OutcomeFailed, time.Minute)
		r.Change("a", runAt(job.When{}))
		c := r.TakeOne()
		r.Change("a", cancel)
		r.SettleAll(settlement(c, job.OutcomeFailed, time.Minute))
		r.Change("a", replay)
		r.RunOne(job.OutcomeDelivered, 0)
		second := r.Add(reg("a", time.Hour))
		g := reg("a", time.Minute)
		g.OnConflict = job.ConflictReplace
		third := r.Add(g)
		flow := r.FlowOf("a")
		equal(t, "the flow", show(flow), []string{
			">waiting 0   0",
			"waiting>ready 0 carrier  0",
			"ready>running 1 worker  0",
			"running>retrying 1 worker ladder 0",
			"retrying>retrying 0  changed 0",
			"retrying>ready 0 carrier  0",
			"ready>running 2 worker  0",
			"running>running 0  cancel_requested 0",
			"running>cancelled 2 worker cancelled 0",
			"cancelled>waiting 0  replayed 0",
			"waiting>ready 0 carrier  0",
			"ready>running 1 worker  0",
			"running>delivered 1 worker delivered 200",
			">waiting 0   0",
			"waiting>cancelled 0  replaced 0",
			">waiting 0   0",
		})
		for i, want := range []struct {
			uid string
			at  job.Instant
		}{0: {first.UID, began}, 1: {first.UID, began.Add(time.Second)}, 13: {second.UID, began.Add(time.Second)}, 15: {third.UID, third.CreatedAt}} {
			if want.uid != "" {
				equal(t, "uid", flow[i].UID, want.uid)
				equal(t, "time", flow[i].At, want.at)
				equal(t, "host", flow[i].Host, "host")
			}
		}
		equal(t, "rows of the view for people", r.Count(`SELECT count(*) FROM history WHERE id = 'a'`), fmt.Sprint(len(flow)))
		equal(t, "length of the flow of nobody", len(r.FlowOf("nobody")), 0)
	})(t)
}

// The journal keeps a dead letter that was discarded, and that it was.
func TestFlowOfADiscardedJob(t *testing.T) {
	onEach(func(t *testing.T, b *backend) {
		r := freshRig(t, b, retention)
		r.Add(reg("a", 0))
		r.RunOne(job.OutcomeRefused, 0)
		discard := func(j *job.Job, now job.Instant) error { return j.Discard(now) }
		r.Change("a", discard)
		want := []string{
			">waiting 0   0",
			"waiting>ready 0 carrier  0",
			"ready>running 1 worker  0",
			"running>dead 1 worker  0",
			"dead>cancelled 0  discarded 0",
		}
		equal(t, "the flow", show(r.FlowOf("a")), want)
		r = r.Crash(retention)
		equal(t, "the flow after a crash", show(r.FlowOf("a")), want)
		r.Add(reg("a", time.Hour))
		equal(t, "the flow after another registration", show(r.FlowOf("a")), append(want, ">waiting 0   0"))
	})(t)
}

// A claim whose answer was lost is given again, and is one claim.
func TestFlowOfARepeatedClaim(t *testing.T) {
	onEach(func(t *testing.T, b *backend) {
		r := freshRig(t, b, retention)
		r.Add(reg("a", 0))
		_, err := r.Carry(t.Context(), 0, carryAll)
		noError(t, "Carry", err)
		hints, err := r.Pop(t.Context(), 0, 1, 0)
		noError(t, "Pop", err)
		for range 2 {
			claims, err := r.Claim(t.Context(), 0, hints, store.ClaimOptions{Nonce: "n", Lease: time.Hour, By: "worker"})
			noError(t, "Claim", err)
			equal(t, "claims", len(claims), 1)
		}
		equal(t, "the flow", show(r.FlowOf("a")), []string{">waiting 0   0", "waiting>ready 0 carrier  0", "ready>running 1 worker  0"})
	})(t)
}

// Claims can be journalled before the carrying that made them possible.
func TestFlowIsPutInOrder(t *testing.T) {
	onEach(func(t *testing.T, b *backend) {
		r := freshRig(t, b, retention)
		r.Add(reg("a", 0))
		r.RunOne(job.OutcomeFailed, 0)
		r.RunOne(job.OutcomeDelivered, 0)
		want := r.FlowOf("a")
		swap := func(seq int) {
			for _, text := range []string{
				"UPDATE flow SET seq = -seq WHERE seq IN (%[1]d, %[2]d)",
				"UPDATE flow SET seq = CASE seq WHEN -%[1]d THEN %[2]d ELSE %[1]d END WHERE seq < 0",
			} {
				noError(t, "swap", r.Exec(t.Context(), fmt.Sprintf(text, seq, seq+1)))
			}
		}
		for seq := 1; seq < len(want)-1; seq++ { // the registration has no row
			swap(seq)
			equal(t, "the flow", r.FlowOf("a"), want)
			swap(seq)
		}
	})(t)
}

// The states in the table for people are those of the program.
func TestStateNames(t *testing.T) {
	r := freshRig(t, sqliteBackend, 0)
	var want []string
	for code := range len(job.States) {
		want = append(want, job.State(code).String())
	}
	equal(t, "names", r.Query(`SELECT name FROM state ORDER BY code`), want)
}

// Nodes that share a journal say which of them made a registration, and so did
// journals of one process once.
func TestFlowOfARegistrationWithARow(t *testing.T) {
	onEach(func(t *testing.T, b *backend) {
		r := freshRig(t, b, retention)
		at := r.Add(reg("a", time.Hour)).CreatedAt
		noError(t, "Exec", r.Exec(t.Context(), fmt.Sprintf(`INSERT INTO flow
			(message, at, to_state, attempt, actor, host, reason) VALUES (1, %d, 0, 0, '', 'elsewhere', '')`, at+5)))
		flow := r.FlowOf("a")
		equal(t, "the flow", show(flow), []string{">waiting 0   0"})
		equal(t, "host", flow[0].Host, "elsewhere")
		equal(t, "time", flow[0].At, at+5)
		equal(t, "rows of the view for people", r.Query(`SELECT host FROM history WHERE id = 'a'`), []string{"elsewhere"})
	})(t)
}
