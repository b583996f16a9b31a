package ledger_test

import (
	"slices"
	"testing"
	"time"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
)

// ordered is a job with an order key, which all have.
func ordered(id string) store.Registration {
	g := reg(id, 0)
	g.Spec.OrderKey = "k"
	return g
}

// wholeRig is a rig whose store lacks no job, so that jobs with order keys are delivered.
func wholeRig(t *testing.T, b *backend, with ...with) (*rig, *losing) {
	t.Helper()
	l, option := shared()
	r := freshRig(t, b, retention, append(with, option)...)
	makeWhole(t, l)
	return r, l
}

func makeWhole(t *testing.T, s store.Restorable) {
	t.Helper()
	for range 2 {
		_, err := s.SwapEpoch(t.Context(), "epoch", "epoch")
		noError(t, "SwapEpoch", err)
	}
}

// A claimed job with an order key comes after a job that has ended for good, even if the node that
// settled is dead and the store loses its data: that job is not sent again.
func TestClaimedJobFollowsWhatHasEnded(t *testing.T) {
	for name, test := range map[string]struct {
		settle func(r *rig, l *losing, c store.Claimed)
		want   job.State // of the job before, after the loss
	}{
		"delivered": {func(_ *rig, l *losing, c store.Claimed) {
			settledBy(t, l, c, job.OutcomeDelivered)
		}, job.Delivered},
		"with callbacks": {func(_ *rig, l *losing, c store.Claimed) {
			settledBy(t, l, c, job.OutcomeDelivered)
		}, job.Delivered},
		"dead": {func(r *rig, l *losing, c store.Claimed) {
			_, err := l.Settle(r.T.Context(), []job.Settlement{settlement(c, job.OutcomeFailed, -1)})
			noError(r.T, "Settle", err)
		}, job.Dead},
		"cancelled after an attempt": {func(r *rig, l *losing, c store.Claimed) {
			settledBy(t, l, c, job.OutcomeFailed)
			_, err := l.Update(r.T.Context(), c.Job.Key, cancel)
			noError(r.T, "Update", err)
		}, job.Cancelled},
		"to run again later": {func(r *rig, l *losing, c store.Claimed) {
			spec, err := c.Job.Again(time.Hour, nil, job.Bounds{MaxRounds: 1})
			noError(r.T, "Again", err)
			_, err = l.Settle(r.T.Context(), []job.Settlement{
				job.Settle(&c.Job, job.Outcome{Kind: job.OutcomeDelivered, Attempt: &job.Attempt{Number: 1}, Again: &spec}, nil),
			})
			noError(r.T, "Settle", err)
		}, job.Waiting},
	} {
		for _, empty := range []bool{false, true} {
			if empty {
				name += ", and its key had no job then"
			}
			t.Run(name, onEach(func(t *testing.T, b *backend) {
				r, l := wholeRig(t, b)
				before := ordered("before")
				if name == "with callbacks" {
					before.Spec.Callbacks = reported("").Spec.Callbacks
				}
				first := r.Add(before)
				if !empty {
					r.Add(ordered("after"))
				}
				test.settle(r, l, r.TakeOne())
				if empty {
					r.Add(ordered("after"))
				}
				var got []string
				for _, c := range r.TakeDue() {
					if c.Job.Spec.Reports == "" {
						got = append(got, c.Job.ID)
					}
				}
				equal(t, "claimed", got, []string{"after"})
				l.flush(t)
				r.reconcile()
				j := r.last("before").Job
				equal(t, "state in the ledger", j.State, test.want)
				equal(t, "another round", j.UID != first.UID, test.want == job.Waiting)
			}))
		}
	}
}

// A job that a client replays while the next one of its key is claimed does not hold that one.
func TestReplayedJobHoldsNoTurn(t *testing.T) {
	onEach(func(t *testing.T, b *backend) {
		h, hooks := hook()
		r, _ := wholeRig(t, b, hooks)
		r.Add(ordered("before"))
		r.Add(ordered("after"))
		r.RunOne(job.OutcomeFailed, -1)
		h.OnClaim = func(call func() ([]store.Claimed, error)) ([]store.Claimed, error) {
			claims, err := call()
			r.Change("before", replay)
			h.OnClaim = nil
			return claims, err
		}
		equal(t, "claimed", ids(r.TakeDue()), []string{"after"})
	})(t)
}

// ids of claimed jobs, sorted.
func ids(claims []store.Claimed) []string {
	ids := make([]string, len(claims))
	for i := range claims {
		ids[i] = claims[i].Job.ID
	}
	slices.Sort(ids)
	return ids
}
