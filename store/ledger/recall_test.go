package ledger_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
)

// A client that repeats a registration is told of the job that it made before, even
// if the store has lost that after its end. A cancelled one makes room.
func TestRepeatedAfterTheStoreWasFlushed(t *testing.T) {
	onEach(func(t *testing.T, b *backend) {
		l, option := shared()
		r := freshRig(t, b, retention, option)
		r.Add(reg("cancelled", 0))
		r.Change("cancelled", cancel)
		again := reg("delivered", 0)
		r.Add(again)
		r.RunOne(job.OutcomeDelivered, 0)
		again.UID = newName()
		want := r.All()
		noError(t, "Flush", r.Flush())
		l.flush(t)

		r.RegisterAs(store.Same, again)
		delete(want, key("cancelled").String())
		equal(t, "jobs", r.All(), want)
		r.Add(reg("cancelled", 0))
		equal(t, "due jobs", len(r.TakeDue()), 1)
		noError(t, "Flush", r.Flush())
		r.agree()
	})(t)
}

// After its time, with other content, or to replace it, it is a new job.
func TestRegisteredAnewAfterTheStoreWasFlushed(t *testing.T) {
	for name, alter := range map[string]func(r *rig, g *store.Registration){
		"later":         func(r *rig, _ *store.Registration) { r.Pass(retention) },
		"other content": func(_ *rig, g *store.Registration) { g.Spec.Body = []byte(`"another"`) },
		"replace":       func(_ *rig, g *store.Registration) { g.OnConflict = job.ConflictReplace },
	} {
		t.Run(name, onEach(func(t *testing.T, b *backend) {
			l, option := shared()
			r := freshRig(t, b, retention, option)
			g := reg("a", 0)
			r.Add(g)
			r.RunOne(job.OutcomeDelivered, 0)
			r.Pass(time.Second)
			l.flush(t)
			g.UID = newName()
			alter(r, &g)
			equal(t, "uid", r.Add(g).UID, g.UID)
			equal(t, "due jobs", len(r.TakeDue()), 1)
			noError(t, "Flush", r.Flush())
			r.agree()
		}))
	}
}

// The job of an occurrence shows that it fired, even if the store has lost it after its end, and however long ago
// that was, and if its receiver armed it again. A backfill makes another job.
func TestAnOccurrenceAfterTheStoreWasFlushed(t *testing.T) {
	for _, armed := range []bool{false, true} {
		t.Run(fmt.Sprint(armed), onEach(func(t *testing.T, b *backend) {
			l, option := shared()
			r := freshRig(t, b, retention, option)
			g := reg("s@1", 0)
			g.OnConflict, g.Spec.Occurrence = job.ConflictRenew, &job.Occurrence{Schedule: "s", Time: 1, Kind: job.ByTimetable}
			r.Add(g)
			if armed {
				c := r.TakeOne()
				next, err := c.Job.Again(time.Minute, nil, job.Bounds{MaxRounds: 1})
				noError(t, "Again", err)
				r.SettleAll(job.Settle(&c.Job, job.Outcome{Kind: job.OutcomeDelivered, Again: &next, Attempt: &job.Attempt{}}, nil))
				r.Pass(time.Minute)
			}
			r.RunOne(job.OutcomeDelivered, 0)
			want := r.All()
			noError(t, "Flush", r.Flush())
			l.flush(t)
			r.Pass(2 * retention)

			r.RegisterAs(store.Same, g)
			equal(t, "jobs", r.All(), want)
			l.flush(t)
			g.UID, g.Spec.Occurrence = newName(), &job.Occurrence{Schedule: "s", Time: 1, Kind: job.ByBackfill}
			r.Add(g)
			equal(t, "due jobs", len(r.TakeDue()), 1)
			noError(t, "Flush", r.Flush())
			r.agree()
		}))
	}
}
