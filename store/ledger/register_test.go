package ledger_test

import (
	"testing"
	"time"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
)

// A registration got no answer, and is made again. What another node does to the job meanwhile stays
// in the ledger.
func TestRaceAdoptedJobMovesOn(t *testing.T) {
	onEach(func(t *testing.T, b *backend) {
		l, option := shared()
		h, hooking := hook()
		r := freshRig(t, b, retention, option, hooking)
		other := r.peer(l)
		g := reg("a", 0)
		h.OnRegister = lost[[]store.Registered]
		_, err := r.Register(t.Context(), []store.Registration{g})
		unavailable(t, "Register", err)
		h.OnRegister = nil
		claim := other.TakeOne()

		resume, looked := r.Pause(), make(chan struct{})
		h.OnRegister = func(call func() ([]store.Registered, error)) ([]store.Registered, error) {
			defer close(looked)
			h.OnRegister = nil
			return call()
		}
		answered := make(chan error)
		go func() {
			again := g
			again.UID = reg("a", 0).UID
			_, err := r.Register(t.Context(), []store.Registration{again})
			answered <- err
		}()
		<-looked
		other.SettleAll(settlement(claim, job.OutcomeDelivered, 0))
		resume()
		noError(t, "Register again", <-answered)
		noError(t, "Flush", r.Flush())
		r.agree()
	})(t)
}

// A registration replaces a job in the store, and its node dies before the ledger has it. The client
// comes to another node, which acknowledges the job only when the ledger has it.
func TestSameAtAnotherNode(t *testing.T) {
	onServers(func(t *testing.T, b *backend) {
		l, option := shared()
		h, hooking := hook()
		r := freshRig(t, b, retention, option, hooking)
		other := r.peer(l)
		r.Add(reg("a", time.Hour))
		g := replacing("a", time.Minute)
		h.OnRegister = lost[[]store.Registered]
		_, err := r.Register(t.Context(), []store.Registration{g})
		unavailable(t, "Register", err)
		other.RegisterAs(store.Same, g)
		l.flush(t)
		equal(t, "restored", other.reconcile().Restored, int64(1))
		equal(t, "uid", other.Job("a").UID, g.UID)
		noError(t, "Flush", other.Flush())
		other.agree()
	})(t)
}

func TestAKeyTwiceInABatch(t *testing.T) {
	onEach(func(t *testing.T, b *backend) {
		r := freshRig(t, b, retention)
		first, other := reg("a", time.Hour), reg("a", time.Minute)
		replacing := reg("a", time.Second)
		replacing.OnConflict = job.ConflictReplace
		results, err := r.Register(t.Context(), []store.Registration{first, reg("b", 0), first, other, replacing})
		noError(t, "Register", err)
		var outcomes []store.RegisterOutcome
		for _, res := range results {
			outcomes = append(outcomes, res.Outcome)
		}
		equal(t, "outcomes", outcomes,
			[]store.RegisterOutcome{store.Created, store.Created, store.Same, store.Exists, store.Created})
		noError(t, "Flush", r.Flush())
		equal(t, "uid", r.Crash().Job("a").UID, replacing.UID)
	})(t)
}

// A retry of a registration costs no write.
func TestSameWritesNothing(t *testing.T) {
	onEach(func(t *testing.T, b *backend) {
		r := freshRig(t, b, retention)
		g := reg("a", time.Hour)
		r.Add(g)
		noError(t, "Flush", r.Flush())
		r.ReadOnly(true)
		r.RegisterAs(store.Same, g)
		r.RegisterAs(store.Exists, reg("a", time.Minute))
		kept := reg("a", time.Minute)
		kept.OnConflict = job.ConflictIgnore
		r.RegisterAs(store.Kept, kept)
	})(t)
}
