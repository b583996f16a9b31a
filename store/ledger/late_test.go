package ledger_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
)

// threeNodes are nodes with one store and one ledger; the hooks are those of
// the first.
func threeNodes(t *testing.T, b *backend) (nodes [3]*rig, h *hooked) {
	t.Helper()
	inner := newStore(t, retention)
	makeWhole(t, inner)
	url := b.Empty(t)
	open := func(alter ...with) *rig {
		return newRig(t, b, url, retention, append([]with{func(o *options) { o.Store = kept{inner} }}, alter...)...)
	}
	h, option := hook()
	return [3]*rig{open(option), open(), open()}, h
}

// A registration of one node is committed, and not in the store yet, when
// another node opens the ended job again whose key it is to have. Whenever that
// comes to the ledger, and whatever the store says to the registration, the
// ledger has in the end what the store has.
func TestRaceReopenedWhileRegistering(t *testing.T) {
	update := func(change func(*job.Job, job.Instant) error) func(r *rig) {
		return func(r *rig) { r.Change("a", change) }
	}
	replayed := update(replay)
	run := func(kind job.OutcomeKind, retry time.Duration) func(r *rig) {
		return func(r *rig) { r.RunOne(kind, retry) }
	}
	replace := func(r *rig) {
		g := reg("a", 0)
		g.Spec.Body, g.OnConflict = []byte(`"other"`), job.ConflictReplace
		r.Add(g)
	}
	ended := map[string]func(r *rig){
		"delivered": run(job.OutcomeDelivered, 0),
		"dead":      run(job.OutcomeFailed, -1),
	}
	for name, calls := range map[string][]func(r *rig){
		"replayed":                   {replayed},
		"replayed, replaced, failed": {replayed, replace, run(job.OutcomeFailed, time.Hour)},
	} {
		for end, endIt := range ended {
			for told, policy := range map[string]job.OnConflict{"refused": job.ConflictReject, "replacing": job.ConflictReplace} {
				if end == "dead" && policy == job.ConflictReject {
					continue // the dead letter stays
				}
				for _, stage := range []string{"before the store", "before the confirmation", "very late"} {
					t.Run(name+"/"+end+"/"+told+"/"+stage, onEach(func(t *testing.T, b *backend) {
						nodes, h := threeNodes(t, b)
						nodes[0].Add(reg("a", 0))
						endIt(nodes[0])
						reopenedWhileRegistering(nodes, h, calls, policy, stage)
					}))
				}
			}
		}
	}
}

func reopenedWhileRegistering(nodes [3]*rig, h *hooked, calls []func(r *rig), policy job.OnConflict, stage string) {
	one, two, three := nodes[0], nodes[1], nodes[2]
	one.T.Helper()
	var wg sync.WaitGroup
	var resume func()
	written := func(when string) {
		one.Pass(10 * time.Millisecond)
		if when == stage {
			resume()
			wg.Wait()
			noError(one.T, "Flush", two.Flush())
		}
	}
	h.OnRegister = func(call func() ([]store.Registered, error)) ([]store.Registered, error) {
		h.OnRegister = nil
		resume = two.Pause()
		wg.Go(func() { calls[0](two) })
		synctest.Wait() // until it waits for the commit
		for _, c := range calls[1:] {
			one.Pass(10 * time.Millisecond)
			c(three)
		}
		written("before the store")
		res, err := call()
		written("before the confirmation")
		return res, err
	}
	g := reg("a", 0)
	g.Spec.Body, g.OnConflict = []byte(`"new"`), policy
	_, err := one.Register(one.T.Context(), []store.Registration{g})
	noError(one.T, "Register", err)
	for _, c := range three.TakeDue() { // the second may hold the key
		three.SettleAll(settlement(c, job.OutcomeFailed, 0))
	}
	written("very late")
	for _, r := range nodes {
		noError(r.T, "Flush", r.Flush())
	}
	one.agree()
}
