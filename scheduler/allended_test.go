package scheduler

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/scheduler/groups"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/successors"
)

// fanOut is a rig with a group g of n members.
func fanOutRig(t *testing.T, n int, change ...func(*Options)) *rig {
	t.Helper()
	var kept *groups.Manager
	r := newRig(t, append([]func(*Options){func(o *Options) {
		kept = groups.New(o.Store.(store.Documents), o.Guard.Check, o.Clock)
		o.Groups = kept
	}}, change...)...)
	g := groups.Group{Name: "g"}
	for i := range n {
		g.Members = append(g.Members, groups.Member{Name: fmt.Sprint("m", i), URL: "https://shop.example/hook"})
	}
	if _, _, err := kept.Put(t.Context(), g); err != nil {
		t.Fatal(err)
	}
	return r
}

// send registers the group's jobs, with a callback when all have ended.
func (r *rig) send(id string) {
	r.t.Helper()
	url := job.Destination("https://shop.example/ended")
	f, err := r.PrepareGroup(r.t.Context(), &job.Draft{Topic: ptr("t"), ID: &id, Group: ptr("g"), Callbacks: &job.CallbacksDraft{
		On: map[job.CallbackEvent]*job.CallbackDraft{job.CallbackAllEnded: {Destination: &url}},
	}}, Origin{})
	if err != nil {
		r.t.Fatal(err)
	}
	if _, err := r.RegisterGroup(r.t.Context(), f); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) settle(j *job.Job, o job.Outcome) {
	r.t.Helper()
	o.Attempt = &job.Attempt{Number: 1}
	if _, err := r.mem.Settle(r.t.Context(), []job.Settlement{job.Settle(j, o, func(int) (time.Duration, bool) { return 0, false })}); err != nil {
		r.t.Fatal(err)
	}
}

// decide decides about a callback.
func (r *rig) decide(callback *job.Job) (job.Ends, *job.Outcome) {
	r.t.Helper()
	report, err := successors.Report(callback)
	if err != nil {
		r.t.Fatal(err)
	}
	now, err := store.Now(r.t.Context(), r.mem)
	if err != nil {
		r.t.Fatal(err)
	}
	all, o, err := r.AllEnded(r.t.Context(), &report.Job, now)
	if err != nil {
		r.t.Fatal(err)
	}
	return all, o
}

// In whatever order jobs end and their callbacks are decided about, with clocks that disagree,
// workers that die after a decision, and dead letters that are replayed or discarded: one
// callback is sent, when all have ended.
func TestPlainOneCallbackWhenAllHaveEnded(t *testing.T) {
	for seed := range uint64(300) {
		dice := rand.New(rand.NewPCG(seed, 7))
		n := 1 + dice.IntN(5)
		r := fanOutRig(t, n)
		r.send("o")
		ended, sent := map[string]bool{}, 0
		var running []store.Claimed
		for range 100 {
			// Ends may be recorded in another order than they happened.
			r.clock.Advance(time.Duration(dice.IntN(200)-90) * time.Millisecond)
			running = append(running, r.claim()...)
			if len(running) == 0 { // what is left is not due by a clock that went back
				r.clock.Advance(100 * time.Millisecond)
				continue
			}
			i := dice.IntN(len(running))
			j := &running[i].Job
			if j.Spec.Reports == job.CallbackAllEnded {
				all, o := r.decide(j)
				if dice.IntN(4) == 0 {
					continue // the worker died
				}
				if o == nil {
					sent++
					got := all.Unknown
					for _, count := range all.By {
						got += count
					}
					if len(ended) != n || got != n || all.Jobs != n {
						t.Fatalf("seed %d: it was sent after %d of %d, with %+v", seed, len(ended), n, all)
					}
					o = &job.Outcome{Kind: job.OutcomeDelivered}
				}
				r.settle(j, *o)
			} else {
				ended[j.ID] = true
				r.settle(j, job.Outcome{Kind: []job.OutcomeKind{job.OutcomeDelivered, job.OutcomeRefused, job.OutcomeExpired}[dice.IntN(3)]})
				switch key := j.Key; dice.IntN(4) {
				case 0:
					_, err := r.mem.Update(t.Context(), key, func(j *job.Job, now job.Instant) error { return j.Discard(now) })
					if err != nil && !errors.Is(err, job.ErrNotDead) {
						t.Fatal(err)
					}
				case 1:
					if _, err := r.mem.Update(t.Context(), key, func(j *job.Job, now job.Instant) error { return j.Replay(now) }); err != nil {
						t.Fatal(err)
					}
				}
			}
			running = append(running[:i], running[i+1:]...)
		}
		if sent != 1 {
			t.Fatalf("seed %d: %d callbacks were sent for %d jobs", seed, sent, n)
		}
	}
}

// A registration that broke off is not taken for one that has ended, for a while.
func TestAllEndedWaitsForTheRest(t *testing.T) {
	r := fanOutRig(t, 3, func(o *Options) { o.Store = &halving{Store: o.Store, first: 1} })
	url := job.Destination("https://shop.example/ended")
	register := func() error {
		f, err := r.PrepareGroup(t.Context(), &job.Draft{Topic: ptr("t"), ID: ptr("o"), Group: ptr("g"), Callbacks: &job.CallbacksDraft{
			On: map[job.CallbackEvent]*job.CallbackDraft{job.CallbackAllEnded: {Destination: &url}},
		}}, Origin{})
		if err != nil {
			t.Fatal(err)
		}
		_, err = r.RegisterGroup(t.Context(), f)
		return err
	}
	if err := register(); !errors.Is(err, errCrash) {
		t.Fatal(err)
	}
	r.settle(&r.claim()[0].Job, job.Outcome{Kind: job.OutcomeDelivered})
	callback := r.claim()[0].Job
	if _, o := r.decide(&callback); o == nil || o.Kind != job.OutcomeReleased || o.After != memberPause {
		t.Errorf("before the rest is registered: %+v", o)
	}
	r.clock.Advance(memberPatience)
	all, o := r.decide(&callback)
	if diff := cmp.Diff(job.Ends{Jobs: 3, By: map[job.State]int{job.Delivered: 1}, Unknown: 2}, all); diff != "" || o != nil {
		t.Errorf("after a while: %+v (-want +got):\n%s", o, diff)
	}
	if err := register(); err != nil { // the client repeats the call
		t.Fatal(err)
	}
	if _, o := r.decide(&callback); o == nil || o.Kind != job.OutcomeCancelled || o.Reason != job.ReasonSuperseded {
		t.Errorf("with the rest: %+v", o)
	}
}
