package ledger_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/successors"
)

// settleAsDispatcher settles claims in one call.
func (r *rig) settleAsDispatcher(kind job.OutcomeKind, claims ...store.Claimed) {
	r.T.Helper()
	settlements := make([]job.Settlement, len(claims))
	for i, c := range claims {
		settlements[i] = settlement(c, kind, 0)
	}
	settled, err := successors.Settle(r.T.Context(), r.Store, settlements)
	noError(r.T, "Settle", err)
	for i := range settled {
		equal(r.T, "status of the settlement", settled[i].Status, store.Applied)
	}
}

// takeOf takes what is due, and returns the claim of a job. The others keep their leases.
func (r *rig) takeOf(id string) store.Claimed {
	r.T.Helper()
	for _, c := range r.TakeDue() {
		if c.Job.ID == id {
			return c
		}
	}
	r.T.Fatalf("job %s is not due", id)
	return store.Claimed{}
}

// A failed attempt has its outcome, and its callback takes the place of the older one, while the
// ledger cannot be written.
func TestCallbacksOfFailuresWithoutTheLedger(t *testing.T) {
	onServers(func(t *testing.T, b *backend) {
		r := freshRig(t, b, retention)
		r.Add(reported("a"))
		r.settleAsDispatcher(job.OutcomeFailed, r.TakeOne())
		c := r.takeOf("a")
		up := r.down()
		r.settleAsDispatcher(job.OutcomeFailed, c)
		older := r.Job(c.Job.CallbackID(job.CallbackAttemptFailed, 1))
		// It is in flight, and ends with its attempt.
		equal(t, "the older callback is withdrawn", older.CancelRequested, true)
		r.settleAsDispatcher(job.OutcomeFailed, r.takeOf("a"))
		newer := r.Job(c.Job.CallbackID(job.CallbackAttemptFailed, 3))
		equal(t, "the newest callback", newer.State, job.Waiting)
		up()
		r.agree()
	})(t)
}

// The rounds of a loop go on while the ledger cannot be written. The callback of a round withdraws
// that of an earlier one.
func TestRoundsOfALoopWithoutTheLedger(t *testing.T) {
	onServers(func(t *testing.T, b *backend) {
		r := freshRig(t, b, retention)
		r.Add(reported("a"))
		c := r.takeOf("a")
		up := r.down()
		var callbacks []string
		for round := range job.RoundCallbacks + 2 {
			if round > 0 {
				c = r.takeOf("a")
			}
			callbacks = append(callbacks, c.Job.CallbackID(job.CallbackDelivered, 0))
			next, err := c.Job.Again(0, nil, job.Bounds{MaxRounds: 100})
			noError(t, "Again", err)
			s := job.Settle(&c.Job, job.Outcome{
				Kind: job.OutcomeDelivered, Again: &next, Attempt: &job.Attempt{Number: 1, StartedAt: c.Now, Status: 200},
			}, nil)
			settled, err := successors.Settle(t.Context(), r.Store, []job.Settlement{s})
			noError(t, "Settle", err)
			equal(t, "status of the settlement", settled[0].Status, store.Applied)
		}
		for i, id := range callbacks {
			equal(t, "withdrawn "+id, r.Job(id).CancelRequested, i < 2) // all are in flight, except the last
		}
		up()
		r.agree()
	})(t)
}

// A client's change of the callback of a failed attempt waits for the ledger, as every other does.
func TestClientsChangeOfACallbackNeedsTheLedger(t *testing.T) {
	onServers(func(t *testing.T, b *backend) {
		r := freshRig(t, b, retention)
		r.Add(reported("a"))
		c := r.TakeOne()
		r.settleAsDispatcher(job.OutcomeFailed, c)
		noError(t, "Flush", r.Flush())
		key := job.Key{Topic: c.Job.Topic, ID: c.Job.CallbackID(job.CallbackAttemptFailed, 1)}
		cancel := func(j *job.Job, now job.Instant) error { _, err := j.Cancel(now); return err }
		up := r.down()
		if _, err := r.Store.Update(t.Context(), key, cancel); !errors.Is(err, store.ErrLedgerDown) {
			t.Errorf("a client cancels the callback while the ledger is down: %v", err)
		}
		up()
		_, err := r.Store.Update(t.Context(), key, cancel)
		if err != nil && !errors.Is(err, job.ErrFinished) { // the refused call may have changed it
			t.Errorf("a client cancels the callback: %v", err)
		}
		equal(t, "state", r.Job(key.ID).State, job.Cancelled)
		r.agree()
	})(t)
}

// Settlements do not wait for a server that hangs.
func TestSettlementsKeepTheirPace(t *testing.T) {
	onServers(func(t *testing.T, b *backend) {
		r := freshRig(t, b, retention)
		r.Add(reported("a"))
		r.settleAsDispatcher(job.OutcomeFailed, r.TakeOne())
		c := r.takeOf("a")
		noError(t, "Flush", r.Flush())
		resume := r.Pause()
		began := job.SystemClock().Now()
		r.settleAsDispatcher(job.OutcomeFailed, c)
		if took := job.SystemClock().Now().Sub(began); took > time.Second {
			t.Errorf("the outcome is stored after %v", took)
		}
		resume()
		noError(t, "Flush", r.Flush())
		r.agree()
	})(t)
}

// When the outcomes that wait take too much memory, the next one waits for its commit.
func TestRaceSettlementsWaitForRoom(t *testing.T) {
	onEach(func(t *testing.T, b *backend) {
		r := freshRig(t, b, retention)
		r.Add(reg("a", 0))
		s := settlement(r.TakeOne(), job.OutcomeDelivered, 0)
		s.Attempt.ResponseBody = strings.Repeat("x", 64<<10)
		noError(t, "Flush", r.Flush())
		release := r.Fill(10)
		resume := r.Pause()
		settled := make(chan struct{})
		go func() {
			defer close(settled)
			r.SettleAll(s)
		}()
		r.Pass(time.Minute)
		select {
		case <-settled:
			t.Error("it did not wait")
		default:
		}
		resume()
		<-settled
		release()
	})(t)
}
