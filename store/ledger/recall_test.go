package ledger_test

import (
	"testing"
	"time"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
)

// A client that repeats a registration with an Idempotency-Key is told of the
// job that it made before, even if the store has lost that after its end.
func TestRepeatedAfterTheStoreWasFlushed(t *testing.T) {
	onEach(func(t *testing.T, b *backend) {
		l, option := shared()
		r := freshRig(t, b, retention, option)
		end := map[string]func(){
			"delivered": func() { r.run(job.OutcomeDelivered, 0) },
			"cancelled": func() { r.update("cancelled", cancel) },
		}
		var regs []store.Registration
		for _, id := range []string{"delivered", "cancelled"} {
			g := reg(id, 0)
			g.Idempotent = true
			r.add(g)
			end[id]()
			g.UID = newName()
			regs = append(regs, g)
		}
		want := r.all()
		noError(t, "Flush", r.Flush())
		l.flush(t)

		other := reg("delivered", 0) // no key: the ended job is of no account
		other.Spec.Body = []byte(`"another"`)
		other.Key.ID = "other"
		r.add(other)
		r.register(store.Same, regs...)
		got := r.all()
		delete(got, other.Key.String())
		equal(t, "jobs", got, want)
		equal(t, "due jobs", len(r.take()), 1)
		noError(t, "Flush", r.Flush())
		r.agree()
	})(t)
}

// After its time, with other content, or without the key, it is a new job.
func TestRegisteredAnewAfterTheStoreWasFlushed(t *testing.T) {
	for name, alter := range map[string]func(r *rig, g *store.Registration){
		"later":         func(r *rig, _ *store.Registration) { r.pass(retention) },
		"other content": func(_ *rig, g *store.Registration) { g.Spec.Body = []byte(`"another"`) },
		"without a key": func(_ *rig, g *store.Registration) { g.Idempotent = false },
	} {
		t.Run(name, onEach(func(t *testing.T, b *backend) {
			l, option := shared()
			r := freshRig(t, b, retention, option)
			g := reg("a", 0)
			g.Idempotent = true
			r.add(g)
			r.run(job.OutcomeDelivered, 0)
			r.pass(time.Second)
			l.flush(t)
			g.UID = newName()
			alter(r, &g)
			equal(t, "uid", r.add(g).UID, g.UID)
			equal(t, "due jobs", len(r.take()), 1)
			noError(t, "Flush", r.Flush())
			r.agree()
		}))
	}
}
