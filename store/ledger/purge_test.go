package ledger_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
)

func (r *rig) purge(limit int) int {
	r.t.Helper()
	n, err := r.Purge(r.t.Context(), limit)
	noError(r.t, "Purge", err)
	return n
}

// rows counts the rows of the tables.
func (r *rig) rows() map[string]string {
	r.t.Helper()
	rows := map[string]string{}
	for _, table := range []string{"message", "payload", "flow"} {
		rows[table] = r.queryCount("SELECT count(*) FROM " + table)
	}
	return rows
}

func TestPurge(t *testing.T) {
	onEach(func(t *testing.T, b *backend) {
		r := freshRig(t, b, retention)
		for i := range 5 {
			r.add(reg(fmt.Sprint("delivered-", i), 0))
			r.run(job.OutcomeDelivered, 0)
		}
		r.add(reg("dead", 0))
		r.run(job.OutcomeFailed, -1)
		r.add(reg("taken", 0))
		r.run(job.OutcomeFailed, -1)
		r.add(replacing("taken", 0)) // over a dead letter, which may age now
		r.run(job.OutcomeDelivered, 0)
		r.add(reg("cancelled", time.Hour))
		r.update("cancelled", cancel)
		r.add(reg("waiting", 100*time.Hour))

		r.pass(retention)
		equal(t, "purged within the retention", r.purge(100), 0)
		equal(t, "rows", r.rows()["message"], "10")
		r.pass(time.Second)
		equal(t, "purged", r.purge(2), 2)
		equal(t, "rows", r.rows(), map[string]string{"message": "2", "payload": "2", "flow": "3"})
		equal(t, "purged", r.purge(100), 5)
		want := r.all()
		equal(t, "jobs", r.restart(retention).all(), want)
	})(t)
}

func TestLongerRetention(t *testing.T) {
	onEach(func(t *testing.T, b *backend) {
		r := freshRig(t, b, 0, func(o *options) { o.Retention = retention })
		r.add(reg("a", 0))
		r.run(job.OutcomeDelivered, 0)
		r.pass(retention)
		r.purge(10)
		equal(t, "length of the flow", len(r.flow("a")), 4)
		r.pass(time.Second)
		r.purge(10)
		equal(t, "length of the flow", len(r.flow("a")), 0)
	})(t)
}

// A replay can come after the journal has forgotten the job, and before the
// store has.
func TestReplayOfAJobThatWasPurged(t *testing.T) {
	onEach(func(t *testing.T, b *backend) {
		r := freshRig(t, b, 2*retention, func(o *options) { o.StoreRetention = retention })
		r.add(reg("a", 0))
		_, err := r.Carry(t.Context(), 0, carryAll)
		noError(t, "Carry", err)
		r.update("a", cancel)
		r.pass(retention + time.Second)
		r.purge(10)
		equal(t, "messages", r.rows()["message"], "0")
		want := r.update("a", replay)
		equal(t, "the job", r.crash(retention).get("a"), want)
		r.run(job.OutcomeDelivered, 0)
		equal(t, "the job", r.crash(retention).get("a"), r.get("a"))
	})(t)
}

// Jobs that the store had before it was wrapped enter the journal when they
// are claimed.
func TestJobsThatTheJournalDoesNotKnow(t *testing.T) {
	onEach(func(t *testing.T, b *backend) {
		h, option := hook()
		r := freshRig(t, b, retention, option)
		g := reg("a", 0)
		_, err := h.Store.Register(t.Context(), []store.Registration{g})
		noError(t, "Register", err)
		c := r.takeOne()
		noError(t, "Flush", r.Flush())
		equal(t, "lapses", r.crash(retention).takeOne().Job.Lapses, 1)
		r.settle(settlement(c, job.OutcomeDelivered, 0))
		equal(t, "the job", r.crash(retention).get("a"), r.get("a"))
	})(t)
}
