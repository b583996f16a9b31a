package ledger_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
)

// compared waits until the Reconciler reports a comparison.
func (r *rig) compared() {
	r.T.Helper()
	r.until("a comparison is reported", 5*time.Second, func() bool { return r.status().Reconcile.State == store.RestoreDone })
}

// reconciling runs the Reconciler until the test ends, or stop is called.
func (r *rig) reconciling() (stop func()) {
	r.T.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := r.Run(ctx); err != nil {
			r.T.Errorf("Run: %v", err)
		}
	})
	stop = func() { cancel(); wg.Wait() }
	r.T.Cleanup(stop)
	return stop
}

// peer opens the ledger of r as another node beside the same store.
func (r *rig) peer(l *losing) *rig {
	r.T.Helper()
	return newRig(r.T, r.B, r.URL, retention, func(o *options) { o.Store = kept{l} })
}

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

// kept is a store that its users do not close.
type kept struct{ store.Restorable }

func (kept) Close() error { return nil }

func (r *rig) status() store.RestoreStatus {
	r.T.Helper()
	status, err := r.RestoreStatus(r.T.Context())
	noError(r.T, "RestoreStatus", err)
	return status
}

// until waits in virtual time for what is to come within d.
func (r *rig) until(what string, d time.Duration, cond func() bool) {
	r.T.Helper()
	const step = 100 * time.Millisecond
	for waited := time.Duration(0); !cond(); waited += step {
		if waited > d {
			r.T.Fatalf("not within %v: %s", d, what)
		}
		r.Pass(step)
	}
}

func (r *rig) has(id string) func() bool {
	return func() bool {
		_, err := r.Get(context.Background(), key(id))
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			r.T.Errorf("Get: %v", err)
		}
		return err == nil
	}
}

func TestReconcilerNoticesALoss(t *testing.T) {
	onEach(func(t *testing.T, b *backend) {
		l, option := shared()
		r := freshRig(t, b, retention, option)
		r.Add(reg("first", 100*time.Hour))
		l.flush(t) // before anybody swept
		r.reconciling()
		r.until("the first job is back", 5*time.Second, r.has("first"))
		r.compared()
		equal(t, "restored", r.status().Reconcile.Restored, int64(1))

		r.Add(reg("a", 100*time.Hour))
		r.Add(reg("b", 0))
		noError(t, "Flush", r.Flush())
		old := l.copied(t)
		l.flush(t)
		r.until("the loss is told", 5*time.Second, func() bool { return r.status().Lost })
		r.until("the jobs are back", 5*time.Second, func() bool { return r.has("a")() && r.has("b")() && r.has("first")() })
		r.until("their return is told", 5*time.Second, func() bool { return !r.status().Lost })
		r.RunOne(job.OutcomeDelivered, 0)
		want := r.All()
		r.Pass(10 * time.Minute)
		l.goBack(t, old)
		r.until("the finished job is finished", 5*time.Second, func() bool { return r.Job("b").State == job.Delivered })
		r.sameJobs(want)
	})(t)
}

// A look that was made and got no answer does not hide what it found.
func TestRaceReconcilerLosesAnAnswer(t *testing.T) {
	onEach(func(t *testing.T, b *backend) {
		l, option := shared()
		r := freshRig(t, b, retention, option)
		r.Add(reg("a", 100*time.Hour))
		r.reconciling()
		r.compared()
		l.silent.Store(true)
		l.flush(t)
		r.until("the job is back", 10*time.Second, r.has("a"))
		equal(t, "a look got no answer", l.silent.Load(), false)
	})(t)
}

// A claim, say, that was on its way to the ledger when the store lost the job.
func TestRaceReconcilerComesBackToWhatMoves(t *testing.T) {
	onEach(func(t *testing.T, b *backend) {
		l, option := shared()
		r := freshRig(t, b, retention, option, func(o *options) { o.Pace.SecondLook = 3 * time.Second })
		r.Add(reg("a", 100*time.Hour))
		r.reconciling()
		r.compared()
		l.flush(t)
		before := l.looks.Load()
		r.until("the loss is noticed", 5*time.Second, func() bool { return l.looks.Load() > before })
		noError(t, "change a job", r.Exec(t.Context(), "UPDATE message SET version = 2 WHERE id = 'a'"))
		r.until("the job is back", 15*time.Second, r.has("a"))
	})(t)
}

// Rows of before a loss that a node commits after the pass has gone by.
func TestRaceReconcilerComesBackToLateRows(t *testing.T) {
	onEach(func(t *testing.T, b *backend) {
		l, option := shared()
		r := freshRig(t, b, retention, option)
		r.Add(reg("a", 100*time.Hour))
		r.reconciling()
		r.compared()
		r.Pass(10 * time.Minute) // passes are rare by now
		r.Add(reg("late", 100*time.Hour))
		noError(t, "Flush", r.Flush())
		late := func(done string) error {
			return r.Exec(t.Context(), "UPDATE message SET done_at = "+done+" WHERE id = 'late'")
		}
		noError(t, "hide a row", late("1"))
		l.flush(t)
		r.until("the loss is told", 5*time.Second, func() bool { return r.status().Lost })
		r.until("the return is told", 5*time.Second, func() bool { return !r.status().Lost })
		equal(t, "the pass found the late job", r.has("late")(), false)
		noError(t, "commit the row", late("NULL"))
		r.until("the late job is back", 8*time.Second, r.has("late"))
	})(t)
}

// An old copy of the store leads to another change with the version of the one in the ledger. Its
// worker ends the job when the pass has gone by.
func TestRaceReconcilerComesBackToOutcomesOfAnOldCopy(t *testing.T) {
	onEach(func(t *testing.T, b *backend) {
		l, option := shared()
		r := freshRig(t, b, retention, option)
		r.Add(reg("a", 0))
		noError(t, "Flush", r.Flush())
		old := l.copied(t)
		r.Change("a", runAt(job.When{Delay: time.Hour}))
		r.Change("a", runAt(job.When{Delay: 2 * time.Hour}))
		makeWhole(t, old)
		l.goBack(t, old)
		r.Unchecked()
		c := r.TakeOne()
		r.reconciling()
		r.compared()
		r.SettleAll(settlement(c, job.OutcomeDelivered, 0))
		const inLedger = `SELECT concat_ws(' ', m.version, s.name) FROM message m JOIN state s ON s.code = m.status`
		equal(t, "the ledger has the other change", r.Count(inLedger), "3 waiting")
		r.until("the ledger has the end", 8*time.Second, func() bool { return r.Count(inLedger) == "3 delivered" })
	})(t)
}

func TestRaceOneNodeSweeps(t *testing.T) {
	onEach(func(t *testing.T, b *backend) {
		l, option := shared()
		r := freshRig(t, b, retention, option)
		other := r.peer(l)
		r.Add(reg("a", 100*time.Hour))
		noError(t, "Flush", r.Flush())
		stop := r.reconciling()
		r.Pass(3 * time.Second)
		other.reconciling()
		r.Pass(time.Minute)
		l.flush(t)
		r.until("the job is back", 5*time.Second, r.has("a"))
		equal(t, "who restored", r.Restored(t), 1.0)

		stop()
		l.flush(t)
		r.until("the job is back", 15*time.Second, r.has("a"))
		equal(t, "who restored", other.Restored(t), 1.0)
		equal(t, "the report that all nodes see", r.status().Reconcile, other.status().Reconcile)
	})(t)
}

func TestRestoreOnRequest(t *testing.T) {
	onEach(func(t *testing.T, b *backend) {
		l, option := shared()
		r := freshRig(t, b, retention, option, func(o *options) { o.Pace.SecondLook = 10 * time.Second })
		equal(t, "state", r.status().Requested.State, store.RestoreNone)
		r.reconciling()
		r.Pass(time.Minute)
		g := reg("elsewhere", time.Hour)
		g.Key.Topic = "other"
		r.Add(g)
		r.Add(reg("overdue", 0))
		r.Add(reg("waiting", time.Hour))
		noError(t, "Flush", r.Flush())
		mark, err := l.SwapEpoch(t.Context(), "", "")
		noError(t, "SwapEpoch", err)
		l.flush(t)
		_, err = l.SwapEpoch(t.Context(), mark[0], "") // so that nobody notices
		noError(t, "SwapEpoch", err)

		run, err := r.StartRestore(t.Context(), store.RestoreOptions{Topic: "t", NotOverdue: true})
		noError(t, "StartRestore", err)
		equal(t, "state", run.State, store.RestoreWaiting)
		_, err = r.StartRestore(t.Context(), store.RestoreOptions{})
		isError(t, "StartRestore again", err, store.ErrRestoring)
		r.until("it is running", 5*time.Second, func() bool { return r.status().Requested.State == store.RestoreRunning })
		r.until("it is done", 20*time.Second, func() bool { return r.status().Requested.State == store.RestoreDone })
		got := r.status().Requested
		equal(t, "the report", got.RestoreReport, store.RestoreReport{Checked: 3, Restored: 1, Skipped: 1})
		equal(t, "the order of times", got.StartedAt > 0 && got.EndedAt > got.StartedAt, true)
		equal(t, "jobs", len(r.All()), 1)
		_, err = r.StartRestore(t.Context(), store.RestoreOptions{})
		noError(t, "StartRestore", err)
		r.until("it is done", 20*time.Second, func() bool { return r.status().Requested.State == store.RestoreDone })
		equal(t, "restored", r.status().Requested.Restored, int64(2))
	})(t)
}

// While the ledger or the store fails, the reconciler keeps trying.
func TestReconcilerOutlivesFailures(t *testing.T) {
	onEach(func(t *testing.T, b *backend) {
		l, option := shared()
		r := freshRig(t, b, retention, option)
		r.Add(reg("a", time.Hour))
		noError(t, "Flush", r.Flush())
		r.reconciling()
		r.Pass(10 * time.Second)
		noError(t, "rename", r.Exec(t.Context(), "ALTER TABLE payload RENAME TO away"))
		l.flush(t)
		r.Pass(10 * time.Second)
		equal(t, "jobs", len(r.All()), 0)
		_, err := r.StartRestore(t.Context(), store.RestoreOptions{})
		noError(t, "StartRestore", err)
		r.until("it failed", 10*time.Second, func() bool { return r.status().Requested.State == store.RestoreFailed })
		noError(t, "rename", r.Exec(t.Context(), "ALTER TABLE away RENAME TO payload"))
		r.until("the job is back", 5*time.Second, r.has("a"))
		noError(t, "Close", l.Close())
		r.Pass(10 * time.Second)
		l.flush(t)
		r.until("the job is back", 10*time.Second, r.has("a"))
	})(t)
}

// A younger job of an order key is registered after the loss of an older one.
func TestRaceOrderKeysWaitForLostJobs(t *testing.T) {
	onEach(func(t *testing.T, b *backend) {
		l, option := shared()
		r := freshRig(t, b, retention, option)
		r.reconciling()
		ordered := func(id string) store.Registration {
			g := reg(id, 0)
			g.Spec.OrderKey = "k"
			return g
		}
		r.Add(ordered("first"))
		r.until("it goes", 5*time.Second, func() bool {
			claims := r.TakeDue()
			for _, c := range claims {
				r.SettleAll(settlement(c, job.OutcomeDelivered, 0))
			}
			return len(claims) > 0
		})
		r.Add(ordered("older"))
		r.Pass(time.Millisecond)
		r.Add(ordered("old"))
		noError(t, "Flush", r.Flush())
		l.flush(t)
		r.Add(ordered("young"))
		r.Add(reg("plain", 0))
		equal(t, "job without an order key", r.TakeOne().Job.ID, "plain")
		o, err := r.Outlook(t.Context(), key("young"))
		noError(t, "Outlook", err)
		equal(t, "the young job awaits the lost ones", o.AwaitsWhole && !o.Whole, true)

		var order []string
		r.until("all are delivered", 20*time.Second, func() bool {
			for _, c := range r.TakeDue() {
				order = append(order, c.Job.ID)
				r.SettleAll(settlement(c, job.OutcomeDelivered, 0))
			}
			return len(order) == 3
		})
		equal(t, "delivered", order, []string{"older", "old", "young"})
	})(t)
}
