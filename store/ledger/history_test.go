package ledger_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
)

func TestHistory(t *testing.T) {
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
		r.Pass(time.Second)
		second := r.Add(reg("a", time.Hour))
		g := reg("a", time.Minute)
		g.OnConflict = job.ConflictReplace
		third := r.Add(g)
		equal(t, "the history", r.History("a"), []string{
			">waiting 0  ",
			"waiting>ready 0 carrier ",
			"ready>running 1 worker ",
			"running>retrying 1 worker ladder",
			"retrying>retrying 0  changed",
			"retrying>ready 0 carrier ",
			"ready>running 2 worker ",
			"running>running 0  cancel_requested",
			"running>cancelled 2 worker cancelled",
			"cancelled>waiting 0  replayed",
			"waiting>ready 0 carrier ",
			"ready>running 1 worker ",
			"running>delivered 1 worker delivered",
			">waiting 0  ",
			"waiting>cancelled 0  replaced",
			">waiting 0  ",
		})
		equal(t, "uids", slices.Compact(r.Query(`SELECT uid FROM history WHERE id = 'a' ORDER BY at, seq`)), []string{first.UID, second.UID, third.UID})
		equal(t, "hosts", r.Query(`SELECT DISTINCT host FROM flow`), []string{"host"})
		equal(t, "time of the first change", r.Count(`SELECT min(at) FROM flow`), fmt.Sprint(int64(began)))
		equal(t, "rows of nobody", len(r.History("nobody")), 0)
	})(t)
}

// The ledger keeps a dead letter that was discarded, and that it was.
func TestHistoryOfADiscardedJob(t *testing.T) {
	onEach(func(t *testing.T, b *backend) {
		r := freshRig(t, b, retention)
		r.Add(reg("a", 0))
		r.RunOne(job.OutcomeRefused, 0)
		discard := func(j *job.Job, now job.Instant) error { return j.Discard(now) }
		r.Change("a", discard)
		want := []string{
			">waiting 0  ",
			"waiting>ready 0 carrier ",
			"ready>running 1 worker ",
			"running>dead 1 worker ",
			"dead>cancelled 0  discarded",
		}
		equal(t, "the history", r.History("a"), want)
		r.Add(reg("a", time.Hour))
		equal(t, "the history after another registration", r.History("a"), append(want, ">waiting 0  "))
	})(t)
}

// A claim whose answer was lost is given again, and is one claim.
func TestHistoryOfARepeatedClaim(t *testing.T) {
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
		equal(t, "the history", r.History("a"), []string{">waiting 0  ", "waiting>ready 0 carrier ", "ready>running 1 worker "})
	})(t)
}

// The states in the table for people are those of the program.
func TestStateNames(t *testing.T) {
	r := freshRig(t, postgres, 0)
	var want []string
	for code := range len(job.States) {
		want = append(want, job.State(code).String())
	}
	equal(t, "names", r.Query(`SELECT name FROM state ORDER BY code`), want)
}
