package ledger_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/duehook/duehook/internal/testing/testenv"
	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/listing"
)

// losing is a store that can lose all jobs, or go back to what it was. Only the
// methods that these tests need are there.
type losing struct {
	store.Restorable // nil
	current          atomic.Pointer[store.Restorable]
	looks, gets      atomic.Int64 // calls of Standings and of Get
	silent           atomic.Bool  // the next SwapEpoch gets no answer
	unlisted         atomic.Bool  // List finds nothing
}

func (l *losing) now() store.Restorable     { return *l.current.Load() }
func (l *losing) become(s store.Restorable) { l.current.Store(&s) }

func (l *losing) Register(ctx context.Context, regs []store.Registration) ([]store.Registered, error) {
	return l.now().Register(ctx, regs)
}

func (l *losing) Update(ctx context.Context, key job.Key, change func(*job.Job, job.Instant) error) (job.Job, error) {
	return l.now().Update(ctx, key, change)
}

func (l *losing) Count(ctx context.Context, c store.Count) (store.Counted, error) {
	return l.now().Count(ctx, c)
}

func (l *losing) CountKeys(ctx context.Context, j *job.Job) ([]string, error) {
	return l.now().CountKeys(ctx, j)
}

func (l *losing) Restore(ctx context.Context, jobs []store.RestoredJob) (int, error) {
	return l.now().Restore(ctx, jobs)
}

func (l *losing) Get(ctx context.Context, key job.Key) (job.Job, error) {
	l.gets.Add(1)
	return l.now().Get(ctx, key)
}

func (l *losing) Outlook(ctx context.Context, key job.Key) (store.Outlook, error) {
	return l.now().Outlook(ctx, key)
}

func (l *losing) Shards() int { return l.now().Shards() }

func (l *losing) Names(ctx context.Context, q store.NameQuery) ([]string, error) {
	if l.unlisted.Load() {
		return nil, nil
	}
	return l.now().Names(ctx, q)
}

func (l *losing) Entries(ctx context.Context, of store.Index, span store.Span) ([]store.Entry, *store.Position, error) {
	if l.unlisted.Load() {
		return nil, nil, nil
	}
	return l.now().Entries(ctx, of, span)
}

func (l *losing) Read(ctx context.Context, q store.ReadQuery) (store.Records, error) {
	return l.now().Read(ctx, q)
}

func (l *losing) Figures(ctx context.Context, q store.FigureQuery) (store.Figures, error) {
	return l.now().Figures(ctx, q)
}

func (l *losing) Carry(ctx context.Context, shard int, o store.CarryOptions) (store.CarryResult, error) {
	return l.now().Carry(ctx, shard, o)
}

func (l *losing) Pop(ctx context.Context, shard, limit int, wait time.Duration) ([]store.Hint, error) {
	return l.now().Pop(ctx, shard, limit, wait)
}

func (l *losing) Claim(ctx context.Context, shard int, hints []store.Hint, o store.ClaimOptions) ([]store.Claimed, error) {
	return l.now().Claim(ctx, shard, hints, o)
}

func (l *losing) Settle(ctx context.Context, settlements []job.Settlement) ([]store.Settled, error) {
	return l.now().Settle(ctx, settlements)
}

func (l *losing) Purge(ctx context.Context, limit int) (int, error) { return l.now().Purge(ctx, limit) }

func (l *losing) Standings(ctx context.Context, keys []job.Key) ([]store.Standing, error) {
	defer l.looks.Add(1)
	return l.now().Standings(ctx, keys)
}

func (l *losing) SwapEpoch(ctx context.Context, mark, whole string) ([]string, error) {
	if l.silent.Swap(false) {
		return lost(func() ([]string, error) { return l.now().SwapEpoch(ctx, mark, whole) })
	}
	return l.now().SwapEpoch(ctx, mark, whole)
}

func (l *losing) Close() error { return l.now().Close() }

// shared gives an option that makes a rig one of those that share a store, and
// that store.
func shared() (*losing, with) {
	l := &losing{}
	return l, func(o *options) {
		l.become(o.Store)
		o.Store = l
	}
}

func (l *losing) flush(t testing.TB) {
	t.Helper()
	noError(t, "Close", l.Close())
	l.become(newStore(t, retention))
}

// copied is the store as it is now, with a mark of its own.
func (l *losing) copied(t testing.TB) store.Restorable {
	t.Helper()
	to := newStore(t, retention)
	var jobs []store.RestoredJob
	for q := (store.Query{Limit: 1000}); ; {
		page, err := listing.List(t.Context(), l, q)
		noError(t, "List", err)
		for _, j := range page.Jobs {
			log, err := store.Attempts(t.Context(), l, j.Key)
			noError(t, "Attempts", err)
			keys, err := l.CountKeys(t.Context(), &j)
			noError(t, "CountKeys", err)
			jobs = append(jobs, store.RestoredJob{Job: j, Log: log, CountKeys: keys})
		}
		if q.Cursor = page.Next; q.Cursor == "" {
			break
		}
	}
	_, err := to.Restore(t.Context(), jobs)
	noError(t, "Restore", err)
	_, err = to.SwapEpoch(t.Context(), "of the copy", "")
	noError(t, "SwapEpoch", err)
	return to
}

// goBack puts a copy in the store's place.
func (l *losing) goBack(t testing.TB, to store.Restorable) {
	t.Helper()
	noError(t, "Close", l.Close())
	l.become(to)
}

func (r *rig) reconcile() store.RestoreReport {
	r.T.Helper()
	noError(r.T, "Flush", r.Flush())
	report, err := r.CompareOnce(r.T.Context())
	noError(r.T, "CompareOnce", err)
	return report
}

// quiet fails the test unless the ledger and the store agree.
func (r *rig) quiet() {
	r.T.Helper()
	report := r.reconcile()
	report.Checked = 0
	equal(r.T, "what is left to be done", report, store.RestoreReport{})
}

func TestSweepPutsBackWhatIsLost(t *testing.T) {
	onEach(func(t *testing.T, b *backend) {
		l, option := shared()
		r := freshRig(t, b, retention, option)
		r.Add(reg("delivered", 0))
		r.RunOne(job.OutcomeDelivered, 0)
		r.Add(reg("cancelled", time.Hour))
		r.Change("cancelled", cancel)
		r.Add(reg("dead", 0))
		r.RunOne(job.OutcomeFailed, -1)
		r.Add(reg("retrying", 0))
		r.RunOne(job.OutcomeFailed, time.Minute)
		r.Add(reg("running", 0))
		r.TakeOne()
		r.Add(reg("waiting", time.Hour))
		r.Add(reg("overdue", 0))
		r.Pass(2 * time.Minute)
		r.quiet()

		want := r.All()
		delete(want, key("delivered").String())
		delete(want, key("cancelled").String())
		running := want[key("running").String()]
		running.Job.State, running.Job.ExpiredLeases = job.Waiting, 1
		want[key("running").String()] = running
		l.flush(t)
		report := r.reconcile()
		equal(t, "restored", report.Restored, int64(5))
		equal(t, "conflicts", report.Conflicts, int64(0))
		equal(t, "jobs", r.All(), want)
		r.quiet()
		equal(t, "due jobs", len(r.TakeDue()), 3)
	})(t)
}

// A node may know of an end that is not in the ledger yet.
func TestRaceSweepLooksTwice(t *testing.T) {
	onEach(func(t *testing.T, b *backend) {
		l, option := shared()
		r := freshRig(t, b, retention, option)
		r.Add(reg("a", 0))
		r.Add(reg("b", 0))
		noError(t, "Flush", r.Flush())
		l.flush(t)
		late := make(chan error)
		go func() {
			noError(t, "Sleep", job.Sleep(t.Context(), job.SystemClock(), 500*time.Millisecond))
			late <- r.Exec(t.Context(), "UPDATE message SET status = 4, version = 3, done_at = 1, ended_at = 1 WHERE id = 'a'")
		}()
		equal(t, "restored", r.reconcile().Restored, int64(1))
		noError(t, "end a job", <-late)
		r.Job("b")
	})(t)
}

// What the store has differently because it went back in time, and what is done
// about it by comparing, and by a claim.
var backInTime = []struct {
	name    string
	before  func(r *rig) // what the old copy of the store has
	after   func(r *rig) // what happened since
	correct func(want map[string]store.RestoredJob)
}{
	{name: "ended", before: func(r *rig) { r.Add(reg("a", 0)) }, after: func(r *rig) { r.RunOne(job.OutcomeDelivered, 0) }},
	{name: "cancelled", before: func(r *rig) { r.Add(reg("a", 0)) }, after: func(r *rig) { r.Change("a", cancel) }},
	{name: "dead", before: func(r *rig) { r.Add(reg("a", 0)) }, after: func(r *rig) { r.RunOne(job.OutcomeFailed, -1) }},
	{name: "attempts charged", before: func(r *rig) { r.Add(reg("a", 0)) }, after: func(r *rig) {
		r.RunOne(job.OutcomeFailed, 0)
		r.RunOne(job.OutcomeFailed, time.Hour)
	}},
	{name: "changed", before: func(r *rig) { r.Add(reg("a", 0)) }, after: func(r *rig) {
		r.Change("a", func(j *job.Job, _ job.Instant) error {
			s := j.Spec
			s.Destination, s.Body = "http://b.example/hook", []byte("other")
			return j.Respecify(s)
		})
		r.Change("a", runAt(job.When{Delay: time.Hour}))
	}},
	{name: "registered anew", before: func(r *rig) { r.Add(reg("a", 0)) }, after: func(r *rig) {
		r.RunOne(job.OutcomeDelivered, 0)
		r.Add(reg("a", time.Hour))
	}},
	{name: "replaced", before: func(r *rig) { r.Add(reg("a", 0)) }, after: func(r *rig) {
		r.Pass(time.Second)
		g := reg("a", time.Hour)
		g.OnConflict = job.ConflictReplace
		r.Add(g)
	}},
}

// sameJobs compares jobs but for what going back must change.
func (r *rig) sameJobs(want map[string]store.RestoredJob) {
	r.T.Helper()
	got := r.All()
	for _, jobs := range []map[string]store.RestoredJob{got, want} {
		for k, j := range jobs {
			j.Job.Version, j.Job.Token = 0, 0
			jobs[k] = j
		}
	}
	equal(r.T, "jobs", got, want)
}

func TestStoreGoesBackInTime(t *testing.T) {
	for _, c := range backInTime {
		t.Run(c.name, onEach(func(t *testing.T, b *backend) {
			back := func() (*rig, map[string]store.RestoredJob) {
				l, option := shared()
				r := freshRig(t, b, retention, option)
				c.before(r)
				old := l.copied(t)
				c.after(r)
				r.quiet()
				want := r.All()
				l.goBack(t, old)
				return r, want
			}
			r, want := back()
			report := r.reconcile()
			equal(t, "conflicts", report.Conflicts, int64(1))
			equal(t, "repaired", report.Repaired, int64(1))
			r.sameJobs(want)
			r.quiet()
			equal(t, "jobs due", len(r.TakeDue()), 0)

			r, want = back()
			equal(t, "jobs claimed", len(r.TakeDue()), 0)
			r.sameJobs(want)
			r.quiet()
			equal(t, "jobs due", len(r.TakeDue()), 0)

			r, want = back()
			r.meets("a", want[key("a").String()].Job)
			r.sameJobs(want)
			r.quiet()
		}))
	}
}

// A dead letter was replayed since, and is not to be listed for ever.
func TestOldDeadLetters(t *testing.T) {
	onEach(func(t *testing.T, b *backend) {
		l, option := shared()
		r := freshRig(t, b, retention, option)
		for _, id := range []string{"replayed", "dead"} {
			r.Add(reg(id, 0))
		}
		for _, c := range r.TakeDue() {
			r.SettleAll(settlement(c, job.OutcomeFailed, -1))
		}
		old := l.copied(t)
		r.Change("replayed", replay)
		r.RunOne(job.OutcomeDelivered, 0)
		r.quiet()
		want := r.All()
		l.goBack(t, old)
		equal(t, "repaired", r.reconcile().Repaired, int64(1))
		r.sameJobs(want)
		r.quiet()
	})(t)
}

// A copy may have a job whose place another one took since, which has ended, too. The store gets that one.
func TestLastJobOfAKeyHasEnded(t *testing.T) {
	for name, find := range map[string]func(*testing.T, *rig){
		"claimed":    func(t *testing.T, r *rig) { equal(t, "claims", len(r.TakeDue()), 0) },
		"reconciled": func(t *testing.T, r *rig) { equal(t, "repaired", r.reconcile().Repaired, int64(1)) },
	} {
		t.Run(name, onEach(func(t *testing.T, b *backend) {
			r, l := wholeRig(t, b)
			r.Add(reg("a", 0))
			old := l.copied(t)
			r.RunOne(job.OutcomeDelivered, 0)
			r.Pass(time.Second)
			r.Add(replacing("a", 0))
			r.RunOne(job.OutcomeDelivered, 0)
			noError(t, "Flush", r.Flush())
			want := r.Job("a")
			l.goBack(t, old)
			find(t, r)
			got := r.Job("a")
			equal(t, "uid", got.UID, want.UID)
			equal(t, "state", got.State, job.Delivered)
			r.quiet()
		}))
	}
}

// claimIn claims the job that is due in a store, past the ledger.
func claimIn(t *testing.T, s store.Store) store.Claimed {
	t.Helper()
	_, err := s.Carry(t.Context(), 0, carryAll)
	noError(t, "Carry", err)
	hints, err := s.Pop(t.Context(), 0, 1, 0)
	noError(t, "Pop", err)
	claims, err := s.Claim(t.Context(), 0, hints, store.ClaimOptions{Nonce: "before", Lease: time.Hour, By: "worker"})
	noError(t, "Claim", err)
	equal(t, "jobs that run", len(claims), 1)
	return claims[0]
}

// A copy may have a job as running that died since. Its worker is not waited for.
func TestReplayMeetsAJobThatRunsInACopy(t *testing.T) {
	onEach(func(t *testing.T, b *backend) {
		l, option := shared()
		r := freshRig(t, b, retention, option)
		r.Add(reg("a", 0))
		old := l.copied(t)
		r.RunOne(job.OutcomeFailed, -1)
		noError(t, "Flush", r.Flush())
		l.goBack(t, old)
		claimIn(t, l)
		equal(t, "state", r.Change("a", replay).State, job.Waiting)
		r.agree()
		r.quiet()
	})(t)
}

// The store goes back during an attempt, to before a cancel of it. The outcome gets the version that the cancel
// has in the ledger. No further attempt is made.
func TestOutcomeOfAnOldCopyMeetsACancel(t *testing.T) {
	onEach(func(t *testing.T, b *backend) {
		l, option := shared()
		r := freshRig(t, b, retention, option)
		r.Add(reg("a", 0))
		old := l.copied(t)
		c := r.TakeOne()
		equal(t, "the claim in the copy", claimIn(t, old), c)
		r.Change("a", cancel)
		l.goBack(t, old)
		r.SettleAll(settlement(c, job.OutcomeFailed, time.Minute))
		noError(t, "Flush", r.Flush())
		r.Pass(2 * time.Minute)
		for _, again := range r.TakeDue() {
			equal(t, "a cancel was recorded", again.Job.CancelRequested, true)
		}
		r.reconcile()
		equal(t, "a cancel was recorded", r.Job("a").CancelRequested, true)
	})(t)
}

// A change may be written after what another node did to the job later. It is
// in the ledger nevertheless.
func TestRaceChangeIsOvertakenInTheLedger(t *testing.T) {
	onEach(func(t *testing.T, b *backend) {
		l, option := shared()
		r := freshRig(t, b, retention, option)
		other := r.peer(l)
		r.Add(reg("a", 0))
		resume := r.Pause()
		changed := make(chan error)
		go func() {
			_, err := r.Update(t.Context(), key("a"), func(j *job.Job, _ job.Instant) error {
				s := j.Spec
				s.Destination = "http://b.example/hook"
				return j.Respecify(s)
			})
			changed <- err
		}()
		testenv.Eventually(t, testenv.Patience, func() bool { return other.Job("a").Version == 2 }, "the store has the change")
		other.RunOne(job.OutcomeFailed, time.Hour)
		noError(t, "Flush", other.Flush())
		resume()
		noError(t, "Update", <-changed)
		want := r.All()
		l.flush(t)
		equal(t, "restored", r.reconcile().Restored, int64(1))
		r.sameJobs(want)
	})(t)
}

// A store may go back between a change and its way into the ledger, and the job
// be handed out as it was. Nobody is told then that it was cancelled or changed.
func TestRaceStoreGoesBackDuringAChange(t *testing.T) {
	respecify := func(j *job.Job, _ job.Instant) error {
		s := j.Spec
		s.Destination = "http://b.example/hook"
		return j.Respecify(s)
	}
	for name, c := range map[string]struct {
		meanwhile              func(t *testing.T, other *rig, l *losing)
		cancelled, respecified error // when the client tries again
	}{
		"no claim yet": {meanwhile: func(*testing.T, *rig, *losing) {}, cancelled: job.ErrFinished},
		"claimed": {meanwhile: func(t *testing.T, other *rig, _ *losing) {
			t.Cleanup(other.Pause())
			other.TakeOne()
		}, cancelled: job.ErrFinished, respecified: job.ErrInFlight},
		"claimed, as is written": {meanwhile: func(t *testing.T, other *rig, _ *losing) {
			other.TakeOne()
			noError(t, "Flush", other.Flush())
		}, respecified: job.ErrInFlight},
		"delivered": {meanwhile: func(t *testing.T, other *rig, l *losing) {
			t.Cleanup(other.Pause())
			_, err := l.Settle(t.Context(), []job.Settlement{settlement(other.TakeOne(), job.OutcomeDelivered, 0)})
			noError(t, "Settle", err)
		}, cancelled: job.ErrFinished, respecified: job.ErrFinished},
		"delivered, as is written": {meanwhile: func(_ *testing.T, other *rig, _ *losing) {
			other.RunOne(job.OutcomeDelivered, 0)
		}, cancelled: job.ErrFinished, respecified: job.ErrFinished},
	} {
		test := func(change func(*job.Job, job.Instant) error, want error) func(t *testing.T) {
			return onEach(func(t *testing.T, b *backend) {
				l, option := shared()
				r := freshRig(t, b, retention, option)
				other := r.peer(l)
				r.Add(reg("a", 0))
				noError(t, "Flush", r.Flush())
				old := l.copied(t)
				makeWhole(t, old) // claims do not wait for the committer
				resume := r.Pause()
				answered := make(chan error)
				go func() {
					_, err := r.Update(t.Context(), key("a"), change)
					answered <- err
				}()
				testenv.Eventually(t, testenv.Patience, func() bool { return other.Job("a").Version == 2 }, "the store has the change")
				l.goBack(t, old)
				c.meanwhile(t, other, l)
				resume()
				unavailable(t, "Update", <-answered)
				_, err := r.Update(t.Context(), key("a"), change)
				isError(t, "Update again", err, want)
			})
		}
		t.Run("cancel/"+name, test(cancel, c.cancelled))
		t.Run("change/"+name, test(respecify, c.respecified))
	}
}

// A change that is overtaken on its way to the ledger, and lost by the store
// before it is written, was not made: nobody is told that it was.
func TestRaceChangeIsOvertakenAndLost(t *testing.T) {
	nothing := func(*rig) {}
	run := func(other *rig) { other.RunOne(job.OutcomeFailed, time.Hour) }
	for name, c := range map[string]struct {
		before func(other *rig)
		change func(*job.Job, job.Instant) error
		after  func(other *rig)
	}{
		"content": {nothing, func(j *job.Job, _ job.Instant) error {
			s := j.Spec
			s.Destination = "http://b.example/hook"
			return j.Respecify(s)
		}, run},
		"due time": {nothing, runAt(job.When{Delay: time.Millisecond}), run},
		"cancel":   {nothing, cancel, func(other *rig) { other.Change("a", replay) }},
		"cancel in flight": {func(other *rig) { other.TakeOne() }, cancel, func(other *rig) {
			other.SettleAll(settlement(other.Last, job.OutcomeFailed, time.Hour))
		}},
	} {
		t.Run(name, onServers(func(t *testing.T, b *backend) {
			l, option := shared()
			r := freshRig(t, b, retention, option)
			other := r.peer(l)
			r.Add(reg("a", 0))
			c.before(other)
			noError(t, "Flush", other.Flush())
			old, version := l.copied(t), other.Job("a").Version
			resume := r.Pause()
			changed := make(chan error)
			go func() {
				_, err := r.Update(t.Context(), key("a"), c.change)
				changed <- err
			}()
			testenv.Eventually(t, testenv.Patience, func() bool { return other.Job("a").Version > version }, "the store has the change")
			r.Pass(time.Millisecond)
			c.after(other)
			noError(t, "Flush", other.Flush())
			l.goBack(t, old)
			for other.Job("a").Version < version+4 { // and the job goes on there
				_, err := l.Update(t.Context(), key("a"), func(*job.Job, job.Instant) error { return nil })
				noError(t, "Update", err)
			}
			resume()
			isError(t, "Update", <-changed, store.ErrUnavailable)
		}))
	}
}

// meets fails the test unless an update meets the job as it should be.
func (r *rig) meets(id string, want job.Job) {
	r.T.Helper()
	var met job.Job
	_, err := r.Update(r.T.Context(), key(id), func(j *job.Job, _ job.Instant) error {
		met = *j
		return errRefused
	})
	isError(r.T, "Update", err, errRefused)
	equal(r.T, "state that an update meets", met.State, want.State)
	equal(r.T, "uid that an update meets", met.UID, want.UID)
}

var errRefused = errors.New("refused")

// A client is not to be told that a job is not there which will be delivered.
func TestUpdatePutsBackWhatIsLost(t *testing.T) {
	onEach(func(t *testing.T, b *backend) {
		l, option := shared()
		r := freshRig(t, b, retention, option)
		r.Add(reg("delivered", 0))
		r.RunOne(job.OutcomeDelivered, 0)
		waiting := r.Add(reg("waiting", time.Hour))
		r.Add(reg("unwanted", time.Hour))
		noError(t, "Flush", r.Flush())
		l.flush(t)
		r.meets("waiting", waiting)
		r.Change("unwanted", cancel)
		for _, id := range []string{"delivered", "unheard of"} {
			_, err := r.Update(t.Context(), key(id), cancel)
			isError(t, "Update", err, store.ErrNotFound)
		}
		equal(t, "restored by the pass", r.reconcile().Restored, int64(0))
		r.quiet()
	})(t)
}

// What the store has that the ledger was not told.
func TestSweepWritesTheLedger(t *testing.T) {
	for name, happens := range map[string]func(t *testing.T, r *rig, l *losing){
		"ended": func(t *testing.T, r *rig, l *losing) {
			_, err := l.Settle(t.Context(), []job.Settlement{settlement(r.Last, job.OutcomeDelivered, 0)})
			noError(t, "Settle", err)
		},
		"ended, as the version that the ledger has running": func(t *testing.T, r *rig, l *losing) {
			_, err := l.Settle(t.Context(), []job.Settlement{settlement(r.Last, job.OutcomeDelivered, 0)})
			noError(t, "Settle", err)
			noError(t, "Flush", r.Flush())
			noError(t, "count a version", r.Exec(t.Context(), "UPDATE message SET version = 3"))
		},
		"an attempt": func(t *testing.T, r *rig, l *losing) {
			_, err := l.Settle(t.Context(), []job.Settlement{settlement(r.Last, job.OutcomeFailed, time.Hour)})
			noError(t, "Settle", err)
		},
		"replayed": func(t *testing.T, r *rig, l *losing) {
			r.SettleAll(settlement(r.Last, job.OutcomeDelivered, 0))
			_, err := l.Update(t.Context(), key("a"), replay)
			noError(t, "Update", err)
		},
		"registered": func(t *testing.T, _ *rig, l *losing) {
			_, err := l.Register(t.Context(), []store.Registration{reg("b", time.Hour)})
			noError(t, "Register", err)
		},
		"replaced": func(t *testing.T, r *rig, l *losing) {
			r.SettleAll(settlement(r.Last, job.OutcomeFailed, time.Hour))
			g := reg("a", 2*time.Hour)
			g.OnConflict = job.ConflictReplace
			_, err := l.Register(t.Context(), []store.Registration{g})
			noError(t, "Register", err)
		},
	} {
		t.Run(name, onEach(func(t *testing.T, b *backend) {
			l, option := shared()
			r := freshRig(t, b, retention, option)
			r.Add(reg("a", 0))
			r.TakeOne()
			happens(t, r, l)
			want := r.All()
			report := r.reconcile()
			equal(t, "conflicts", report.Conflicts, int64(1))
			equal(t, "repaired", report.Repaired, int64(1))
			equal(t, "jobs", r.All(), want)
			r.agree()
			r.quiet()
		}))
	}
}

// A reconciler that writes an outcome writes its callbacks in the same transaction: if the store
// is lost after that, nobody repeats the outcome.
func TestSweepWritesCallbacksWithTheirOutcome(t *testing.T) {
	t.Run("of the last round", onEach(func(t *testing.T, b *backend) { reconcilingWritesCallbacks(t, b, false) }))
	t.Run("with a replay", onEach(func(t *testing.T, b *backend) { reconcilingWritesCallbacks(t, b, true) }))
}

func reconcilingWritesCallbacks(t *testing.T, b *backend, replayed bool) {
	l, option := shared()
	r := freshRig(t, b, retention, option)
	g := reg("a", 0)
	g.Spec.Callbacks = &job.Callbacks{By: map[job.CallbackEvent]*job.Callback{
		job.CallbackDelivered:     {Destination: "http://callbacks.example/delivered"},
		job.CallbackAttemptFailed: {Destination: "http://callbacks.example/failed"},
	}}
	r.Add(g)
	r.TakeOne()
	_, err := l.Settle(t.Context(), []job.Settlement{settlement(r.Last, job.OutcomeFailed, 0)})
	noError(t, "Settle a failure", err)
	for _, c := range r.TakeDue() {
		if c.Job.ID == "a" {
			_, err = l.Settle(t.Context(), []job.Settlement{settlement(c, job.OutcomeDelivered, 0)})
			noError(t, "Settle a delivery", err)
		}
	}
	delivered := r.Job("a")
	equal(t, "state", delivered.State, job.Delivered)
	callbacks := delivered.CallbackKeys()
	equal(t, "number of callbacks", len(callbacks), 2)
	if replayed {
		_, err := l.Update(t.Context(), key("a"), func(j *job.Job, now job.Instant) error { return j.Replay(now) })
		noError(t, "Update", err)
	}

	l.unlisted.Store(true) // the walk through the store would find the callbacks, too
	before := l.gets.Load()
	r.reconcile()
	equal(t, "jobs read", l.gets.Load()-before, int64(3)) // not the keys that name no job
	if b == postgres {
		equal(t, "transactions", r.Count("SELECT count(DISTINCT xmin::text) FROM message"), "1")
	}
	l.flush(t)
	l.unlisted.Store(false)
	r.reconcile()
	for _, key := range callbacks {
		_, err := l.Get(t.Context(), key)
		noError(t, "Get "+key.String()+" after the store was lost", err)
	}
	r.quiet()
}

// Without the ledger, a whole store delivers. One that went back does not, however often it is asked: some of its jobs have
// ended or changed since. When the ledger answers again, it delivers what is left.
func TestClaimsWithoutTheLedger(t *testing.T) {
	onEach(func(t *testing.T, b *backend) {
		r, l := wholeRig(t, b)
		r.Add(reg("first", 0))
		r.Add(reg("cancelled", time.Hour))
		r.Add(reg("changed", time.Hour))
		r.Add(reg("same", time.Hour))
		noError(t, "Flush", r.Flush())
		old := l.copied(t)
		r.Change("cancelled", cancel)
		r.Change("changed", runAt(job.When{Delay: 2*time.Hour + 10*time.Minute}))

		noError(t, "rename", r.Exec(t.Context(), "ALTER TABLE message RENAME TO away"))
		equal(t, "claimed of a whole store", ids(r.TakeDue()), []string{"first"})
		l.goBack(t, old)
		r.Pass(2 * time.Hour)
		before := r.Job("same")
		hints := r.carried()
		for range 3 {
			_, err := r.tryClaim(hints)
			unavailable(t, "Claim of an old copy", err)
		}
		equal(t, "version", r.Job("same").Version, before.Version)
		noError(t, "rename", r.Exec(t.Context(), "ALTER TABLE away RENAME TO message"))
		noError(t, "Flush", r.Flush())
		claims, err := r.tryClaim(hints)
		noError(t, "Claim with the ledger", err)
		equal(t, "claimed with the ledger", ids(claims), []string{"first", "same"})
		equal(t, "expired leases of the one that was in flight", r.Job("first").ExpiredLeases, 1)
		equal(t, "state", r.Job("cancelled").State, job.Cancelled)
		r.Pass(15 * time.Minute)
		equal(t, "claimed later", ids(r.TakeDue()), []string{"changed"})
	})(t)
}

// The ledger answers before the claim of an old copy and not after it. Nothing is sent until it does, and what the
// store has of the claims stays older than the ledger.
func TestClaimLosesTheLedger(t *testing.T) {
	onEach(func(t *testing.T, b *backend) {
		h, hooks := hook()
		r := freshRig(t, b, retention, hooks)
		j := r.Add(reg("a", 0))
		noError(t, "Flush", r.Flush())
		hints := r.carried()
		h.OnClaim = func(call func() ([]store.Claimed, error)) ([]store.Claimed, error) {
			claims, err := call()
			if err == nil {
				noError(t, "rename", r.Exec(t.Context(), "ALTER TABLE message RENAME TO away"))
				h.OnClaim = nil
			}
			return claims, err
		}
		o := store.ClaimOptions{Nonce: "n", Lease: time.Hour, By: "worker"}
		for range 3 {
			_, err := r.Claim(t.Context(), 0, hints, o)
			unavailable(t, "Claim", err)
		}
		equal(t, "version", r.Job("a").Version, j.Version+1)
		noError(t, "rename", r.Exec(t.Context(), "ALTER TABLE away RENAME TO message"))
		claims, err := r.Claim(t.Context(), 0, hints, o)
		noError(t, "Claim again", err)
		equal(t, "claimed", ids(claims), []string{"a"})
	})(t)
}

// The store goes back to before an outcome that only the queue of this node has. The node claims nothing until it is
// written.
func TestOldCopyLacksAnOutcomeInTheQueue(t *testing.T) {
	onEach(func(t *testing.T, b *backend) {
		l, option := shared()
		r := freshRig(t, b, retention, option)
		r.Add(reg("a", 0))
		old := l.copied(t)
		c := r.TakeOne()
		noError(t, "Flush", r.Flush())
		resume := r.Pause()
		r.SettleAll(settlement(c, job.OutcomeDelivered, 0))
		l.goBack(t, old)
		hints := r.carried()
		_, err := r.tryClaim(hints)
		unavailable(t, "Claim before the commit", err)
		resume()
		claims, err := r.tryClaim(hints)
		noError(t, "Claim", err)
		equal(t, "claimed", ids(claims), []string{})
	})(t)
}

// The store forgets what has ended only after the ledger surely knows.
func TestForgettingWaitsForComparing(t *testing.T) {
	onEach(func(t *testing.T, b *backend) {
		l, option := shared()
		r := freshRig(t, b, retention, option)
		r.Add(reg("a", 0))
		_, err := l.Settle(t.Context(), []job.Settlement{settlement(r.TakeOne(), job.OutcomeDelivered, 0)})
		noError(t, "Settle", err) // of which the ledger knows nothing
		r.Pass(2 * retention)
		equal(t, "forgotten without comparing", r.PurgeSome(10), 0)
		equal(t, "repaired", r.reconcile().Repaired, int64(1))
		equal(t, "forgotten", r.PurgeSome(10), 1)
		r.quiet()
		r.Pass(2 * retention)
		r.Add(reg("b", 0))
		r.RunOne(job.OutcomeDelivered, 0)
		r.Pass(2 * retention)
		equal(t, "forgotten long after comparing", r.PurgeSome(10), 0)
	})(t)
}

func TestRestoreJob(t *testing.T) {
	onEach(func(t *testing.T, b *backend) {
		l, option := shared()
		r := freshRig(t, b, retention, option)
		restore := func(id string, want bool, wantErr error) job.Job {
			t.Helper()
			j, restored, err := r.RestoreJob(t.Context(), key(id))
			isError(t, "RestoreJob", err, wantErr)
			equal(t, "restored", restored, want)
			return j
		}
		restore("none", false, store.ErrNotFound)
		waiting := r.Add(reg("waiting", time.Hour))
		equal(t, "the job", restore("waiting", false, nil), waiting)
		r.Add(reg("a", 0))
		r.RunOne(job.OutcomeDelivered, 0)
		r.Add(reg("dead", 0))
		r.RunOne(job.OutcomeFailed, -1)
		dead := r.Job("dead")
		l.flush(t)
		equal(t, "the job", restore("waiting", true, nil), waiting)
		equal(t, "the job", restore("waiting", false, nil), waiting)
		equal(t, "the dead letter", restore("dead", true, nil), dead)
		equal(t, "state", restore("a", false, job.ErrFinished).State, job.Delivered)
		equal(t, "jobs", len(r.All()), 2)
	})(t)
}
