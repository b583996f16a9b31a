package ledger_test

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
)

// A process can die between any two of a call's steps. These tests open the
// ledger as it is on the disk at such a moment.

func TestRaceCrashWhileRegistering(t *testing.T) {
	t.Run("the store told and nothing committed", onEach(func(t *testing.T, b *backend) {
		h, option := hook()
		r := freshRig(t, b, retention, option)
		var crashed *rig
		h.OnRegister = func(call func() ([]store.Registered, error)) ([]store.Registered, error) {
			res, err := call()
			crashed = r.Crash()
			return res, err
		}
		want := r.Add(reg("a", time.Hour))
		equal(t, "jobs, while nobody has got an answer", len(crashed.All()), 0)
		equal(t, "the job, once answered", r.Crash().Job("a"), want)
	}))
	t.Run("answered", onEach(func(t *testing.T, b *backend) {
		r := freshRig(t, b, retention)
		want := r.Add(reg("a", time.Hour))
		noError(t, "Flush", r.Flush())
		equal(t, "the job", r.Crash().Job("a"), want)
	}))
	t.Run("over a dead letter, nothing committed", onEach(func(t *testing.T, b *backend) {
		h, option := hook()
		r := freshRig(t, b, retention, option)
		old := r.Add(reg("a", 0))
		r.RunOne(job.OutcomeFailed, -1)
		next := replacing("a", time.Hour)
		var crashed *rig
		h.OnRegister = func(call func() ([]store.Registered, error)) ([]store.Registered, error) {
			res, err := call()
			crashed = r.Crash()
			return res, err
		}
		r.Add(next)
		equal(t, "uid, while nobody has got an answer", crashed.Job("a").UID, old.UID)
		equal(t, "uid, once answered", r.Crash().Job("a").UID, next.UID)
	}))
	t.Run("over an ended job that the store forgets meanwhile", onEach(func(t *testing.T, b *backend) {
		h, option := hook()
		r := freshRig(t, b, time.Millisecond, option)
		r.Add(reg("a", 0))
		r.RunOne(job.OutcomeDelivered, 0)
		h.OnRegister = func(call func() ([]store.Registered, error)) ([]store.Registered, error) {
			r.Pass(5 * time.Millisecond)
			n, err := h.Restorable.Purge(t.Context(), 1)
			noError(t, "Purge", err)
			equal(t, "jobs forgotten", n, 1)
			return call()
		}
		want := r.Add(reg("a", time.Hour))
		equal(t, "token", want.Token, uint64(0))
		noError(t, "Flush", r.Flush())
		equal(t, "the job", r.Crash().Job("a"), want)
	}))
	t.Run("replacing, the store told and nothing committed", onEach(func(t *testing.T, b *backend) {
		h, option := hook()
		r := freshRig(t, b, retention, option)
		old := r.Add(reg("a", time.Hour))
		noError(t, "Flush", r.Flush())
		next := reg("a", 2*time.Hour)
		next.OnConflict = job.ConflictReplace
		var crashed *rig
		h.OnRegister = func(call func() ([]store.Registered, error)) ([]store.Registered, error) {
			res, err := call()
			crashed = r.Crash()
			return res, err
		}
		want := r.Add(next)
		equal(t, "the job, while nobody has got an answer", crashed.Job("a"), old)
		equal(t, "the job, once answered", r.Crash().Job("a"), want)
	}))
}

func TestRaceCrashWhileDispatching(t *testing.T) {
	onEach(func(t *testing.T, b *backend) {
		h, option := hook()
		r := freshRig(t, b, retention, option)
		expired := func() int {
			t.Helper()
			noError(t, "Flush", r.Flush())
			return r.Crash().TakeOne().Job.ExpiredLeases
		}
		r.Add(reg("a", 0))
		h.OnClaim = func(call func() ([]store.Claimed, error)) ([]store.Claimed, error) {
			equal(t, "expired leases before the claim", expired(), 0)
			return call()
		}
		c := r.TakeOne()
		h.OnSettle = func(call func() ([]store.Settled, error)) ([]store.Settled, error) {
			equal(t, "expired leases after the claim", expired(), 1)
			settled, err := call()
			// The answer is not given, so this may be delivered twice.
			equal(t, "expired leases before the commit", expired(), 1)
			return settled, err
		}
		r.SettleAll(settlement(c, job.OutcomeDelivered, 0))
		equal(t, "state once answered", r.last("a").Job.State, job.Delivered)
	})(t)
}

// When the store's answer is lost nobody knows whether it has the job. Once
// the client has tried again, there is one job, and the ledger has it.
func TestRaceLostAnswer(t *testing.T) {
	for name, spoil := range map[string]func(func() ([]store.Registered, error)) ([]store.Registered, error){
		"the store took it": lost[[]store.Registered],
		"it did not":        unsent[[]store.Registered],
	} {
		for _, policy := range []job.OnConflict{job.ConflictReject, job.ConflictReplace} {
			t.Run(name, onEach(func(t *testing.T, b *backend) {
				h, option := hook()
				r := freshRig(t, b, retention, option)
				if policy == job.ConflictReplace {
					r.Add(reg("a", time.Minute))
				}
				g := reg("a", time.Hour)
				g.OnConflict = policy
				h.OnRegister = spoil
				if _, err := r.Register(t.Context(), []store.Registration{g}); !errors.Is(err, errLost) {
					t.Fatalf("Register: %v", err)
				}
				h.OnRegister = nil
				g.UID = "again"
				results, err := r.Register(t.Context(), []store.Registration{g})
				noError(t, "Register", err)
				if !slices.Contains([]store.RegisterOutcome{store.Created, store.Same}, results[0].Outcome) {
					t.Fatalf("outcome %v", results[0].Outcome)
				}
				noError(t, "Flush", r.Flush())
				equal(t, "messages that may be restored",
					r.Count(`SELECT count(*) FROM message WHERE done_at IS NULL`), "1")
				equal(t, "the job", r.Crash().Job("a"), results[0].Job)
			}))
		}
	}
}

func TestRaceLostAnswerToSettle(t *testing.T) {
	onEach(func(t *testing.T, b *backend) {
		h, option := hook()
		r := freshRig(t, b, retention, option)
		r.Add(reg("a", 0))
		s := settlement(r.TakeOne(), job.OutcomeFailed, time.Hour)
		h.OnSettle = lost[[]store.Settled]
		if _, err := r.Settle(t.Context(), []job.Settlement{s}); !errors.Is(err, errLost) {
			t.Fatalf("Settle: %v", err)
		}
		h.OnSettle = nil
		for range 2 {
			if settled := r.SettleAll(s); !settled[0].Repeated {
				t.Error("not a repetition")
			}
		}
		equal(t, "the job", r.Crash().Job("a"), r.Job("a"))
		equal(t, "flow rows of settlements", r.Count(`SELECT count(*) FROM flow WHERE log IS NOT NULL`), "1")
	})(t)
}

// A change is answered after its commit, and so is a call that reports the change of another call.
func TestRaceAnswersWaitForTheCommit(t *testing.T) {
	for name, test := range map[string]struct {
		call  func(r *rig) error
		again error // of the same call, at the same time
	}{
		"a registration": {func(r *rig) error {
			_, err := r.Register(r.T.Context(), []store.Registration{reg("new", time.Hour)})
			return err
		}, nil},
		"a cancel": {func(r *rig) error {
			_, err := r.Update(r.T.Context(), key("a"), cancel)
			return err
		}, job.ErrFinished},
		"a count": {func(r *rig) error {
			_, err := r.Store.Count(r.T.Context(), store.Count{Key: key("counted"), Adds: []job.Add{{N: 1, Key: "k"}}})
			return err
		}, nil},
	} {
		t.Run(name, onEach(func(t *testing.T, b *backend) {
			r := freshRig(t, b, retention)
			counted := reg("counted", time.Hour)
			counted.Spec.Count = &job.Count{Target: 100, AtDeadline: job.DeadlineFires}
			r.RegisterAs(store.Created, reg("a", time.Hour), counted)
			resume := r.Pause()
			answers := make(chan error, 2)
			for range 2 {
				go func() { answers <- test.call(r) }()
				synctest.Wait()
			}
			early := len(answers)
			resume()
			equal(t, "answers before the commit", early, 0)
			errs := map[error]int{<-answers: 1}
			errs[<-answers]++
			want := map[error]int{nil: 1}
			want[test.again]++
			equal(t, "answers", errs, want)
		}))
	}
}
