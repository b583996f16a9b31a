package ledger_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
)

func TestPurge(t *testing.T) {
	onEach(func(t *testing.T, b *backend) {
		r := freshRig(t, b, retention)
		for i := range 5 {
			r.Add(reg(fmt.Sprint("delivered-", i), 0))
			r.RunOne(job.OutcomeDelivered, 0)
		}
		r.Add(reg("dead", 0))
		r.RunOne(job.OutcomeFailed, -1)
		r.Add(reg("taken", 0))
		r.RunOne(job.OutcomeFailed, -1)
		r.Add(replacing("taken", 0)) // over a dead letter, which may age now
		r.RunOne(job.OutcomeDelivered, 0)
		r.Add(reg("cancelled", time.Hour))
		r.Change("cancelled", cancel)
		r.Add(reg("waiting", 100*time.Hour))

		r.Pass(retention)
		r.reconcile() // before which the store forgets nothing
		equal(t, "purged within the retention", r.PurgeSome(100), 0)
		equal(t, "rows", r.Rows()["message"], "10")
		r.Pass(time.Second)
		equal(t, "purged", r.PurgeSome(2), 2)
		equal(t, "rows", r.Rows(), map[string]string{"message": "2", "payload": "2", "flow": "5"})
		equal(t, "purged", r.PurgeSome(100), 5)
		want := r.All()
		equal(t, "jobs", r.Restart().All(), want)
	})(t)
}

func TestLongerRetention(t *testing.T) {
	onEach(func(t *testing.T, b *backend) {
		r := freshRig(t, b, 0, func(o *options) { o.Retention = retention })
		r.Add(reg("a", 0))
		r.RunOne(job.OutcomeDelivered, 0)
		r.Pass(retention)
		r.PurgeSome(10)
		equal(t, "length of the history", len(r.History("a")), 4)
		r.Pass(time.Second)
		r.PurgeSome(10)
		equal(t, "length of the history", len(r.History("a")), 0)
	})(t)
}

// A replay can come after the ledger has forgotten the job, and before the
// store has.
func TestReplayOfAJobThatWasPurged(t *testing.T) {
	onEach(func(t *testing.T, b *backend) {
		r := freshRig(t, b, 2*retention, func(o *options) { o.StoreRetention = retention })
		r.Add(reg("a", 0))
		_, err := r.Carry(t.Context(), 0, carryAll)
		noError(t, "Carry", err)
		r.Change("a", cancel)
		r.Pass(retention + time.Second)
		r.PurgeSome(10)
		equal(t, "messages", r.Rows()["message"], "0")
		want := r.Change("a", replay)
		equal(t, "the job", r.Crash().Job("a"), want)
		r.RunOne(job.OutcomeDelivered, 0)
		r.agree()
	})(t)
}

// Jobs that the store had before it was wrapped enter the ledger when they
// are claimed.
func TestJobsThatTheLedgerDoesNotKnow(t *testing.T) {
	onEach(func(t *testing.T, b *backend) {
		h, option := hook()
		r := freshRig(t, b, retention, option)
		g := reg("a", 0)
		_, err := h.Restorable.Register(t.Context(), []store.Registration{g})
		noError(t, "Register", err)
		c := r.TakeOne()
		noError(t, "Flush", r.Flush())
		equal(t, "expired leases", r.Crash().TakeOne().Job.ExpiredLeases, 1)
		r.SettleAll(settlement(c, job.OutcomeDelivered, 0))
		r.agree()
	})(t)
}
