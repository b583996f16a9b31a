package ledger_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
)

// reported is a job with a callback for its delivery.
func reported(id string) store.Registration {
	g := reg(id, 0)
	g.Spec.Callbacks = &job.Callbacks{By: map[job.CallbackEvent]*job.Callback{
		job.CallbackDelivered:     {Destination: "http://callbacks.example/delivered"},
		job.CallbackAttemptFailed: {Destination: "http://callbacks.example/failed"},
	}}
	return g
}

// settledBy settles a claim as another node did that died before the ledger had the outcome.
func settledBy(t *testing.T, l *losing, c store.Claimed, kind job.OutcomeKind) {
	t.Helper()
	_, err := l.Settle(t.Context(), []job.Settlement{settlement(c, kind, time.Hour)})
	noError(t, "Settle in the store", err)
}

// A callback that was claimed reports an outcome that stays, even if the node that settled is
// dead and the store loses its data: the job is not sent again, so no other outcome gets the
// id of the callback.
func TestClaimedCallbackReportsWhatStays(t *testing.T) {
	for name, test := range map[string]struct {
		kind   job.OutcomeKind
		before func(r *rig, l *losing)
		want   job.State // of the job, after the loss
	}{
		"delivered":        {job.OutcomeDelivered, func(*rig, *losing) {}, job.Delivered},
		"a failed attempt": {job.OutcomeFailed, func(*rig, *losing) {}, job.Retrying},
		"of a job that was registered again": {job.OutcomeDelivered, func(r *rig, _ *losing) {
			r.Add(replacing("a", time.Hour))
		}, job.Waiting},
	} {
		t.Run(name, onEach(func(t *testing.T, b *backend) {
			l, option := shared()
			r := freshRig(t, b, retention, option)
			r.Add(reported("a"))
			settledBy(t, l, r.TakeOne(), test.kind)
			test.before(r, l)
			callback := r.TakeOne()
			l.flush(t)
			r.reconcile()
			equal(t, "state in the ledger", r.last("a").Job.State, test.want)
			_, err := r.Store.Get(t.Context(), callback.Job.Key)
			noError(t, "Get the callback after the loss", err)
			for _, c := range r.TakeDue() {
				if c.Job.ID == "a" {
					t.Errorf("the job is sent again after its callback, as %v", c.Job.State)
				}
			}
		}))
	}
}

// last returns the last registration of a job in the ledger.
func (r *rig) last(id string) store.RestoredJob {
	r.T.Helper()
	found, err := r.LastOf(r.T.Context(), key(id))
	noError(r.T, "LastOf", err)
	return found
}

// follower is what may be sent only after the end of a job.
type follower struct {
	name string
	add  func(r *rig) // the job, and what follows it
	job  string       // its id
}

var followers = []follower{
	{"callback", func(r *rig) { r.Add(reported("a")) }, "a"},
	{"after", func(r *rig) { r.Add(ordered("before")); r.Add(ordered("after")) }, "before"},
}

// named are the ids of claimed jobs, and the callbacks among them, sorted.
func named(claims []store.Claimed) []string {
	names := make([]string, len(claims))
	for i, c := range claims {
		if names[i] = c.Job.ID; c.Job.Spec.Reports != "" {
			names[i] = "callback"
		}
	}
	slices.Sort(names)
	return names
}

// The store loses a follower and the end that it follows after the claim: the job is sent again, and what follows that
// end is sent then.
func TestLostFollowerIsNotSent(t *testing.T) {
	for _, f := range followers {
		t.Run(f.name, onEach(func(t *testing.T, b *backend) {
			h, hooks := hook()
			r, l := wholeRig(t, b, hooks)
			f.add(r)
			settledBy(t, l, r.TakeOne(), job.OutcomeDelivered)
			h.OnClaim = func(call func() ([]store.Claimed, error)) ([]store.Claimed, error) {
				claims, err := call()
				equal(t, "claimed in the store", named(claims), []string{f.name})
				l.flush(t)
				h.OnClaim = nil
				return claims, err
			}
			equal(t, "claims of lost jobs", len(r.TakeDue()), 0)
			r.reconcile()
			makeWhole(t, l)
			equal(t, "what is sent again", r.TakeOne().Job.ID, f.job)
		}))
	}
}

// The node that settled commits late. What follows the end waits for that, and another node commits the
// end if it takes long. If that node cannot do so either, the follower is
// released until the commit, and other jobs are claimed.
func TestRaceFollowerWaitsForTheCommit(t *testing.T) {
	for name, test := range map[string]struct {
		after time.Duration // the commit
		both  bool          // neither node commits
	}{
		"a little late":        {100 * time.Millisecond, false},
		"long after the other": {time.Minute, false},
		"too late":             {time.Minute, true},
	} {
		for _, f := range followers {
			t.Run(f.name+"/"+name, onServers(func(t *testing.T, b *backend) {
				nodes, _ := threeNodes(t, b)
				one, two := nodes[0], nodes[1]
				f.add(one)
				c := one.TakeOne()
				one.Add(reg("plain", 0))
				noError(t, "Flush", one.Flush())
				resume := []func(){one.Pause()}
				settled := make(chan struct{})
				go func() {
					one.SettleAll(settlement(c, job.OutcomeDelivered, 0))
					close(settled)
				}()
				synctest.Wait() // until it waits for the commit
				want := []string{f.name, "plain"}
				if test.both {
					resume, want = append(resume, two.Pause()), want[1:]
				}
				time.AfterFunc(test.after, func() {
					for _, r := range resume {
						r()
					}
				})
				equal(t, "claimed", named(two.TakeDue()), want)
				<-settled
				one.Pass(test.after + time.Second) // which fails the commits that waited for a minute
				for _, r := range nodes {
					noError(t, "Flush", r.Flush())
				}
				equal(t, "the job in the ledger", one.last(f.job).Job.State, job.Delivered)
				equal(t, "ends of the job in flow", one.Count(`SELECT count(*) FROM flow f JOIN message m ON m.seq = f.message
					WHERE m.id = '`+f.job+`' AND f.to_state = 4`), "1")
				if test.both {
					equal(t, "claimed after the commit", named(two.TakeDue()), []string{f.name})
				}
			}))
		}
	}
}

// The next round of a job is written to the ledger by another node before the end of this one. The
// ledger has the end, too.
func TestRaceRoundEndsLate(t *testing.T) {
	onServers(func(t *testing.T, b *backend) {
		nodes, _ := threeNodes(t, b)
		one, two := nodes[0], nodes[1]
		one.Add(reg("a", 0))
		c := one.TakeOne()
		noError(t, "Flush", one.Flush())
		spec, err := c.Job.Again(time.Second, nil, job.Bounds{MaxRounds: 1})
		noError(t, "Again", err)
		resume := one.Pause()
		settled := make(chan struct{})
		go func() {
			one.SettleAll(job.Settle(&c.Job, job.Outcome{Kind: job.OutcomeDelivered, Attempt: &job.Attempt{Number: 1}, Again: &spec}, nil))
			close(settled)
		}()
		synctest.Wait() // until it waits for the commit
		two.Pass(2 * time.Second)
		two.TakeOne()
		noError(t, "Flush", two.Flush())
		resume()
		<-settled
		noError(t, "Flush", one.Flush())
		states := one.Query("SELECT name FROM message JOIN state ON code = status ORDER BY created")
		equal(t, "rounds in the ledger", states, []string{"delivered", "running"})
		equal(t, "ends in the flow", one.Query("SELECT to_state FROM history WHERE to_state IN ('delivered', 'cancelled')"), []string{"delivered"})
	})(t)
}

// Deliveries continue while commits fail, those of followers as others.
func TestFollowersWithoutTheLedger(t *testing.T) {
	for _, f := range followers {
		t.Run(f.name, onEach(func(t *testing.T, b *backend) {
			r, l := wholeRig(t, b)
			f.add(r)
			settledBy(t, l, r.TakeOne(), job.OutcomeDelivered)
			noError(t, "Flush", r.Flush())
			r.ReadOnly(true)
			equal(t, "claimed", named(r.TakeDue()), []string{f.name})
			r.ReadOnly(false)
			noError(t, "Flush", r.Flush())
		}))
	}
}
