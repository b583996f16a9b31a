package ledger_test

import (
	"testing"
	"time"

	"github.com/duehook/duehook/internal/testing/journaltest"
	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/ledger"
)

// A registration got no answer, and is made again once the job has come back from
// the journal. What another node does to the job meanwhile stays in the journal.
func TestAdoptedJobMovesOn(t *testing.T) {
	onEach(func(t *testing.T, b *backend) {
		if b == sqliteBackend {
			return // which is for a single node
		}
		l, option := shared()
		h, hooking := hook()
		r := freshRig(t, b, retention, option, hooking)
		other := r.peer(l)
		g := reg("a", 0)
		h.OnRegister = journaltest.Unsent[[]store.Registered]
		_, err := r.Register(t.Context(), []store.Registration{g})
		unavailable(t, "Register", err)
		h.OnRegister = nil
		equal(t, "restored", other.reconcile().Restored, int64(1))
		r.Pass(ledger.HeadStart)
		claim := other.TakeOne()

		resume, looked := r.Pause(), make(chan struct{})
		h.OnGet = func(call func() (job.Job, error)) (job.Job, error) {
			defer close(looked)
			h.OnGet = nil
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

func TestRefusedByLimitsWithout(t *testing.T) {
	onEach(func(t *testing.T, b *backend) {
		r := freshRig(t, b, retention, without)
		r.Add(reg("a", time.Hour))
		noError(t, "SetLimits", r.SetLimits(t.Context(), reg("a", 0).Key.Topic, store.Limits{Capacity: 1}))
		up := r.down()
		results, err := r.Register(t.Context(), []store.Registration{reg("b", time.Hour)})
		noError(t, "Register", err)
		equal(t, "outcome", results[0].Outcome, store.TopicFull)
		up()
		equal(t, "messages", r.Count(`SELECT count(*) FROM message`), "1")
	})(t)
}

// A dead letter whose successor the topic's limits refuse stays one.
func TestRefusedInThePlaceOfADeadLetter(t *testing.T) {
	for name, alter := range map[string]with{"alone": func(*options) {}, "shared": without} {
		t.Run(name, onEach(func(t *testing.T, b *backend) {
			r := freshRig(t, b, retention, alter)
			r.Add(reg("a", 0))
			r.RunOne(job.OutcomeFailed, -1)
			noError(t, "SetLimits", r.SetLimits(t.Context(), reg("a", 0).Key.Topic, store.Limits{Draining: true}))
			results, err := r.Register(t.Context(), []store.Registration{replacing("a", time.Hour)})
			noError(t, "Register", err)
			equal(t, "outcome", results[0].Outcome, store.TopicDraining)
			noError(t, "Flush", r.Flush())
			equal(t, "messages that may be restored", r.Count("SELECT count(*) FROM message WHERE done_at IS NULL"), "1")
			equal(t, "dead letters", r.Count("SELECT count(*) FROM message WHERE status = 5 AND confirmed = 1"), "1")
		}))
	}
}
